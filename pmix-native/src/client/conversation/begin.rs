//! Requests on their way out.

use bytes::Bytes;
use pmix_types::message::{
    Commit, DeregisterEvents, Failure, Get, GetReply, IofDeregister, NotifyEvent, PutEntry, QueryInfo,
    RegisterEvents, Reply, Request, ResolveNodes, ResolvePeers,
};
use pmix_types::{DataRange, EventFilter, Info, IofChannels, Nspace, ProcId, Query, Status, Supported, keys};

use super::Conversation;
use crate::client::answer::{Constructed, Form, Found, read_of};
use crate::client::ask::{knows, parts, translate, unknown};
use crate::client::events;
use crate::client::groups::spelled_out;
use crate::client::invite::{CODES, is_invitation};
use crate::client::limit::check_limit;
use crate::conn::tag;
use crate::msg::{Command, IofDeregister as NativeIofDeregister, IofPull, Lookup, Request as Ask};

impl Conversation {
    /// Sends a request, or answers it here. `has_learnt` says that the server was asked for what was missing before.
    pub(super) fn begin(&mut self, id: u64, mut request: Request, has_learnt: bool) -> Result<(), Failure> {
        if !has_learnt {
            if let Request::GroupConstruct(construct) = &request {
                self.check_new_group(&construct.group, &construct.procs)?;
            }
            self.groups.resolve(&mut request);
        }
        match request {
            Request::Commit(Commit { entries, .. }) => self.commit(id, entries),
            Request::Get(get) => self.get(id, get),
            Request::RegisterEvents(registration) => self.register(id, registration),
            Request::DeregisterEvents(DeregisterEvents { registration: number, .. }) => {
                self.deregister(id, number)
            }
            Request::NotifyEvent(NotifyEvent { event, .. }) if event.range == DataRange::PROC_LOCAL => {
                self.deliver(event);
                self.reply(id, Ok(Reply::Done));
                Ok(())
            }
            Request::Monitor(mut monitor) if monitor.monitor.is(&keys::SEND_HEARTBEAT) => {
                check_limit(&mut monitor.directives)?;
                monitor.directives.deny_unprocessed()?;
                // it has no reply
                self.send(tag::HEARTBEAT, Bytes::new())?;
                self.reply(id, Ok(Reply::Info(Vec::new())));
                Ok(())
            }
            Request::IofPull(pull) => {
                if pull.channels.contains(IofChannels::STDIN) {
                    let message = "standard input is pushed, it cannot be pulled: name output channels only";
                    return Err(Failure::new(Status::ERR_NOT_SUPPORTED, message));
                }
                self.last_output += 1;
                let mut ask = IofPull::new(pull.procs, pull.channels, self.last_output);
                ask.info = pull.directives;
                self.ask(id, &Ask::IofPull(ask), Form::Pull(self.last_output))
            }
            Request::IofDeregister(IofDeregister { registration: number, .. }) => {
                let Some(server) = self.outputs.get(&number).copied() else {
                    let message = format!("there is no output subscription with number {number}");
                    return Err(Failure::new(Status::ERR_BAD_PARAM, message));
                };
                if !knows(self.server(), Command::IOF_DEREGISTER) {
                    // the server goes on to send, and nobody listens
                    self.outputs.remove(&number);
                    self.reply(id, Ok(Reply::Done));
                    return Ok(());
                }
                self.ask(id, &Ask::IofDeregister(NativeIofDeregister::new(server)), Form::PullEnd(number))
            }
            request if is_invitation(&request) => self.invite(id, request),
            Request::ResolvePeers(resolve) if !knows(self.server(), Command::RESOLVE_PEERS) => {
                self.resolve_peers(id, resolve, has_learnt)
            }
            Request::ResolveNodes(ResolveNodes { nspace, .. })
                if !knows(self.server(), Command::RESOLVE_NODES) =>
            {
                self.resolve_nodes(id, nspace, has_learnt)
            }
            request => {
                self.check(&request)?;
                if let Some(nspace) = self.unknown_member(&request).filter(|_| !has_learnt) {
                    return self.learn(id, nspace, request);
                }
                let form = self.form_of(&request)?;
                let caller = &self.caller;
                let ask =
                    translate(request, &caller.proc, caller.user.uid, &self.groups, caller.context.client)?;
                self.ask(id, &ask, form)
            }
        }
    }

    /// Refuses what makes no sense, where servers of the C library do not look.
    fn check(&self, request: &Request) -> Result<(), Failure> {
        match request {
            Request::QueryInfo(QueryInfo { queries, .. }) if queries.is_empty() => {
                Err(Failure::new(Status::ERR_BAD_PARAM, "the request has no query"))
            }
            Request::QueryInfo(QueryInfo { queries, .. }) => queries.iter().try_for_each(Query::check),
            request => self.check_participants(request),
        }
    }

