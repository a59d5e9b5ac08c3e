//! Control of processes: signals, pauses and ends (JCT-01, JCT-02).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use pmix_server::host::{HostError, HostResult, Infos, UpcallContext};
use pmix_types::message::{Failure, JobControl, Reply, Request};
use pmix_types::{Directives, Info, Nspace, ProcId, Rank, Status, keys};
use tokio::sync::{oneshot, watch};

use crate::attributes::JOB_CONTROL;
use crate::gate::not_own;
use crate::internode::{MAX_ACTS, PeerReply, PeerRequest, Site, Turns};
use crate::jobs::{Act, Control, JobTable};
use crate::user::{User, is_trusted, take_identity};

/// Numbers of signals on this system.
mod signal {
    pub(crate) const KILL: i32 = rustix::process::Signal::KILL.as_raw();
    pub(crate) const CONT: i32 = rustix::process::Signal::CONT.as_raw();
    pub(crate) const STOP: i32 = rustix::process::Signal::STOP.as_raw();
}

/// Controls jobs at the request of processes.
pub(crate) struct Controller {
    jobs: Arc<JobTable>,
    site: Arc<Site>,
    /// How many requests of each user are carried out at a time.
    turns: Turns,
    /// Who has requested the end of the host itself, where that is possible.
    end: OnceLock<watch::Sender<Option<ProcId>>>,
}

/// Processes of one namespace; `None` for all of it.
type Ranks = Option<BTreeSet<Rank>>;

impl Controller {
    pub(crate) fn new(jobs: Arc<JobTable>, site: Arc<Site>) -> Self {
        Self { jobs, site, turns: Turns::new(MAX_ACTS), end: OnceLock::new() }
    }

    /// Waits until a tool of the server's user requests the end of the host itself; returns which. Until this is called, such requests
    /// are refused.
    pub(crate) async fn shutdown_requested(&self) -> ProcId {
        let mut told = self.end.get_or_init(watch::Sender::default).subscribe();
        // the sender is here
        let by = told.wait_for(Option::is_some).await.ok().and_then(|by| by.clone());
        by.unwrap_or_else(ProcId::none)
    }

    /// Whether a request is for the end of the host: for all of the server's own namespace, which has no other process.
    ///
    /// # Errors
    /// It is for the host, but not for its end.
    pub(crate) fn is_end_of_host(&self, req: &JobControl) -> HostResult<bool> {
        let Ok(server) = self.site.server() else { return Ok(false) };
        if *req.targets != [ProcId::wildcard(server.proc_id().nspace.clone())] {
            return Ok(false);
        }
        match ControlOrder::new(req.directives.clone())?.act {
            Some(Act::Terminate) => Ok(true),
            Some(Act::Signal(_)) => {
                let message = "the head of a DVM can be told to terminate, but cannot be signalled";
                Err(HostError::new(Status::ERR_NOT_SUPPORTED, message))
            }
            None => Ok(false),
        }
    }

    /// Tells the host to end.
    pub(crate) fn end_host(&self, caller: &User) -> HostResult<()> {
        let Some(end) = self.end.get() else {
            let message = "this host ends with its jobs, not at the request of a tool";
            return Err(HostError::new(Status::ERR_NOT_SUPPORTED, message));
        };
        if !is_trusted(caller.uid) {
            let message = format!("uid {} cannot end the DVM of another user", caller.uid);
            return Err(HostError::new(Status::ERR_NO_PERMISSIONS, message));
        }
        end.send_replace(Some(caller.proc.clone()));
        Ok(())
    }

    /// Acts on all targets that run, or fails without acting on any that this node has started.
    pub(crate) async fn control(&self, cx: &UpcallContext, req: JobControl) -> HostResult<Infos> {
        let caller = User::of(cx);
        if self.is_end_of_host(&req)? {
            self.end_host(&caller)?;
            return Ok(Vec::new());
        }
        let JobControl { targets, directives, .. } = req;
        let order = ControlOrder::new(directives.clone())?;
        let Some(act) = order.act else {
            return order.cancel();
        };
        let targets = by_nspace(targets, &caller.proc);
        let (here, elsewhere): (BTreeMap<_, _>, BTreeMap<_, _>) =
            targets.into_iter().partition(|(nspace, _)| self.jobs.contains(nspace));
        self.check_targets(&caller, &here)?;
        for (nspace, ranks) in elsewhere {
            self.control_elsewhere(cx, &caller, named(&nspace, ranks), &directives).await?;
        }
        self.act(&caller, here, act).await?;
        Ok(Vec::new())
    }

