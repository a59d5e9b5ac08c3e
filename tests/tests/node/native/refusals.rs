//! Who is refused on the port for C clients, with which reason in the log, while a job goes on.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use pmix_client::{Client, Nspace, ProcId, Rank};
use pmix_native::conn::{
    ClientAnswer, Connect, Frame, Framing, Peer as Who, Role, Security, ToolAnswer, ToolIdentity, User, tag,
};
use pmix_native::msg::{CommitPart, Context, Publish, Reply, Request};
use pmix_native::{Dialect, Encoding};
use pmix_server::host::{ClientConnected, HostError, ToolConnected};
use pmix_server::types::{App, Directives, Info, KeyVal, Scope, Status, Value, keys};
use pmix_server::{Capabilities, HostModule, HostResult, NativeWire, Upcall, UpcallContext, async_trait};
use pmix_tests::{
    Logs, NativeSession, TestNode, forged, native_connect, native_stream, native_user, noise,
    on_both_runtimes, within,
};
use pmix_types::message::{Get, Spawn};
use pmix_types::{Gid, Uid};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};

/// A node with both front ends, and the job of two that goes on.
async fn node() -> (TestNode, [Client; 2]) {
    let node = TestNode::builder(2).server(|server| server.native_wire(NativeWire::On)).start().await;
    let clients = [node.client(0).await, node.client(1).await];
    (node, clients)
}

/// A process of another job, which is to be registered.
fn other() -> ProcId {
    ProcId::new(Nspace::new("other").unwrap(), Rank::from_raw(2))
}

/// The job does what jobs do.
async fn goes_on(node: &TestNode, clients: &[Client; 2]) {
    node.until_waiting(0).await;
    let (a, b) = within(async { tokio::join!(clients[0].fence_all(), clients[1].fence_all()) }).await;
    a.and(b).unwrap();
}

fn plain() -> Encoding {
    Encoding::plain(Dialect::V41)
}

fn connect_as(peer: Who, user: User) -> Connect {
    let mut connect = native_connect(peer, plain(), "4.2.2");
    connect.security = Security::native(user);
    connect
}

/// Nothing comes but the end, in whatever form.
async fn is_closed(mut stream: TcpStream) {
    let mut answer = Vec::new();
    let _ = within(stream.read_to_end(&mut answer)).await;
    assert_eq!(answer, b"");
}

/// Sends something and is refused for a reason.
async fn refused(node: &TestNode, clients: &[Client; 2], sent: &[u8], reason: &[&str]) {
    let logs = Logs::start();
    let mut stream = native_stream(node).await;
    // it may hang up before it has read all
    let _ = stream.write_all(sent).await;
    logs.line_with(&[&["refused a connection"], reason].concat()).await;
    is_closed(stream).await;
    assert_eq!(node.stats().await.connections, 2, "nobody else was let in");
    goes_on(node, clients).await;
}

async fn refused_connect(node: &TestNode, clients: &[Client; 2], connect: &Connect, reason: &[&str]) {
    refused(node, clients, &connect.encode().unwrap(), reason).await;
}

#[test]
fn sec_01_sec_03_who_claims_another_uid_is_refused_by_the_kernels_word() {
    on_both_runtimes(async || {
        let (node, clients) = node().await;
        let User { uid, gid } = native_user();
        // its claim agrees with the registration
        let another = another(uid);
        node.handle().register_client(&other(), another, gid, None).await.unwrap();
        let connect = connect_as(Who::Client(other()), User { uid: another, gid });
        let registered = format!("other:2 is registered for uid {another} gid {gid}");
        let real = format!("the connection comes from uid {uid} ");
        refused_connect(&node, &clients, &connect, &[&registered, &real]).await;
    });
}

