//! What a tool hears of jobs that it is no part of, and of the end of its server.

use pmix_client::types::{DataRange, Directives, Event, Query, Status, keys};
use pmix_client::{EventStream, ProcId, Scope};
use pmix_host::{JobReport, MemoryExchange, ProcExit, StandardHost};
use pmix_tests::{TestLauncher, TestNode, proc, within};
use pmix_tool::Tool;

async fn node(name: &str, host: &StandardHost) -> TestNode {
    let builder = TestNode::builder(0).nspace("registered").hostname(name).host(host.clone());
    builder.server(|server| server.tool_support(true)).start().await
}

async fn tool(node: &TestNode) -> Tool {
    within(Tool::builder().uri(node.handle().uri()).connect()).await.unwrap()
}

async fn listen(tool: &Tool, codes: &[Status]) -> EventStream {
    within(async { tool.client().events(codes.iter().copied()).await }).await.unwrap()
}

async fn next(events: &mut EventStream) -> Event {
    within(events.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn evt_20_a_tool_on_any_node_hears_of_jobs_and_ends_of_processes_as_it_asks() {
    let launcher = TestLauncher::on(["n0", "n1"]);
    let hosts = StandardHost::cluster(launcher.clone(), MemoryExchange::cluster(["n0", "n1"]));
    let mut nodes = Vec::new();
    for (name, host) in ["n0", "n1"].into_iter().zip(&hosts) {
        nodes.push(node(name, host).await);
    }
    let tool = tool(&nodes[1]).await;
    let asked = [
        Status::EVENT_JOB_START,
        Status::LAUNCH_COMPLETE,
        Status::ERR_PROC_TERM_WO_SYNC,
        Status::EVENT_PROC_TERMINATED,
        Status::EVENT_JOB_END,
    ];
    let mut events = listen(&tool, &asked).await;
    let mut all = listen(&tool, &[]).await;
    let mut job = launcher.start(&hosts[0], "watched", 2).await;
    let whole = ProcId::wildcard(job.nspace().clone());
    for code in &asked[..2] {
        for stream in [&mut events, &mut all] {
            let event = next(stream).await;
            assert_eq!((event.code, event.affected_procs()), (*code, vec![whole.clone()]));
        }
    }

    // the first ends well, the second is killed
    let first = nodes[0].connect(&proc("watched", 0)).await.unwrap();
    within(first.finalize()).await.unwrap();
    launcher.end(&proc("watched", 0), ProcExit::Code(0)).await;
    let ended = next(&mut events).await;
    assert_eq!(
        (ended.code, ended.affected_procs()),
        (Status::EVENT_PROC_TERMINATED, vec![proc("watched", 0)])
    );
    assert_eq!(ended.info.get(&keys::PROC_TERM_STATUS), Ok(Some(Status::SUCCESS)));
    assert_eq!(ended.info.get(&keys::EXIT_CODE), Ok(Some(0)));

    launcher.end(&proc("watched", 1), ProcExit::Signal(9)).await;
    let dead = vec![proc("watched", 1)];
    for code in [Status::ERR_PROC_TERM_WO_SYNC, Status::EVENT_PROC_TERMINATED] {
        let event = next(&mut events).await;
        assert_eq!((event.code, event.affected_procs()), (code, dead.clone()));
        assert_eq!(event.info.get(&keys::PROC_TERM_STATUS), Ok(Some(Status::ERR_PROC_ABORTED_BY_SIG)));
    }
    let end = next(&mut events).await;
    assert_eq!((end.code, end.affected_procs()), (Status::EVENT_JOB_END, vec![whole]));
    assert_eq!(end.info.get(&keys::JOB_TERM_STATUS), Ok(Some(Status::ERR_JOB_ABORTED_BY_SIG)));
    // a handler for everything hears of what went wrong, and not of each process that ends
    for code in [Status::ERR_PROC_TERM_WO_SYNC, Status::ERR_JOB_ABORTED_BY_SIG, Status::EVENT_JOB_END] {
        assert_eq!(next(&mut all).await.code, code);
    }
    while !matches!(within(job.next_report()).await.unwrap(), JobReport::Done(_)) {}
}

#[tokio::test]
async fn evt_09_a_tool_hears_of_those_that_it_names_and_processes_of_other_jobs_hear_nothing() {
    let launcher = TestLauncher::new("n0");
    let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0"));
    let node = node("n0", &host).await;
    let _job = launcher.start(&host, "watched", 1).await;
    let _other = launcher.start(&host, "other", 1).await;
    let bystander = node.connect(&proc("other", 0)).await.unwrap();
    let codes = [Status::EVENT_JOB_END, Status::EVENT_PROC_TERMINATED, Status::ERR_PROC_TERM_WO_SYNC];
    let mut unheard = within(async { bystander.events(codes).await }).await.unwrap();
    let tool = tool(&node).await;
    let about =
        Directives::new().with(&keys::EVENT_AFFECTED_PROC, ProcId::wildcard("watched".parse().unwrap()));
    let ends = async { tool.client().events([Status::EVENT_JOB_END]).directives(about).await };
    let mut ends = within(ends).await.unwrap();
    within(bystander.finalize()).await.unwrap();
    launcher.end(&proc("other", 0), ProcExit::Code(0)).await;
    launcher.end(&proc("watched", 0), ProcExit::Code(0)).await;
    let end = next(&mut ends).await;
    assert_eq!(
        end.info.get(&keys::NSPACE.text()).unwrap().as_deref(),
        Some("watched"),
        "the other was not asked for"
    );
    assert!(within(unheard.recv()).await.is_none(), "it hears nothing until it has finalized");
}

#[tokio::test]
async fn evt_21_a_tool_can_tell_a_server_that_stops_from_one_that_crashes() {
    let host = StandardHost::new(TestLauncher::new("n0"), MemoryExchange::single("n0"));
    let node = node("n0", &host).await;
    let tool = tool(&node).await;
    let mut events = listen(&tool, &[Status::ERR_LOST_CONNECTION]).await;
    node.stop().await;
    let lost = next(&mut events).await;
    assert_eq!((lost.code, &lost.source), (Status::ERR_LOST_CONNECTION, tool.server().unwrap().proc_id()));
    let text = lost.info.get(&keys::EVENT_TEXT_MESSAGE).unwrap();
    assert_eq!(text.as_deref(), Some("the server has stopped"));
    let pmix_tool::Error::Client(error) = within(tool.namespaces()).await.unwrap_err() else { panic!() };
    assert!(error.is_server_stopped() && error.is_lost_connection(), "{error}");
    assert!(error.to_string().ends_with("is lost: the server has stopped"), "{error}");
}

#[tokio::test]
async fn a_tool_calls_what_a_client_may_but_commits_nothing() {
    let host = StandardHost::new(TestLauncher::new("n0"), MemoryExchange::single("n0"));
    let node = TestNode::builder(1).hostname("n0").host(host);
    let node = node.server(|server| server.tool_support(true)).start().await;
    let (tool, rank) = (tool(&node).await, node.client(0).await);
    let as_client = tool.client();
    let own = as_client.proc_id().clone();

    as_client.put(Scope::GLOBAL, "tools", 7).unwrap();
    let refused = within(as_client.commit()).await.unwrap_err();
    assert_eq!(refused.status(), Status::ERR_INVALID_NAMESPACE, "registered nowhere (INI-01b)");
    rank.put(Scope::GLOBAL, "ranks", 8).unwrap();
    within(rank.commit()).await.unwrap();
    assert_eq!(within(as_client.get::<i32>(node.proc(0), "ranks")).await.unwrap(), 8);

    within(as_client.publish().data("service", 9)).await.unwrap();
    let found = within(rank.lookup(["service"])).await.unwrap();
    assert_eq!(found.get::<i32>("service").unwrap(), Some(9));
    within(as_client.unpublish(["service"])).await.unwrap();
    assert!(within(as_client.lookup(["service"])).await.unwrap_err().is_not_found());

    assert_eq!(within(as_client.resolve_nodes(Some(node.nspace()))).await.unwrap(), ["n0"]);
    let names = within(as_client.query([Query::new(&keys::QUERY_NAMESPACES)])).await.unwrap();
    assert_eq!(names.get(keys::QUERY_NAMESPACES).unwrap().as_deref(), Some("job"));

    let code = Status::from_raw(-3001);
    let mut heard = within(async { rank.events([code]).await }).await.unwrap();
    within(as_client.notify(code).range(DataRange::SESSION)).await.unwrap();
    assert_eq!(next(&mut heard).await.source, own);
    within(tool.finalize()).await.unwrap();
}
