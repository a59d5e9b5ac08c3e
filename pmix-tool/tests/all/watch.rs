//! [`Tool::watch_jobs`](pmix_tool::Tool::watch_jobs) against real servers.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use pmix_server::Server;
use pmix_test_wait::{StillClock, within};
use pmix_tool::types::job::JobSpec;
use pmix_tool::types::{DataRange, Event, Info};
use pmix_tool::watch::{JobsChange, JobsWatch, WatchUpdate};
use pmix_tool::{Nspace, ProcId, Rank, Status, Tool, keys};

use crate::common::{Host, proc, start};

/// Nothing happens because of time alone.
const NEVER: Duration = Duration::from_secs(3600);

async fn attach(root: &std::path::Path) -> Tool {
    Tool::builder().session_root(root).connect().await.unwrap()
}

async fn news(watch: &mut JobsWatch) -> WatchUpdate {
    within(watch.next()).await.unwrap().unwrap()
}

/// All changes until this is so; none of them may be empty.
async fn until(watch: &mut JobsWatch, is_it: impl Fn(&JobsWatch) -> bool) -> Vec<JobsChange> {
    let mut changes = Vec::new();
    while !is_it(watch) {
        match news(watch).await {
            WatchUpdate::Changed(change) => {
                assert!(!change.is_empty());
                changes.push(change);
            }
            other => panic!("{other:?}"),
        }
    }
    changes
}

async fn add(server: &Server, job: &str) {
    let spec = JobSpec::new(job.parse().unwrap()).node_map(["n0"]).unwrap().ranks_block(1, 2).unwrap();
    server.handle().register_nspace(spec).await.unwrap();
}

async fn tell(server: &Server, code: Status, job: &str) {
    let event = Event::new(code, ProcId::none())
        .with_range(DataRange::SESSION)
        .with_info(Info::new(&keys::NSPACE.text(), job))
        .with_info(Info::new(&keys::JOB_TERM_STATUS, Status::ERR_JOB_NON_ZERO_TERM))
        .with_info(Info::new(&keys::EXIT_CODE, 7));
    server.handle().notify_event(event).await.unwrap();
}