/// A process in a user namespace sees other numbers than the server does. It has the group of its registration, too.
#[tokio::test]
async fn sec_01_cli_02_who_is_registered_is_let_in_by_the_kernels_word_whatever_it_claims() {
    let (sender, mut told) = mpsc::unbounded_channel();
    let node = TestNode::builder(1).host(Arrivals(sender));
    let node = node.server(|server| server.native_wire(NativeWire::On)).start().await;
    let User { uid, gid } = native_user();
    node.handle().register_client(&other(), uid, gid, None).await.unwrap();
    let claim = User { uid: another(uid), gid: Gid::new(gid.as_raw() + 1) };
    let mut stream = native_stream(&node).await;
    stream.write_all(&connect_as(Who::Client(other()), claim).encode().unwrap()).await.unwrap();
    assert_eq!(within(told.recv()).await, Some((uid, Some(gid))));
    within(stream.read_u8()).await.unwrap();
    assert_eq!(node.stats().await.connections, 1);
}

/// The user with the next number.
const fn another(uid: Uid) -> Uid {
    Uid::new(uid.as_raw() + 1)
}

/// Lets everybody in, and tells the user and the group.
struct Arrivals(mpsc::UnboundedSender<(Uid, Option<Gid>)>);

#[async_trait]
impl HostModule for Arrivals {
    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Upcall::ClientConnected)
    }

    async fn client_connected(&self, cx: &UpcallContext, _: ClientConnected) -> HostResult<()> {
        self.0.send((cx.uid, cx.gid)).unwrap();
        Ok(())
    }
}

#[tokio::test]
async fn cli_02_who_is_registered_for_another_uid_is_refused() {
    let (node, clients) = node().await;
    let User { uid, gid } = native_user();
    node.handle().register_client(&other(), another(uid), gid, None).await.unwrap();
    let connect = connect_as(Who::Client(other()), native_user());
    let reason = format!("other:2 is registered for uid {}", another(uid));
    refused_connect(&node, &clients, &connect, &[&reason]).await;
}

#[tokio::test]
async fn cli_03_an_unregistered_rank_or_namespace_is_refused() {
    let (node, clients) = node().await;
    let strange = ProcId::new(Nspace::new("strange").unwrap(), Rank::from_raw(0));
    for (proc, reason) in
        [(node.proc(17), "job:17 is not registered"), (strange, "strange:0: its namespace is not registered")]
    {
        refused_connect(&node, &clients, &connect_as(Who::Client(proc), native_user()), &[reason]).await;
    }
}

#[tokio::test]
async fn a_name_that_would_act_on_a_terminal_is_refused_and_the_log_has_one_clean_line() {
    let (node, clients) = node().await;
    let logs = Logs::start();
    let placeholder = ProcId::new(Nspace::new("placeholder0").unwrap(), Rank::from_raw(0));
    let connect = connect_as(Who::Client(placeholder), native_user()).encode().unwrap();
    let connect = forged(&connect, "placeholder0", "x\u{1b}[2J\nforged");
    let reason = "a namespace must not contain a control character; this one has one at byte 1";
    refused(&node, &clients, &connect, &[reason]).await;
    let line = logs.line_with(&[reason]).await;
    assert!(!line.contains(char::is_control), "{line:?}");

    // neither in a key, of a process that has been let in
    node.register(&other()).await;
    let mut session = NativeSession::open(&node, Who::Client(other()), plain(), "4.2.2").await;
    let mut publish = Publish::new(native_user().uid);
    publish.info = vec![Info::dynamic("placeholder0".parse().unwrap(), 1)].into();
    let publish = Request::Publish(publish).encode(&session.context).unwrap();
    let answer = session.ask_bytes(forged(&publish, "placeholder0", "x\u{1b}[2J\nforged")).await;
    assert_eq!(answer, Reply::from(Status::ERR_BAD_PARAM).encode(&session.context).unwrap());
    let line =
        logs.line_with(&["cannot decode a request", "a key must not contain a control character"]).await;
    assert!(!line.contains(char::is_control), "{line:?}");
    assert!(logs.none_with("forged"));
    drop(session);
    goes_on(&node, &clients).await;
}

