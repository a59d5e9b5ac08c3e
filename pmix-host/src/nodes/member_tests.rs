use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_types::{App, Gid, Rank, Uid};

use super::*;
use crate::StandardHost;
use crate::collective::Collectives;
use crate::internode::encode_reply;
use crate::jobs::{JobTable, RecordFiles};
use crate::publish::Publishing;
use crate::test_wire::Wire;
use crate::user::another_uid;
use crate::{Exchange, MemoryExchange, ProcExit, Responder};

/// Notes what is sent to processes.
#[derive(Debug, Default)]
struct Noting {
    signals: Mutex<Vec<(Vec<ProcId>, i32)>>,
    /// Whether it may become others.
    is_root: bool,
}

#[async_trait]
impl Launcher for Noting {
    fn nodes(&self) -> Vec<String> {
        vec!["n1".into()]
    }

    fn supports_user_switch(&self) -> bool {
        self.is_root
    }

    async fn launch(&self, _: LaunchJob, _: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        Ok(())
    }

    async fn signal(&self, procs: &[ProcId], signal: i32) -> Result<(), LaunchError> {
        self.signals.lock().unwrap().push((procs.to_vec(), signal));
        Ok(())
    }

    async fn terminate(&self, _: &[ProcId]) -> Result<(), LaunchError> {
        Ok(())
    }
}

/// A head that answers every report alike.
struct Answering(Result<PeerReply, Failure>);

impl Answering {
    /// The exchange of the one other node of this head.
    fn head_of(self, node: &str) -> MemoryExchange {
        let exchanges: [_; 2] = MemoryExchange::cluster(["n0", node]).try_into().unwrap();
        let [head, own] = exchanges;
        head.serve(Arc::new(self));
        own
    }
}

#[async_trait]
impl Responder for Answering {
    async fn respond(&self, _: &str, _: Bytes) -> Bytes {
        encode_reply(&self.0)
    }
}

/// What has been sent to the processes of a job whose head answers so to two batches of reports.
async fn sent_when(answer: Result<PeerReply, Failure>) -> Vec<(Vec<ProcId>, i32)> {
    sent_by(Wire::new(Answering(answer).head_of("n1"))).await
}

/// The same for a node with this exchange.
async fn sent_by(own: Wire) -> Vec<(Vec<ProcId>, i32)> {
    let site = Arc::new(Site::new(Arc::new(own)));
    let published = Arc::new(Publishing::new(site.clone(), Arc::<JobTable>::default(), Arc::default()));
    let collectives = Collectives::new(site.clone());
    let node =
        LocalNode::new(site.clone(), Vec::new(), published, collectives, Arc::<RecordFiles>::default());
    let node = Arc::new(node);
    let launcher = Arc::<Noting>::default();
    let procs: Vec<_> =
        (0..2).map(|rank| ProcId::new("job".parse().unwrap(), Rank::from_raw(rank))).collect();
    let part = JobPart {
        nspace: "job".parse().unwrap(),
        procs: procs.clone(),
        launcher: launcher.clone(),
        holdings: Arc::default(),
    };
    let (sender, reports) = mpsc::channel(1);
    let reporting = tokio::spawn(report(node, site, "n0".to_owned(), part, reports));
    for proc in procs {
        sender.send(LaunchReport::Ended { proc, exit: ProcExit::Code(0) }).await.unwrap();
    }
    drop(sender);
    reporting.await.unwrap();
    let mut sent = launcher.signals.lock().unwrap();
    std::mem::take(&mut *sent)
}

/// Such as one that the head has given up before this node had started its part.
#[tokio::test]
async fn the_processes_of_a_job_that_the_head_does_not_know_are_killed_once() {
    let unknown = Failure::new(Status::ERR_NOT_FOUND, "job does not run on node n1");
    let sent = sent_when(Err(unknown)).await;
    let [(procs, 9)] = &*sent else { panic!("{sent:?}") };
    assert_eq!(procs.len(), 2);
}

