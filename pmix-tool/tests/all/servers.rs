//! A tool with several servers, or none.

use std::path::Path;
use std::time::Duration;

use futures::FutureExt;
use pmix_server::Server;
use pmix_test_wait::within;
use pmix_tool::types::DataRange;
use pmix_tool::{Error, EventStream, ProcId, Status, Tool, ToolBuilder, keys};

use crate::common::{Host, proc, start};

/// Two servers, each with a job of its own.
struct Rig {
    root: tempfile::TempDir,
    a: Server,
    b: Server,
}

impl Rig {
    async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let a = start(root.path(), "srv.a", Host::default(), &["job-a"]).await;
        let b = start(root.path(), "srv.b", Host::default(), &["job-b"]).await;
        Self { root, a, b }
    }

    fn any(&self) -> ToolBuilder {
        search(self.root.path())
    }

    fn at(&self, server: &str) -> ToolBuilder {
        self.any().nspace(server)
    }
}

fn search(root: &Path) -> ToolBuilder {
    Tool::builder().session_root(root)
}

fn names(tool: &Tool) -> Vec<String> {
    tool.servers().list().iter().map(|server| server.proc_id().nspace.to_string()).collect()
}

async fn jobs(tool: &Tool) -> Result<Vec<String>, Status> {
    let names = tool.namespaces().await.map_err(|error| error.status())?;
    Ok(names.iter().map(ToString::to_string).collect())
}