    /// Has the node that started a job act on it.
    async fn control_elsewhere(
        &self,
        cx: &UpcallContext,
        caller: &User,
        targets: Vec<ProcId>,
        directives: &Directives,
    ) -> HostResult<()> {
        let mut failure = Failure::new(
            Status::ERR_NOT_FOUND,
            format!(
                "{} was not started by a resource manager of these nodes",
                targets.first().unwrap_or(&caller.proc)
            ),
        );
        let mut control = JobControl::new(targets);
        control.directives.clone_from(directives);
        let request = PeerRequest::Request { caller: caller.clone(), request: Request::JobControl(control) };
        for node in self.site.others() {
            match self.site.ask(cx, &node, &request).await.and_then(PeerReply::into_reply) {
                Ok(_) => return Ok(()),
                Err(told) if told.status == Status::ERR_NOT_FOUND => {}
                Err(told) => failure = told,
            }
        }
        Err(failure.into())
    }

    /// Acts on processes of jobs that were started here, for a process of another node.
    pub(crate) async fn control_for(&self, caller: &User, control: JobControl) -> Result<Reply, Failure> {
        let act = ControlOrder::new(control.directives)?.act.ok_or(Status::ERR_BAD_PARAM)?;
        let targets = by_nspace(control.targets, &caller.proc);
        self.check_targets(caller, &targets)?;
        self.act(caller, targets, act).await?;
        Ok(Reply::Info(Vec::new()))
    }

    /// All of them run here, and belong to the caller's user, as the gate has it: jobs may have come since.
    fn check_targets(&self, caller: &User, targets: &BTreeMap<Nspace, Ranks>) -> HostResult<()> {
        let jobs = self.jobs.entries();
        let unknown =
            |what: String| HostError::new(Status::ERR_NOT_FOUND, format!("{what} does not run here"));
        for (nspace, ranks) in targets {
            let job = jobs.get(nspace).ok_or_else(|| unknown(format!("job {nspace}")))?;
            if !is_trusted(caller.uid) && job.owner != caller.uid {
                return Err(not_own(caller.uid, &ProcId::wildcard(nspace.clone())));
            }
            let missing =
                ranks.iter().flatten().find(|rank| !job.table.iter().any(|row| row.proc.rank == **rank));
            if let Some(rank) = missing {
                return Err(unknown(format!("process {nspace}:{rank}")));
            }
        }
        Ok(())
    }

    async fn act(&self, caller: &User, targets: BTreeMap<Nspace, Ranks>, act: Act) -> HostResult<()> {
        let _turn = self.turns.take_unless_trusted(caller.uid).await;
        for (nspace, ranks) in targets {
            let (done, carried_out) = oneshot::channel();
            let control = Control::Act { ranks, act, done };
            // an ended job has no process to act on
            if self.jobs.entries().get(&nspace).is_some_and(|job| job.control.send(control).is_ok())
                && let Ok(Err(error)) = carried_out.await
            {
                return Err(HostError::new(Status::ERROR, error.to_string()).with_source(error));
            }
        }
        Ok(())
    }
}

/// What the directives request.
#[derive(Debug)]
struct ControlOrder {
    act: Option<Act>,
    /// Label of the earlier request that is to be cancelled; empty for all.
    cancel: Option<String>,
}

impl ControlOrder {
    fn new(mut directives: Directives) -> HostResult<Self> {
        take_identity(&mut directives)?;
        directives.take::<String>(&keys::JOB_CTRL_ID)?;
        let flags = [
            (&keys::JOB_CTRL_KILL, Act::Signal(signal::KILL)),
            (&keys::JOB_CTRL_PAUSE, Act::Signal(signal::STOP)),
            (&keys::JOB_CTRL_RESUME, Act::Signal(signal::CONT)),
            (&keys::JOB_CTRL_TERMINATE, Act::Terminate),
        ];
        let mut acts: Vec<_> =
            directives.take(&keys::JOB_CTRL_SIGNAL)?.map(Act::Signal).into_iter().collect();
        for (flag, act) in flags {
            if directives.take_flag(flag)? {
                acts.push(act);
            }
        }
        let cancel = directives.take(&keys::JOB_CTRL_CANCEL)?;
        directives.deny_unprocessed()?;
        let identity = [keys::USERID.name(), keys::GRPID.name()];
        let is_unknown = |key: &&str| !JOB_CONTROL.contains(key) && !identity.contains(key);
        let unknown: Vec<_> = directives.iter().map(|info| info.key.as_str()).filter(is_unknown).collect();
        match (&*acts, &cancel) {
            ([], None) if !unknown.is_empty() => {
                Err(HostError::not_supported(&format!("job control by {}", unknown.join(", "))))
            }
            ([act], None) => Ok(Self { act: Some(*act), cancel }),
            ([], Some(_)) => Ok(Self { act: None, cancel }),
            _ => {
                let message =
                    "a request must have exactly one kind of control, but this one has several or none";
                Err(HostError::new(Status::ERR_BAD_PARAM, message))
            }
        }
    }

