//! Who is refused, with which reason in the log, while a job goes on.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use pmix_client::types::message::{Commit, Hello, Identity, PutEntry, Request};
use pmix_client::types::{Info, Pid, Status, Value};
use pmix_client::{Client, Nspace, ProcId, Rank, Scope};
use pmix_proto::ServerBody;
use pmix_proto::frames::PREFACE;
use pmix_proto::v1::ClientMessage;
use pmix_server::host::ToolConnected;
use pmix_server::{Capabilities, HostModule, HostResult, Upcall, UpcallContext, async_trait};
use pmix_tests::{Logs, RawSession, TestNode, forged, noise, on_both_runtimes, within};
use pmix_types::{Gid, Uid};
use prost::Message;
use rustix::process::geteuid;

/// A node that other users reach, and the job of two that goes on.
async fn node() -> (TestNode, [Client; 2]) {
    let node = TestNode::builder(2).server(|server| server.other_users(true)).start().await;
    let clients = [node.client(0).await, node.client(1).await];
    (node, clients)
}

/// A process of another job, which is to be registered.
fn other() -> ProcId {
    ProcId::new(Nspace::new("other").unwrap(), Rank::from_raw(2))
}

#[test]
fn cli_02_sec_01_sec_03_a_client_with_the_wrong_uid_is_refused_while_the_job_goes_on() {
    on_both_runtimes(async || {
        let (node, clients) = node().await;
        let logs = Logs::start();
        let (proc, uid) = (other(), geteuid().as_raw());
        let another = Uid::new(uid + 1);
        node.handle().register_client(&proc, another, Gid::ROOT, None).await.unwrap();
        let error = node.connect(&proc).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_NO_PERMISSIONS);
        let reason = format!("other:2 is registered for uid {another}");
        assert!(error.to_string().contains(&reason), "{error}");
        let line = logs.line_with(&["refused a connection", &reason]).await;
        assert!(line.contains(&format!("comes from uid {uid}")), "{line}");
        assert_eq!(node.stats().await.refused, 1);
        node.goes_on(&clients).await;
    });
}

#[tokio::test]
async fn cli_02_a_wrong_group_is_refused_as_well() {
    let (node, clients) = node().await;
    let proc = other();
    node.handle().register_client(&proc, geteuid().as_raw(), Gid::new(54321), None).await.unwrap();
    let error = node.connect(&proc).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NO_PERMISSIONS);
    assert!(error.to_string().contains("gid 54321"), "{error}");
    node.goes_on(&clients).await;
}

#[tokio::test]
async fn sec_01_without_leave_the_socket_and_its_directory_are_for_their_user_alone() {
    let node = TestNode::start(1).await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(node.handle().session_dir()), 0o700);
    assert_eq!(mode(&node.socket()), 0o600);
}

#[test]
fn cli_03_sec_03_an_unregistered_rank_or_namespace_is_refused_while_the_job_goes_on() {
    on_both_runtimes(async || {
        let (node, clients) = node().await;
        let logs = Logs::start();
        let strange_job = ProcId::new(Nspace::new("strange").unwrap(), Rank::from_raw(0));
        for (proc, reason) in [
            (node.proc(17), "job:17 is not registered"),
            (strange_job, "strange:0: its namespace is not registered"),
        ] {
            let error = node.connect(&proc).await.unwrap_err();
            assert_eq!(error.status(), Status::ERR_NO_PERMISSIONS);
            assert!(error.to_string().contains(reason), "{error}");
            logs.line_with(&["refused a connection", reason]).await;
        }
        node.goes_on(&clients).await;
    });
}