#[tokio::test]
async fn sec_01_credentials_that_cannot_be_checked_are_refused() {
    let (node, clients) = node().await;
    node.register(&other()).await;
    for mechanism in ["munge", "none"] {
        let mut connect = connect_as(Who::Client(other()), native_user());
        connect.security = Security { mechanism: mechanism.into(), credential: Bytes::new() };
        refused_connect(&node, &clients, &connect, &[mechanism]).await;
    }
}

/// Lets nobody in: tells what it is told of a process, and when nobody waits for its answer any more.
struct Undecided(mpsc::UnboundedSender<Option<Directives>>);

impl Undecided {
    async fn think<T>(&self, cx: &UpcallContext, said: Directives) -> HostResult<T> {
        self.0.send(Some(said)).unwrap();
        cx.cancelled().await;
        self.0.send(None).unwrap();
        Err(HostError::new(Status::ERROR, "nobody waits"))
    }
}

#[async_trait]
impl HostModule for Undecided {
    fn capabilities(&self) -> Capabilities {
        [Upcall::ClientConnected, Upcall::ToolConnected].into_iter().collect()
    }

    async fn client_connected(&self, cx: &UpcallContext, req: ClientConnected) -> HostResult<()> {
        self.think(cx, req.directives).await
    }

    async fn tool_connected(&self, cx: &UpcallContext, req: ToolConnected) -> HostResult<ProcId> {
        self.think(cx, req.directives).await
    }
}

#[tokio::test]
async fn gen_14_sec_03_the_host_hears_what_a_process_says_of_itself_and_that_it_does_not_wait_any_more() {
    let (sender, mut heard) = mpsc::unbounded_channel();
    let node = TestNode::builder(1).host(Undecided(sender));
    let node = node.server(|server| server.native_wire(NativeWire::On).tool_support(true)).start().await;
    let client = connect_as(Who::Client(node.proc(0)), native_user());
    let identity = ToolIdentity::Assign;
    let user = native_user();
    let mut tool = connect_as(Who::Tool { role: Role::Tool, user, identity }, user);
    // clients have no room for it
    tool.info = vec![Info::new(&keys::PROGRAMMING_MODEL, "MPI")];
    for (connect, model) in [(client, None), (tool, Some("MPI"))] {
        let mut stream = native_stream(&node).await;
        stream.write_all(&connect.encode().unwrap()).await.unwrap();
        let said = within(heard.recv()).await.unwrap().unwrap();
        assert_eq!(said.get(&keys::PROGRAMMING_MODEL).unwrap().as_deref(), model);
        drop(stream);
        assert_eq!(within(heard.recv()).await.unwrap(), None);
    }
    assert_eq!(node.stats().await.connections, 0);
}

/// Lets tools in, and tells which group it was told that they are of, in either way.
struct Groups(mpsc::UnboundedSender<(Option<Gid>, Option<Gid>)>);

#[async_trait]
impl HostModule for Groups {
    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Upcall::ToolConnected)
    }

    async fn tool_connected(&self, cx: &UpcallContext, req: ToolConnected) -> HostResult<ProcId> {
        assert_eq!(req.directives.get(&keys::USERID)?, Some(cx.uid));
        self.0.send((cx.gid, req.directives.get(&keys::GRPID)?)).unwrap();
        Ok(ProcId::new(Nspace::new("tool").unwrap(), Rank::from_raw(0)))
    }
}

