//! Operations that other nodes wait for: whether a process on this node can still enter them.
//!
//! A server learns of an operation when a process enters it. If all participants of its node end before that, the
//! server never learns of it, and the other nodes would wait; so their hosts ask.

use pmix_types::message::{Failure, Request};
use pmix_types::{Nspace, ProcId, Status, keys};

use super::entry::{Operation, Signature};
use super::lower::Lower;
use super::members::LocalPart;
use super::outcome::departed_failure;
use super::rounds::Rounds;
use crate::command::{CallValue, Command, Presence};
use crate::context::Context;
use crate::group::Groups;
use crate::ids::CallId;
use crate::jobs::known_local;
use crate::participants::Ranks;

/// Operations that the host may ask about at a time.
pub(crate) const MAX_ABSENCES: usize = 4096;

/// Calls of the host that cannot be answered yet.
#[derive(Debug, Default)]
pub(super) struct Absences(Vec<Absence>);

#[derive(Debug)]
struct Absence {
    call: CallId,
    signature: Signature,
    /// It goes on without processes that have ended (CON-12).
    is_lenient: bool,
}

impl Absences {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn forget(&mut self, call: CallId) {
        self.0.retain(|absence| absence.call != call);
    }

    /// The host asks.
    pub(super) fn on_call(
        &mut self,
        call: CallId,
        request: Request,
        rounds: &Rounds,
        lower: &mut Lower<'_>,
        cx: &mut Context,
    ) {
        let absence = self.check_room().and_then(|()| {
            let (operation, procs, is_lenient) = meaning(request, lower.groups)?;
            let signature = rounds.signature_of(operation, procs, lower.sets, cx)?;
            Ok(Absence { call, signature, is_lenient })
        });
        match absence {
            Err(failure) => cx.out.push(Command::Return { id: call, result: Err(failure) }),
            Ok(absence) => match absence.presence(rounds, lower, cx) {
                Some(presence) => absence.conclude(presence, lower, cx),
                None => self.0.push(absence),
            },
        }
    }

    fn check_room(&self) -> Result<(), Failure> {
        if self.0.len() < MAX_ABSENCES {
            return Ok(());
        }
        let message = format!(
            "the host already asks about {MAX_ABSENCES} operations of other nodes, which is the limit"
        );
        Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message))
    }

    /// Answers the calls about these operations that can be answered now.
    pub(super) fn recheck(
        &mut self,
        concerns: impl Fn(&Signature) -> bool,
        rounds: &Rounds,
        lower: &mut Lower<'_>,
        cx: &mut Context,
    ) {
        self.0.retain(|absence| {
            let presence =
                concerns(&absence.signature).then(|| absence.presence(rounds, lower, cx)).flatten();
            let is_kept = presence.is_none();
            if let Some(presence) = presence {
                absence.conclude(presence, lower, cx);
            }
            is_kept
        });
    }

    /// An operation of these participants has ended here.
    pub(super) fn end(&mut self, signature: &Signature, cx: &mut Context) {
        self.0.retain(|absence| {
            let concerns = absence.signature == *signature;
            if concerns {
                returns(absence.call, Presence::Ended, cx);
            }
            !concerns
        });
    }

    /// A namespace is gone.
    pub(super) fn fail_of(&mut self, nspace: &Nspace, failure: &Failure, cx: &mut Context) {
        self.0.retain(|absence| {
            let concerns = absence.signature.procs.contains_key(nspace);
            if concerns {
                cx.out.push(Command::Return { id: absence.call, result: Err(failure.clone()) });
            }
            !concerns
        });
    }
}

impl Absence {
    /// The answer, or `None` if a process may still enter.
    fn presence(&self, rounds: &Rounds, lower: &Lower<'_>, cx: &Context) -> Option<Presence> {
        let Self { signature, is_lenient, .. } = self;
        if rounds.is_under_way(signature) {
            return None;
        }
        // if it is not known here, no process of this node can hold it up
        let is_unknown = match &signature.operation {
            Operation::Destruct(id) => lower.groups.get(id).is_none(),
            Operation::Disconnect(name) => {
                let connect = Signature { operation: Operation::Connect(name.clone()), ..signature.clone() };
                signature.set_id().is_some_and(|id| !lower.sets.is_known(&id)) && !rounds.is_open(&connect)
            }
            _ => false,
        };
        if is_unknown {
            return Some(Presence::Excused);
        }
        let (nobody, local) = (Ranks::new(), LocalPart::of(signature, lower.sets, lower.groups, cx));
        let missing = local.missing(&nobody, cx);
        if !missing.awaited.is_empty() || local.awaits_unnamed(&nobody, cx) {
            return None;
        }
        Some(if missing.departed.is_empty() || *is_lenient {
            Presence::Excused
        } else {
            Presence::Departed(departed_failure(&signature.operation, &missing.departed, cx))
        })
    }

    fn conclude(&self, presence: Presence, lower: &mut Lower<'_>, cx: &mut Context) {
        if let (Operation::Destruct(id), Presence::Excused) = (&self.signature.operation, &presence) {
            lower.groups.end_elsewhere(id, known_local(&cx.jobs));
        }
        returns(self.call, presence, cx);
    }
}

/// The operation that a process on another node has called, its participants, and whether it goes on without those who
/// have ended.
fn meaning(request: Request, groups: &Groups) -> Result<(Operation, Vec<ProcId>, bool), Failure> {
    match request {
        Request::Fence(fence) => Ok((Operation::Fence, fence.procs.unwrap_or_default(), false)),
        Request::Connect(mut connect) => {
            let is_lenient = connect.directives.take_flag(&keys::CONNECT_OPTIONAL)?;
            let operation = Operation::Connect(connect.directives.take(&keys::CONNECT_ID)?);
            Ok((operation, connect.procs, is_lenient))
        }
        Request::Disconnect(mut disconnect) => {
            let operation = Operation::Disconnect(disconnect.directives.take(&keys::CONNECT_ID)?);
            Ok((operation, disconnect.procs, true))
        }
        Request::GroupConstruct(mut construct) => {
            let is_lenient = construct.directives.take_flag(&keys::GROUP_OPTIONAL)?;
            Ok((Operation::Construct(construct.group), construct.procs, is_lenient))
        }
        Request::GroupDestruct(destruct) => {
            let group = groups.get(&destruct.group);
            let is_lenient = group.is_none_or(|group| group.terms.outlives_members());
            let members = group.map(|group| group.founders().collect()).unwrap_or_default();
            Ok((Operation::Destruct(destruct.group), members, is_lenient))
        }
        other => {
            let message = format!("{} is not a collective", other.operation());
            Err(Failure::new(Status::ERR_BAD_PARAM, message))
        }
    }
}

fn returns(id: CallId, presence: Presence, cx: &mut Context) {
    cx.out.push(Command::Return { id, result: Ok(CallValue::Presence(presence)) });
}