    /// Requests are carried out at once, so that none is left to be cancelled.
    fn cancel(self) -> HostResult<Infos> {
        match self.cancel.as_deref() {
            None | Some("") => Ok(Vec::<Info>::new()),
            Some(id) => {
                let message = format!("no request {id} is pending: it may have been carried out already");
                Err(HostError::new(Status::ERR_NOT_FOUND, message))
            }
        }
    }
}

/// The targets by namespace; without any, the caller's own (JCT-01).
fn by_nspace(targets: Vec<ProcId>, caller: &ProcId) -> BTreeMap<Nspace, Ranks> {
    let mut all = BTreeMap::<Nspace, Ranks>::new();
    if targets.is_empty() {
        all.insert(caller.nspace.clone(), None);
    }
    for ProcId { nspace, rank } in targets {
        let ranks = all.entry(nspace).or_insert_with(|| Some(BTreeSet::new()));
        match ranks {
            _ if rank.is_wildcard() => *ranks = None,
            Some(ranks) => drop(ranks.insert(rank)),
            None => {}
        }
    }
    all
}

fn named(nspace: &Nspace, ranks: Ranks) -> Vec<ProcId> {
    let named = |rank| ProcId::new(nspace.clone(), rank);
    ranks.map_or_else(|| vec![named(Rank::WILDCARD)], |ranks| ranks.into_iter().map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(name: &str, rank: u32) -> ProcId {
        ProcId::new(name.parse().unwrap(), Rank::from_raw(rank))
    }

    #[test]
    fn jct_01a_jct_01b_no_targets_are_the_callers_namespace_and_all_of_one_takes_in_its_ranks() {
        let caller = proc("own", 3);
        let by = |targets| by_nspace(targets, &caller);
        let own: Nspace = "own".parse().unwrap();
        assert_eq!(by(vec![]), [(own.clone(), None)].into());
        let ranks = |ranks: &[u32]| Some(ranks.iter().copied().map(Rank::from_raw).collect());
        assert_eq!(by(vec![proc("own", 1), proc("own", 0)]), [(own.clone(), ranks(&[0, 1]))].into());
        let all = ProcId::wildcard(own.clone());
        for targets in [vec![proc("own", 1), all.clone()], vec![all, proc("own", 1)]] {
            assert_eq!(by(targets), [(own.clone(), None)].into());
        }
        let other: Nspace = "other".parse().unwrap();
        assert_eq!(by(vec![proc("other", 2)]), [(other, ranks(&[2]))].into(), "nothing of the caller's");
    }

    #[test]
    fn jct_02a_jct_02b_jct_02c_a_request_is_for_one_thing_that_is_known() {
        let act =
            |directives| ControlOrder::new(directives).map(|order| order.act).map_err(|error| error.status());
        let none = Directives::new;
        assert_eq!(act(none().with(&keys::JOB_CTRL_PAUSE, true)), Ok(Some(Act::Signal(signal::STOP))));
        assert_eq!(act(none().with(&keys::JOB_CTRL_RESUME, true)), Ok(Some(Act::Signal(signal::CONT))));
        assert_eq!(act(none().with(&keys::JOB_CTRL_KILL, true)), Ok(Some(Act::Signal(signal::KILL))));
        assert_eq!(act(none().with(&keys::JOB_CTRL_TERMINATE, true)), Ok(Some(Act::Terminate)));
        assert_eq!(act(none().with(&keys::JOB_CTRL_SIGNAL, 12)), Ok(Some(Act::Signal(12))));
        let two = none().with(&keys::JOB_CTRL_KILL, true).with(&keys::JOB_CTRL_PAUSE, true);
        assert_eq!(act(two), Err(Status::ERR_BAD_PARAM));
        let both = none().with(&keys::JOB_CTRL_KILL, true).with(&keys::JOB_CTRL_CANCEL, "x");
        assert_eq!(act(both), Err(Status::ERR_BAD_PARAM));
        for nothing in [none(), none().with(&keys::JOB_CTRL_ID, "x").with(&keys::JOB_CTRL_KILL, false)] {
            assert_eq!(act(nothing), Err(Status::ERR_BAD_PARAM));
        }
        let unknown = none().with(&keys::JOB_CTRL_CHECKPOINT, "x");
        assert_eq!(act(unknown), Err(Status::ERR_NOT_SUPPORTED));
        let cancel = |id: &str| ControlOrder::new(none().with(&keys::JOB_CTRL_CANCEL, id)).unwrap().cancel();
        assert_eq!(cancel("").unwrap(), []);
        assert_eq!(cancel("x").unwrap_err().status(), Status::ERR_NOT_FOUND);
    }
}