    /// Refuses a group with the name of a namespace, which would hide it.
    pub(super) fn check_new_group(&self, group: &Nspace, members: &[ProcId]) -> Result<(), Failure> {
        let is_nspace = self.jobs.is_own(group) || self.jobs.get(group).is_some();
        if !is_nspace && !members.iter().any(|proc| proc.nspace == *group) {
            return Ok(());
        }
        let message = format!("a group cannot have the id {group}, which is the name of a namespace");
        Err(Failure::new(Status::ERR_EXISTS, message))
    }

    /// Refuses a collective of other processes, in which nobody would miss the caller.
    fn check_participants(&self, request: &Request) -> Result<(), Failure> {
        let procs = match request {
            Request::Fence(fence) => fence.procs.as_deref().unwrap_or_default(),
            Request::Connect(connect) => &connect.procs,
            Request::Disconnect(disconnect) => &disconnect.procs,
            _ => return Ok(()),
        };
        let me = &self.caller.proc;
        // a name may begin with that of the cluster
        let qualified = format!(":{}", me.nspace);
        let is_me = |proc: &ProcId| {
            proc.matches(me) || proc.nspace.ends_with(&qualified) && proc.with_rank(me.rank).matches(proc)
        };
        if procs.is_empty() || procs.iter().any(is_me) {
            return Ok(());
        }
        let message = format!("{me} is not one of the participants");
        Err(Failure::new(Status::ERR_NOT_A_MEMBER, message))
    }

    /// A job that is a member of a group as a whole and whose size is not known here, if the server will not name the members.
    fn unknown_member(&self, request: &Request) -> Option<Nspace> {
        let Request::GroupConstruct(construct) = request else { return None };
        let whole = construct.procs.iter().filter(|proc| proc.rank.is_wildcard() && self.server().major < 5);
        let mut unknown = whole;
        unknown.find(|proc| self.jobs.get(&proc.nspace).is_none()).map(|proc| proc.nspace.clone())
    }

    /// How the answer to a request is to be read.
    fn form_of(&self, request: &Request) -> Result<Form, Failure> {
        Ok(match request {
            Request::QueryInfo(QueryInfo { queries, .. }) => Form::Query(queries.clone()),
            Request::Lookup(lookup) => {
                Form::Lookup(Found::new(lookup.keys.clone(), lookup.directives.clone()))
            }
            Request::NotifyEvent(NotifyEvent { event, .. }) => {
                let mut event = event.clone();
                event.source = self.caller.proc.clone();
                Form::Notified(event)
            }
            Request::GroupConstruct(construct) => {
                // without the members in the reply nobody knows whom the others have added
                let adds = construct.directives.contains(&keys::GROUP_BOOTSTRAP) && self.server().major < 5;
                if construct.procs.is_empty() || adds {
                    return Err(unknown(self.server(), "groups made by bootstrap"));
                }
                Form::Group(Constructed {
                    id: construct.group.clone(),
                    members: spelled_out(&construct.procs, |nspace| self.jobs.get(nspace)),
                    wants_context: construct.directives.flag(&keys::GROUP_ASSIGN_CONTEXT_ID)?,
                })
            }
            Request::GroupDestruct(destruct) => Form::GroupEnd(destruct.group.clone()),
            Request::GroupLeave(leave) => Form::GroupEnd(leave.group.clone()),
            request => match read_of(request) {
                Some(read) => Form::Plain(read),
                None => return Err(unknown(self.server(), request.operation())),
            },
        })
    }

    fn commit(&mut self, id: u64, entries: Vec<PutEntry>) -> Result<(), Failure> {
        let mut all = self.committed.clone();
        all.extend(entries.into_iter().map(|entry| (entry.key.clone(), entry)));
        self.ask(id, &Ask::Commit(parts(all.values())), Form::DONE)?;
        self.committed = all;
        Ok(())
    }

    fn get(&mut self, id: u64, mut wanted: Get) -> Result<(), Failure> {
        let refreshes = wanted.directives.flag(&keys::GET_REFRESH_CACHE)?;
        let is_reserved = wanted.key.as_ref().is_some_and(|key| key.is_reserved());
        // sets are defined while processes run: the server knows the latest
        let changes = wanted.key.as_ref().is_some_and(|key| *key == *keys::PSET_NAMES.name());
        // what is not known here is for the server to carry out or refuse (GEN-05)
        let known = [Supported::GET.attributes, &[keys::OPTIONAL.name()]].concat();
        let is_qualified = wanted.directives.iter().any(Info::is_qualifier);
        let is_ours = is_reserved
            && !is_qualified
            && !refreshes
            && !changes
            && wanted.directives.deny_beyond(&known).is_ok();
        if let Some(key) = wanted.key.as_ref().filter(|_| is_ours)
            && let Some(value) = self.jobs.lookup(&wanted.proc, key, &wanted.directives)?
        {
            self.reply(id, Ok(Reply::Get(GetReply::value(value))));
            return Ok(());
        }
        if refreshes && !is_reserved && wanted.proc.rank.is_valid() && knows(self.server(), Command::REFRESH)
        {
            return self.ask(id, &Ask::Refresh(wanted.proc.clone()), Form::Refresh(wanted));
        }
        if (is_reserved || wanted.proc.rank.is_wildcard())
            && self.jobs.is_own(&wanted.proc.nspace)
            && !wanted.directives.contains(&keys::IMMEDIATE)
        {
            // a server would wait for the process to put it, and what the host knows of the own job is there
            wanted.directives.push(Info::new(&keys::IMMEDIATE, true));
        }
        let mut get = wanted.clone();
        if !knows(self.server(), Command::REFRESH) {
            // asked to refresh, such a server finds nothing in the store of this process; it answers with the latest anyway
            get.directives.remove(&keys::GET_REFRESH_CACHE);
        }
        self.ask(id, &get.into(), Form::Get(wanted))
    }

