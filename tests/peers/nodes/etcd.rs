//! A DVM whose published data is in etcd, and which several heads could serve, one at a time.

use std::process::Command;

use pmix_client::types::{DataRange, Persistence};
use pmix_client::{Client, Status};
use pmix_test_wait::{until_async, within};
use pmix_tests::{
    Running, TestDvm, TestEtcd, outside_allocations, plain_environment, program, rank_program, run,
};
use pmix_tool::Tool;
use rustix::net::{AddressFamily, Ipv4Addr, SocketAddrV4, SocketType};
use rustix::process::Signal;
use tempfile::TempDir;

/// How many refusals in turn take a minute: each waits for etcd about ten seconds.
const MINUTE: usize = 6;

async fn attach(dvm: &TestDvm) -> Client {
    within(Tool::builder().uri(dvm.uri()).connect()).await.unwrap().client()
}

/// Publishes a value that is to last.
async fn publish(client: &Client, key: &str) -> Result<(), Status> {
    let publish = client.publish().data(key, format!("the value of {key}"));
    let published = publish.range(DataRange::SESSION).persistence(Persistence::INDEF).await;
    published.map_err(|error| error.status())
}

async fn look_up(client: &Client, key: &str) -> Option<String> {
    let found = within(client.lookup([key]).range(DataRange::SESSION)).await.ok()?;
    found.get(key).unwrap()
}

/// What a head says that does not become one.
fn refused(options: &[String]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(program("pmixd"));
    plain_environment(&mut command);
    outside_allocations(&mut command);
    command.arg("--head").args(options).env("PMIX_SERVER_TMPDIR", dir.path());
    let (code, out, err) = run(command);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    err
}

#[tokio::test]
async fn pub_08_published_data_outlasts_a_killed_head_and_the_next_one_has_waited_for_its_end() {
    let Some(etcd) = TestEtcd::plain() else { return };
    let first = TestDvm::alone_with(&etcd.options()).await;
    let tool = attach(&first).await;
    for key in ["kept", "taken.back"] {
        publish(&tool, key).await.unwrap();
    }
    tool.unpublish(["taken.back"]).range(DataRange::SESSION).await.unwrap();
    // another one of the same name waits, one of another name does not
    let options = [etcd.options(), ["--etcd-prefix", "/other"].map(str::to_owned).into()].concat();
    let other = TestDvm::alone_with(&options).await;
    assert_eq!(look_up(&attach(&other).await, "kept").await, None);
    let options = etcd.options();
    let job = async {
        let job = Running::start(first.submit(&["true"])).end().await;
        assert!(job.0.success(), "{job:?}");
        first.head().signal(Signal::KILL);
    };
    // it starts while the first one is there
    let (next, ()) = tokio::join!(TestDvm::alone_with(&options), job);
    let tool = attach(&next).await;
    assert_eq!(look_up(&tool, "kept").await, Some("the value of kept".to_owned()));
    assert_eq!(look_up(&tool, "taken.back").await, None);
    publish(&tool, "more").await.unwrap();
    let said = next.stop(|_, _| ()).await;
    assert!(said.contains("waiting: process ") && said.contains(" is the head of this DVM"), "{said}");
    // for one that was told to end, the next one does not wait
    let last = TestDvm::alone_with(&options).await;
    let tool = attach(&last).await;
    for key in ["kept", "more"] {
        assert!(look_up(&tool, key).await.is_some(), "{key}");
    }
    let said = last.stop(|_, _| ()).await;
    assert!(!said.contains("waiting: "), "{said}");
}

/// A head that has said on its standard output that it waits for another one.
async fn waiting(place: &TempDir, etcd: &TestEtcd) -> Running {
    let mut command = Command::new("sh");
    plain_environment(&mut command);
    outside_allocations(&mut command);
    command.args(["-c", "exec \"$0\" --head \"$@\" 2>&1"]).arg(program("pmixd")).args(etcd.options());
    command.env("PMIX_SERVER_TMPDIR", place.path());
    let mut head = Running::start(command);
    head.line_with("waiting: process ").await;
    head
}