fn one(name: &str) -> Result<Vec<String>, Status> {
    Ok(vec![name.to_owned()])
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_09c_tol_10_a_tool_begins_without_server_and_attaches_later() {
    let rig = Rig::new().await;
    let tool = rig.any().without_server();
    let me = tool.proc_id().clone();
    assert!(me.nspace.starts_with("tool.") && me != *rig.any().without_server().proc_id(), "{me}");
    assert!(tool.servers().list().is_empty() && tool.servers().primary().is_none());
    assert!(matches!(tool.server(), Err(Error::NotAttached(_))));
    assert_eq!(jobs(&tool).await, Err(Status::ERR_UNREACH));
    assert_eq!(
        tool.client().events([Status::EVENT_JOB_END]).await.unwrap_err().status(),
        Status::ERR_UNREACH
    );

    let server = within(tool.servers().attach(rig.at("srv.b"))).await.unwrap();
    assert_eq!(server.proc_id(), rig.b.handle().proc_id());
    assert_eq!(*server.client().proc_id(), me, "its identity never changes");
    assert_eq!((jobs(&tool).await, *tool.proc_id() == me), (one("job-b"), true));

    let named = rig.any().identity(proc("debugger", 3)).without_server();
    assert_eq!(*named.proc_id(), proc("debugger", 3));
    within(named.finalize()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_10_a_server_that_is_optional_is_used_if_there_is_one() {
    let root = tempfile::tempdir().unwrap();
    let alone = within(search(root.path()).connect_optional()).await.unwrap();
    assert!(alone.servers().list().is_empty());
    let strict = start(root.path(), "srv", Host { refuses: true, ..Host::default() }, &[]).await;
    let refused = within(search(root.path()).connect_optional()).await.unwrap();
    assert_eq!((names(&refused).len(), jobs(&refused).await), (0, Err(Status::ERR_UNREACH)));
    strict.stop().await;

    let _server = start(root.path(), "srv", Host::default(), &["job-1"]).await;
    let tool = within(search(root.path()).connect_optional()).await.unwrap();
    assert_eq!((names(&tool), jobs(&tool).await), (vec!["srv".to_owned()], one("job-1")));
    let wrong = within(Tool::builder().uri("nonsense").connect_optional()).await.unwrap_err();
    assert_eq!(wrong.status(), Status::ERR_BAD_PARAM, "{wrong}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_11_tol_14_calls_go_to_the_primary_server_which_is_listed_first() {
    let rig = Rig::new().await;
    let c = start(rig.root.path(), "srv.c", Host::default(), &["job-c"]).await;
    let tool = within(rig.at("srv.b").connect()).await.unwrap();
    let me = tool.proc_id().clone();
    within(tool.servers().attach(rig.at("srv.a"))).await.unwrap();
    assert_eq!((names(&tool), jobs(&tool).await), (vec!["srv.b".into(), "srv.a".into()], one("job-b")));
    let third = within(tool.servers().attach(rig.at("srv.c")).primary()).await.unwrap();
    assert_eq!(names(&tool), ["srv.c", "srv.b", "srv.a"]);
    assert_eq!(jobs(&tool).await, one("job-c"));
    assert_eq!(tool.server().unwrap().uri(), third.uri());

    tool.servers().set_primary(rig.a.handle().proc_id()).unwrap();
    assert_eq!(
        (names(&tool), jobs(&tool).await),
        (vec!["srv.a".into(), "srv.b".into(), "srv.c".into()], one("job-a"))
    );
    // all are the same tool, and none has to be the primary one to be asked
    for server in tool.servers().list() {
        assert_eq!(*server.client().proc_id(), me);
    }
    let asked = third.client().query([pmix_tool::Query::new(&keys::QUERY_NAMESPACES)]).await.unwrap();
    assert_eq!(asked.get(keys::QUERY_NAMESPACES).unwrap().as_deref(), Some("job-c"));

    let unknown = proc("nobody", 0);
    let error = tool.servers().set_primary(&unknown).unwrap_err();
    assert_eq!(error.status(), Status::ERR_UNREACH);
    assert!(error.to_string().contains("not attached to server nobody:0"), "{error}");
    assert_eq!(jobs(&tool).await, one("job-a"));

    let clone = tool.clone();
    within(tool.finalize()).await.unwrap();
    assert_eq!(third.client().commit().await.unwrap_err().status(), Status::ERR_INIT);
    let late = within(clone.servers().attach(rig.at("srv.a"))).await.unwrap_err();
    assert_eq!((late.status(), jobs(&clone).await), (Status::ERR_INIT, Err(Status::ERR_INIT)));
    assert!(clone.servers().list().is_empty());
    c.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_11_a_server_may_be_chosen_before_the_tool_is_attached_to_it() {
    let rig = Rig::new().await;
    let tool = within(rig.at("srv.a").connect()).await.unwrap();
    let b = rig.b.handle().proc_id().clone();
    let limit = Some(Duration::from_millis(20));
    let error = within(tool.servers().set_primary_when_attached(&b, limit)).await.unwrap_err();
    assert!(error.is_timeout() && error.to_string().contains("srv.b:0"), "{error}");
    assert_eq!(jobs(&tool).await, one("job-a"));

    let mut waiting = Box::pin(tool.servers().set_primary_when_attached(&b, None));
    assert!(waiting.as_mut().now_or_never().is_none());
    within(tool.servers().attach(rig.at("srv.b"))).await.unwrap();
    assert_eq!(*within(waiting).await.unwrap().proc_id(), b);
    assert_eq!(jobs(&tool).await, one("job-b"));
    // who is attached already is not waited for
    let a = rig.a.handle().proc_id();
    within(tool.servers().set_primary_when_attached(a, None)).await.unwrap();
    assert_eq!(jobs(&tool).await, one("job-a"));

    // a tool that finalizes is attached to nothing any more
    let (servers, nobody) = (tool.servers().clone(), proc("srv.c", 0));
    let mut waiting = Box::pin(servers.set_primary_when_attached(&nobody, None));
    assert!(waiting.as_mut().now_or_never().is_none());
    within(tool.finalize()).await.unwrap();
    assert_eq!(within(waiting).await.unwrap_err().status(), Status::ERR_INIT);
    let late = within(servers.set_primary_when_attached(&nobody, None)).await.unwrap_err();
    assert_eq!(late.status(), Status::ERR_INIT);
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_12_attaching_again_changes_nothing_and_the_search_skips_those_attached() {
    let rig = Rig::new().await;
    let tool = within(rig.at("srv.a").connect()).await.unwrap();
    let ways = [rig.at("srv.a"), Tool::builder().uri(rig.a.handle().uri())];
    for again in ways {
        let same = within(tool.servers().attach(again)).await.unwrap();
        assert_eq!((same.proc_id(), names(&tool)), (rig.a.handle().proc_id(), vec!["srv.a".into()]));
    }
    // two are running, but one of them only is new
    let other = within(tool.servers().attach(rig.any())).await.unwrap();
    assert_eq!((other.proc_id(), jobs(&tool).await), (rig.b.handle().proc_id(), one("job-a")));
    let none = within(tool.servers().attach(rig.any())).await.unwrap_err();
    assert_eq!((none.is_no_server(), none.status()), (true, Status::ERR_UNREACH));
    assert!(none.to_string().contains("(srv.a)") && none.to_string().contains("(srv.b)"), "{none}");
    let nowhere = within(tool.servers().attach(rig.at("nowhere"))).await.unwrap_err();
    assert_eq!((nowhere.status(), names(&tool).len()), (Status::ERR_UNREACH, 2));

    within(tool.servers().attach(rig.at("srv.b")).primary()).await.unwrap();
    assert_eq!(
        jobs(&tool).await,
        one("job-b"),
        "the wish for another primary server holds for one that is attached"
    );

    // tasks that attach to the same server at once share its connection
    let fresh = rig.any().without_server();
    let attach = || within(fresh.servers().attach(rig.at("srv.a")));
    let (x, y, z) = tokio::join!(attach(), attach(), attach());
    for server in [x, y, z] {
        assert_eq!(server.unwrap().proc_id(), rig.a.handle().proc_id());
    }
    assert_eq!((names(&fresh), jobs(&fresh).await), (vec!["srv.a".into()], one("job-a")));
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_13_tol_17_without_primary_server_calls_fail_until_another_is_chosen() {
    let rig = Rig::new().await;
    let tool = within(rig.at("srv.a").connect()).await.unwrap();
    let (a, b) = (rig.a.handle().proc_id(), rig.b.handle().proc_id());
    let second = within(tool.servers().attach(rig.at("srv.b"))).await.unwrap();
    let clone_of_first = tool.client();
    within(tool.servers().disconnect(a)).await.unwrap();
    assert_eq!((names(&tool), jobs(&tool).await), (vec!["srv.b".into()], Err(Status::ERR_UNREACH)));
    assert!(tool.servers().primary().is_none());
    assert_eq!(clone_of_first.commit().await.unwrap_err().status(), Status::ERR_INIT);
    let again = within(tool.servers().disconnect(a)).await.unwrap_err();
    assert!(matches!(again, Error::NotAttached(_)), "{again}");
    // the server has dropped its records: another may have the identity
    let successor = within(async {
        loop {
            match rig.at("srv.a").identity(tool.proc_id().clone()).connect().await {
                // the connection is still being closed
                Err(error) if error.status() == Status::ERR_EXISTS => pmix_test_wait::turn().await,
                connected => break connected.unwrap(),
            }
        }
    });
    within(successor.await.finalize()).await.unwrap();

    tool.servers().set_primary(second.proc_id()).unwrap();
    assert_eq!(jobs(&tool).await, one("job-b"));
    within(tool.servers().attach(rig.at("srv.a"))).await.unwrap();
    // leaving another than the primary one changes nothing
    within(tool.servers().disconnect(a)).await.unwrap();
    assert_eq!(jobs(&tool).await, one("job-b"));
    within(tool.servers().disconnect(b)).await.unwrap();
    assert_eq!(jobs(&tool).await, Err(Status::ERR_UNREACH));
    within(tool.servers().attach(rig.at("srv.a"))).await.unwrap();
    assert_eq!(jobs(&tool).await, one("job-a"), "the first again");
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_09d_tol_09e_a_tool_keeps_its_identity_and_is_refused_where_it_is_taken() {
    let rig = Rig::new().await;
    let taken = within(rig.at("srv.b").identity(proc("debugger", 1)).connect()).await.unwrap();
    let tool = within(rig.at("srv.a").identity(proc("debugger", 1)).connect()).await.unwrap();
    let clash = within(tool.servers().attach(rig.at("srv.b"))).await.unwrap_err();
    assert_eq!(clash.status(), Status::ERR_EXISTS, "{clash}");
    let other = rig.at("srv.b").identity(proc("debugger", 2));
    let other = within(tool.servers().attach(other)).await.unwrap_err();
    assert_eq!((other.status(), names(&tool)), (Status::ERR_BAD_PARAM, vec!["srv.a".into()]));
    assert_eq!(jobs(&tool).await, one("job-a"));
    within(taken.finalize()).await.unwrap();

    // a server that has the name of another
    let elsewhere = tempfile::tempdir().unwrap();
    let _twin = start(elsewhere.path(), "srv.a", Host::default(), &["job-t"]).await;
    let twin = within(tool.servers().attach(search(elsewhere.path()))).await.unwrap_err();
    assert!(
        twin.status() == Status::ERR_EXISTS && twin.to_string().contains("another server srv.a:0"),
        "{twin}"
    );
    assert_eq!(jobs(&tool).await, one("job-a"));
}

async fn next(events: &mut EventStream) -> ProcId {
    within(events.recv()).await.unwrap().unwrap().source
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_11_registrations_stay_with_the_server_at_which_they_were_made() {
    let rig = Rig::new().await;
    let code = Status::from_raw(-5000);
    let tool = within(rig.at("srv.a").connect()).await.unwrap();
    let mut first = tool.client().events([code]).await.unwrap();
    let second = within(tool.servers().attach(rig.at("srv.b")).primary()).await.unwrap();
    let mut at_b = tool.client().events([code]).await.unwrap();
    for (server, stream) in [(&rig.a, &mut first), (&rig.b, &mut at_b)] {
        let at = server.handle().proc_id().nspace.to_string();
        let other = within(rig.at(&at).connect()).await.unwrap();
        other.client().notify(code).range(DataRange::LOCAL).await.unwrap();
        assert_eq!(next(stream).await, *other.proc_id(), "{at}");
    }
    // they end with the connection, and only those
    within(tool.servers().disconnect(rig.a.handle().proc_id())).await.unwrap();
    assert!(!matches!(within(first.recv()).await, Some(Ok(event)) if event.code == code));
    second.client().notify(code).range(DataRange::LOCAL).await.unwrap();
    assert_eq!(next(&mut at_b).await, *tool.proc_id());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_lost_is_not_listed_and_may_be_attached_again() {
    let Rig { root, a, b } = Rig::new().await;
    let tool = within(search(root.path()).nspace("srv.a").connect()).await.unwrap();
    within(tool.servers().attach(Tool::builder().uri(b.handle().uri()))).await.unwrap();
    let mut lost = tool.client().events([Status::ERR_LOST_CONNECTION]).await.unwrap();
    a.stop().await;
    next(&mut lost).await;
    assert_eq!((names(&tool), jobs(&tool).await), (vec!["srv.b".into()], Err(Status::ERR_LOST_CONNECTION)));
    assert_eq!(tool.servers().set_primary(&proc("srv.a", 0)).unwrap_err().status(), Status::ERR_UNREACH);
    let _again = start(root.path(), "srv.a", Host::default(), &["job-2"]).await;
    within(tool.servers().attach(search(root.path()))).await.unwrap();
    assert_eq!((names(&tool), jobs(&tool).await), (vec!["srv.a".into(), "srv.b".into()], one("job-2")));
    within(tool.finalize()).await.unwrap();
}
