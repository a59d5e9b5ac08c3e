//! Connect and disconnect: collectives that make processes of several namespaces known to each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use pmix_types::job::JobData;
use pmix_types::message::{Connect, ConnectReply, Disconnect, Failure, Reply};
use pmix_types::{DataArray, DataRange, Directives, Event, Info, Nspace, ProcId, RankSet, Status, keys};

use super::assemblies::{Assembly, Numbering, SetId, Terms};
use super::collective::{Entry, Outcome};
use super::forward::Form;
use super::registry::{Job, Stage, known_local};
use super::signature::{Members, Operation, Signature, named_procs};
use super::upcall::{Connected, Upcall};
use super::{Asked, ConnId, Engine, UpcallPurpose, UpcallRequest};

/// What all participants of a connect share.
#[derive(Debug)]
pub(super) struct Assembled {
    /// All namespaces that took part.
    jobs: Vec<Arc<JobData>>,
    nspace: Option<Nspace>,
    numbering: Arc<Numbering>,
}

/// How a process has entered a connect or disconnect.
#[derive(Debug)]
pub(super) struct Entered {
    /// What was asked for so far.
    pub(super) terms: Terms,
    /// Who is in.
    pub(super) already: BTreeMap<Nspace, RankSet>,
    /// It is the first to have the others asked (CON-11).
    pub(super) asks_others: bool,
}

/// Something that members of a group are to hear.
#[derive(Debug)]
pub(super) struct Notice {
    pub(super) event: Event,
    /// Those on other nodes too, through the host.
    pub(super) beyond: bool,
}

impl Assembled {
    /// Each participant gets the data of the others' namespaces and its own rank (CON-06, CON-08).
    pub(super) fn reply_to(&self, caller: &ProcId) -> ConnectReply {
        let mut reply = ConnectReply::default();
        reply.jobs = self.jobs.iter().filter(|job| *job.nspace() != caller.nspace).cloned().collect();
        reply.nspace.clone_from(&self.nspace);
        reply.rank = self.nspace.as_ref().and_then(|_| self.numbering.rank_of(caller));
        reply
    }
}

impl Engine {
    pub(super) fn on_connect(&mut self, asked: &Asked, connect: Connect) {
        let Connect { procs, mut directives, .. } = connect;
        match directives.take(&keys::CONNECT_ID) {
            Ok(id) => {
                let operation = Operation::Connect(id);
                self.on_enter(asked, Entry::new(operation, procs, directives));
            }
            Err(error) => self.cx.reply(asked.to, Err(error.into())),
        }
    }

    pub(super) fn on_disconnect(&mut self, asked: Asked, disconnect: Disconnect) {
        let Disconnect { mut procs, nspace, mut directives, .. } = disconnect;
        if let Some(nspace) = nspace {
            return self.on_leave(asked, nspace, directives);
        }
        let id = match directives.take(&keys::CONNECT_ID) {
            Ok(id) => id,
            Err(error) => return self.cx.reply(asked.to, Err(error.into())),
        };
        let mut operation = Operation::Disconnect(id);
        // all of a group, by its namespace
        if let [one] = &*procs
            && one.rank.is_wildcard()
            && let Some((id, members)) = self.collectives.assemblies.id_of(&one.nspace).cloned()
        {
            (operation, procs) = (Operation::Disconnect(id), named_procs(&members));
        }
        self.on_enter(&asked, Entry::new(operation, procs, directives));
    }

