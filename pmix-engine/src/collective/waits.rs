//! The rounds that are not over, as `pmix why` tells them.

use pmix_types::why::{ProcSet, Wait};

use super::Collectives;
use super::entry::Signature;
use super::members::LocalPart;
use super::rounds::{HostSide, Round};
use crate::connected::ConnectedSets;
use crate::context::Context;
use crate::group::{Groups, spelled_out};
use crate::participants::{Members, proc_set};

impl Collectives {
    /// Whoever is on another node is not said to be missing: its own server knows.
    pub(crate) fn waits<'a>(
        &'a self,
        sets: &'a ConnectedSets,
        groups: &'a Groups,
        cx: &'a Context,
    ) -> impl Iterator<Item = Wait> + 'a {
        self.rounds.iter().map(|(signature, round)| wait(signature, round, sets, groups, cx))
    }
}

fn wait(signature: &Signature, round: &Round, sets: &ConnectedSets, groups: &Groups, cx: &Context) -> Wait {
    let local = LocalPart::of(signature, sets, groups, cx);
    let missing = local.missing(&round.clones.complete(&round.entered, cx), cx);
    let mut wait = cx.wait(round.id, signature.operation.name(), Some(round.since));
    wait.about = signature.operation.about();
    wait.left = cx.left(round.deadline);
    wait.expected = known(&signature.procs, cx);
    wait.arrived = proc_set(&round.entered);
    wait.expected.add_all(&wait.arrived);
    wait.excused = proc_set(&missing.departed);
    wait.missing = if round.complete { ProcSet::new() } else { proc_set(&missing.awaited) };
    wait.fetching = round.lacking.as_ref().map(|lacking| proc_set(&lacking.asked())).unwrap_or_default();
    wait.at_host = matches!(round.host, HostSide::Asked(_));
    if let Some(Err(failure)) = &round.verdict {
        wait.error = Some((failure.status, failure.message.clone()));
    }
    wait
}

/// Participants by their ranks, as far as these are known here.
pub(super) fn known(members: &Members, cx: &Context) -> ProcSet {
    let mut procs = ProcSet::new();
    for (nspace, named) in &spelled_out(members, cx) {
        procs.add(nspace, &named.ranks);
        if let Some(job) = cx.jobs.get(nspace).filter(|_| named.all) {
            procs.add(nspace, &job.known_local());
        }
    }
    procs
}
