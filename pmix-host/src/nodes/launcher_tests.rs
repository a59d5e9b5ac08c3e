use pmix_types::{App, Rank};
use tokio::sync::Semaphore;

use super::*;
use crate::binding::BindingPolicy;
use crate::internode::{PeerRequest, Told, decode_request, encode_reply};
use crate::{Exchange, MemoryExchange, Responder};

/// Starts nothing itself, and does not say what it binds.
#[derive(Debug)]
struct Idle;

#[async_trait]
impl Launcher for Idle {
    fn nodes(&self) -> Vec<String> {
        vec!["n0".into()]
    }

    async fn launch(&self, _: LaunchJob, _: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        Ok(())
    }

    async fn signal(&self, _: &[ProcId], _: i32) -> Result<(), LaunchError> {
        Ok(())
    }

    async fn terminate(&self, _: &[ProcId]) -> Result<(), LaunchError> {
        Ok(())
    }
}

type Answers = fn(&Order) -> Result<Told, Failure>;

/// A node that answers orders by a function, and signals only with a permit.
struct Obeying {
    answers: Answers,
    asked: mpsc::UnboundedSender<Order>,
    signals: Arc<Semaphore>,
}

#[async_trait]
impl Responder for Obeying {
    async fn respond(&self, from: &str, request: Bytes) -> Bytes {
        let Ok(PeerRequest::Order(order)) = decode_request(from, request) else { panic!("no order") };
        self.asked.send(order.clone()).unwrap();
        if matches!(order, Order::Signal { .. }) {
            self.signals.acquire().await.unwrap().forget();
        }
        encode_reply(&(self.answers)(&order).map(PeerReply::Told))
    }
}

/// The launcher of a head on n0 with members n0, n1 and n2, all orders of which are reported.
struct Three {
    launcher: NodesLauncher,
    orders: mpsc::UnboundedReceiver<Order>,
    signals: Arc<Semaphore>,
    _nodes: [MemoryExchange; 2],
}

fn three(answers: [Answers; 2]) -> Three {
    let nodes: [_; 3] = MemoryExchange::cluster(["n0", "n1", "n2"]).try_into().unwrap();
    let [head, n1, n2] = nodes;
    let (asked, orders) = mpsc::unbounded_channel();
    let signals = Arc::new(Semaphore::new(0));
    for (node, answers) in [&n1, &n2].into_iter().zip(answers) {
        node.serve(Arc::new(Obeying { answers, asked: asked.clone(), signals: signals.clone() }));
    }
    let members = ["n0", "n1", "n2"].map(|name| Member::new(name, Machine::this()));
    let launcher = NodesLauncher::new(Arc::new(Idle), Arc::new(Site::new(Arc::new(head))), members.to_vec());
    Three { launcher, orders, signals, _nodes: [n1, n2] }
}

fn nspace() -> Nspace {
    "job".parse().unwrap()
}

fn names(nodes: &[&str]) -> Vec<String> {
    nodes.iter().copied().map(str::to_owned).collect()
}

/// A processor for each of `count` processes, from the first on.
fn bound(first: u32, count: u32) -> Vec<Option<Bound>> {
    let one = |number: u32| Bound {
        processors: [number].into_iter().collect(),
        place: format!("core {number}"),
        locality: String::new(),
        is_exclusive: true,
    };
    (first..first + count).map(|number| Some(one(number))).collect()
}

fn binds(first: u32, order: &Order) -> Result<Told, Failure> {
    let Order::Bind { here, .. } = order else { panic!("{order:?}") };
    Ok(Told { bound: bound(first, *here), ..Told::default() })
}

#[tokio::test]
async fn each_node_binds_its_processes_and_knows_how_many_the_job_has() {
    let mut t = three([|order| binds(10, order), |order| binds(20, order)]);
    let policy = BindingPolicy::default().bind_to("core").unwrap();
    let nodes = names(&["n2", "n1", "n0", "n1", "n2"]);
    let chosen = t.launcher.bind(&BindRequest::new(nspace(), policy.clone(), nodes)).await.unwrap();
    let [n1, n2] = [bound(10, 2), bound(20, 2)];
    // the launcher of n0 does not say
    assert_eq!(chosen, [n2[0].clone(), n1[0].clone(), None, n1[1].clone(), n2[1].clone()]);
    for _ in ["n1", "n2"] {
        let order = Order::Bind { nspace: nspace(), policy: policy.clone(), here: 2, all: 5 };
        assert_eq!(t.orders.recv().await, Some(order));
    }
}