fn name(job: &str) -> Nspace {
    job.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_the_server_make_it_look_and_the_end_of_a_job_is_told_with_its_code() {
    let root = tempfile::tempdir().unwrap();
    let server = start(root.path(), "srv", Host::default(), &["a"]).await;
    let tool = attach(root.path()).await;
    let mut watch = tool.watch_jobs().period(NEVER).start().await.unwrap();
    assert!(watch.jobs().is_none());
    let WatchUpdate::Snapshot(first) = news(&mut watch).await else { panic!("no snapshot") };
    assert_eq!(first.iter().map(|(job, procs)| (&**job, procs.len())).collect::<Vec<_>>(), [("a", 2)]);
    assert_eq!(watch.jobs(), Some(&first));

    add(&server, "b").await;
    tell(&server, Status::EVENT_JOB_START, "b").await;
    let changes = until(&mut watch, |watch| watch.jobs().unwrap().get(&name("b")).is_some()).await;
    let told = &changes[0].jobs[&name("b")].procs;
    assert_eq!(told.iter().map(|row| &row.proc).collect::<Vec<_>>(), [&proc("b", 0), &proc("b", 1)]);
    assert!(!changes[0].jobs.contains_key(&name("a")), "{changes:?}");

    // the event comes before the job has left the server
    tell(&server, Status::EVENT_JOB_END, "b").await;
    tool.namespaces().await.unwrap();
    server.handle().deregister_nspace(&name("b")).await.unwrap();
    tell(&server, Status::EVENT_JOB_START, "other").await;
    let changes = until(&mut watch, |watch| watch.jobs().unwrap().len() == 1).await;
    let end = changes.last().unwrap().gone[&name("b")].clone().unwrap();
    assert_eq!((end.exit_code, end.status), (7, Status::ERR_JOB_NON_ZERO_TERM));
    assert_eq!(watch.jobs(), Some(&first));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_events_the_period_makes_it_look_and_only_the_jobs_that_were_chosen_are_told() {
    let root = tempfile::tempdir().unwrap();
    let server = start(root.path(), "srv", Host::default(), &["a", "b"]).await;
    let tool = attach(root.path()).await;
    // the least that it can be
    let watch = tool.watch_jobs().period(Duration::ZERO).only([name("b"), name("c")]);
    let mut watch = watch.start().await.unwrap();
    let WatchUpdate::Snapshot(first) = news(&mut watch).await else { panic!("no snapshot") };
    assert_eq!(first.iter().map(|(job, _)| &**job).collect::<Vec<_>>(), ["b"]);
    add(&server, "c").await;
    until(&mut watch, |watch| watch.jobs().unwrap().len() == 2).await;
    server.handle().deregister_nspace(&name("a")).await.unwrap();
    server.handle().deregister_nspace(&name("b")).await.unwrap();
    let changes = until(&mut watch, |watch| watch.jobs().unwrap().get(&name("b")).is_none()).await;
    let gone: Vec<_> = changes.iter().flat_map(|change| &change.gone).collect();
    // no event has told how
    assert_eq!(gone, [(&name("b"), &None)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_one_process_are_told_alone() {
    let root = tempfile::tempdir().unwrap();
    let server = start(root.path(), "srv", Host::default(), &["a"]).await;
    let tool = attach(root.path()).await;
    let mut watch = tool.watch_jobs().period(Duration::ZERO).start().await.unwrap();
    news(&mut watch).await;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    server.handle().register_client(&proc("a", 1), uid, gid, None).await.unwrap();
    let _process = server.handle().connect_in_process(proc("a", 1)).await.unwrap();
    let WatchUpdate::Changed(change) = news(&mut watch).await else { panic!("no change") };
    let job = &change.jobs[&name("a")];
    assert_eq!(job.procs.iter().map(|row| row.proc.rank).collect::<Vec<_>>(), [Rank::new(1).unwrap()]);
    assert!(job.gone.is_empty() && change.gone.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_was_away_for_too_many_events_gets_all_jobs_anew() {
    let root = tempfile::tempdir().unwrap();
    let server = start(root.path(), "srv", Host::default(), &["a"]).await;
    let tool = attach(root.path()).await;
    let mut watch = tool.watch_jobs().period(NEVER).start().await.unwrap();
    news(&mut watch).await;
    for _ in 0..1000 {
        tell(&server, Status::EVENT_JOB_START, "a").await;
    }
    add(&server, "b").await;
    // the events have come before this answer
    tool.namespaces().await.unwrap();
    let WatchUpdate::Resync { missed, jobs } = news(&mut watch).await else { panic!("no resync") };
    assert_eq!((missed, jobs.len()), (1000 - 256, 2));
    // this is over
    add(&server, "c").await;
    tell(&server, Status::EVENT_JOB_START, "c").await;
    let WatchUpdate::Changed(change) = news(&mut watch).await else { panic!("no change") };
    assert_eq!(change.jobs.keys().collect::<Vec<_>>(), [&name("c")]);
}

#[tokio::test]
async fn a_flood_of_events_makes_it_ask_no_more_often() {
    let clock = StillClock::start();
    let root = tempfile::tempdir().unwrap();
    let server = start(root.path(), "srv", Host::default(), &["a"]).await;
    let tool = attach(root.path()).await;
    let mut watch = tool.watch_jobs().period(NEVER).start().await.unwrap();
    news(&mut watch).await;
    for round in 0..2 {
        for number in 0..40 {
            add(&server, &format!("b.{round}.{number}")).await;
            tell(&server, Status::EVENT_JOB_START, "b").await;
            // the event has come before this answer
            tool.namespaces().await.unwrap();
            assert!(watch.next().now_or_never().is_none(), "it has asked already");
        }
        clock.pass(Duration::from_millis(99)).await;
        tool.namespaces().await.unwrap();
        assert!(watch.next().now_or_never().is_none(), "it has not waited long enough");
        clock.pass(Duration::from_millis(10)).await;
        let news = clock.within("it asks", watch.next()).await;
        let Some(Ok(WatchUpdate::Changed(change))) = news else { panic!("no change") };
        assert_eq!(change.jobs.len(), 40, "one answer tells of all");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_with_its_server_and_with_its_tool() {
    let root = tempfile::tempdir().unwrap();
    let server = start(root.path(), "srv", Host::default(), &["a"]).await;
    let (tool, other) = (attach(root.path()).await, attach(root.path()).await);
    let mut watch = tool.watch_jobs().period(NEVER).start().await.unwrap();
    let mut others = other.watch_jobs().period(NEVER).start().await.unwrap();
    news(&mut watch).await;
    news(&mut others).await;
    other.finalize().await.unwrap();
    let error = within(others.next()).await.unwrap().unwrap_err();
    assert_eq!(error.status(), Status::ERR_INIT, "{error}");
    assert!(others.next().await.is_none());
    server.stop().await;
    // as a stream it says the same
    let error = within(StreamExt::next(&mut watch)).await.unwrap().unwrap_err();
    assert!(error.is_server_stopped(), "{error}");
    assert!(StreamExt::next(&mut watch).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_job_with_which_its_server_ends_is_told_before_the_error() {
    let root = tempfile::tempdir().unwrap();
    let server = start(root.path(), "srv", Host::default(), &["a", "b"]).await;
    let tool = attach(root.path()).await;
    let mut watch = tool.watch_jobs().period(NEVER).start().await.unwrap();
    news(&mut watch).await;
    tell(&server, Status::EVENT_JOB_END, "a").await;
    tell(&server, Status::EVENT_JOB_END, "never").await;
    server.stop().await;
    let WatchUpdate::Changed(change) = news(&mut watch).await else { panic!("no change") };
    assert!(change.jobs.is_empty() && change.gone.len() == 1, "{change:?}");
    assert_eq!(change.gone[&name("a")].clone().unwrap().exit_code, 7);
    assert!(watch.jobs().unwrap().get(&name("a")).is_none());
    let error = within(watch.next()).await.unwrap().unwrap_err();
    assert!(error.is_server_stopped(), "{error}");
    assert!(watch.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_refuses_queries_ends_it_with_its_reason() {
    let root = tempfile::tempdir().unwrap();
    let _server = start(root.path(), "srv", Host { refuses_queries: true, ..Host::default() }, &["a"]).await;
    let tool = attach(root.path()).await;
    let mut watch = tool.watch_jobs().start().await.unwrap();
    let error = watch.next().await.unwrap().unwrap_err();
    assert!(error.to_string().contains("ask somebody else"), "{error}");
    assert!(watch.next().await.is_none());
}