    /// The caller alone leaves a group (CON-14).
    fn on_leave(&mut self, asked: Asked, nspace: Nspace, mut directives: Directives) {
        let assemblies = &self.collectives.assemblies;
        let found = match assemblies.id_of(&nspace) {
            None => {
                let message = format!("disconnect: no processes are connected as {nspace}");
                Err(Failure::new(Status::ERR_INVALID_NAMESPACE, message))
            }
            Some(id) if assemblies.of_member(id, &asked.by.proc).is_none() => {
                let message = format!("disconnect: {} is not connected as one of {nspace}", asked.by.proc);
                Err(Failure::new(Status::ERR_INVALID_OPERATION, message))
            }
            Some(_) => Terms::take(&mut directives).map_err(Failure::from),
        };
        let terms = match found {
            Ok(terms) => terms,
            Err(failure) => return self.cx.reply(asked.to, Err(failure)),
        };
        if self.cx.config.capabilities.has(Upcall::Disconnect) {
            let form = Form::Left { nspace: nspace.clone(), notify_each: terms.notify_each };
            let request = Disconnect::leave(nspace).with_directives(directives);
            return self.pass_up(asked, Ok(UpcallRequest::Disconnect(request)), form);
        }
        let result = directives.take(&keys::TIMEOUT).and_then(|_| directives.deny_unprocessed());
        if result.is_ok() {
            self.on_left(asked.to.conn, &nspace, terms.notify_each);
        }
        self.cx.reply(asked.to, result.map(|()| Reply::Done).map_err(Failure::from));
    }

    /// A process has left a group; it may have ended in the meantime.
    pub(super) fn on_left(&mut self, conn: ConnId, nspace: &Nspace, notify_each: bool) {
        let Some(proc) = self.cx.conns.get(&conn).map(|held| held.proc.clone()) else { return };
        let assemblies = &mut self.collectives.assemblies;
        let Some(id) = assemblies.id_of(nspace).cloned() else { return };
        let Some(assembly) = assemblies.of_member(&id, &proc) else { return };
        let notify_each = notify_each || assembly.terms.notify_each;
        assemblies.leave(&id, &proc);
        if notify_each {
            self.tell_of(Status::PROC_HAS_DISCONNECTED, &proc, &id);
        }
        self.drop_abandoned();
        self.drive_collectives_of(&proc.nspace);
    }

    /// Only who is connected can disconnect, and who is about to is not connected again before that is done
    /// (CON-14, CON-15).
    pub(super) fn check_assembly(
        &self,
        signature: &Signature,
        caller: &ProcId,
        terms: Terms,
    ) -> Result<(), Failure> {
        let assemblies = &self.collectives.assemblies;
        match set_id(signature) {
            None => Ok(()),
            Some(_) if matches!(signature.operation, Operation::Connect(_)) && terms.exchange_only => Ok(()),
            Some(id) if matches!(signature.operation, Operation::Connect(_)) => {
                let operation = Operation::Disconnect(id.0.clone());
                if self.collectives.awaits(&Signature { operation, ..signature.clone() }, caller) {
                    let message =
                        format!("connect: {caller} is in a disconnect of these processes: await its end");
                    return Err(Failure::new(Status::ERR_INVALID_OPERATION, message));
                }
                assemblies.check_room(&id)
            }
            Some(id) if assemblies.of_member(&id, caller).is_some() => Ok(()),
            Some(_) => {
                let message = "disconnect: these processes are not connected, or the caller has left them";
                Err(Failure::new(Status::ERR_INVALID_OPERATION, message))
            }
        }
    }

    /// Tells those who want to know that a process has entered.
    pub(super) fn tell_of_entry(&mut self, signature: &Signature, caller: &ProcId, entered: &Entered) {
        let Entered { terms, already, asks_others } = entered;
        let Some(id) = set_id(signature) else { return };
        let connects = matches!(signature.operation, Operation::Connect(_));
        if connects && *asks_others {
            let event = self.event_of(Status::CONNECT_REQUESTED, caller, &id);
            let is_in =
                |proc: &ProcId| already.get(&proc.nspace).is_some_and(|ranks| ranks.contains(proc.rank));
            self.tell(&id.1, is_in, Notice { event, beyond: true });
        }
        let held = self.collectives.assemblies.of_member(&id, caller);
        let is_member = held.is_some();
        let was_agreed = held.is_some_and(|held| held.terms.notify_each);
        match (connects, terms.notify_each || was_agreed) {
            // it was connected all the time (CON-15)
            (true, _) if is_member => {}
            (true, true) => self.tell_of(Status::PROC_HAS_CONNECTED, caller, &id),
            (false, true) => self.tell_of(Status::PROC_HAS_DISCONNECTED, caller, &id),
            (_, false) => {}
        }
    }

