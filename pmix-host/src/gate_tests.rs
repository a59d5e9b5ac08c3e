use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use pmix_types::message::{Failure, JobControl, Request};
use pmix_types::{App, Directives, Gid, IofChannels, Nspace, ProcInfo, Query, Rank, Uid, keys};
use tokio::sync::mpsc;

use super::*;
use crate::answers::Answers;
use crate::internode::{MAX_ACTS, MAX_QUERIES, PeerReply, PeerRequest, decode_reply, encode_request};
use crate::jobs::{Control, Forwarding, Hold, JobEntry};
use crate::{
    LaunchError, LaunchJob, LaunchReport, Launcher, MemoryExchange, OnFailure, Responder, StandardHost,
};
use pmix_server::host::{
    Abort, HostModule, IofPull, IofPullRequest, IofPush, QueryRequest, Spawn, ToolConnected, UpcallContext,
};

/// Starts processes as its own user only, and counts what is asked of it.
#[derive(Debug, Default)]
struct Launching {
    asked: AtomicUsize,
}

#[async_trait::async_trait]
impl Launcher for Launching {
    fn nodes(&self) -> Vec<String> {
        vec!["n0".into()]
    }

    async fn launch(&self, _: LaunchJob, _: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn signal(&self, _: &[ProcId], _: i32) -> Result<(), LaunchError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn terminate(&self, _: &[ProcId]) -> Result<(), LaunchError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn takes_stdin(&self) -> bool {
        true
    }

    async fn push_stdin(&self, _: &[ProcId], _: bytes::Bytes, _: bool) -> Result<(), LaunchError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Two users who are not the server's.
fn alice() -> Uid {
    Uid::new(own_uid().as_raw() + 4001)
}

fn bob() -> Uid {
    Uid::new(own_uid().as_raw() + 4002)
}

fn proc(name: &str) -> ProcId {
    ProcId::new(name.parse().unwrap(), Rank::from_raw(0))
}

/// A process of a job that asks.
fn cx(name: &str, uid: Uid) -> UpcallContext {
    let mut cx = UpcallContext::new(proc(name), uid);
    cx.gid = Some(Gid::new(uid.as_raw()));
    cx
}

fn user(name: &str, uid: Uid) -> User {
    User { proc: proc(name), uid, gid: Some(Gid::new(uid.as_raw())) }
}

/// A host with the jobs `alices`, `bobs` and `servers`, and what their supervisors are told.
struct Scene {
    host: StandardHost,
    launcher: Arc<Launching>,
    told: Vec<mpsc::UnboundedReceiver<Control>>,
}

impl Scene {
    fn new() -> Self {
        let launcher = Arc::new(Launching::default());
        let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0"));
        let mut told = Vec::new();
        for (name, owner) in [("alices", alice()), ("bobs", bob()), ("servers", own_uid())] {
            let (control, controls) = mpsc::unbounded_channel();
            let mut row = ProcInfo::new(proc(name));
            row.state = pmix_types::ProcState::CONNECTED;
            let entry = JobEntry {
                control,
                reports: mpsc::channel(1).0,
                from_procs: mpsc::channel(1).0.downgrade(),
                owner,
                connected_to: None,
                ends_with: None,
                is_of_daemons: false,
                on_failure: OnFailure::Continue,
                table: vec![row],
                apps: vec![0],
                exported: Vec::new(),
                lost_nodes: Default::default(),
                node_ranks: Default::default(),
                written: BTreeMap::new(),
                forwarding: Forwarding {
                    channels: IofChannels::STDOUT,
                    stdin: Some(Rank::WILDCARD),
                    pullers: Vec::new(),
                    hold: Hold::default(),
                },
            };
            host.0.table.entries().insert(Nspace::new(name).unwrap(), entry);
            told.push(controls);
        }
        Self { host, launcher, told }
    }

    /// Nothing has come of it for anybody.
    fn is_untouched(&mut self) -> bool {
        self.told.iter_mut().all(|told| told.try_recv().is_err())
            && self.launcher.asked.load(Ordering::Relaxed) == 0
            && self.host.0.table.entries().values().all(|job| job.forwarding.pullers.is_empty())
    }
}

fn status<T: std::fmt::Debug>(result: HostResult<T>) -> Status {
    result.map_or_else(|error| error.status(), |_| Status::SUCCESS)
}

#[test]
fn what_is_not_in_the_table_is_refused() {
    let Scene { host, .. } = Scene::new();
    let strangers = [
        "client_connected",
        "client_finalized",
        "client_lost",
        "fence",
        "direct_modex",
        "publish",
        "lookup",
        "unpublish",
        "spawn",
        "connect",
        "disconnect",
        "notify_event",
        "query",
        "log",
        "group",
        "bootstrap",
        "allocate",
        "get_credential",
        "validate_credential",
    ];
    let owners = ["abort", "job_control", "iof_pull", "push_stdin"];
    for upcall in Upcall::ALL.iter().copied() {
        let admits =
            |uid: Uid, named: &str| host.0.gate.admit(upcall, &user("alices", uid), &[proc(named)]).is_ok();
        let is_for_all = strangers.contains(&upcall.name());
        let is_for_owners = is_for_all || owners.contains(&upcall.name());
        assert_eq!(admits(alice(), "alices"), is_for_owners, "{upcall:?}");
        for others in ["bobs", "servers", "unknown"] {
            assert_eq!(admits(alice(), others), is_for_all, "{upcall:?} {others}");
        }
        for (trusted, named) in [(own_uid(), "bobs"), (Uid::ROOT, "bobs"), (Uid::ROOT, "unknown")] {
            assert!(admits(trusted, named), "{upcall:?}");
        }
    }
}

#[test]
fn who_names_nobody_means_its_own_job_which_must_be_its_own() {
    let Scene { host, .. } = Scene::new();
    let admits = |name: &str, uid: Uid| status(host.0.gate.admit(Upcall::Abort, &user(name, uid), &[]));
    assert_eq!(admits("alices", alice()), Status::SUCCESS);
    assert_eq!(admits("bobs", alice()), Status::ERR_NO_PERMISSIONS);
    assert_eq!(admits("started-by-others", alice()), Status::SUCCESS);
    let both = [proc("alices"), proc("bobs")];
    let refused = host.0.gate.admit(Upcall::JobControl, &user("alices", alice()), &both).unwrap_err();
    assert_eq!(refused.status(), Status::ERR_NO_PERMISSIONS);
    assert_eq!(refused.message(), format!("bobs:0 does not belong to uid {}", alice()));
}

#[tokio::test]
async fn another_users_job_is_neither_aborted_nor_controlled_nor_read_nor_fed() {
    let mut scene = Scene::new();
    let stranger = cx("alices", alice());
    for victim in ["bobs", "servers", "unknown"] {
        let (host, all) = (&scene.host, vec![ProcId::wildcard(victim.parse().unwrap())]);
        let kill = Directives::new().with(&keys::JOB_CTRL_KILL, true);
        let wanted = if victim == "unknown" { Status::ERR_NOT_FOUND } else { Status::ERR_NO_PERMISSIONS };
        let control = JobControl::new(all.clone()).with_directives(kill);
        let refused = host.job_control(&stranger, control).now_or_never().unwrap();
        assert_eq!(status(refused), wanted, "{victim}");
        let no = Status::ERR_NO_PERMISSIONS;
        let abort = Abort::new(1, "".into()).with_procs(all.clone());
        assert_eq!(status(host.abort(&stranger, abort).await), no);
        let pull = IofPullRequest::new(IofPull::new(all.clone(), IofChannels::STDOUT), true);
        assert_eq!(status(host.iof_pull(&stranger, pull).await), no);
        let push = IofPush::new(all, "input".into());
        assert_eq!(status(host.push_stdin(&stranger, push).await), no);
    }
    assert!(scene.is_untouched());
}

#[tokio::test]
async fn jct_01b_a_job_that_has_come_since_the_gate_is_not_controlled_by_others() {
    let mut scene = Scene::new();
    let kill = Directives::new().with(&keys::JOB_CTRL_KILL, true);
    for victim in ["bobs", "servers"] {
        let control = JobControl::new(vec![proc(victim)]).with_directives(kill.clone());
        let stranger = cx("alices", alice());
        // nobody would say that it was carried out
        let refused = scene.host.0.controller.control(&stranger, control).now_or_never().unwrap();
        assert_eq!(status(refused), Status::ERR_NO_PERMISSIONS);
    }
    assert!(scene.is_untouched());
}

#[tokio::test]
async fn a_users_own_job_is_its_to_abort_read_and_feed() {
    let Scene { host, launcher, mut told } = Scene::new();
    let (owner, all) = (cx("alices", alice()), vec![ProcId::wildcard("alices".parse().unwrap())]);
    host.abort(&owner, Abort::new(1, "".into()).with_procs(all.clone())).await.unwrap();
    assert!(matches!(told[0].try_recv(), Ok(Control::Abort { status: 1, .. })));
    host.push_stdin(&owner, IofPush::new(all.clone(), "input".into())).await.unwrap();
    assert_eq!(launcher.asked.load(Ordering::Relaxed), 1);
    let pull = |start| IofPullRequest::new(IofPull::new(all.clone(), IofChannels::STDOUT), start);
    let pullers = || host.0.table.entries()["alices"].forwarding.pullers.len();
    host.iof_pull(&owner, pull(true)).await.unwrap();
    assert_eq!(pullers(), 1);
    host.iof_pull(&owner, pull(false)).await.unwrap();
    assert_eq!(pullers(), 0);
    host.0.table.entries().remove("alices");
    host.iof_pull(&owner, pull(false)).await.unwrap();
}

#[tokio::test]
async fn jct_01b_the_host_of_another_node_gets_no_further_than_its_process_would() {
    let mut scene = Scene::new();
    let answers = Answers(Arc::downgrade(&scene.host.0));
    let mut control = JobControl::new(vec![ProcId::wildcard("bobs".parse().unwrap())]);
    control.directives = Directives::new().with(&keys::JOB_CTRL_KILL, true);
    let ask = PeerRequest::Request { caller: user("alices", alice()), request: Request::JobControl(control) };
    let told = answers.ask(&ask).now_or_never().unwrap();
    let Err(Failure { status: Status::ERR_NO_PERMISSIONS, .. }) = told else { panic!("{told:?}") };
    assert!(scene.is_untouched());
}

#[tokio::test]
async fn qry_10_process_tables_are_for_the_user_of_the_job() {
    let Scene { host, .. } = Scene::new();
    let rows = async |uid: Uid, name: &str| {
        let query = Query::new(&keys::QUERY_PROC_TABLE).qualifier(&keys::NSPACE.text(), name);
        status(host.query(&cx("alices", uid), QueryRequest::new(vec![query])).await)
    };
    assert_eq!(rows(alice(), "alices").await, Status::SUCCESS);
    assert_eq!(rows(alice(), "bobs").await, Status::ERR_NOT_SUPPORTED, "as of a job that is not there");
    assert_eq!(rows(alice(), "servers").await, Status::ERR_NOT_SUPPORTED);
    assert_eq!(rows(own_uid(), "bobs").await, Status::SUCCESS);
    assert_eq!(rows(Uid::ROOT, "alices").await, Status::SUCCESS);
}

#[tokio::test]
async fn tol_15_sec_02_tools_of_other_users_are_refused() {
    let Scene { host, .. } = Scene::new();
    let wish = || ToolConnected::new(Some(proc("tool")));
    let error = host.tool_connected(&cx("tool", alice()), wish()).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NO_PERMISSIONS);
    let words = format!("is allowed for uid {}, which owns this server, not for uid {}", own_uid(), alice());
    assert!(error.message().ends_with(&words), "{error}");
    for uid in [own_uid(), Uid::ROOT] {
        assert_eq!(host.tool_connected(&cx("tool", uid), wish()).await.unwrap(), proc("tool"));
    }
}

#[tokio::test]
async fn tol_15_sec_02_a_host_that_serves_all_lets_their_tools_in_by_names_of_its_own() {
    let Scene { host, .. } = Scene::new();
    let host = host.allow_other_users();
    for name in ["alices", "bobs", "tool"] {
        let error = host.tool_connected(&cx("tool", alice()), ToolConnected::new(Some(proc(name)))).await;
        let error = error.unwrap_err();
        assert_eq!(error.status(), Status::ERR_NO_PERMISSIONS);
        assert!(
            error.message().contains(&format!("a tool of uid {} cannot be {name}:0", alice())),
            "{error}"
        );
    }
    for uid in [own_uid(), Uid::ROOT] {
        let wish = ToolConnected::new(Some(proc("tool")));
        assert_eq!(host.tool_connected(&cx("tool", uid), wish).await.unwrap(), proc("tool"));
    }
}

#[tokio::test]
async fn a_launcher_that_starts_as_itself_only_starts_nothing_for_others() {
    let mut scene = Scene::new();
    let spawn = Spawn::new(vec![App::new("id", 1)]);
    let error = scene.host.spawn(&cx("alices", alice()), spawn).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
    let words = format!("jobs of uid {} cannot be started here", alice());
    assert!(error.message().starts_with(&words), "{error}");
    assert!(scene.is_untouched());
    assert_eq!(scene.host.0.table.entries().len(), 3);
}

impl Answers {
    async fn ask(&self, ask: &PeerRequest) -> Result<PeerReply, Failure> {
        let answer = self.respond("n1", encode_request(ask)).await;
        decode_reply(answer)
    }
}

#[test]
fn a_flood_of_job_control_leaves_turns_to_others() {
    let mut scene = Scene::new();
    let host = scene.host.clone();
    let control = || {
        let mut control = JobControl::new(vec![ProcId::wildcard("bobs".parse().unwrap())]);
        control.directives = Directives::new().with(&keys::JOB_CTRL_SIGNAL, 12);
        control
    };
    let (bobs, owners) = (cx("bobs", bob()), cx("servers", own_uid()));
    let mut flood: Vec<_> = (0..100).map(|_| host.job_control(&bobs, control()).boxed()).collect();
    let mut poll = || flood.retain_mut(|one| one.now_or_never().is_none());
    let told = &mut scene.told[1];
    let mut take = || std::iter::from_fn(|| told.try_recv().ok()).collect::<Vec<_>>();
    poll();
    let mut under_way = take();
    assert_eq!(under_way.len(), MAX_ACTS, "the others wait");
    let mut own = host.job_control(&owners, control()).boxed();
    assert!((&mut own).now_or_never().is_none());
    assert_eq!(take().len(), 1, "this one does not");
    // one is carried out, and the next one's turn comes
    under_way.pop();
    poll();
    poll();
    assert_eq!(take().len(), 1);
}

#[test]
fn a_flood_of_queries_leaves_turns_to_others() {
    let scene = Scene::new();
    let host = scene.host.clone();
    let (bobs, owners) = (cx("bobs", bob()), cx("servers", own_uid()));
    // a turn that a request holds is one of its user alone
    let turns = &host.0.queries.turns;
    let held: Vec<_> = (0..MAX_QUERIES).map(|_| turns.take(bob()).now_or_never().unwrap()).collect();
    let names = || QueryRequest::new(vec![Query::new(&keys::QUERY_ALLOCATION)]);
    let mut waits = host.query(&bobs, names()).boxed();
    assert!((&mut waits).now_or_never().is_none());
    assert!(host.query(&owners, names()).now_or_never().is_some());
    // whose connection is lost waits no longer
    bobs.cancel();
    let lost = waits.now_or_never().unwrap().unwrap_err();
    assert_eq!(lost.status(), Status::ERR_LOST_CONNECTION);
    drop(held);
}