/// The kernel tells whose a socket is, but not of which group.
#[tokio::test]
async fn sec_01_a_group_is_not_believed_on_the_native_wire() {
    let (sender, mut told) = mpsc::unbounded_channel();
    let node = TestNode::builder(1).host(Groups(sender));
    let node = node.server(|server| server.native_wire(NativeWire::On).tool_support(true)).start().await;
    let User { uid, gid } = native_user();
    for claim in [gid, Gid::new(12345)] {
        let user = User { uid, gid: claim };
        let mut tool = connect_as(Who::Tool { role: Role::Tool, user, identity: ToolIdentity::Assign }, user);
        // nor as a directive
        tool.info = vec![Info::new(&keys::GRPID, claim)];
        let mut stream = native_stream(&node).await;
        stream.write_all(&tool.encode().unwrap()).await.unwrap();
        assert_eq!(within(told.recv()).await, Some((None, None)), "of group {claim}, it says");
        within(stream.read_u8()).await.unwrap();
    }
    // a process has the group it was registered with, and must not say otherwise
    let logs = Logs::start();
    node.handle().register_client(&other(), uid, Gid::new(12345), None).await.unwrap();
    let client = connect_as(Who::Client(other()), User { uid, gid });
    let mut stream = native_stream(&node).await;
    stream.write_all(&client.encode().unwrap()).await.unwrap();
    logs.line_with(&["refused a connection", "registered for uid", "gid 12345"]).await;
    is_closed(stream).await;
}

/// Libraries choose MUNGE for tools where it runs. Its credential is not read.
#[tokio::test]
async fn sec_01_a_tool_with_a_munge_credential_is_known_by_the_kernels_word() {
    let (sender, mut told) = mpsc::unbounded_channel();
    let node = TestNode::builder(1).host(Groups(sender));
    let node = node.server(|server| server.native_wire(NativeWire::On).tool_support(true)).start().await;
    let of = |user: User| {
        let mut tool = connect_as(Who::Tool { role: Role::Tool, user, identity: ToolIdentity::Assign }, user);
        let credential = Bytes::from_static(b"MUNGE:AwQDAAB:\0");
        tool.security = Security { mechanism: "munge".into(), credential };
        tool.encode().unwrap()
    };
    let own = native_user();
    let mut stream = native_stream(&node).await;
    stream.write_all(&of(own)).await.unwrap();
    assert_eq!(within(told.recv()).await, Some((None, None)));
    within(stream.read_u8()).await.unwrap();
    let logs = Logs::start();
    let mut stream = native_stream(&node).await;
    stream.write_all(&of(User { uid: another(own.uid), ..own })).await.unwrap();
    logs.line_with(&["refused a connection", "it claims uid"]).await;
    assert!(told.try_recv().is_err());
}

/// Lets tools in when it is told to, and tells that it was asked, and of every spawn.
struct Slow {
    told: mpsc::UnboundedSender<&'static str>,
    leave: Arc<Semaphore>,
}

#[async_trait]
impl HostModule for Slow {
    fn capabilities(&self) -> Capabilities {
        [Upcall::ToolConnected, Upcall::Spawn].into_iter().collect()
    }

    async fn tool_connected(&self, _: &UpcallContext, _: ToolConnected) -> HostResult<ProcId> {
        self.told.send("tool").unwrap();
        self.leave.acquire().await.unwrap().forget();
        Ok(ProcId::new(Nspace::new("tool").unwrap(), Rank::from_raw(0)))
    }

    async fn spawn(&self, _: &UpcallContext, _: Spawn) -> HostResult<Nspace> {
        self.told.send("spawn").unwrap();
        Ok(Nspace::new("spawned").unwrap())
    }
}

