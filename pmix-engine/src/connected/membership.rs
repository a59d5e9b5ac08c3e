//! Processes connect and leave connected sets, and the other members are notified.

use std::collections::BTreeSet;
use std::sync::Arc;

use pmix_types::job::JobData;
use pmix_types::message::{ConnectReply, Failure};
use pmix_types::{DataArray, Directives, Event, Info, Nspace, ProcId, Status, keys};

use super::numbering::Numbering;
use super::sets::{ConnectedSet, ConnectedSets, SetId, SetTerms};
use crate::Caller;
use crate::context::Context;
use crate::events::Events;
use crate::jobs::Stage;
use crate::notice::Notice;
use crate::participants::{Ranks, is_in, named_procs, procs_of};
use crate::upcall::Connected;

/// What the participants of a connect learn of each other.
#[derive(Debug)]
pub(crate) struct Introduction {
    /// All namespaces that took part.
    jobs: Vec<Arc<JobData>>,
    nspace: Option<Nspace>,
    numbering: Arc<Numbering>,
}

/// How a process has entered a connect or disconnect.
#[derive(Debug)]
pub(crate) struct Entered<'a> {
    pub(crate) connects: bool,
    /// What was asked for so far.
    pub(crate) terms: SetTerms,
    /// The processes that have entered so far, the caller included.
    pub(crate) already: &'a Ranks,
    /// The caller is the first that requests `CONNECT_REQUESTED` for the others (CON-11).
    pub(crate) asks_others: bool,
}

/// A connect that all have entered who can.
#[derive(Debug)]
pub(crate) struct CompleteConnect<'a> {
    pub(crate) id: SetId,
    pub(crate) terms: SetTerms,
    /// The processes of this node that have entered.
    pub(crate) entered: &'a Ranks,
}

impl Introduction {
    /// Each participant gets the data of the others' namespaces and its own rank (CON-06, CON-08).
    pub(crate) fn reply_to(&self, caller: &ProcId, is_own: impl Fn(&Nspace) -> bool) -> ConnectReply {
        let mut reply = ConnectReply::default();
        let is_for_it = |nspace: &Nspace| *nspace != caller.nspace && is_own(nspace);
        reply.jobs = self.jobs.iter().filter(|job| is_for_it(job.nspace())).cloned().collect();
        reply.nspace.clone_from(&self.nspace);
        reply.rank = self.nspace.as_ref().and_then(|_| self.numbering.rank_of(caller));
        reply
    }
}

impl ConnectedSets {
    /// Only a process that is connected can disconnect.
    pub(crate) fn check_disconnect(&self, id: &SetId, caller: &ProcId) -> Result<(), Failure> {
        if self.of_member(id, caller).is_some() {
            return Ok(());
        }
        let message = "disconnect: these processes are not connected, or the caller has left them";
        Err(Failure::new(Status::ERR_INVALID_OPERATION, message))
    }

    /// Checks that a process can leave a set alone, and takes the directives of that (CON-14).
    pub(crate) fn check_leave(
        &self,
        nspace: &Nspace,
        proc: &ProcId,
        directives: &mut Directives,
    ) -> Result<SetTerms, Failure> {
        let Some(id) = self.id_of(nspace) else {
            let message = format!("disconnect: no processes are connected as {nspace}");
            return Err(Failure::new(Status::ERR_INVALID_NAMESPACE, message));
        };
        if self.of_member(id, proc).is_none() {
            let message = format!("disconnect: {proc} is not a member of connected set {nspace}");
            return Err(Failure::new(Status::ERR_INVALID_OPERATION, message));
        }
        Ok(SetTerms::take(directives)?)
    }

    /// A process has left a set. Returns whether it was a member.
    pub(crate) fn on_left(
        &mut self,
        proc: &ProcId,
        nspace: &Nspace,
        notify_each: bool,
        events: &mut Events,
        cx: &mut Context,
    ) -> bool {
        let Some(id) = self.id_of(nspace).cloned() else { return false };
        let Some(set) = self.of_member(&id, proc) else { return false };
        let notify_each = notify_each || set.terms.notify_each;
        self.leave(&id, proc);
        if notify_each {
            tell_of(Status::PROC_HAS_DISCONNECTED, proc, &id, events, cx);
        }
        true
    }

    /// Notifies the members that have asked for it that a process has entered.
    pub(crate) fn tell_of_entry(
        &self,
        id: &SetId,
        caller: &ProcId,
        entered: &Entered<'_>,
        events: &mut Events,
        cx: &mut Context,
    ) {
        let Entered { connects, terms, already, asks_others } = entered;
        if *connects && *asks_others {
            let event = event_of(Status::CONNECT_REQUESTED, caller, id);
            Notice::everywhere(event, cx.voice_for(caller)).tell(
                &id.1,
                |proc| is_in(already, proc),
                events,
                cx,
            );
        }
        let held = self.of_member(id, caller);
        let is_member = held.is_some();
        let was_agreed = held.is_some_and(|held| held.terms.notify_each);
        match (connects, terms.notify_each || was_agreed) {
            // it was connected all the time (CON-15)
            (true, _) if is_member => {}
            (true, true) => tell_of(Status::PROC_HAS_CONNECTED, caller, id, events, cx),
            (false, true) => tell_of(Status::PROC_HAS_DISCONNECTED, caller, id, events, cx),
            (_, false) => {}
        }
    }