#[tokio::test]
async fn reports_that_the_head_takes_or_cannot_take_now_kill_nothing() {
    for answer in [Ok(PeerReply::Reply(Reply::Done)), Err(Failure::from(Status::ERR_OUT_OF_RESOURCE))] {
        assert_eq!(sent_when(answer).await, []);
    }
}

/// The head knows nothing of the job: if it has heard that, the processes are killed.
#[tokio::test(start_paused = true)]
async fn reports_that_the_head_does_not_take_are_sent_again() {
    let unknown = Err(Failure::new(Status::ERR_NOT_FOUND, "job does not run on node n1"));
    let own = Wire { refused: Arc::new(5.into()), ..Wire::new(Answering(unknown).head_of("n1")) };
    let sent = sent_by(own).await;
    assert_eq!(sent.len(), 1, "{sent:?}");
}

/// What a node says to the order to start a job of this user.
async fn refusal_of(uid: Uid, is_root: bool, serves_others: bool) -> Failure {
    let [_, own]: [_; 2] = MemoryExchange::cluster(["n0", "n1"]).try_into().unwrap();
    let host = StandardHost::member(Noting { is_root, ..Noting::default() }, own, "n0");
    let host = if serves_others { host.allow_other_users() } else { host };
    let procs =
        vec![ProcToLaunch { rank: Rank::from_raw(0), app: 0, cwd: None, takes_stdin: false, bound: None }];
    let apps = vec![App::new("id", 1)];
    let order = Order::Launch { nspace: "job".parse().unwrap(), apps, procs, base_env: None };
    let order = Order::OfUser { uid, gid: Gid::new(4002), order: Box::new(order) };
    obey(&host.0, "n0", order).await.unwrap_err()
}

/// The head waits for a node only so long, and then ends the job.
#[test]
fn a_job_that_is_ended_while_its_user_is_looked_up_is_not_registered() {
    let one_thread = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    one_thread.block_on(async {
        let [_, own]: [_; 2] = MemoryExchange::cluster(["n0", "n1"]).try_into().unwrap();
        let host = StandardHost::member(Noting { is_root: true, ..Noting::default() }, own, "n0")
            .allow_other_users();
        let nspace: Nspace = "job".parse().unwrap();
        let order = Order::RegisterJob {
            number: 1,
            nspace: nspace.clone(),
            infos: Vec::new(),
            ranks: vec![Rank::from_raw(0)],
            in_session: Vec::new(),
        };
        let order = Order::OfUser { uid: another_uid(), gid: Gid::new(4002), order: Box::new(order) };
        // the only thread that could look the user up has something else to do
        let (free, is_free) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || is_free.recv());
        let mut registering = Box::pin(obey(&host.0, "n0", order));
        assert!(futures::poll!(&mut registering).is_pending(), "another thread looks the user up");
        obey(&host.0, "n0", Order::EndJob(nspace)).await.unwrap();
        drop(free);
        let failure = registering.await.unwrap_err();
        assert_eq!(failure.status, Status::ERR_JOB_CANCELED, "{failure}");
        assert_eq!(host.0.holdings.tell().await.0, []);
    });
}

#[tokio::test]
async fn a_daemon_starts_nothing_for_another_user_unless_it_serves_several_and_may() {
    for (uid, is_root, serves_others, why) in [
        (another_uid(), true, false, "its head was not started with --multi-user"),
        (another_uid(), false, true, &*format!("this daemon may not become uid {}", another_uid())),
        (Uid::ROOT, true, true, "uid 0 is root or the user of this daemon"),
        (own_uid(), true, true, "is root or the user of this daemon"),
    ] {
        let failure = refusal_of(uid, is_root, serves_others).await;
        assert_eq!(failure.status, Status::ERR_NO_PERMISSIONS, "{failure}");
        assert!(failure.message.contains(why), "{failure}");
    }
    // one that serves and may goes on, up to the server, which is not there
    let failure = refusal_of(another_uid(), true, true).await;
    assert_ne!(failure.status, Status::ERR_NO_PERMISSIONS, "{failure}");
}