    fn register(&mut self, id: u64, registration: RegisterEvents) -> Result<(), Failure> {
        let RegisterEvents { codes, mut directives, .. } = registration;
        let filter = EventFilter::new(codes.clone(), &mut directives)?;
        // the library filters, so that one registration of a code at the server serves all of the process
        let own = [
            keys::EVENT_AFFECTED_PROC.key_name(),
            keys::EVENT_AFFECTED_PROCS.key_name(),
            keys::EVENT_CUSTOM_RANGE.key_name(),
            keys::RANGE.key_name(),
        ];
        let rest: Vec<_> =
            directives.into_vec().into_iter().filter(|info| !own.contains(&info.key)).collect();
        let unknown = if rest.is_empty() { self.events.unknown(&codes) } else { Some(codes) };
        let Some(unknown) = unknown else {
            let number = self.events.add(filter);
            self.reply(id, Ok(Reply::Registered(number)));
            return Ok(());
        };
        let ask = RegisterEvents::new(unknown).with_directives(rest.into());
        self.ask(id, &ask.into(), Form::Registration(filter))
    }

    fn deregister(&mut self, id: u64, number: u64) -> Result<(), Failure> {
        let asks_for = |form: &Form, code| match form {
            Form::Registration(filter) => events::names(filter, code),
            Form::Listen(_) => code.is_some_and(|code| CODES.contains(&code)),
            _ => false,
        };
        let is_asked_for = |code| self.pending.values().any(|pending| asks_for(&pending.form, code));
        let codes = self.events.remove(number, is_asked_for)?;
        if !codes.is_empty() {
            let tag = self.free_tag();
            // it has no reply
            let payload = self.encode(&Ask::DeregisterEvents(codes))?;
            self.send(tag, payload)?;
        }
        self.reply(id, Ok(Reply::Done));
        Ok(())
    }

    fn resolve_peers(&mut self, id: u64, resolve: ResolvePeers, has_learnt: bool) -> Result<(), Failure> {
        if let Some(nspace) = self.unknown_job(resolve.nspace.as_ref(), has_learnt)? {
            return self.learn(id, nspace, Request::ResolvePeers(resolve));
        }
        let peers = self.jobs.peers(resolve.node.as_deref(), resolve.nspace.as_ref())?;
        self.reply(id, Ok(Reply::Procs(peers)));
        Ok(())
    }

    fn resolve_nodes(&mut self, id: u64, nspace: Option<Nspace>, has_learnt: bool) -> Result<(), Failure> {
        if let Some(unknown) = self.unknown_job(nspace.as_ref(), has_learnt)? {
            return self.learn(id, unknown, Request::ResolveNodes(ResolveNodes::new(nspace)));
        }
        let nodes = self.jobs.nodes(nspace.as_ref());
        self.reply(id, Ok(Reply::Nodes(nodes)));
        Ok(())
    }

    /// The job that a question is about, if the server has to be asked for it first.
    fn unknown_job(&self, nspace: Option<&Nspace>, has_learnt: bool) -> Result<Option<Nspace>, Failure> {
        match nspace.filter(|nspace| self.jobs.get(nspace).is_none()) {
            Some(nspace) if has_learnt => {
                let message = format!("the server knows no namespace {nspace}");
                Err(Failure::new(Status::ERR_INVALID_NAMESPACE, message))
            }
            unknown => Ok(unknown.cloned()),
        }
    }

    /// Asks for the data of another job, and then goes on with a request.
    fn learn(&mut self, id: u64, nspace: Nspace, then: Request) -> Result<(), Failure> {
        let mut get = Get::new(ProcId::wildcard(nspace.clone()), Some(keys::JOB_SIZE.key_name()));
        get.directives.push(Info::new(&keys::IMMEDIATE, true));
        self.ask(id, &get.into(), Form::Learn { nspace, then: then.into() })
    }

    /// Looks up the next key of a lookup by itself, or answers it.
    pub(super) fn look_up_next(&mut self, id: u64, mut lookup: Found) -> Result<(), Failure> {
        match lookup.left.as_mut().and_then(Vec::pop) {
            Some(key) => {
                let mut ask = Lookup::new(self.caller.user.uid, vec![key]);
                ask.info = lookup.directives.clone();
                self.ask(id, &Ask::Lookup(ask), Form::Lookup(lookup))
            }
            None => {
                let reply = lookup.into_reply()?;
                self.reply(id, Ok(reply));
                Ok(())
            }
        }
    }
}