/// The request comes together with the connect message, or after it has been read.
#[tokio::test]
async fn sec_03_what_a_process_has_asked_that_left_before_it_was_let_in_is_dropped() {
    let (told, mut heard) = mpsc::unbounded_channel();
    let leave = Arc::new(Semaphore::new(0));
    let node = TestNode::builder(1).host(Slow { told, leave: leave.clone() });
    let node = node.server(|server| server.native_wire(NativeWire::On).tool_support(true)).start().await;
    let user = native_user();
    let tool = connect_as(Who::Tool { role: Role::Tool, user, identity: ToolIdentity::Assign }, user);
    let context = Context::new(plain(), "4.2.2".parse().unwrap());
    let spawn = Request::from(Spawn::new(vec![App::new("true", 1)])).encode(&context).unwrap();
    let mut frame = BytesMut::new();
    let frame_of_spawn = Frame { index: 0, tag: tag::FIRST_REQUEST + 1, payload: spawn };
    Framing::default().encode(&frame_of_spawn, &mut frame).unwrap();
    for (at_once, stays) in [(true, true), (false, true), (true, false), (false, false)] {
        leave.forget_permits(usize::MAX);
        let logs = Logs::start();
        let mut sent = tool.encode().unwrap().to_vec();
        if at_once {
            sent.extend_from_slice(&frame);
        }
        let mut stream = native_stream(&node).await;
        stream.write_all(&sent).await.unwrap();
        assert_eq!(within(heard.recv()).await, Some("tool"));
        if !at_once {
            stream.write_all(&frame).await.unwrap();
        }
        if stays {
            leave.add_permits(1);
            assert_eq!(within(heard.recv()).await, Some("spawn"), "this is how it is asked");
            continue;
        }
        drop(stream);
        leave.add_permits(1);
        if !at_once {
            logs.line_with(&["refused a connection", "disconnected before it was admitted"]).await;
        }
        node.until(|stats| stats.waiting == 0).await;
        // what comes after it is served, and nothing before
        let mut next = native_stream(&node).await;
        next.write_all(&tool.encode().unwrap()).await.unwrap();
        assert_eq!(within(heard.recv()).await, Some("tool"), "at once: {at_once}");
        leave.add_permits(1);
        within(next.read_u8()).await.unwrap();
    }
}

/// Tools and their like are told, as clients cannot be.
#[tokio::test]
async fn tol_16_who_is_no_client_hears_why_it_is_refused() {
    let (node, clients) = node().await;
    let (user, proc) = (native_user(), other());
    let started = ToolIdentity::Started(proc.clone());
    for (peer, status) in [
        (Who::Singleton { user, proc: proc.clone() }, Status::ERR_NOT_SUPPORTED),
        (Who::Scheduler { user, proc }, Status::ERR_NOT_SUPPORTED),
        (Who::Tool { role: Role::Tool, user, identity: ToolIdentity::Legacy }, Status::ERR_NOT_SUPPORTED),
        // it says that it was started as a process, but nobody has registered that
        (Who::Tool { role: Role::Launcher, user, identity: started }, Status::ERR_NO_PERMISSIONS),
    ] {
        let mut stream = native_stream(&node).await;
        stream.write_all(&connect_as(peer.clone(), user).encode().unwrap()).await.unwrap();
        let mut answer = Vec::new();
        within(stream.read_to_end(&mut answer)).await.unwrap();
        assert_eq!(answer, ToolAnswer::refusal(status), "{peer:?}");
    }
    goes_on(&node, &clients).await;
}

#[tokio::test]
async fn a_random_byte_stream_is_refused() {
    let (node, clients) = node().await;
    let bytes = noise(100_000);
    refused(&node, &clients, &bytes, &["it does not speak the protocol"]).await;
}

#[tokio::test]
async fn a_connect_message_that_is_too_long_is_refused_by_its_header() {
    let (node, clients) = node().await;
    // wrong in either byte order
    let mut header = BytesMut::from(&[0xff; 8][..]);
    header.put_u32(0x7f00_007f);
    header.put_u32(0);
    let reason = [0x7f00_007f_u32.to_string(), Connect::MAX_PAYLOAD.to_string()];
    refused(&node, &clients, &header, &[&reason[0], &reason[1]]).await;
}

#[tokio::test]
async fn who_hangs_up_without_a_word_leaves_nothing() {
    let (node, clients) = node().await;
    for _ in 0..10 {
        drop(native_stream(&node).await);
    }
    goes_on(&node, &clients).await;
}

/// A process of another job that has been let in.
async fn admitted(node: &TestNode) -> TcpStream {
    node.register(&other()).await;
    let mut stream = native_stream(node).await;
    stream.write_all(&connect_as(Who::Client(other()), native_user()).encode().unwrap()).await.unwrap();
    let mut answer = vec![0; ClientAnswer { index: 0 }.encode().len()];
    within(stream.read_exact(&mut answer)).await.unwrap();
    assert_eq!(answer, ClientAnswer { index: 0 }.encode());
    stream
}