#[tokio::test]
async fn heads_that_wait_end_with_a_dvm_that_is_stopped_and_take_over_from_one_that_gets_a_signal() {
    let Some(etcd) = TestEtcd::plain() else { return };
    let place = tempfile::tempdir().unwrap();
    let first = TestDvm::alone_with(&etcd.options()).await;
    let mut next = waiting(&place, &etcd).await;
    first.head().signal(Signal::TERM);
    first.ended(|_, _| ()).await;
    next.line_with("ready with").await;
    next.signal(Signal::TERM);
    assert!(next.end().await.0.success());
    let first = TestDvm::alone_with(&etcd.options()).await;
    let next = waiting(&place, &etcd).await;
    first.stop(|_, _| ()).await;
    let (status, out, _) = next.end().await;
    assert!(status.success() && out.contains("ending: the DVM has been stopped"), "{out}");
    // that was then
    TestDvm::alone_with(&etcd.options()).await.stop(|_, _| ()).await;
}

#[tokio::test]
async fn a_head_that_another_has_superseded_ends_and_leaves_its_jobs_to_that() {
    let Some(etcd) = TestEtcd::plain() else { return };
    let first = TestDvm::alone_with(&etcd.options()).await;
    let tool = attach(&first).await;
    publish(&tool, "of.the.first").await.unwrap();
    let mut job = Running::start(first.submit(&["sh", "-c", "echo begun; exec sleep 600"]));
    job.line_with("begun").await;
    first.head().stop().await;
    let next = TestDvm::alone_with(&etcd.options()).await;
    first.head().signal(Signal::CONT);
    // the tool is attached to the daemon, which has another head now
    publish(&tool, "of.the.next").await.unwrap();
    for key in ["of.the.first", "of.the.next"] {
        assert!(look_up(&tool, key).await.is_some(), "{key}");
    }
    assert!(job.is_running());
    job.signal(Signal::TERM);
    assert_eq!(job.end().await.0.code(), Some(143));
    next.stop(|_, _| ()).await;
    let said = first.ended_with(1, |_, _| ()).await;
    assert!(said.contains("ending: ") && said.contains(" the head of this DVM now"), "{said}");
}

#[tokio::test]
async fn while_etcd_is_silent_for_a_minute_only_what_is_to_last_is_refused_and_jobs_go_on() {
    let Some(etcd) = TestEtcd::plain() else { return };
    let dvm = TestDvm::alone_with(&etcd.options()).await;
    let tool = attach(&dvm).await;
    let go = dvm.dir().join("go");
    let waits = "echo begun; while ! test -e \"$1\"; do sleep 0.1; done; exit 3";
    let mut job = Running::start(dvm.submit(&["sh", "-c", waits, "sh", go.to_str().unwrap()]));
    job.line_with("begun").await;
    // it begins to use PMIx while etcd is silent
    let (begin, rank) = (dvm.dir().join("begin"), rank_program());
    let begins = "echo begun; while ! test -e \"$1\"; do sleep 0.1; done; exec \"$2\" fence";
    let paths = [&begin, &rank].map(|path| path.to_str().unwrap());
    let mut fences = Running::start(dvm.submit(&["-n", "2", "sh", "-c", begins, "sh", paths[0], paths[1]]));
    for _ in 0..2 {
        fences.line_with("begun").await;
    }
    publish(&tool, "before").await.unwrap();
    etcd.hold().await;
    let refused = within(tool.publish().data("meanwhile", 1_u32).persistence(Persistence::INDEF)).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.status(), Status::ERR_UNREACH);
    assert!(refused.to_string().contains("etcd does not answer"), "{refused}");
    // those that wait for each other are refused together: not each of them asks etcd in its turn
    let crowd = (0..4).map(async |number| {
        let publish = tool.publish().data(format!("crowd.{number}"), 1_u32);
        publish.range(DataRange::SESSION).persistence(Persistence::INDEF).await.unwrap_err()
    });
    let crowd = within(futures::future::join_all(crowd)).await;
    assert!(crowd.iter().all(|error| error.status() == Status::ERR_UNREACH), "{crowd:?}");
    let is_together =
        |error: &pmix_client::Error| error.to_string().contains("earlier changes are not answered either");
    assert!(crowd.iter().filter(|error| is_together(error)).count() >= 2, "{crowd:?}");
    within(tool.publish().data("passing", 1_u32)).await.unwrap();
    std::fs::write(&begin, "").unwrap();
    let fenced = fences.end().await;
    assert!(fenced.0.success(), "{fenced:?}");
    for round in 0..MINUTE {
        within(tool.publish().data(format!("passing.{round}"), 1_u32)).await.unwrap();
        assert!(look_up(&tool, "before").await.is_some());
        assert_eq!(publish(&tool, "late").await, Err(Status::ERR_UNREACH));
    }
    // the next head would not know it
    let mut waits = Running::start(dvm.submit(&["echo", "works"]));
    let taken_back = within(tool.unpublish(["before"]).range(DataRange::SESSION)).await.unwrap_err();
    assert_eq!(taken_back.status(), Status::ERR_UNREACH);
    assert!(look_up(&tool, "before").await.is_some(), "it can be taken back again");
    std::fs::write(&go, "").unwrap();
    assert_eq!(job.end().await.0.code(), Some(3));
    assert!(waits.is_running());
    etcd.go_on();
    let (status, out, err) = waits.end().await;
    assert_eq!((status.code(), out.as_str(), err.as_str()), (Some(0), "works\n", ""));
    until_async("etcd answers again", async || publish(&tool, "after").await).await;
    tool.unpublish(["before"]).range(DataRange::SESSION).await.unwrap();
    dvm.stop(|_, _| ()).await;
    // what was refused is not there, although etcd may have taken it when it went on
    let next = TestDvm::alone_with(&etcd.options()).await;
    let tool = attach(&next).await;
    for (key, is_there) in [
        ("before", false),
        ("meanwhile", false),
        ("crowd.0", false),
        ("crowd.3", false),
        ("late", false),
        ("after", true),
    ] {
        assert_eq!(look_up(&tool, key).await.is_some(), is_there, "{key}");
    }
}