    /// The processes of a set have connected. A set that was connected before keeps its name, ranks and terms until the
    /// first disconnect (CON-15). `is_group` says whether the name that the host gives is a group's.
    pub(crate) fn connect(
        &mut self,
        complete: CompleteConnect<'_>,
        host: Connected,
        is_group: bool,
        events: &mut Events,
        cx: &mut Context,
    ) -> Result<Introduction, Failure> {
        let CompleteConnect { id, terms, entered } = complete;
        let jobs = id.1.keys().filter_map(|nspace| cx.jobs.get(nspace)).map(|job| job.data.clone()).collect();
        // some may have ended or finalized while the host was at it
        let finished =
            id.1.keys().filter_map(|nspace| Some((nspace.clone(), cx.jobs.get(nspace)?.finished())));
        let finished: Ranks = finished.collect();
        if let Some(held) = self.get(&id).filter(|_| !terms.exchange_only) {
            let (nspace, numbering) = (held.nspace.clone(), held.numbering.clone());
            self.rejoin(&id, entered);
            for proc in procs_of(&finished) {
                self.proc_gone(&proc, events, cx);
            }
            return Ok(Introduction { jobs, nspace, numbering });
        }
        let nspace = host.nspace.filter(|_| !terms.exchange_only);
        if let Some(taken) = &nspace
            && (cx.nspaces().any(|nspace| nspace == taken) || self.id_of(taken).is_some() || is_group)
        {
            let message = format!("the host gave the connected set the name {taken}, which is in use");
            return Err(Failure::new(Status::ERR_EXISTS, message));
        }
        let numbering = Arc::new(Numbering::new(host.ranks)?);
        if !terms.exchange_only {
            self.insert(id, ConnectedSet::new(nspace.clone(), numbering.clone(), terms));
            for proc in procs_of(&finished) {
                self.proc_gone(&proc, events, cx);
            }
        }
        Ok(Introduction { jobs, nspace, numbering })
    }

    /// A process has ended or finalized: the processes that are connected with it are notified (CON-13). MPI programs
    /// finalize while they are connected, and abort when their default handler receives such an event, so the event of
    /// a process that has finalized goes only to processes that have registered for its code.
    pub(crate) fn proc_gone(&mut self, proc: &ProcId, events: &mut Events, cx: &mut Context) {
        let has_finalized = cx.client(proc).is_some_and(|client| client.stage == Stage::Finalized);
        for members in self.end(proc) {
            let mut event = Event::new(Status::ERR_PROC_TERM_WO_SYNC, cx.config.server.clone())
                .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc.clone()));
            if has_finalized {
                event = event.with_info(Info::new(&keys::EVENT_NON_DEFAULT, true));
            }
            Notice::everywhere(event, cx.voice_for(proc)).tell(&members, |other| other == proc, events, cx);
        }
    }

    /// Replaces the names of connected sets by their members in the custom range of an event of this caller (CON-07).
    pub(crate) fn resolve_range(&self, event: &mut Event, by: &Caller, cx: &Context) {
        let named = event.custom_range();
        let members = |name: ProcId| match self.members(&name) {
            Some(members) if !self.is_strange(&name.nspace, by, cx) => {
                named_procs(&members.unwrap_or_default())
            }
            _ => vec![name],
        };
        if named.iter().any(|name| self.id_of(&name.nspace).is_some()) {
            let named: BTreeSet<_> = named.into_iter().collect();
            let procs = named.into_iter().flat_map(members).collect();
            event.info.remove(&keys::EVENT_CUSTOM_RANGE);
            event.info.push(Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(procs)));
        }
    }
}

fn tell_of(code: Status, proc: &ProcId, id: &SetId, events: &mut Events, cx: &mut Context) {
    let event = event_of(code, proc, id);
    // that a process connects is told on its node only (CON-10)
    let voice = cx.voice_for(proc);
    let is_for_all = code == Status::PROC_HAS_DISCONNECTED;
    let notice = if is_for_all { Notice::everywhere(event, voice) } else { Notice::here(event, voice) };
    notice.tell(&id.1, |other| other == proc, events, cx);
}

/// An event about a process and the set it is in.
fn event_of(code: Status, proc: &ProcId, (name, members): &SetId) -> Event {
    let set = DataArray::Proc(named_procs(members));
    let event = Event::new(code, proc.clone())
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc.clone()))
        .with_info(Info::new(&keys::EVENT_AFFECTED_PROCS, set));
    match name {
        Some(name) => event.with_info(Info::new(&keys::CONNECT_ID, name.as_str())),
        None => event,
    }
}
