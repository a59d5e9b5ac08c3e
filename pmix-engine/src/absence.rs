//! Operations that other nodes wait for: whether somebody on this node can still enter them.
//!
//! The server of a node learns of an operation by those who enter it. Where all who could have ended before, nobody
//! would tell the other nodes.

use std::collections::BTreeMap;

use pmix_types::message::{Failure, Request};
use pmix_types::{Nspace, Status, keys};

use super::collective::Collectives;
use super::command::Command;
use super::registry::known_local;
use super::signature::{Operation, Signature};
use super::{CallId, CallValue, Engine};

/// Operations that the host may ask about at a time.
pub(super) const MAX_ABSENCES: usize = 4096;

/// What has come of an operation that another node waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// One of these participants has ended here, or failed; perhaps an earlier one.
    Ended,
    /// Nobody here will enter it, and that is no error.
    Excused,
    /// Nobody here can enter it any more, and it fails for the others.
    Departed(Failure),
}

/// A call of the host that waits for that.
#[derive(Debug)]
pub(super) struct Absence {
    call: CallId,
    signature: Signature,
    /// It goes on without those who have ended (CON-12).
    is_lenient: bool,
}

impl Collectives {
    pub(super) fn forget_absence(&mut self, call: CallId) {
        self.absences.retain(|absence| absence.call != call);
    }
}

impl Engine {
    pub(super) fn on_absence(&mut self, call: CallId, request: Request) {
        match self.absence_of(call, request) {
            Err(failure) => self.cx.out.push(Command::Return { id: call, result: Err(failure) }),
            Ok(absence) => match self.presence(&absence) {
                Some(presence) => self.conclude(absence, presence),
                None => self.collectives.absences.push(absence),
            },
        }
    }

    fn absence_of(&self, call: CallId, request: Request) -> Result<Absence, Failure> {
        if self.collectives.absences.len() >= MAX_ABSENCES {
            let message = format!("the host asks about {MAX_ABSENCES} operations of other nodes already");
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        let mut is_lenient = false;
        let (operation, procs) = match request {
            Request::Fence(fence) => (Operation::Fence, fence.procs.unwrap_or_default()),
            Request::Connect(mut connect) => {
                is_lenient = connect.directives.take_flag(&keys::CONNECT_OPTIONAL)?;
                (Operation::Connect(connect.directives.take(&keys::CONNECT_ID)?), connect.procs)
            }
            Request::Disconnect(mut disconnect) => {
                is_lenient = true;
                (Operation::Disconnect(disconnect.directives.take(&keys::CONNECT_ID)?), disconnect.procs)
            }
            Request::GroupConstruct(mut construct) => {
                is_lenient = construct.directives.take_flag(&keys::GROUP_OPTIONAL)?;
                (Operation::Construct(construct.group), construct.procs)
            }
            Request::GroupDestruct(destruct) => {
                let group = self.collectives.groups.get(&destruct.group);
                is_lenient = group.is_none_or(|group| group.terms.notify);
                let members = group.map(|group| group.founders().collect());
                (Operation::Destruct(destruct.group), members.unwrap_or_default())
            }
            other => {
                let message = format!("{} is no operation of several processes", other.operation());
                return Err(Failure::new(Status::ERR_BAD_PARAM, message));
            }
        };
        let signature = self.signature_of(operation, procs)?;
        Ok(Absence { call, signature, is_lenient })
    }

    /// What is known already; `None` if somebody may come.
    fn presence(&self, absence: &Absence) -> Option<Presence> {
        let Absence { signature, is_lenient, .. } = absence;
        if self.collectives.is_under_way(signature) {
            return None;
        }
        // who has a group no more has nobody here who ends it
        if matches!(&signature.operation, Operation::Destruct(id) if self.collectives.groups.get(id).is_none())
        {
            return Some(Presence::Excused);
        }
        let (nobody, local) = (BTreeMap::new(), self.local_part(signature));
        let (awaited, departed) = self.missing(&nobody, &local);
        if !awaited.is_empty() || self.awaits_unnamed(&nobody, &local) {
            return None;
        }
        Some(if departed.is_empty() || *is_lenient {
            Presence::Excused
        } else {
            Presence::Departed(self.departed_failure(&signature.operation, &departed))
        })
    }

    /// Answers the calls about these operations that can be answered now.
    pub(super) fn recheck_absences(&mut self, concerns: impl Fn(&Signature) -> bool) {
        for absence in std::mem::take(&mut self.collectives.absences) {
            match concerns(&absence.signature).then(|| self.presence(&absence)).flatten() {
                Some(presence) => self.conclude(absence, presence),
                None => self.collectives.absences.push(absence),
            }
        }
    }

    fn conclude(&mut self, absence: Absence, presence: Presence) {
        if let (Operation::Destruct(id), Presence::Excused) = (absence.signature.operation, &presence) {
            self.collectives.groups.end_elsewhere(&id, known_local(&self.cx.jobs));
        }
        returns(absence.call, presence, &mut self.cx.out);
    }

    /// An operation of these participants has ended here.
    pub(super) fn end_absences(&mut self, signature: &Signature) {
        self.collectives.absences.retain(|absence| {
            let concerns = absence.signature == *signature;
            if concerns {
                returns(absence.call, Presence::Ended, &mut self.cx.out);
            }
            !concerns
        });
    }

    pub(super) fn fail_absences_of(&mut self, nspace: &Nspace, failure: &Failure) {
        self.collectives.absences.retain(|absence| {
            let concerns = absence.signature.procs.contains_key(nspace);
            if concerns {
                self.cx.out.push(Command::Return { id: absence.call, result: Err(failure.clone()) });
            }
            !concerns
        });
    }
}

fn returns(id: CallId, presence: Presence, out: &mut Vec<Command>) {
    out.push(Command::Return { id, result: Ok(CallValue::Presence(presence)) });
}
