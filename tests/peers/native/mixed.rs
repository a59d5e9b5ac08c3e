//! Processes that use `pmix-client` and processes linked with the C library do together what processes do.

use std::future::IntoFuture;
use std::path::Path;
use std::process::Command;

use pmix_client::types::job::JobSpec;
use pmix_client::types::{DataRange, Event, Status};
use pmix_client::{Client, ProcId, Rank, Scope, keys};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_server::NativeWire;
use pmix_tests::{NullLauncher, Peer, Running, TestNode, executable, nspace, within};

/// An event of our own, as the C program spells its number.
const CODE: Status = Status::from_raw(-3005);
const CODE_TEXT: &str = "-3005";
/// What the C program puts into its events.
const TEXT: &str = "mixed.text";

/// Job `job` of two, of which rank 0 is here and rank 1 is to be in C, and job `other` of one in C.
struct Rig {
    node: TestNode,
    rust: Client,
}

impl Rig {
    async fn start() -> Self {
        let host = StandardHost::new(NullLauncher, MemoryExchange::single("n0"));
        let node = TestNode::builder(2).host(host).server(|server| server.native_wire(NativeWire::On));
        let node = node.start().await;
        let spec = JobSpec::new(nspace("other")).node_map(["n0"]).unwrap().ranks_block(1, 1).unwrap();
        node.add_job(spec, [0]).await;
        let rust = node.client(0).await;
        Self { node, rust }
    }

    /// Starts the C program as a process of this name.
    async fn c(&self, program: &Path, proc: &ProcId, acts: &[&str]) -> Running {
        let mut command = Command::new(program);
        self.node.handle().setup_fork(proc).await.unwrap().apply(&mut command);
        command.args(acts);
        Running::start(command)
    }
}

/// The processes in C: of the same job, and of another.
fn others() -> [ProcId; 2] {
    [ProcId::new(nspace("job"), Rank::from_raw(1)), ProcId::new(nspace("other"), Rank::from_raw(0))]
}

/// Ends well, having said all of this.
async fn ended(process: Running, said: &[&str]) {
    let (status, out, err) = process.end().await;
    assert!(status.success(), "{out}{err}");
    for line in said.iter().chain(&["left"]) {
        assert!(out.lines().any(|found| found == *line), "{line:?} is not in {out}{err}");
    }
}

async fn publish_and_look_up(library: Peer) {
    let Some(program) = library.program("pmix_mixed") else { return };
    let rig = Rig::start().await;
    for proc in others() {
        let (theirs, ours) = (format!("of-{proc}"), format!("for-{proc}"));
        let acts = ["publish", &theirs, "from C", "lookup", &ours];
        let c = rig.c(&program, &proc, &acts).await;
        let found = within(rig.rust.lookup([&theirs]).wait_all()).await.unwrap();
        assert_eq!(found.get::<String>(&theirs).unwrap().as_deref(), Some("from C"));
        assert_eq!(found.publisher(&theirs), Some(&proc));
        within(rig.rust.publish().data(&ours, "from Rust")).await.unwrap();
        ended(c, &["found from Rust of job:0"]).await;
    }
}

#[tokio::test]
async fn pub_01_pub_13_each_kind_finds_what_the_other_has_published() {
    publish_and_look_up(Peer::Libpmix).await;
}

#[tokio::test]
async fn pub_01_pub_13_libpmix_5_and_rust_find_what_the_other_has_published() {
    publish_and_look_up(Peer::Libpmix5).await;
}

async fn hear_each_other(library: Peer) {
    let Some(program) = library.program("pmix_mixed") else { return };
    for proc in others() {
        // a node for each: the second would be told late of what was said in the first one's time
        let rig = Rig::start().await;
        let mut events = within(rig.rust.events([CODE]).into_future()).await.unwrap();
        let mut event = Event::new(CODE, rig.node.proc(0)).with_range(DataRange::SESSION);
        let acts = ["listen", CODE_TEXT, "hear", "notify", CODE_TEXT, "from C"];
        let mut c = rig.c(&program, &proc, &acts).await;
        c.line_with("listening").await;
        event.info.push(pmix_client::types::Info::dynamic(TEXT.parse().unwrap(), "from Rust"));
        within(rig.rust.notify(event)).await.unwrap();
        let heard = loop {
            let heard = within(events.recv()).await.unwrap().unwrap();
            // a stream hears what its own process says, too
            if heard.source == proc {
                break heard;
            }
        };
        let text = heard.info.iter().find(|info| info.key == TEXT);
        assert_eq!(text.and_then(|info| info.value.as_str()), Some("from C"));
        ended(c, &["heard from Rust of job:0 as -3005"]).await;
    }
}

#[tokio::test]
async fn evt_01_each_kind_hears_of_events_of_the_other() {
    hear_each_other(Peer::Libpmix).await;
}

#[tokio::test]
async fn evt_01_libpmix_5_and_rust_hear_of_events_of_each_other() {
    hear_each_other(Peer::Libpmix5).await;
}

/// A value that was changed, as it was and as it is.
async fn refresh(library: Peer) {
    let Some(program) = library.program("pmix_mixed") else { return };
    let rig = Rig::start().await;
    let put = async |value: u32| {
        rig.rust.put(Scope::GLOBAL, "k", value).unwrap();
        within(rig.rust.commit().into_future()).await.unwrap();
    };
    put(1).await;
    let peer = rig.node.proc(0).to_string();
    let [mate, _] = others();
    let args = [&peer; 3].map(|peer| peer.as_str());
    let acts = ["get", args[0], "listen", CODE_TEXT, "hear", "get", args[1], "refresh", args[2]];
    let mut c = rig.c(&program, &mate, &acts).await;
    c.line_with("listening").await;
    put(2).await;
    let event = Event::new(CODE, rig.node.proc(0)).with_range(DataRange::SESSION);
    within(rig.rust.notify(event)).await.unwrap();
    // what it holds is good enough for a get
    assert_eq!(c.line().await.as_deref(), Some("got 1"));
    ended(c, &["got 2"]).await;
}