    /// Who has connected is connected. A set that was connected before stays what it was: under its name, by its ranks,
    /// on its terms, until one disconnect (CON-15).
    pub(super) fn connected(
        &mut self,
        signature: &Signature,
        terms: Terms,
        entered: &BTreeMap<Nspace, RankSet>,
        host: Connected,
    ) -> Result<Outcome, Failure> {
        if let Some(id) = set_id(signature).filter(|_| !terms.exchange_only)
            && let Some(held) = self.collectives.assemblies.get(&id)
        {
            let (nspace, numbering) = (held.nspace.clone(), held.numbering.clone());
            self.collectives.assemblies.rejoin(&id, entered);
            return Ok(self.assembled(signature, nspace, numbering));
        }
        let nspace = host.nspace.filter(|_| !terms.exchange_only);
        if let Some(taken) = nspace.as_ref()
            && (self.cx.jobs.contains_key(taken)
                || self.collectives.assemblies.id_of(taken).is_some()
                || self.is_group(taken))
        {
            let message = format!("the host named those who connect {taken}, which is the name of others");
            return Err(Failure::new(Status::ERR_EXISTS, message));
        }
        let numbering = Arc::new(Numbering::new(host.ranks)?);
        if let Some(id) = set_id(signature).filter(|_| !terms.exchange_only) {
            let assembly = Assembly::new(nspace.clone(), numbering.clone(), terms);
            self.collectives.assemblies.insert(id, assembly);
            // some may have ended or finalized while the host was at it
            for nspace in signature.procs.keys() {
                let Some(job) = self.cx.jobs.get(nspace) else { continue };
                for rank in job.finished().iter() {
                    self.collectives.assemblies.end(&ProcId::new(nspace.clone(), rank));
                }
            }
        }
        Ok(self.assembled(signature, nspace, numbering))
    }

    fn assembled(&self, signature: &Signature, nspace: Option<Nspace>, numbering: Arc<Numbering>) -> Outcome {
        let jobs = signature.procs.keys().filter_map(|nspace| self.cx.jobs.get(nspace));
        let jobs = jobs.map(|job| job.data.clone()).collect();
        Outcome::Connected(Arc::new(Assembled { jobs, nspace, numbering }))
    }

    /// Data of the namespaces stays until they are deregistered (CON-16).
    pub(super) fn disconnected(&mut self, signature: &Signature) -> Outcome {
        if let Some(id) = set_id(signature) {
            self.collectives.assemblies.remove(&id);
        }
        Outcome::Ended
    }