#[tokio::test]
async fn a_name_that_would_act_on_a_terminal_is_refused_and_the_log_has_one_clean_line() {
    let (node, clients) = node().await;
    let logs = Logs::start();
    let plain = ProcId::new(Nspace::new("placeholder0").unwrap(), Rank::from_raw(0));
    let hello = pmix_proto::encode_hello(&Hello::new(Identity::Client(plain), Pid(1))).next().unwrap();
    let hello = forged(&hello.encode_to_vec(), "placeholder0", "x\u{1b}[2J\nforged");
    let hello = ClientMessage::decode(&*hello).unwrap();
    let mut session = RawSession::open(&node.socket(), [hello]).await.unwrap();
    let Ok(Some((0, ServerBody::Failure(failure)))) = session.next().await else { panic!("not refused") };
    assert_eq!(failure.status, Status::ERR_BAD_PARAM);
    let reason = "a namespace must not contain a control character; this one has one at byte 1";
    assert!(failure.message.contains(reason), "{failure}");
    let line = logs.line_with(&["refused a connection", reason]).await;
    assert!(!line.contains(char::is_control), "{line:?}");
    assert!(logs.none_with("forged"));
    node.goes_on(&clients).await;

    // neither in a key, of a process that has been let in
    let put = PutEntry::new(Scope::GLOBAL, "placeholder0".parse().unwrap(), Value::from(1));
    let commit = pmix_proto::encode_request(1, &Request::Commit(Commit::new(vec![put]))).next().unwrap();
    let commit = forged(&commit.encode_to_vec(), "placeholder0", "x\u{1b}[2J\nforged");
    node.register(&other()).await;
    let hello = Hello::new(Identity::Client(other()), Pid(1));
    let mut session = RawSession::open(&node.socket(), pmix_proto::encode_hello(&hello)).await.unwrap();
    assert!(matches!(session.next().await, Ok(Some((0, ServerBody::Welcome { .. })))));
    session.outgoing.send(ClientMessage::decode(&*commit).unwrap()).unwrap();
    let Ok(Some((1, ServerBody::Failure(failure)))) = session.next().await else { panic!("not refused") };
    assert!(failure.message.contains("a key must not contain a control character"), "{failure}");
    assert!(logs.none_with("forged"));
    let (a, b) = within(async { tokio::join!(clients[0].fence_all(), clients[1].fence_all()) }).await;
    a.and(b).unwrap();
}

#[tokio::test]
async fn a_random_byte_stream_is_refused_while_the_job_goes_on() {
    let (node, clients) = node().await;
    let logs = Logs::start();
    let mut stream = UnixStream::connect(node.socket()).unwrap();
    let bytes = noise(100_000);
    // it may hang up before it has read all
    let _ = stream.write_all(&bytes);
    let own = std::process::id().to_string();
    logs.line_with(&["refused a connection that does not speak the protocol", &own]).await;
    node.goes_on(&clients).await;
}

#[tokio::test]
async fn what_looks_like_http_2_at_first_is_refused_while_the_job_goes_on() {
    let (node, clients) = node().await;
    let logs = Logs::start();
    let mut stream = UnixStream::connect(node.socket()).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    // a frame of the greatest length there is, of a type that has none
    stream.write_all(&[0xff, 0xff, 0xff, 0x04, 0, 0, 0, 0, 0]).unwrap();
    logs.line_with(&["refused a connection that does not speak the protocol"]).await;
    node.goes_on(&clients).await;
}

#[test]
fn a_length_prefix_of_1_gib_is_refused_while_the_job_goes_on() {
    on_both_runtimes(async || {
        let (node, clients) = node().await;
        let logs = Logs::start();
        // not compressed, 1 GiB, and the first bytes of it
        let prefix = [&[0][..], &(1_u32 << 30).to_be_bytes(), b"begins"].concat();
        let mut session = RawSession::open_with_bytes(&node.socket(), prefix).await.unwrap();
        let Ok(Some((0, ServerBody::Failure(failure)))) = session.next().await else { panic!("not refused") };
        assert_eq!(failure.status, Status::ERR_BAD_PARAM);
        assert!(failure.message.contains("1073741824"), "{failure}");
        logs.line_with(&["refused a connection", "1073741824"]).await;
        node.goes_on(&clients).await;
    });
}