#[tokio::test]
async fn much_that_was_published_is_there_for_the_next_head() {
    let Some(etcd) = TestEtcd::plain() else { return };
    let first = TestDvm::alone_with(&etcd.options()).await;
    let tool = attach(&first).await;
    // more than a page, and more than a message of gRPC has by default
    for number in 0..40 {
        let publish = tool.publish().data(format!("large.{number}"), "x".repeat(200_000));
        publish.range(DataRange::SESSION).persistence(Persistence::INDEF).await.unwrap();
    }
    let too_much =
        tool.publish().data("too.large", "x".repeat(2 << 20)).persistence(Persistence::INDEF).await;
    assert_eq!(too_much.unwrap_err().status(), Status::ERR_OUT_OF_RESOURCE);
    first.stop(|_, _| ()).await;
    // its first member is at a port at which no process can listen while this one holds it
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = SocketAddrV4::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap().port();
    let url = format!("http://127.0.0.1:{port},{}", etcd.url());
    let next = TestDvm::alone_with(&["--etcd".to_owned(), url, "--etcd-insecure".to_owned()]).await;
    let tool = attach(&next).await;
    for number in 0..40 {
        assert_eq!(look_up(&tool, &format!("large.{number}")).await.unwrap().len(), 200_000);
    }
}

#[tokio::test]
async fn etcd_is_reached_by_https_with_certificates_on_both_sides() {
    let Some(etcd) = TestEtcd::tls() else { return };
    let dvm = TestDvm::alone_with(&etcd.options()).await;
    publish(&attach(&dvm).await, "key").await.unwrap();
    dvm.stop(|_, _| ()).await;
    let file = |name: &str| etcd.file(name).to_str().unwrap().to_owned();
    let url = || ["--etcd".to_owned(), etcd.url().to_owned()];
    let without = refused(&[url().as_slice(), &["--etcd-ca".into(), file("ca")]].concat());
    assert!(without.contains("etcd does not answer"), "a client without a certificate: {without}");
    let stranger = refused(&url());
    assert!(stranger.contains("etcd does not answer") && stranger.contains("certificate"), "{stranger}");
    let plain = etcd.url().replace("https", "http");
    let plain = refused(&["--etcd".into(), plain]);
    assert!(plain.contains("it is not protected: use https"), "{plain}");
    let missing = refused(&[url().as_slice(), &["--etcd-ca".into(), file("none")]].concat());
    assert!(missing.contains("/none: "), "{missing}");
}
