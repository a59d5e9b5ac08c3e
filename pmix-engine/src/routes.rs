//! Where each input goes: a request to the noun that answers it exactly once, or to the host as it comes; and what concerns several nouns,
//! such as groups and connected sets with their events and rounds.

use std::borrow::Cow;
use std::time::Instant;

use pmix_types::message::*;
use pmix_types::why::Wait;
use pmix_types::{
    Directives, Event, Gid, Memory, Nspace, ProcId, Query, Status, Uid, for_each_request, keys,
};

use super::bootstrap::{self, Bootstraps};
use super::collective::{Collectives, Entry, Filing, Lower};
use super::context::Context;
use super::control::cleanup;
use super::events::check_size;
use super::group::not_complete;
use super::ids::ReplyTo;
use super::invite::{Below, Invites};
use super::jobs::registration::{self, Registration};
use super::monitor::Raised;
use super::names::{Names, ResolveNames};
use super::query::{self, Queries, Sources, Waiting};
use super::upcall::{DisconnectRequest, Form, HostObject, Upcall};
use super::users::Voice;
use super::waits::Waits;
use super::{Answer, Asked, CallValue, Caller, Command, ConnId, Engine, UpcallId, UpcallRequest};

macro_rules! answer {
    ($engine:ident, $asked:ident, $request:ident, $name:ident $snake:ident [engine]) => {
        $engine.$snake($asked, $request)
    };
    ($engine:ident, $asked:ident, $request:ident, $name:ident $snake:ident [$noun:ident]) => {
        $engine.$noun.$snake($asked, $request, &mut $engine.cx)
    };
    ($engine:ident, $asked:ident, $request:ident, $name:ident $snake:ident []) => {
        $engine.forwards.pass_up(
            $asked,
            Ok(UpcallRequest::$name($request)),
            Form::of::<$name>(),
            &mut $engine.cx,
        )
    };
}

macro_rules! requests {
    ($($name:ident $snake:ident { names: $names:tt, about: $about:tt, by: $by:tt, $($columns:tt)* } $fields:tt $rest:tt)+) => {
        impl Engine {
            fn answer(&mut self, asked: Asked, request: Request) {
                match request {
                    $(Request::$name(request) => answer!(self, asked, request, $name $snake $by),)+
                }
            }
        }
    };
}

for_each_request!(requests);