#[tokio::test]
async fn what_looks_like_the_framed_wire_at_first_is_refused_while_the_job_goes_on() {
    let (node, clients) = node().await;
    let logs = Logs::start();
    let gib = [&PREFACE[..], &(1_u32 << 30).to_le_bytes(), b"begins"].concat();
    let noisy = [&PREFACE[..], &100_u32.to_le_bytes(), &noise(100)].concat();
    for (bytes, reason) in [
        (&b"\0pmix-2\nmore"[..], "pmix-2"),
        (&gib, "a message of 1073741824 bytes, the limit is 4194304"),
        (&noisy, "its greeting cannot be read"),
    ] {
        let mut stream = UnixStream::connect(node.socket()).unwrap();
        stream.write_all(bytes).unwrap();
        logs.line_with(&["refused a connection", reason]).await;
        // the server closes it, in whatever way that comes in
        let _ = stream.read_to_end(&mut Vec::new());
    }
    // who leaves in the middle is not worth a line
    for bytes in [&PREFACE[..3], &PREFACE, &gib[..10]] {
        UnixStream::connect(node.socket()).unwrap().write_all(bytes).unwrap();
    }
    node.goes_on(&clients).await;
}

#[tokio::test]
async fn who_asks_before_it_has_said_who_it_is_is_refused() {
    use pmix_client::types::message::Fence;
    let (node, clients) = node().await;
    let request = pmix_proto::encode_request(1, &Request::Fence(Fence::new(None)));
    let mut session = RawSession::open(&node.socket(), request).await.unwrap();
    let Ok(Some((_, ServerBody::Failure(failure)))) = session.next().await else { panic!("not refused") };
    assert!(failure.message.contains("it sent a request before its greeting"), "{failure}");
    assert!(session.next().await.unwrap().is_none());
    node.goes_on(&clients).await;
}

#[tokio::test]
async fn who_greets_twice_is_gone() {
    let (node, clients) = node().await;
    node.register(&other()).await;
    let hello = Hello::new(Identity::Client(other()), Pid(1));
    let mut session = RawSession::open(&node.socket(), pmix_proto::encode_hello(&hello)).await.unwrap();
    assert!(matches!(session.next().await, Ok(Some((0, ServerBody::Welcome { .. })))));
    pmix_proto::encode_hello(&hello).for_each(|message| session.outgoing.send(message).unwrap());
    assert!(!matches!(session.next().await, Ok(Some(_))), "nothing follows");
    let error = within(clients[0].get::<u32>(other(), "key")).await.unwrap_err();
    assert!(error.to_string().contains("sent a second greeting"), "it counts as dead: {error}");
}

#[tokio::test]
async fn who_hangs_up_without_a_word_leaves_nothing() {
    let (node, clients) = node().await;
    for _ in 0..10 {
        drop(UnixStream::connect(node.socket()).unwrap());
        let _ = RawSession::open(&node.socket(), []).await;
    }
    node.goes_on(&clients).await;
}

/// Says hello as a tool; the server's first words.
async fn tool(node: &TestNode) -> ServerBody {
    let hello = Hello::new(Identity::Tool(None), Pid(1));
    let mut session = RawSession::open(&node.socket(), pmix_proto::encode_hello(&hello)).await.unwrap();
    session.next().await.unwrap().unwrap().1
}

/// Lets every tool in.
struct Gatekeeper;

#[async_trait]
impl HostModule for Gatekeeper {
    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Upcall::ToolConnected)
    }

    async fn tool_connected(&self, cx: &UpcallContext, req: ToolConnected) -> HostResult<ProcId> {
        assert_eq!(cx.uid.as_raw(), geteuid().as_raw());
        assert_eq!(req.directives.get(&pmix_client::keys::USERID)?, Some(cx.uid));
        Ok(ProcId::new(Nspace::new("tool").unwrap(), Rank::from_raw(0)))
    }
}