#[tokio::test]
async fn a_frame_that_is_too_long_ends_its_connection() {
    let (node, clients) = node().await;
    let logs = Logs::start();
    let mut stream = admitted(&node).await;
    for word in [0, tag::FIRST_REQUEST, u32::MAX, 0] {
        stream.write_u32(word).await.unwrap();
    }
    logs.line_with(&["closed a connection that broke the protocol", "other:2"]).await;
    is_closed(stream).await;
    goes_on(&node, &clients).await;
}

#[tokio::test]
async fn a_process_that_stays_when_it_is_disconnected_is_read_no_more() {
    let (node, clients) = node().await;
    let mut stream = admitted(&node).await;
    node.handle().deregister_nspace(&other().nspace).await.unwrap();
    let mut said = Vec::new();
    let _ = within(stream.read_to_end(&mut said)).await;
    let mut beat = BytesMut::new();
    let frame = Frame { index: 0, tag: tag::HEARTBEAT, payload: Bytes::new() };
    Framing::default().encode(&frame, &mut beat).unwrap();
    // the system refuses what comes for a socket that the server has closed
    within(async { while stream.write_all(&beat).await.is_ok() {} }).await;
    goes_on(&node, &clients).await;
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_answered_and_its_connection_stays() {
    let (node, clients) = node().await;
    let logs = Logs::start();
    node.register(&other()).await;
    let mut session = NativeSession::open(&node, Who::Client(other()), plain(), "4.2.2").await;
    // a fence of more processes than there are bytes; a number that is no command
    for (payload, status) in [
        (&[2, 3, 2, 0xff, 0xff, 3, 2][..], Status::ERR_UNPACK_FAILURE),
        (&[2, 200], Status::ERR_NOT_SUPPORTED),
    ] {
        let answer = session.ask_bytes(payload).await;
        assert_eq!(answer, Reply::from(status).encode(&session.context).unwrap());
    }
    logs.line_with(&["cannot decode a request", "other:2"]).await;
    drop(session);
    goes_on(&node, &clients).await;
}

#[tokio::test]
async fn put_06_a_commit_that_cannot_be_read_is_refused_whole_and_what_is_not_valid_is_left_out() {
    let (node, clients) = node().await;
    let logs = Logs::start();
    node.register(&other()).await;
    let mut session = NativeSession::open(&node, Who::Client(other()), plain(), "4.2.2").await;
    let pair = |key: &str, number: u16| KeyVal { key: key.parse().unwrap(), value: Value::Uint16(number) };
    let parts = vec![CommitPart::new(Scope::GLOBAL, vec![pair("good", 1), pair("bad", 2)])];
    let commit = Request::Commit(parts).encode(&session.context).unwrap();
    let mut unknown = commit.to_vec();
    // the type of the second value
    let at = unknown.windows(4).position(|window| window == b"bad\0").unwrap() + 4;
    unknown[at] = 44;
    for _ in 0..1000 {
        let answer = session.ask_bytes(unknown.clone()).await;
        assert_eq!(answer, Reply::from(Status::ERR_UNKNOWN_DATA_TYPE).encode(&session.context).unwrap());
    }
    let lines = logs.count_with(&["cannot decode a request", "other:2"]);
    assert!((1..100).contains(&lines), "{lines}");
    let mut get = Get::new(other(), Some("good".parse().unwrap()));
    get.directives = Directives::new().with(&keys::IMMEDIATE, true);
    assert_eq!(session.ask(&get.clone().into()).await.status, Status::ERR_NOT_FOUND);
    let mut odd = commit.to_vec();
    let at = odd.windows(4).position(|window| window == b"bad\0").unwrap();
    odd[at] = 7;
    session.ask_bytes(odd).await;
    assert_eq!(session.ask(&get.into()).await.status, Status::SUCCESS);
    drop(session);
    goes_on(&node, &clients).await;
}
