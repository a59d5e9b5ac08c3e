//! What processes can make a server hold: the most that it has ever had in memory, measured from outside. And how it
//! treats those who read slowly, or not at all.

use std::time::Duration;

use pmix_client::types::message::{
    Commit, Fence, Get, Hello, Identity, JobControl, NotifyEvent, PutEntry, Reply, Request,
};
use pmix_client::types::{DataArray, Directives, Event, Info, KeyName, Pid, Status, Value, keys};
use pmix_client::{Nspace, ProcId, Rank, Scope};
use pmix_native::conn::{Peer as Who, tag};
use pmix_native::msg::Request as Ask;
use pmix_native::{Dialect, Encoding};
use pmix_proto::ServerBody;
use pmix_proto::v1::ClientMessage;
use pmix_server::NativeWire;
use pmix_test_wait::within;
use pmix_tests::{NativeSession, RawSession, TestNode, TestServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MIB: usize = 1 << 20;
/// What a process may put.
const PUT: usize = 64 * MIB;
const PATIENCE: Duration = Duration::from_secs(60);

fn blob(bytes: usize) -> Value {
    Value::ByteObject(vec![7; bytes].into())
}

fn key(name: &str) -> KeyName {
    KeyName::new(name).unwrap()
}

fn entry(name: &str, value: impl Into<Value>) -> PutEntry {
    PutEntry::new(Scope::GLOBAL, key(name), value)
}

/// A process that asks without the client library, which would refuse some of it.
struct Asker {
    session: RawSession,
    last: u64,
}

impl Asker {
    async fn connect(server: &TestServer, rank: u32) -> Self {
        let hello = Hello::new(Identity::Client(TestServer::proc(rank)), Pid(1));
        let mut session = RawSession::open(&server.socket(), pmix_proto::encode_hello(&hello)).await.unwrap();
        assert!(matches!(session.next().await, Ok(Some((0, ServerBody::Welcome { .. })))));
        Self { session, last: 0 }
    }

    fn say(&mut self, request: &Request) {
        self.last += 1;
        pmix_proto::encode_request(self.last, request)
            .for_each(|message| self.session.outgoing.send(message).unwrap());
    }

    /// The outcome of whatever is answered next.
    async fn outcome(&mut self) -> Result<Reply, Status> {
        match self.session.next().await.unwrap().unwrap() {
            (_, ServerBody::Reply(reply)) => Ok(reply),
            (_, ServerBody::Failure(failure)) => Err(failure.status),
            other => panic!("{other:?}"),
        }
    }

    async fn ask(&mut self, request: &Request) -> Result<Reply, Status> {
        self.say(request);
        self.outcome().await
    }

    /// Asks for more and more of something until it is refused; how often it was not.
    async fn exhaust(&mut self, request: impl Fn(usize) -> Request, most: usize) -> usize {
        for number in 0..most {
            if let Err(status) = self.ask(&request(number)).await {
                assert_eq!(status, Status::ERR_OUT_OF_RESOURCE, "the {number}th");
                return number;
            }
        }
        panic!("{most} were not refused");
    }
}

/// The server has never had much more than this.
#[track_caller]
#[allow(clippy::print_stdout, reason = "says what it measures")]
fn is_bounded(server: &TestServer, before: usize, limit: usize, what: &str) {
    let grown = server.peak().saturating_sub(before);
    println!("{what}: {} MiB above {} MiB, limit {} MiB", grown / MIB, before / MIB, limit / MIB);
    assert!(grown < limit, "{what}: {} MiB", grown / MIB);
}

#[tokio::test]
async fn nested_arrays_take_no_more_than_a_process_may_put() {
    let server = TestServer::start_limited(1, PUT, PATIENCE).await;
    let (mut asker, before) = (Asker::connect(&server, 0).await, server.peak());
    let nested = DataArray::DataArray(vec![DataArray::Uint8(vec![0; 1000]); 4000]);
    let commit =
        |number: usize| Request::Commit(Commit::new(vec![entry(&format!("k{number}"), nested.clone())]));
    let taken = asker.exhaust(commit, 100).await;
    assert!((10..17).contains(&taken), "{taken} of 4 MB");
    is_bounded(&server, before, PUT + 32 * MIB, "nested arrays");
}

#[tokio::test]
async fn long_keys_take_no_more_than_a_process_may_put() {
    let server = TestServer::start_limited(1, PUT, PATIENCE).await;
    let (mut asker, before) = (Asker::connect(&server, 0).await, server.peak());
    let commit = |number: usize| {
        let long = |place: usize| entry(&format!("{number}.{place:0490}"), true);
        Request::Commit(Commit::new((0..4000).map(long).collect()))
    };
    let taken = asker.exhaust(commit, 100).await;
    assert!((15..33).contains(&taken), "{taken} of 4000 keys");
    is_bounded(&server, before, PUT + 32 * MIB, "long keys");
}

#[tokio::test]
async fn a_commit_that_is_refused_costs_no_copy_of_what_is_there() {
    let server = TestServer::start_limited(1, PUT, PATIENCE).await;
    let (mut asker, before) = (Asker::connect(&server, 0).await, server.peak());
    // texts, as copies of bytes would share them
    let text = |number: usize| entry(&format!("k{number}"), "x".repeat(MIB));
    for number in 0..60 {
        asker.ask(&Request::Commit(Commit::new(vec![text(number)]))).await.unwrap();
    }
    for _ in 0..3 {
        let too_much = Request::Commit(Commit::new((60..66).map(text).collect()));
        assert_eq!(asker.ask(&too_much).await.unwrap_err(), Status::ERR_OUT_OF_RESOURCE);
    }
    is_bounded(&server, before, PUT + 40 * MIB, "refused commits");
}

#[tokio::test]
async fn events_that_are_kept_take_no_more_than_their_limit() {
    let server = TestServer::start_limited(2, PUT, PATIENCE).await;
    let (mut asker, before) = (Asker::connect(&server, 0).await, server.peak());
    let nested = DataArray::DataArray(vec![DataArray::Uint8(vec![0; 700]); 1000]);
    for _ in 0..200 {
        // the other process may come later and ask for them
        let event = Event::new(Status::from_raw(-5000), ProcId::none());
        let event = event.with_info(Info::dynamic(key("nested"), nested.clone()));
        asker.ask(&Request::NotifyEvent(NotifyEvent::new(event))).await.unwrap();
    }
    is_bounded(&server, before, 48 * MIB, "events of 150 MB");
}

#[tokio::test]
async fn fences_that_have_timed_out_take_no_more_than_their_limit() {
    const FENCES: u32 = 1000;
    let server = TestServer::start_limited(2, PUT, PATIENCE).await;
    let (mut asker, before) = (Asker::connect(&server, 0).await, server.peak());
    // each with other participants, who are not next to each other; neither they nor the neighbour will ever come
    let strangers = Nspace::new("strange").unwrap();
    for number in 0..FENCES {
        let others =
            (0..2000).map(|place| ProcId::new(strangers.clone(), Rank::from_raw(2 * place + number)));
        let procs = [TestServer::proc(0), TestServer::proc(1)].into_iter().chain(others);
        let mut fence = Fence::new(Some(procs.collect()));
        fence.directives = Directives::new().with(&keys::TIMEOUT, 1);
        asker.say(&Request::Fence(fence));
    }
    let (mut timed_out, mut refused) = (0, 0);
    for _ in 0..FENCES {
        match asker.outcome().await.unwrap_err() {
            Status::ERR_TIMEOUT => timed_out += 1,
            Status::ERR_OUT_OF_RESOURCE => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!(timed_out > 50 && refused > 500, "{timed_out} have timed out, {refused} were refused");
    is_bounded(&server, before, 64 * MIB, "fences that have timed out");
}

#[tokio::test]
async fn cleanup_registrations_take_no_more_than_their_limit() {
    let server = TestServer::start_limited(1, PUT, PATIENCE).await;
    let (mut asker, before) = (Asker::connect(&server, 0).await, server.peak());
    let register = |number: usize| {
        let paths: Vec<_> = (0..100).map(|place| format!("/{number}.{place:0990}")).collect();
        let mut control = JobControl::new(vec![]);
        control.directives = Directives::new().with(&keys::REGISTER_CLEANUP, paths.join(","));
        Request::JobControl(control)
    };
    let taken = asker.exhaust(register, 200).await;
    assert!((5..11).contains(&taken), "{taken} of 100 KB");
    for number in 0..200 {
        assert_eq!(asker.ask(&register(1000 + number)).await.unwrap_err(), Status::ERR_OUT_OF_RESOURCE);
    }
    is_bounded(&server, before, 16 * MIB, "cleanup registrations");
}

fn encoding() -> Encoding {
    Encoding::plain(Dialect::V41)
}

fn native_get(proc: ProcId, name: &str) -> Ask {
    Ask::from(Get::new(proc, Some(key(name))))
}

#[tokio::test]
async fn a_c_process_that_never_reads_costs_little_and_is_disconnected() {
    let server = TestServer::start_limited(2, PUT, Duration::from_secs(2)).await;
    let client = server.client(0).await.unwrap();
    client.put(Scope::GLOBAL, "big", blob(MIB)).unwrap();
    within(client.commit()).await.unwrap();
    let stream = TcpStream::connect(server.native).await.unwrap();
    let mut session =
        NativeSession::open_on(stream, Who::Client(TestServer::proc(1)), encoding(), "4.2.2").await;
    let before = server.peak();
    let get = native_get(TestServer::proc(0), "big");
    for _ in 0..2000 {
        session.tell(&get).await;
    }
    // it counts as dead for others
    let error = within(client.get::<u32>(TestServer::proc(1), "never")).await.unwrap_err();
    assert!(error.to_string().contains("does not read"), "{error}");
    is_bounded(&server, before, 64 * MIB, "a C process that never reads");
    // what it could read now is what the system had taken of it
    let mut answers = 0;
    while session.skip_to_answer().await.is_some() {
        answers += 1;
    }
    assert!(answers < 64, "{answers}");
}

/// Each connection announces a frame of which there is no room for two, and brings a third of it.
#[tokio::test]
async fn frames_that_are_never_complete_are_held_of_one_connection_of_a_process_at_a_time() {
    const CONNECTIONS: usize = 8;
    let server = TestServer::start(2, false).await;
    let client = server.client(0).await.unwrap();
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(server.native).await.unwrap();
        let who = Who::Client(TestServer::proc(1));
        streams.push(NativeSession::open_on(stream, who, encoding(), "4.2.2").await.into_stream());
    }
    let before = server.peak();
    let mut bringing = tokio::task::JoinSet::new();
    for mut stream in streams {
        bringing.spawn(async move {
            for word in [0, tag::FIRST_REQUEST, 200 << 20, 0] {
                stream.write_u32(word).await.unwrap();
            }
            stream.write_all(&vec![0; 64 * MIB]).await.unwrap();
            stream
        });
    }
    // when one leaves, the next has its turn
    for _ in 0..CONNECTIONS {
        drop(within(bringing.join_next()).await.unwrap().unwrap());
        // others go on
        within(client.commit()).await.unwrap();
    }
    is_bounded(&server, before, 160 * MIB, "frames that are never complete");
}

/// One of them would hold up the large frames of all connections of its process, and their losses.
#[tokio::test]
async fn a_large_frame_that_does_not_go_on_ends_its_connection() {
    let server = TestServer::start_limited(2, PUT, Duration::from_secs(2)).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let stream = TcpStream::connect(server.native).await.unwrap();
        let who = Who::Client(TestServer::proc(1));
        let mut stream = NativeSession::open_on(stream, who, encoding(), "4.2.2").await.into_stream();
        for word in [0, tag::FIRST_REQUEST, 200 << 20, 0] {
            stream.write_u32(word).await.unwrap();
        }
        streams.push(stream);
    }
    for mut stream in streams {
        within(stream.read_to_end(&mut Vec::new())).await.unwrap();
    }
}

#[tokio::test]
async fn a_process_that_never_reads_costs_little_and_is_disconnected() {
    let server = TestServer::start_limited(2, PUT, Duration::from_secs(2)).await;
    let client = server.client(0).await.unwrap();
    client.put(Scope::GLOBAL, "big", blob(MIB)).unwrap();
    within(client.commit()).await.unwrap();
    let mut asker = Asker::connect(&server, 1).await;
    let before = server.peak();
    for _ in 0..2000 {
        asker.say(&Request::Get(Get::new(TestServer::proc(0), Some(key("big")))));
    }
    let error = within(client.get::<u32>(TestServer::proc(1), "never")).await.unwrap_err();
    assert!(error.to_string().contains("does not read"), "{error}");
    is_bounded(&server, before, 80 * MIB, "a process that never reads");
}

#[tokio::test]
async fn a_process_that_reads_slowly_gets_all_its_answers() {
    let node = TestNode::builder(2).server(|server| server.unread_timeout(PATIENCE)).start().await;
    let client = node.client(0).await;
    client.put(Scope::GLOBAL, "big", blob(MIB)).unwrap();
    within(client.commit()).await.unwrap();
    let hello = Hello::new(Identity::Client(node.proc(1)), Pid(1));
    let mut session = RawSession::open(&node.socket(), pmix_proto::encode_hello(&hello)).await.unwrap();
    assert!(matches!(session.next().await, Ok(Some((0, ServerBody::Welcome { .. })))));
    const GETS: u64 = 200;
    for id in 1..=GETS {
        let get = Request::Get(Get::new(node.proc(0), Some(key("big"))));
        pmix_proto::encode_request(id, &get).for_each(|message| session.outgoing.send(message).unwrap());
    }
    for expected in 1..=GETS {
        let (id, body) = session.next().await.unwrap().expect("it was disconnected");
        let ServerBody::Reply(Reply::Get(reply)) = body else { panic!("{body:?}") };
        assert_eq!((id, reply.value == Some(blob(MIB))), (expected, true));
    }
}

#[tokio::test]
async fn gets_of_a_large_value_at_once_are_all_answered() {
    let node = TestNode::builder(2).server(|server| server.unread_timeout(PATIENCE)).start().await;
    let [owner, reader] = [node.client(0).await, node.client(1).await];
    let gets: Vec<_> = (0..64)
        .map(|_| {
            let (reader, proc) = (reader.clone(), owner.proc_id().clone());
            tokio::spawn(async move { reader.get::<Value>(proc, "big").await })
        })
        .collect();
    // some wait for it, and some come when it is there
    node.until_waiting(64).await;
    owner.put(Scope::GLOBAL, "big", blob(MIB)).unwrap();
    within(owner.commit()).await.unwrap();
    for get in gets {
        assert!(within(get).await.unwrap().unwrap() == blob(MIB));
    }
}

#[tokio::test]
async fn a_c_process_that_reads_slowly_gets_all_its_answers() {
    let node = TestNode::builder(2)
        .server(|server| server.unread_timeout(PATIENCE).native_wire(NativeWire::On))
        .start()
        .await;
    let client = node.client(0).await;
    client.put(Scope::GLOBAL, "big", blob(MIB)).unwrap();
    within(client.commit()).await.unwrap();
    let mut session = NativeSession::open(&node, Who::Client(node.proc(1)), encoding(), "4.2.2").await;
    let get = native_get(node.proc(0), "big");
    const GETS: usize = 200;
    for _ in 0..GETS {
        session.tell(&get).await;
    }
    for _ in 0..GETS {
        let answer = session.skip_to_answer().await.expect("it was disconnected");
        assert!(answer.len() > MIB, "{}", answer.len());
        // once, not twice
        assert!(answer.len() < MIB + 10_000, "{}", answer.len());
    }
}

#[tokio::test]
async fn who_has_two_requests_of_one_number_under_way_is_gone() {
    let node = TestNode::start(3).await;
    let client = node.client(0).await;
    let hello = Hello::new(Identity::Client(node.proc(1)), Pid(1));
    let mut session = RawSession::open(&node.socket(), pmix_proto::encode_hello(&hello)).await.unwrap();
    assert!(matches!(session.next().await, Ok(Some((0, ServerBody::Welcome { .. })))));
    let get = Request::Get(Get::new(node.proc(0), Some(key("never"))));
    for _ in 0..2 {
        pmix_proto::encode_request(7, &get).for_each(|message| session.outgoing.send(message).unwrap());
    }
    let error = within(client.get::<u32>(node.proc(1), "key")).await.unwrap_err();
    assert!(error.to_string().contains("two pending requests with number 7"), "{error}");

    // nor is a message that cannot be read answered in place of the other
    let hello = Hello::new(Identity::Client(node.proc(2)), Pid(1));
    let mut session = RawSession::open(&node.socket(), pmix_proto::encode_hello(&hello)).await.unwrap();
    assert!(matches!(session.next().await, Ok(Some((0, ServerBody::Welcome { .. })))));
    pmix_proto::encode_request(7, &get).for_each(|message| session.outgoing.send(message).unwrap());
    session.outgoing.send(ClientMessage { id: 7, ..Default::default() }).unwrap();
    let error = within(client.get::<u32>(node.proc(2), "key")).await.unwrap_err();
    assert!(error.to_string().contains("two pending requests with number 7"), "{error}");
}
