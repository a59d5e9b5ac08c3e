//! The library against a real server in the same process.

use std::fs::Permissions;
use std::future::poll_fn;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use pmix_server::Server;
use pmix_test_wait::{PausedClock, within};
use pmix_tool::types::{Directives, Event, Info, ProcId, Rank};
use pmix_tool::{Error, ProcInfo, Query, Status, Tool, ToolBuilder, discover_in, keys};
use tokio::runtime::Builder;

use crate::common::{Host, proc, rows, start};

#[tokio::test(flavor = "multi_thread")]
async fn tol_03a_tol_06g_a_tool_finds_the_only_server_and_leaves_it() {
    let root = tempfile::tempdir().unwrap();
    let server = start(root.path(), "srv", Host::default(), &["job-1"]).await;
    let tool = Tool::builder().session_root(root.path()).connect().await.unwrap();
    assert_eq!(*tool.server().unwrap().proc_id(), proc("srv", 0));
    assert_eq!(tool.server().unwrap().uri(), server.handle().uri());
    let attached = tool.server().unwrap();
    let info = attached.info().unwrap();
    assert_eq!((info.pid, info.host.as_deref()), (std::process::id(), Some("n0")));
    assert!(info.is_alive && info.version.is_some());
    assert_eq!(info.dir, server.handle().session_dir());

    let other = tool.clone();
    tool.finalize().await.unwrap();
    assert_eq!(other.namespaces().await.unwrap_err().status(), Status::ERR_INIT);
    server.stop().await;
    assert!(discover_in(root.path()).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_06a_tol_06b_tol_06c_tol_06d_tol_06g_tol_07b_several_servers_need_a_selection() {
    let root = tempfile::tempdir().unwrap();
    let a = start(root.path(), "srv.a", Host::default(), &[]).await;
    let b = start(root.path(), "srv.b", Host::default(), &[]).await;
    let builder = || Tool::builder().session_root(root.path());
    let error = builder().connect().await.unwrap_err();
    assert!(matches!(&error, Error::Ambiguous(error) if error.candidates.len() == 2), "{error}");
    assert!(error.to_string().contains("(srv.a)") && error.to_string().contains("(srv.b)"), "{error}");

    let by_nspace = builder().nspace("srv.b").connect().await.unwrap();
    assert_eq!(*by_nspace.server().unwrap().proc_id(), proc("srv.b", 0));
    let by_uri = builder().uri(a.handle().uri()).connect().await.unwrap();
    assert_eq!(*by_uri.server().unwrap().proc_id(), proc("srv.a", 0));
    assert!(by_uri.server().unwrap().info().is_none());
    let file = b.handle().session_dir().join(format!("pmix.n0.tool.{}", std::process::id()));
    let by_file = builder().rendezvous_file(file).connect().await.unwrap();
    assert_eq!(*by_file.server().unwrap().proc_id(), proc("srv.b", 0));

    a.stop().await;
    let by_pid = builder().pid(std::process::id()).connect().await.unwrap();
    assert_eq!(*by_pid.server().unwrap().proc_id(), proc("srv.b", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_09a_tol_09b_tol_09e_identity_is_as_wished_or_from_the_host_and_never_taken() {
    let root = tempfile::tempdir().unwrap();
    let _server = start(root.path(), "srv", Host::default(), &["job-1"]).await;
    let builder = || Tool::builder().session_root(root.path());
    let given = builder().connect().await.unwrap();
    assert_eq!(*given.proc_id(), proc("tool.0", 0));
    let wished = builder().identity(proc("debugger", 5)).connect().await.unwrap();
    assert_eq!(*wished.proc_id(), proc("debugger", 5));
    for taken in [proc("debugger", 5), proc("job-1", 0)] {
        let error = builder().identity(taken).connect().await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_EXISTS, "{error}");
    }
    wished.finalize().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_01_tol_15_the_server_and_its_host_may_refuse() {
    let root = tempfile::tempdir().unwrap();
    let strict = Host { refuses: true, ..Host::default() };
    let _server = start(root.path(), "srv", strict, &[]).await;
    let error = Tool::builder().session_root(root.path()).connect().await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NO_PERMISSIONS);
    assert!(error.to_string().contains("no tools today"), "{error}");

    let closed = Server::builder().hostname("n0").session_root(root.path()).start().await.unwrap();
    assert_eq!(discover_in(root.path()).unwrap().len(), 1);
    let error = Tool::builder().uri(closed.handle().uri()).connect().await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
}

#[tokio::test(flavor = "multi_thread")]
async fn qry_11_qry_12_namespaces_and_tables_from_server_and_host() {
    let root = tempfile::tempdir().unwrap();
    let server = start(root.path(), "srv", Host::default(), &["job-1", "job-2"]).await;
    let tool = Tool::builder().session_root(root.path()).connect().await.unwrap();
    let names: Vec<_> = tool.namespaces().await.unwrap();
    assert_eq!(names, ["job-1", "job-2"]);
    let ranks = |rows: Vec<ProcInfo>| rows.iter().map(|row| row.proc.rank).collect::<Vec<_>>();
    assert_eq!(ranks(tool.proc_table(&names[0]).await.unwrap()), [0, 1].map(Rank::from_raw));
    assert_eq!(ranks(tool.local_proc_table(&names[0]).await.unwrap()), [0, 1].map(Rank::from_raw));
    let error = tool.proc_table(pmix_tool::Nspace::new("nowhere").unwrap()).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_INVALID_NAMESPACE);
    server.stop().await;
    assert_eq!(tool.namespaces().await.unwrap_err().status(), Status::ERR_LOST_CONNECTION);

    let host = Host { jobs: vec![("job-9", rows("job-9"))], ..Host::default() };
    let _server = start(root.path(), "srv", host, &[]).await;
    let tool = Tool::builder().session_root(root.path()).connect().await.unwrap();
    assert_eq!(tool.proc_table(pmix_tool::Nspace::new("job-9").unwrap()).await.unwrap(), rows("job-9"));
}

#[tokio::test(flavor = "multi_thread")]
async fn qry_02_qry_03_qry_04_partial_results_name_what_is_missing() {
    let root = tempfile::tempdir().unwrap();
    let _server = start(root.path(), "srv", Host::default(), &["job-1"]).await;
    let tool = Tool::builder().session_root(root.path()).connect().await.unwrap();
    let all =
        tool.query([Query::new(&keys::JOB_SIZE).qualifier(&keys::NSPACE.text(), "job-1")]).await.unwrap();
    assert_eq!(all.status(), Status::SUCCESS);
    assert_eq!(all.get(keys::JOB_SIZE).unwrap(), Some(2));
    assert_eq!(all.results()[0].qualifiers, Directives::new().with(&keys::NSPACE.text(), "job-1"));

    let some = Query::new(&keys::QUERY_NAMESPACES).key(&keys::QUERY_QUEUE_LIST);
    let some = tool.query([some]).await.unwrap();
    assert_eq!(some.status(), Status::ERR_PARTIAL_SUCCESS);
    assert_eq!(some.missing(), [keys::QUERY_QUEUE_LIST.key_name()]);

    let none = tool.query([Query::new(&keys::QUERY_QUEUE_LIST)]).await.unwrap_err();
    assert_eq!(none.status(), Status::ERR_NOT_SUPPORTED, "{none}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_08a_tol_08b_a_server_that_is_selected_may_come_later() {
    let root = tempfile::tempdir().unwrap();
    let (soon, never) = (Duration::from_millis(1), Duration::from_secs(3600));
    let builder = || Tool::builder().session_root(root.path());
    let file = root.path().join("copy");
    let selections =
        [builder().nspace("srv"), builder().pid(std::process::id()), builder().rendezvous_file(&file)];
    for selection in selections {
        let mut connecting = pin!(selection.clone().retry(u32::MAX, soon).connect());
        assert!(poll_once(connecting.as_mut()).await.is_none(), "there is no server yet");
        let server = start(root.path(), "srv", Host::default(), &[]).await;
        let own = server.handle().session_dir().join(format!("pmix.n0.tool.{}", std::process::id()));
        std::fs::copy(own, &file).unwrap();
        let tool = within(connecting).await.unwrap();
        assert_eq!(*tool.server().unwrap().proc_id(), proc("srv", 0));
        server.stop().await;

        // so often and no more; and not beyond the limit
        let pause = Duration::from_secs(20);
        assert_eq!(unreached(selection.clone().retry(3, pause)).await, 2 * pause);
        let limited = selection.retry(u32::MAX, never).timeout(Duration::from_secs(10));
        assert_eq!(unreached(limited).await, Duration::ZERO);
        std::fs::remove_file(&file).unwrap();
    }

    // a URI may lead to where nobody listens yet; a limit that is too long for the clock is none
    let uri = format!("srv.0;unix:{}", root.path().join("server@sock").display());
    let by_uri = builder().uri(uri).retry(u32::MAX, soon).timeout(Duration::MAX);
    let mut connecting = pin!(by_uri.connect());
    assert!(poll_once(connecting.as_mut()).await.is_none());
    let server = start(root.path(), "srv", Host::default(), &[]).await;
    let socket = server.handle().uri().split_once(";unix:").unwrap().1.to_owned();
    std::os::unix::fs::symlink(socket, root.path().join("server@sock")).unwrap();
    within(connecting).await.unwrap();
    // and one of zero is none, too (GEN-12)
    within(Tool::builder().uri(server.handle().uri()).timeout(Duration::ZERO).connect()).await.unwrap();
    server.stop().await;

    // neither is any server waited for, nor one that refuses asked again, nor a directory that cannot be trusted
    let give_up =
        async |builder: ToolBuilder| within(builder.retry(u32::MAX, never).connect()).await.unwrap_err();
    assert!(give_up(builder()).await.is_no_server());
    let closed = Server::builder().hostname("n0").session_root(root.path()).start().await.unwrap();
    let refused = give_up(Tool::builder().uri(closed.handle().uri())).await;
    assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED);
    let dir = closed.handle().session_dir().parent().unwrap();
    std::fs::set_permissions(dir, Permissions::from_mode(0o777)).unwrap();
    let error = give_up(builder().pid(1)).await;
    assert!(matches!(error, Error::Rendezvous(_)), "{error}");
}

/// How long a tool tries to reach a server that does not run, on a clock that only waiting moves.
async fn unreached(builder: ToolBuilder) -> Duration {
    let connect = move || {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let clock = PausedClock::start();
            let error = builder.connect().await.unwrap_err();
            assert_eq!(error.status(), Status::ERR_UNREACH, "{error}");
            clock.passed()
        })
    };
    tokio::task::spawn_blocking(connect).await.unwrap()
}

/// What comes of a future at once.
async fn poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    poll_fn(|cx| match Pin::new(&mut future).poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("server@sock");
    let _silent = UnixListener::bind(&socket).unwrap();
    let uri = format!("srv.0;unix:{}", socket.display());
    let error = Tool::builder().uri(uri).timeout(Duration::from_millis(20)).connect().await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert!(error.to_string().contains(&socket.display().to_string()), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_is_asked_for_an_end_that_no_event_tells_of_also_while_other_jobs_end() {
    let root = tempfile::tempdir().unwrap();
    let server = start(root.path(), "srv", Host::default(), &["job-1"]).await;
    let tool = Tool::builder().session_root(root.path()).connect().await.unwrap();
    assert!(tool.await_end(proc("job-2", 0).nspace).await.unwrap().is_none());
    let awaited = tool.await_end(proc("job-1", 0).nspace).await.unwrap().unwrap();
    server.handle().deregister_nspace(&proc("job-1", 0).nspace).await.unwrap();
    let others = async {
        let mut often = tokio::time::interval(Duration::from_millis(50));
        loop {
            often.tick().await;
            let other = Info::new(&keys::EVENT_AFFECTED_PROC, proc("other", 0));
            let event = Event::new(Status::EVENT_JOB_END, ProcId::none()).with_info(other);
            server.handle().notify_event(event).await.unwrap();
        }
    };
    let end = within(async {
        tokio::select! {
            end = awaited.wait() => end,
            () = others => unreachable!("the events do not end"),
        }
    });
    let error = end.await.unwrap_err();
    assert!(matches!(&error, Error::UnknownEnd(end) if end.nspace == "job-1"), "{error}");
}