#[tokio::test]
async fn what_no_node_says_is_unknown_and_more_than_it_was_asked_for_is_refused() {
    let t = three([|_| Ok(Told::default()), |_| Ok(Told { bound: bound(0, 3), ..Told::default() })]);
    let request = |nodes| BindRequest::new(nspace(), BindingPolicy::default(), names(nodes));
    assert_eq!(t.launcher.bind(&request(&["n0", "n1", "n1"])).await.unwrap(), []);
    let refused = t.launcher.bind(&request(&["n0", "n2", "n2"])).await.unwrap_err();
    assert_eq!(refused.status(), Status::ERR_BAD_PARAM);
    assert!(refused.to_string().contains("node n2 has bound 3 of its 2 processes"), "{refused}");
}

/// A process that fails because of the loss is reported later.
#[tokio::test]
async fn processes_of_a_lost_node_have_ended_before_anything_else_is_reported() {
    let takes = |_: &Order| Ok(Told::default());
    let t = three([takes, takes]);
    let mut job = LaunchJob::new(nspace(), vec![App::new("a", 3)]);
    for rank in (0..3).map(Rank::from_raw) {
        job.procs.push(LaunchProc::new(rank, "n1".to_owned(), 0, Vec::new()));
    }
    let (sender, mut reports) = mpsc::channel(2);
    t.launcher.launch(job, sender).await.unwrap();
    t.launcher.node_lost("n1", "it was cut off");
    // at once, as far as there is room, and the rest when there is
    let ended = [reports.try_recv().ok(), reports.try_recv().ok(), reports.recv().await];
    for (rank, report) in (0..3).map(Rank::from_raw).zip(ended) {
        let Some(LaunchReport::Ended { proc, exit }) = report else { panic!("{rank}: {report:?}") };
        assert_eq!((proc.rank, exit), (rank, ProcExit::Signal(Signal::KILL.as_raw())));
    }
}

/// While one node delays the end of the undoing, another may still complete its part.
#[tokio::test]
async fn a_job_that_does_not_start_is_unknown_before_its_processes_are_killed() {
    let refuses = |order: &Order| match order {
        Order::Launch { .. } => Err(Failure::from(Status::ERR_OUT_OF_RESOURCE)),
        _ => Ok(Told::default()),
    };
    let mut t = three([refuses, |_| Ok(Told::default())]);
    let mut job = LaunchJob::new(nspace(), vec![App::new("a", 2)]);
    for (rank, node) in (0..).map(Rank::from_raw).zip(["n1", "n2"]) {
        job.procs.push(LaunchProc::new(rank, node.to_owned(), 0, Vec::new()));
    }
    let (sender, _reports) = mpsc::channel(8);
    let launcher = t.launcher.clone();
    let launching = tokio::spawn(async move { launcher.launch(job, sender).await });
    while !matches!(t.orders.recv().await.unwrap(), Order::Signal { .. }) {}
    let proc = ProcId::new(nspace(), Rank::from_raw(1));
    let started = LaunchReport::Started { proc, pid: 7, executable: "/a".into() };
    assert!(!t.launcher.take_reports("n2", &nspace(), vec![started]).await);
    t.signals.add_permits(2);
    assert_eq!(launching.await.unwrap().unwrap_err().status, Status::ERR_OUT_OF_RESOURCE);
}

#[tokio::test]
async fn a_job_that_nobody_watches_any_more_is_unknown() {
    let t = three([|_| Ok(Told::default()); 2]);
    let mut job = LaunchJob::new(nspace(), vec![App::new("a", 1)]);
    job.procs.push(LaunchProc::new(Rank::from_raw(0), "n1".to_owned(), 0, Vec::new()));
    let (sender, reports) = mpsc::channel(8);
    t.launcher.launch(job, sender).await.unwrap();
    let output = || LaunchReport::Output {
        proc: ProcId::new(nspace(), Rank::from_raw(0)),
        channel: crate::OutputChannel::Stdout,
        data: "x".into(),
    };
    assert!(t.launcher.take_reports("n1", &nspace(), vec![output()]).await);
    drop(reports);
    assert!(!t.launcher.take_reports("n1", &nspace(), vec![output()]).await);
}