#[tokio::test]
async fn tol_01_tol_15_sec_02_tools_need_the_servers_leave_and_a_host_that_decides() {
    let with_support = |node: pmix_tests::TestNodeBuilder| node.server(|server| server.tool_support(true));
    let closed = [
        TestNode::start(1).await,
        TestNode::with_host(1, Gatekeeper).await,
        with_support(TestNode::builder(1)).start().await,
    ];
    for node in &closed {
        let ServerBody::Failure(failure) = tool(node).await else { panic!("a tool was let in") };
        assert_eq!(failure.status, Status::ERR_NOT_SUPPORTED, "{failure}");
    }
    let open = with_support(TestNode::builder(1)).host(Gatekeeper).start().await;
    let ServerBody::Welcome { welcome, .. } = tool(&open).await else { panic!("the tool was refused") };
    assert_eq!(welcome.proc.to_string(), "tool:0");
    assert!(welcome.job.is_none());
}

#[tokio::test]
async fn sec_03_nothing_is_read_of_a_process_that_was_refused() {
    let (node, clients) = node().await;
    let hello = Hello::new(Identity::Client(other()), Pid(1));
    let mut session = RawSession::open(&node.socket(), pmix_proto::encode_hello(&hello)).await.unwrap();
    let Ok(Some((_, ServerBody::Failure(_)))) = session.next().await else { panic!("not refused") };
    assert!(session.next().await.is_ok_and(|next| next.is_none()));
    // what it would go on to send has nowhere to go: the server has closed that direction too
    within(session.outgoing.closed()).await;
    // and it keeps no connection for having been here
    session.closed().await;
    node.goes_on(&clients).await;
}

#[tokio::test]
async fn a_greeting_in_parts_is_refused_before_it_is_held() {
    let (node, clients) = node().await;
    node.register(&other()).await;
    let mut hello = Hello::new(Identity::Client(other()), Pid(1));
    hello.directives.push(Info::dynamic("padding".try_into().unwrap(), vec_value(2 << 20)));
    let mut session = RawSession::open(&node.socket(), pmix_proto::encode_hello(&hello)).await.unwrap();
    let Ok(Some((_, ServerBody::Failure(failure)))) = session.next().await else { panic!("not refused") };
    assert!(failure.message.contains("65536"), "{failure}");
    node.goes_on(&clients).await;
}

fn vec_value(size: usize) -> Value {
    Value::ByteObject(vec![7; size].into())
}

#[tokio::test]
async fn who_does_not_read_its_answers_is_disconnected() {
    use pmix_client::types::message::Get;
    let logs = Logs::start();
    let node =
        TestNode::builder(2).server(|server| server.unread_timeout(Duration::from_secs(1))).start().await;
    let clients = [node.client(0).await, node.client(1).await];
    node.register(&other()).await;
    let hello = Hello::new(Identity::Client(other()), Pid(1));
    clients[0].put(Scope::GLOBAL, "big", vec_value(900 << 10)).unwrap();
    within(clients[0].commit()).await.unwrap();
    let mut session = RawSession::open(&node.socket(), pmix_proto::encode_hello(&hello)).await.unwrap();
    assert!(matches!(session.next().await, Ok(Some((0, ServerBody::Welcome { .. })))));
    let get = Request::Get(Get::new(clients[0].proc_id().clone(), Some("big".try_into().unwrap())));
    for id in 1..200 {
        pmix_proto::encode_request(id, &get).for_each(|message| drop(session.outgoing.send(message)));
    }
    logs.line_with(&["closed a connection", "does not read"]).await;
    session.closed().await;
    let (a, b) = within(async { tokio::join!(clients[0].fence_all(), clients[1].fence_all()) }).await;
    a.and(b).unwrap();
}
