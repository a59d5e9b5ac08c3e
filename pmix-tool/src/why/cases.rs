use std::collections::{BTreeMap, BTreeSet};

use pmix_types::ProcId;
use pmix_types::why::{ProcSet, WAITS_FOR_DEBUGGER, Wait};

use super::Why;
use super::phrase::Scene;

/// A waiting collective, or waiting requests of any number of processes for the same thing.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Case {
    /// What waits. Of several requests: the first of them, with the processes of all as those who have arrived, and with
    /// the time of the one that has waited longest.
    pub wait: Wait,
    /// Number of requests; 0 for a collective.
    pub requests: usize,
    /// Why it waits: one English sentence in one line, with foreign names and texts escaped.
    pub sentence: String,
}

/// What kind of operation waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Collective,
    /// The leader of a group waits for answers to its invitation.
    Invite,
    Join,
    Get,
    /// A get of a process on another node, which this server holds.
    HeldGet,
    Lookup,
    /// A process that a debugger has not released.
    Release,
    /// Another request, which the host carries out.
    Request,
    /// A node has not reported its waits.
    Unanswered,
}

impl Why {
    /// The cases in reading order: collectives first, the longest wait before others; each is followed by the waits
    /// of its missing processes.
    #[must_use]
    pub fn cases(&self) -> Vec<Case> {
        let mut cases = folded(&self.waits);
        let ordered: Vec<usize> = in_order(&cases, &Waiting::of(&cases));
        let mut sorted: Vec<Case> = ordered.into_iter().map(|at| std::mem::take(&mut cases[at])).collect();
        let waiting = Waiting::of(&sorted);
        let scene = Scene::new(self, &sorted, &waiting);
        let sentences: Vec<_> = (0..sorted.len()).map(|at| scene.sentence(at)).collect();
        for (case, sentence) in sorted.iter_mut().zip(sentences) {
            case.sentence = sentence;
        }
        sorted
    }

    /// Why these jobs wait: a sentence for each of [`cases`](Self::cases), and one for each job without waits, with
    /// the activity of its processes.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let cases = self.cases().into_iter().map(|case| case.sentence);
        cases.chain(self.idle_sentences()).collect()
    }

    /// A sentence for each job in which nothing waits.
    #[must_use]
    pub fn idle_sentences(&self) -> Vec<String> {
        let waiting = Waiting::default();
        let scene = Scene::new(self, &[], &waiting);
        self.idle_jobs().map(|job| scene.idle(job)).collect()
    }
}

impl Case {
    pub(super) fn kind(&self) -> Kind {
        Kind::of(&self.wait, self.requests)
    }
}

impl Kind {
    fn of(wait: &Wait, requests: usize) -> Self {
        match wait.operation.as_str() {
            _ if wait.is_unanswered() => Self::Unanswered,
            "group invite" => Self::Invite,
            "group join" => Self::Join,
            "get" => Self::Get,
            "get of another node" => Self::HeldGet,
            "lookup" => Self::Lookup,
            WAITS_FOR_DEBUGGER => Self::Release,
            _ if requests > 0 => Self::Request,
            _ => Self::Collective,
        }
    }

    const fn is_common(self) -> bool {
        matches!(self, Self::Collective | Self::Invite)
    }
}

/// Requests for the same are one case: all processes of a job may want the data of the one that is late.
fn folded(waits: &[Wait]) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut requests: BTreeMap<_, usize> = BTreeMap::new();
    for wait in waits {
        if wait.is_collective() && Kind::of(wait, 0).is_common() {
            cases.push(Case { wait: wait.clone(), ..Case::default() });
            continue;
        }
        let jobs: Vec<_> = wait.arrived.iter().map(|(nspace, _)| nspace).collect();
        let missing = wait.missing.to_string();
        let asked = (&wait.operation, &wait.about, missing, jobs, wait.at_host, wait.left.is_some());
        let new = cases.len();
        match *requests.entry(asked).or_insert(new) {
            at if at < new => cases[at].join(wait),
            _ => cases.push(Case { wait: wait.clone(), requests: 1, ..Case::default() }),
        }
    }
    // what one server holds for a process on another node, that process waits for itself
    let wanted = |case: &Case| (case.wait.about.clone(), case.wait.missing.to_string());
    let gets: BTreeSet<_> = cases.iter().filter(|case| case.kind() == Kind::Get).map(wanted).collect();
    cases.retain(|case| case.kind() != Kind::HeldGet || !gets.contains(&wanted(case)));
    cases
}

impl Case {
    fn join(&mut self, other: &Wait) {
        self.requests += 1;
        self.wait.expected.add_all(&other.expected);
        self.wait.arrived.add_all(&other.arrived);
        self.wait.waited = self.wait.waited.max(other.waited);
        self.wait.left = self.wait.left.min(other.left);
    }
}

/// The processes that wait themselves, and in what.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By case, of those that processes enter together.
    common: Vec<(usize, ProcSet)>,
    requests: BTreeMap<ProcId, Vec<usize>>,
}

impl Waiting {
    fn of(cases: &[Case]) -> Self {
        let mut waiting = Self::default();
        for (at, case) in cases.iter().enumerate() {
            if case.kind().is_common() {
                waiting.common.push((at, case.wait.arrived.clone()));
            } else {
                for proc in case.wait.arrived.procs() {
                    waiting.requests.entry(proc).or_default().push(at);
                }
            }
        }
        waiting
    }

    /// The cases in which a process waits, but for one.
    pub(super) fn cases_of<'a>(&'a self, proc: &'a ProcId, but: usize) -> impl Iterator<Item = usize> + 'a {
        let common = self.common.iter().filter(|(_, arrived)| arrived.contains(proc)).map(|(at, _)| *at);
        let requests = self.requests.get(proc).into_iter().flatten().copied();
        requests.chain(common).filter(move |at| *at != but)
    }
}

/// Each case before those that it waits for.
fn in_order(cases: &[Case], waiting: &Waiting) -> Vec<usize> {
    let mut first: Vec<usize> = (0..cases.len()).collect();
    first.sort_by_key(|at| (!cases[*at].kind().is_common(), std::cmp::Reverse(cases[*at].wait.waited)));
    let place: BTreeMap<usize, usize> = first.iter().enumerate().map(|(place, at)| (*at, place)).collect();
    let (mut ordered, mut seen) = (Vec::new(), BTreeSet::new());
    first.reverse();
    let mut next = first;
    while let Some(at) = next.pop() {
        if !seen.insert(at) {
            continue;
        }
        ordered.push(at);
        let mut behind: Vec<usize> = (cases[at].wait.missing.procs())
            .flat_map(|proc| waiting.cases_of(&proc, at).collect::<Vec<_>>())
            .filter(|cause| !seen.contains(cause))
            .collect();
        behind.sort_by_key(|cause| std::cmp::Reverse(place[cause]));
        behind.dedup();
        next.extend(behind);
    }
    ordered
}