impl Engine {
    /// Checks a request, resolves the names in it, and has it answered, sooner or later.
    pub(crate) fn on_request(&mut self, at: Instant, to: ReplyTo, mut request: Request) {
        self.cx.stats.requests += 1;
        let Some(caller) = self.cx.caller(to.conn) else {
            let failure = Failure::new(
                Status::ERR_INIT,
                format!("{} before init or after finalize", request.operation()),
            );
            self.cx.out.push(Command::Reply { conn: to.conn, id: to.id, result: Err(failure) });
            return;
        };
        let bytes = request.memory();
        if let Some(limit) = request.memory_limit().filter(|limit| bytes > *limit) {
            let message =
                format!("the request takes {bytes} bytes, the limit of a {} is {limit}", request.operation());
            return self.cx.reply(to, Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message)));
        }
        let named = request.resolve(&self.names(&caller));
        if let Err(failure) = named {
            return self.cx.reply(to, Err(failure));
        }
        let asked = Asked { at, by: caller, to, bytes };
        self.answer(asked, request);
    }

    /// Input of a user who has not left too much at the host.
    pub(crate) fn iof_push(&mut self, asked: Asked, input: IofPush) {
        match self.forwards.check_left(&asked) {
            Ok(()) => self.iof.on_push(asked, input, &mut self.cx),
            Err(failure) => self.cx.reply(asked.to, Err(failure)),
        }
    }

    pub(crate) fn on_register_nspace(&mut self, registration: Registration) -> Result<CallValue, Failure> {
        let nspace = registration.nspace.clone();
        if nspace.is_empty() {
            return Err(Failure::new(Status::ERR_BAD_PARAM, "cannot register a namespace without a name"));
        }
        let owner = registration.infos.iter().find(|info| info.is(&keys::USERID));
        let owner = owner.and_then(|info| info.value.get().ok()).unwrap_or(self.cx.config.uid);
        // its user may have a group of that name, too
        let of_owner = self.cx.config.group_of_user(owner, &nspace).map(Cow::into_owned);
        if self.is_group(&nspace) || of_owner.is_ok_and(|id| self.is_group(&id)) {
            let message = format!("register_nspace of {nspace}: a group has that id");
            return Err(Failure::new(Status::ERR_EXISTS, message));
        }
        registration.carry_out(&self.setup, &mut self.cx)?;
        self.iof.nspace_comes(&nspace);
        // whatever waited for this namespace can go on (FEN-11, DMX-05)
        self.drive_collectives_of(&nspace);
        self.data.resume_requests_of(&nspace, &mut self.cx);
        self.data.on_nspace_known(&nspace, &self.psets, &mut self.cx);
        Ok(CallValue::Done)
    }

    pub(crate) fn on_register_client(
        &mut self,
        proc: &ProcId,
        uid: Uid,
        gid: Gid,
        object: Option<HostObject>,
    ) -> Result<CallValue, Failure> {
        registration::register_client(proc, uid, gid, object, &mut self.cx)?;
        self.drive_collectives_of(&proc.nspace);
        self.data.resume_requests_of(&proc.nspace, &mut self.cx);
        Ok(CallValue::Done)
    }

    /// An event of a process. If it is about a group, the server first updates its own records.
    pub(crate) fn notify_event(&mut self, asked: Asked, NotifyEvent { mut event, .. }: NotifyEvent) {
        if let Err(failure) = check_size(&event) {
            return self.cx.reply(asked.to, Err(failure));
        }
        // the source is who sent it, whatever it claims
        event.source = asked.by.proc.clone();
        self.connected.resolve_range(&mut event, &asked.by, &self.cx);
        let asked = self.with_invites(|invites, below, cx| invites.on_notify(asked, &event, below, cx));
        if let Some(asked) = asked {
            self.events.on_notify(asked, event, &mut self.cx);
        }
    }

    /// A monitor has found its process silent.
    pub(crate) fn raise_alarm(&mut self, raised: Option<Raised>) {
        let Some((watched, mut event)) = raised else { return };
        self.connected.resolve_range(&mut event, &watched, &self.cx);
        self.events.on_alarm(watched, event, &mut self.cx);
    }

    /// A process set is new, or deleted.
    pub(super) fn tell_of_pset(&mut self, told: Option<(Event, Voice)>) -> CallValue {
        if let Some((event, voice)) = told {
            self.events.deliver(&event, &voice, &mut self.cx);
        }
        CallValue::Done
    }

    /// An event of the host goes to local processes only (HST-07).
    pub(crate) fn on_host_event(&mut self, event: &Event) -> Result<CallValue, Failure> {
        self.tell_all(event, &Voice::Trusted)
    }

    /// Tells those here of an event, on the word of somebody else than who asks for that.
    pub(crate) fn tell_all(&mut self, event: &Event, voice: &Voice) -> Result<CallValue, Failure> {
        self.events.deliver(event, voice, &mut self.cx);
        self.with_invites(|invites, below, cx| invites.on_group_event(event, voice, below, cx));
        Ok(CallValue::Done)
    }

    /// What the names of groups and connected sets mean to a caller.
    pub(crate) fn names<'a>(&'a self, by: &'a Caller) -> Names<'a> {
        let Self { cx, groups, connected: sets, collectives, bootstraps, .. } = self;
        Names { cx, groups, sets, collectives, bootstraps, by }
    }

    /// Queries, each with what it means if it names connected sets. One that names too much fails, and nothing that it names is looked at.
    pub(crate) fn query_info(&mut self, asked: Asked, QueryInfo { queries, .. }: QueryInfo) {
        if let Err(failure) = query::check(&queries) {
            return self.cx.reply(asked.to, Err(failure));
        }
        let queries = {
            let names = self.names(&asked.by);
            let with_meaning = |query: Query| {
                let meant = query::check_names(&query).map(|()| names.meant(&query.qualifiers));
                (query, meant)
            };
            queries.into_iter().map(with_meaning).collect()
        };
        self.with_queries(|known, sources, cx| known.on_query(asked, queries, sources, cx));
    }

    /// The size of a connected set is known here, whatever the host knows of it.
    pub(crate) fn get(&mut self, asked: Asked, get: Get) {
        match self.connected.size_asked(&get, &asked.by, &self.cx) {
            Some(size) => self.cx.reply(asked.to, Ok(Reply::Get(GetReply::value(size.into())))),
            None => self.data.on_get(asked, get, &self.psets, &mut self.cx),
        }
    }

    /// A connected set is known here, whatever the host knows of it.
    pub(crate) fn resolve_peers(&mut self, asked: Asked, ask: ResolvePeers) {
        let of_set = ask.nspace.as_ref().and_then(|nspace| {
            let node = ask.node.as_ref().unwrap_or(&self.cx.config.hostname);
            self.connected.peers_of(nspace, node, &asked.by, &self.cx)
        });
        match of_set {
            Some(peers) => self.cx.reply(asked.to, peers.map(Reply::Procs)),
            None => self.resolutions.on_peers(asked, ask, &mut self.cx),
        }
    }

    pub(crate) fn resolve_nodes(&mut self, asked: Asked, ResolveNodes { nspace, .. }: ResolveNodes) {
        let of_set = nspace.as_ref().and_then(|name| self.connected.nodes_of(name, &asked.by, &self.cx));
        match of_set {
            Some(nodes) => self.cx.reply(asked.to, Ok(Reply::Nodes(nodes))),
            None => self.resolutions.on_nodes(asked, nspace, &mut self.cx),
        }
    }

    /// Whether a group of this id is there or about to be.
    pub(crate) fn is_group(&self, id: &Nspace) -> bool {
        crate::names::is_group(id, &self.groups, &self.collectives, &self.bootstraps)
    }

    /// The host names a tool. Lists of processes would not tell it from a member of a group or connected set of that name.
    pub(crate) fn check_tool_name(&self, answer: Answer) -> Result<Answer, Failure> {
        match &answer {
            Answer::Identity(proc)
                if self.is_group(&proc.nspace) || self.connected.id_of(&proc.nspace).is_some() =>
            {
                let message =
                    format!("identity {proc} is in use, by a group or connected set: choose another one");
                Err(Failure::new(Status::ERR_EXISTS, message))
            }
            _ => Ok(answer),
        }
    }

    /// Whether processes here wait for the members of a group of this id, which is none yet.
    pub(crate) fn is_bootstrapping(&self, id: &Nspace) -> bool {
        self.bootstraps.has(id) && self.groups.get(id).is_none()
    }

    fn enter(&mut self, asked: &Asked, entry: Result<Entry, Failure>) {
        match entry {
            Ok(entry) => {
                self.with_collectives(|collectives, lower, cx| collectives.enter(asked, entry, lower, cx));
            }
            Err(failure) => self.cx.reply(asked.to, Err(failure)),
        }
    }

    pub(crate) fn fence(&mut self, asked: Asked, fence: Fence) {
        self.enter(&asked, Ok(Entry::fence(fence, &asked.by.proc)));
    }

    pub(crate) fn connect(&mut self, asked: Asked, connect: Connect) {
        self.enter(&asked, Entry::connect(connect));
    }

    pub(crate) fn disconnect(&mut self, asked: Asked, disconnect: Disconnect) {
        match disconnect.nspace {
            Some(nspace) => self.on_leave(asked, nspace, disconnect.directives),
            None => self.enter(&asked, Entry::disconnect(disconnect, &self.connected)),
        }
    }

    pub(crate) fn group_construct(&mut self, asked: Asked, construct: GroupConstruct) {
        if bootstrap::is_meant(&construct) {
            self.with_bootstraps(|bootstraps, below, cx| {
                bootstraps.on_construct(asked, construct, below, cx);
            });
        } else {
            self.enter(&asked, Entry::construct(construct));
        }
    }

    pub(crate) fn group_destruct(&mut self, asked: Asked, destruct: GroupDestruct) {
        if self.is_bootstrapping(&destruct.group) {
            return self.cx.reply(asked.to, Err(not_complete(&destruct.group)));
        }
        self.with_collectives(|collectives, lower, cx| {
            collectives.on_group_destruct(&asked, destruct, lower, cx);
        });
    }

    pub(crate) fn group_leave(&mut self, asked: Asked, leave: GroupLeave) {
        if self.is_bootstrapping(&leave.group) {
            return self.cx.reply(asked.to, Err(not_complete(&leave.group)));
        }
        self.with_collectives(|collectives, lower, cx| {
            collectives.on_group_leave(&asked, leave, lower, cx);
        });
    }

    pub(crate) fn group_invite(&mut self, asked: Asked, invite: GroupInvite) {
        self.with_invites(|invites, below, cx| invites.on_invite(asked, invite, below, cx));
    }

    pub(crate) fn group_join(&mut self, asked: Asked, join: GroupJoin) {
        self.with_invites(|invites, below, cx| invites.on_join(asked, join, below, cx));
    }

    /// Registers what is to be removed, and passes everything else to the host.
    pub(crate) fn job_control(&mut self, asked: Asked, control: JobControl) {
        let left = if cleanup::is_cleanup(&control.directives) {
            self.cleanups.on_request(&asked, control, &mut self.cx)
        } else {
            Some(control)
        };
        if let Some(control) = left {
            let request = Ok(UpcallRequest::JobControl(control));
            self.forwards.pass_up(asked, request, Form::of::<JobControl>(), &mut self.cx);
        }
    }

    /// Watches heartbeats and files, and passes everything else to the host.
    pub(crate) fn monitor(&mut self, asked: Asked, monitor: Monitor) {
        if let Some(request) = self.monitors.on_request(&asked, monitor, &mut self.cx) {
            self.forwards.pass_up(asked, request, Form::of::<Monitor>(), &mut self.cx);
        }
    }

    /// The caller alone leaves a connected set (CON-14).
    pub(crate) fn on_leave(&mut self, asked: Asked, nspace: Nspace, mut directives: Directives) {
        let terms = match self.connected.check_leave(&nspace, &asked.by.proc, &mut directives) {
            Ok(terms) => terms,
            Err(failure) => return self.cx.reply(asked.to, Err(failure)),
        };
        if self.cx.config.capabilities.has(Upcall::Disconnect) {
            let form = Form::Left { nspace: nspace.clone(), notify_each: terms.notify_each };
            let nodes = vec![self.cx.config.hostname.clone()];
            let request = DisconnectRequest::new(Vec::new(), nodes, Some(nspace)).with_directives(directives);
            return self.forwards.pass_up(asked, Ok(UpcallRequest::Disconnect(request)), form, &mut self.cx);
        }
        let result = directives.take(&keys::TIMEOUT).and_then(|_| directives.deny_unprocessed());
        if result.is_ok() {
            self.on_left(asked.to.conn, &nspace, terms.notify_each);
        }
        self.cx.reply(asked.to, result.map(|()| Reply::Done).map_err(Failure::from));
    }

    /// A process has left a connected set.
    pub(crate) fn on_left(&mut self, conn: ConnId, nspace: &Nspace, notify_each: bool) {
        self.with_collectives(|collectives, lower, cx| {
            collectives.on_left_set(conn, nspace, notify_each, lower, cx);
        });
    }

    /// The host has carried out a collective, or reports why it could not.
    pub(crate) fn on_collective_answer(&mut self, round: u64, result: Result<Answer, Failure>) {
        let Some(signature) = self.collectives.signature(round).cloned() else { return };
        let mut filing = Filing { data: &mut self.data, psets: &self.psets };
        let outcome = result.and_then(|answer| filing.file(&signature, answer, &mut self.cx));
        self.with_collectives(|collectives, lower, cx| match outcome {
            Ok((outcome, lacking)) => collectives.on_filed(round, outcome, lacking, lower, cx),
            Err(failure) => collectives.on_host_outcome(round, Err(failure), lower, cx),
        });
    }

    /// What a round lacked of a process on another node has come, or cannot be fetched.
    pub(crate) fn on_lacking(&mut self, round: u64, upcall: UpcallId, result: Result<Answer, Failure>) {
        let Some(proc) = self.collectives.lacking(round, upcall).cloned() else { return };
        let result = self.data.file_lacking(&proc, result, &mut self.cx);
        self.with_collectives(|collectives, lower, cx| {
            collectives.on_lacking(round, upcall, result, lower, cx);
        });
    }

    /// A process no longer takes part in any operation: members of its connected sets and groups are notified.
    pub(crate) fn end_membership(&mut self, proc: &ProcId) {
        self.connected.proc_gone(proc, &mut self.events, &mut self.cx);
        self.groups.proc_gone(proc, &mut self.events, &mut self.cx);
        self.with_invites(|invites, below, cx| invites.proc_gone(proc, below, cx));
        self.drop_abandoned();
    }

    pub(crate) fn drop_abandoned(&mut self) {
        self.with_collectives(|collectives, lower, cx| collectives.drop_abandoned(lower, cx));
    }

    pub(crate) fn drive_collectives_of(&mut self, nspace: &Nspace) {
        self.with_collectives(|collectives, lower, cx| collectives.drive_of(nspace, lower, cx));
    }

    /// The round machine with the nouns that it stands on.
    pub(crate) fn with_collectives<T>(
        &mut self,
        work: impl FnOnce(&mut Collectives, &mut Lower<'_>, &mut Context) -> T,
    ) -> T {
        let Self { cx, collectives, connected, groups, events, .. } = self;
        work(collectives, &mut Lower { sets: connected, groups, events }, cx)
    }

    /// What waits in these namespaces, or in all if none is named; what has waited longest first.
    pub(crate) fn waits(&self, nspaces: &[Nspace]) -> Vec<Wait> {
        let Self { cx, collectives, connected, groups, data, invites, bootstraps, forwards, events, .. } =
            self;
        let waits = Waits { collectives, connected, groups, data, invites, bootstraps, forwards, events };
        let mut waits = waits.all(cx);
        waits.retain(|wait| wait.is_of(nspaces));
        waits
    }

    /// Queries with the nouns that they are answered from.
    pub(crate) fn with_queries<T>(
        &mut self,
        work: impl FnOnce(&mut Queries, Sources<'_>, &mut Context) -> T,
    ) -> T {
        let Self {
            cx,
            queries,
            psets,
            attributes,
            collectives,
            connected,
            groups,
            data,
            invites,
            bootstraps,
            forwards,
            recorder,
            events,
            ..
        } = self;
        let waits = Waits { collectives, connected, groups, data, invites, bootstraps, forwards, events };
        work(queries, Sources { psets, groups, attributes, waits: &waits, recorder }, cx)
    }

    /// Constructs by bootstrap with the nouns that they stand on.
    pub(crate) fn with_bootstraps(
        &mut self,
        work: impl FnOnce(&mut Bootstraps, &mut Below<'_>, &mut Context),
    ) {
        let Self { cx, bootstraps, collectives, connected, groups, events, .. } = self;
        let lower = Lower { sets: connected, groups, events };
        work(bootstraps, &mut Below { collectives, lower }, cx);
    }

    /// Invitations with the nouns that they stand on.
    pub(crate) fn with_invites<T>(
        &mut self,
        work: impl FnOnce(&mut Invites, &mut Below<'_>, &mut Context) -> T,
    ) -> T {
        let Self { cx, invites, collectives, connected, groups, events, .. } = self;
        let lower = Lower { sets: connected, groups, events };
        work(invites, &mut Below { collectives, lower }, cx)
    }
}
