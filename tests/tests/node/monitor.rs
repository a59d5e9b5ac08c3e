//! Processes that are watched.

use std::time::Duration;

use pmix_client::keys;
use pmix_client::types::{DataRange, Info, Status};
use pmix_native::conn::Peer as Who;
use pmix_native::msg::Request;
use pmix_native::{Dialect, Encoding};
use pmix_server::NativeWire;
use pmix_tests::{NativeSession, TestNode, within};
use pmix_types::message::{Finalize, Monitor};

#[tokio::test]
async fn hst_09_mon_01a_mon_02_mon_03b_mon_03c_mon_04_a_process_that_sends_no_heartbeat_is_told_of() {
    let node = TestNode::start(2).await;
    let (watched, other) = (node.client(0).await, node.client(1).await);
    let mut alarms = within(other.events([Status::MONITOR_HEARTBEAT_ALERT])).await.unwrap();
    let long = watched.monitor_heartbeat(Duration::from_secs(600)).heartbeat_drops(2).id("long");
    assert_eq!(within(long.app_control()).await.unwrap(), []);
    let short = watched.monitor_heartbeat(Duration::from_secs(1)).range(DataRange::SESSION).id("short");
    assert_eq!(within(short).await.unwrap(), []);
    within(watched.heartbeat()).await.unwrap();

    let alarm = within(alarms.recv()).await.unwrap().unwrap();
    assert_eq!((&alarm.source, alarm.range), (watched.proc_id(), DataRange::SESSION));
    assert_eq!(alarm.affected_procs(), [node.proc(0)]);
    assert_eq!(alarm.info.get(&keys::MONITOR_ID).unwrap().as_deref(), Some("short"));

    within(watched.cancel_monitors("short")).await.unwrap();
    let error = within(watched.cancel_monitors("short")).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_FOUND);
    within(watched.cancel_monitors("")).await.unwrap();
}

/// The next alarm comes only if the heartbeat before it has come.
#[tokio::test]
async fn mon_02_heartbeats_of_the_other_wire_count() {
    let node = TestNode::builder(2).server(|server| server.native_wire(NativeWire::On)).start().await;
    let listener = node.client(1).await;
    let mut alarms = within(listener.events([Status::MONITOR_HEARTBEAT_ALERT])).await.unwrap();
    let encoding = Encoding::plain(Dialect::V41);
    let mut watched = NativeSession::open(&node, Who::Client(node.proc(0)), encoding, "4.2.2").await;
    let what = Info::new(&keys::MONITOR_HEARTBEAT, true);
    let mut wish = Monitor::new(what, Status::MONITOR_HEARTBEAT_ALERT);
    wish.directives.push(Info::new(&keys::MONITOR_HEARTBEAT_TIME, 1u32));
    assert_eq!(watched.ask(&Request::from(wish)).await.status, Status::SUCCESS);
    for _ in 0..2 {
        let alarm = within(alarms.recv()).await.unwrap().unwrap();
        assert_eq!((alarm.source, alarm.range), (node.proc(0), DataRange::NAMESPACE));
        watched.beat().await;
    }
    // and nothing else comes of it
    assert_eq!(watched.ask(&Finalize::new().into()).await.status, Status::SUCCESS);
}

#[tokio::test]
async fn hst_09_mon_01a_a_process_whose_file_stays_as_it_is_is_told_of() {
    let node = TestNode::start(2).await;
    let (watched, other) = (node.client(0).await, node.client(1).await);
    let mut alarms = within(other.events([Status::MONITOR_FILE_ALERT])).await.unwrap();
    let path = node.root().join("progress");
    std::fs::write(&path, "one step").unwrap();
    let path = path.to_str().unwrap();
    let file = |seconds| watched.monitor_file(path, Duration::from_secs(seconds)).file_drops(1);
    within(file(600).file_access().id("read")).await.unwrap();
    within(file(1).file_size().file_modify().id("written")).await.unwrap();
    let alarm = within(alarms.recv()).await.unwrap().unwrap();
    assert_eq!((&alarm.source, alarm.range), (watched.proc_id(), DataRange::NAMESPACE));
    assert_eq!(alarm.info.get(&keys::MONITOR_ID).unwrap().as_deref(), Some("written"));
    assert_eq!(alarm.info.get(&keys::MONITOR_FILE).unwrap().as_deref(), Some(path));
    within(watched.cancel_monitors("read")).await.unwrap();
}