    /// A process has ended or finalized: who is connected with it hears of it (CON-13). Programs of MPI finalize while they
    /// are connected, and abort whenever their default handler hears of an end: of that they hear if they ask for it by
    /// its code.
    pub(super) fn end_membership(&mut self, proc: &ProcId) {
        let has_finalized = self.cx.client(proc).is_some_and(|client| client.stage == Stage::Finalized);
        for members in self.collectives.assemblies.end(proc) {
            let mut event = Event::new(Status::ERR_PROC_TERM_WO_SYNC, self.cx.config.server.clone())
                .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc.clone()));
            if has_finalized {
                event = event.with_info(Info::new(&keys::EVENT_NON_DEFAULT, true));
            }
            self.tell(&members, |other| other == proc, Notice { event, beyond: true });
        }
        self.end_in_groups(proc);
        self.end_in_constructs(proc);
        self.end_in_invites(|other| other == proc);
        self.drop_abandoned();
    }

    pub(super) fn drop_abandoned(&mut self) {
        let connecting = self.collectives.connecting();
        self.collectives.assemblies.drop_abandoned(known_local(&self.cx.jobs), &connecting);
        self.collectives.groups.drop_abandoned(known_local(&self.cx.jobs));
    }

    /// Members of a connected group in place of its names, for an event of a custom range (CON-07).
    pub(super) fn resolve_range(&self, event: &mut Event) {
        let named = event.custom_range();
        let assemblies = &self.collectives.assemblies;
        let members = |name: ProcId| match assemblies.members(&name) {
            Some(members) => named_procs(&members.unwrap_or_default()),
            None => vec![name],
        };
        if named.iter().any(|name| assemblies.id_of(&name.nspace).is_some()) {
            let named: BTreeSet<_> = named.into_iter().collect();
            let procs = named.into_iter().flat_map(members).collect();
            event.info.remove(&keys::EVENT_CUSTOM_RANGE);
            event.info.push(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(procs)));
        }
    }

    fn tell_of(&mut self, code: Status, proc: &ProcId, id: &SetId) {
        let event = self.event_of(code, proc, id);
        // who connects is told of on its node only (CON-10)
        let beyond = code == Status::PROC_HAS_DISCONNECTED;
        self.tell(&id.1, |other| other == proc, Notice { event, beyond });
    }

    /// An event about a process and the set it is in.
    fn event_of(&self, code: Status, proc: &ProcId, (name, members): &SetId) -> Event {
        let set = DataArray::Proc(named_procs(members));
        let event = Event::new(code, proc.clone())
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc.clone()))
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROCS, set));
        match name {
            Some(name) => event.with_info(Info::new(&keys::CONNECT_ID, name.as_str())),
            None => event,
        }
    }

    /// Tells the members but some of something.
    pub(super) fn tell(&mut self, members: &Members, but: impl Fn(&ProcId) -> bool, notice: Notice) {
        let Notice { event, beyond } = notice;
        let (mut here, mut elsewhere) = (Vec::new(), false);
        for (nspace, named) in members {
            let job = self.cx.jobs.get(nspace);
            let local = job.map(Job::known_local).unwrap_or_default();
            let size = job.and_then(|job| job.data.size()).map_or(u64::MAX, u64::from);
            elsewhere |= !named.ranks.is_subset(&local) || named.all && size > local.len();
            let procs = local.iter().filter(|rank| named.contains(*rank));
            here.extend(procs.map(|rank| ProcId::new(nspace.clone(), rank)).filter(|proc| !but(proc)));
        }
        let for_those = |procs| {
            let range = Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(procs));
            event.clone().with_range(DataRange::CUSTOM).with_info(range)
        };
        if !here.is_empty() {
            // an event of the server's own always reaches its processes
            let _ = self.on_host_event(&for_those(here));
        }
        if beyond && elsewhere && self.cx.config.capabilities.has(Upcall::NotifyEvent) {
            let event = for_those(named_procs(members));
            let caller = self.cx.self_caller();
            self.cx.upcall(UpcallPurpose::Notice, caller, UpcallRequest::NotifyEvent(event));
        }
    }

    /// Data of the participating namespaces that this server can tell the others of.
    pub(super) fn local_jobs(&self, signature: &Signature) -> Bytes {
        let jobs = signature.procs.keys().filter_map(|nspace| self.cx.jobs.get(nspace));
        self.cx.config.codec.jobs_blob(jobs.map(|job| &*job.data))
    }

    /// Takes over what other servers tell of namespaces that are not known here.
    pub(super) fn adopt_jobs(&mut self, data: &Bytes) -> Result<(), Failure> {
        for job in self.cx.config.codec.read_jobs(data.clone())? {
            if !self.cx.jobs.contains_key(job.nspace()) {
                self.adopt_job(job);
            }
        }
        Ok(())
    }
}

/// The set that a connect or disconnect is about.
pub(super) fn set_id(signature: &Signature) -> Option<SetId> {
    match &signature.operation {
        Operation::Connect(id) | Operation::Disconnect(id) => Some((id.clone(), signature.procs.clone())),
        Operation::Fence | Operation::Construct(_) | Operation::Destruct(_) => None,
    }
}