#[tokio::test]
async fn get_08_a_c_client_gets_a_value_of_rust_anew() {
    refresh(Peer::Libpmix).await;
}

#[tokio::test]
async fn get_08_a_client_of_libpmix_5_gets_a_value_of_rust_anew() {
    refresh(Peer::Libpmix5).await;
}

/// One in Rust and one in C of one job, and one in C of another, which may have another library.
async fn connected(library: Peer, other_library: Peer) {
    let (Some(program), Some(other)) = (library.program("pmix_mixed"), other_library.program("pmix_mixed"))
    else {
        return;
    };
    let rig = Rig::start().await;
    let all = "job:*,other:*";
    let acts = |nspace| ["connect", all, "size", nspace, "disconnect", all];
    let [mate, stranger] = others();
    let mate = rig.c(&program, &mate, &acts("other")).await;
    let stranger = rig.c(&other, &stranger, &acts("job")).await;

    let procs = [ProcId::wildcard(nspace("job")), ProcId::wildcard(nspace("other"))];
    within(rig.rust.connect(&procs[..]).into_future()).await.unwrap();
    let size = rig.rust.job(nspace("other")).get(keys::JOB_SIZE).optional().into_future();
    assert_eq!(within(size).await.unwrap(), 1, "it is answered locally");
    within(rig.rust.disconnect(&procs[..]).into_future()).await.unwrap();
    ended(mate, &["size of other is 1"]).await;
    ended(stranger, &["size of job is 2"]).await;
}

#[tokio::test]
async fn con_02_con_06_con_08_a_mixed_job_connects_with_one_in_c() {
    connected(Peer::Libpmix, Peer::Libpmix).await;
}

#[tokio::test]
async fn con_02_con_06_con_08_processes_of_three_libraries_connect() {
    connected(Peer::Libpmix, Peer::Libpmix5).await;
}

/// A mail, and then one beside a channel that nobody has.
async fn mailed(library: Peer) {
    let Some(program) = library.program("pmix_mixed") else { return };
    let dir = tempfile::tempdir().unwrap();
    let sendmail = dir.path().join("sendmail");
    let out = dir.path().display();
    let script = format!("#!/bin/sh\nprintf '%s ' \"$@\" >> {out}/mails\ncat >> {out}/mails\n");
    executable(&sendmail, &script);
    let host = StandardHost::new(NullLauncher, MemoryExchange::single("n0")).with_mail_program(&sendmail);
    let node =
        TestNode::builder(1).host(host).server(|server| server.native_wire(NativeWire::On)).start().await;
    let mut command = Command::new(program);
    node.handle().setup_fork(&node.proc(0)).await.unwrap().apply(&mut command);
    command.args(["mail", "ops@example"]);
    let [success, partial] = [Status::SUCCESS, Status::ERR_PARTIAL_SUCCESS].map(Status::to_raw);
    ended(Running::start(command), &[&format!("mailed {success}"), &format!("and more {partial}")]).await;
    let mails = std::fs::read_to_string(dir.path().join("mails")).unwrap();
    let mails: Vec<_> = mails.split("-i -- ops@example ").skip(1).collect();
    assert_eq!(mails.len(), 2, "{mails:?}");
    for mail in mails {
        assert!(mail.contains("Subject: from C\n") && mail.ends_with("\n\ntext\n"), "{mail}");
        // its library stamps all messages
        assert!(mail.contains("\nDate: "), "{mail}");
    }
}

#[tokio::test]
async fn log_05_log_06b_a_process_in_c_logs_by_mail_and_learns_that_another_channel_has_failed() {
    mailed(Peer::Libpmix).await;
}

#[tokio::test]
async fn log_05_log_06b_a_process_of_libpmix_5_logs_by_mail() {
    mailed(Peer::Libpmix5).await;
}

/// Rank 1 twice in C, and rank 0 here.
async fn all_clones_fence(library: Peer) {
    let Some(program) = library.program("pmix_mixed") else { return };
    let rig = Rig::start().await;
    let [proc, _] = others();
    let held = ["publish", "second", "is there", "lookup", "go", "fence", "job"];
    let second = rig.c(&program, &proc, &held).await;
    let first = rig.c(&program, &proc, &["publish", "first", "is there", "fence", "job"]).await;
    // only those that are there are awaited
    within(rig.rust.lookup(["first", "second"]).wait_all()).await.unwrap();
    let rust = rig.rust.clone();
    let entered = tokio::spawn(async move { rust.fence_all().await });
    rig.node.until_waiting(3).await;
    assert!(!entered.is_finished(), "the second is awaited");
    within(rig.rust.publish().data("go", "now")).await.unwrap();
    for process in [first, second] {
        ended(process, &["fenced with all clones"]).await;
    }
    within(entered).await.unwrap().unwrap();
}

#[tokio::test]
async fn idn_07c_a_fence_waits_for_all_clones_in_c() {
    all_clones_fence(Peer::Libpmix).await;
}

#[tokio::test]
async fn idn_07c_a_fence_waits_for_all_clones_of_libpmix_5() {
    all_clones_fence(Peer::Libpmix5).await;
}
