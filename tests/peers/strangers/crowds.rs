//! More connections than a server has descriptors for, or can accept at once.

use std::process::Command;
use std::time::Duration;

use pmix_native::conn::Peer as Who;
use pmix_native::{Dialect, Encoding};
use pmix_test_wait::{is_alone, until_async};
use pmix_tests::{NativeSession, OtherUser, Running, TestServer, stranger_program, within};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio::net::{TcpStream, UnixStream};

/// Starts the server with so few descriptors that a crowd takes them all.
const FEW_FILES: [&str; 2] = ["prlimit", "--nofile=64:64"];
const CROWD: &str = "90";
/// Lines that a crowd may cost, as the door promises for one user and ten seconds, and some that servers always write.
const FEW_LINES: usize = 60;

/// How long to wait before a new attempt to connect.
const KNOCK: Duration = Duration::from_millis(200);

/// Lines that a crowd may cost in the time that a log is about.
fn few_lines(log: &str) -> usize {
    // 2026-01-31T12:34:56.789012Z
    let second = |line: &str| {
        let time = line.split_once('T')?.1.get(..8)?;
        time.split(':').try_fold(0, |sum, part| Some(60 * sum + part.parse::<usize>().ok()?))
    };
    let seconds: Vec<_> = log.lines().filter_map(second).collect();
    let (Some(first), Some(last)) = (seconds.first(), seconds.last()) else { return FEW_LINES };
    let day = 24 * 60 * 60;
    FEW_LINES * (1 + ((day + last - first) % day).div_ceil(10))
}

/// The addresses of both wires.
fn endpoints(server: &TestServer) -> [String; 2] {
    [server.native.to_string(), server.socket().display().to_string()]
}

async fn seated(command: Command) -> Running {
    let mut crowd = Running::start_with_input(command);
    crowd.line_with("seated").await;
    crowd
}

/// The owner's job does what jobs do.
async fn works(server: &TestServer) {
    let (a, b) = (server.client(0).await.unwrap(), server.client(1).await.unwrap());
    let (a, b) = within(async { tokio::join!(a.fence_all(), b.fence_all()) }).await;
    a.and(b).unwrap();
}

/// Our own user is let in, on either wire.
async fn lets_its_owner_in(server: &TestServer) {
    drop(server.client(0).await.unwrap());
    // while the queue is full, the kernel drops a connection attempt and repeats it at growing intervals
    let stream = until_async("there is room for one more", async || {
        tokio::time::timeout(KNOCK, TcpStream::connect(server.native)).await
    })
    .await
    .unwrap();
    let who = Who::Client(TestServer::proc(1));
    drop(within(NativeSession::open_on(stream, who, Encoding::plain(Dialect::V41), "4.2.2")).await);
}

/// A server that serves others too keeps most places for its owner; one that does not turns others away at once.
#[tokio::test]
async fn a_silent_crowd_of_another_user_takes_neither_descriptors_nor_the_log() {
    let Some(stranger) = OtherUser::second() else { return };
    for other_users in [true, false] {
        let server = TestServer::start_below(&FEW_FILES, 2, other_users).await;
        let mut crowds = Vec::new();
        for endpoint in endpoints(&server) {
            // without other users no other user comes to the socket
            if other_users || !endpoint.starts_with('/') {
                crowds.push(seated(stranger.stranger(&["sit", &endpoint, CROWD])).await);
            }
        }
        for _ in 0..5 {
            lets_its_owner_in(&server).await;
        }
        works(&server).await;
        for crowd in &mut crowds {
            assert!(crowd.is_running(), "it has not sat there all the time");
        }
        let log = server.end().await;
        let lines = log.lines().count();
        assert!(log.contains("refused a connection") && log.contains(&stranger.uid.to_string()), "{log}");
        assert!(lines <= few_lines(&log), "{lines} lines: {log}");
        assert!(!log.contains("cannot accept"), "{log}");
    }
}

/// What our own user takes is its own affair, but the server waits quietly, and goes on when there is room again.
#[tokio::test]
async fn a_server_without_descriptors_waits_and_goes_on_when_there_are_some() {
    let server = TestServer::start_below(&FEW_FILES, 2, false).await;
    let mut own = Command::new(stranger_program());
    own.args(["sit", &endpoints(&server)[0], CROWD]);
    let crowd = seated(own).await;
    server.until_logged("cannot accept a connection").await;
    crowd.end().await;
    works(&server).await;
    let log = server.end().await;
    // of the owner and of the loopback address
    assert!(log.lines().count() <= 2 * few_lines(&log), "{log}");
}

/// Garbage, silence, half a greeting and false claims, as fast as two processes can, before, while and after our own user is let
/// in. What that costs in time is a benchmark's (`flood`).
#[tokio::test]
async fn a_flood_of_another_user_is_bounded_in_memory_and_log_lines() {
    let Some(stranger) = OtherUser::second() else { return };
    let server = TestServer::start(2, true).await;
    works(&server).await;
    let before = server.peak();
    let mut floods: Vec<_> = endpoints(&server)
        .iter()
        .map(|endpoint| Running::start_with_input(stranger.stranger(&["flood", endpoint])))
        .collect();
    for flood in &mut floods {
        flood.line_with("flooding").await;
    }
    let (a, b) = (server.client(0).await.unwrap(), server.client(1).await.unwrap());
    for _ in 0..10 {
        lets_its_owner_in(&server).await;
        for _ in 0..20 {
            let (a, b) = within(async { tokio::join!(a.fence_all(), b.fence_all()) }).await;
            a.and(b).unwrap();
        }
    }
    assert!(floods.iter_mut().all(Running::is_running), "a flood was over before the owner was served");
    for flood in floods {
        let (status, out, err) = flood.end().await;
        assert!(status.success(), "{out}{err}");
    }
    let grown = server.peak() - before;
    assert!(grown < 64 << 20, "{grown} bytes");
    let log = server.end().await;
    let refusals = log.lines().filter(|line| line.contains("refused a connection")).count();
    // of this user, and of connections that had ended before they were looked at
    assert!((1..=2 * few_lines(&log)).contains(&refusals), "{refusals}: {log}");
}

/// Each connection would bring 32 MiB, and none of their queries is ever complete.
#[tokio::test]
async fn queries_that_are_never_complete_are_not_held_for_another_user() {
    let Some(stranger) = OtherUser::second() else { return };
    let server = TestServer::start(2, true).await;
    works(&server).await;
    let before = server.peak();
    let socket = server.socket().display().to_string();
    let mut hoard = Running::start(stranger.stranger(&["hoard", &socket, "20"]));
    hoard.line_with("closed").await;
    let grown = server.peak() - before;
    assert!(grown < 16 << 20, "{grown} bytes");
    works(&server).await;
    let log = server.end().await;
    // which of the two limits a connection meets first is up to the order in which its calls are cut into frames
    let reasons = ["no request arrived in time", "frames before the process was let in"];
    assert!(reasons.iter().any(|reason| log.contains(reason)), "{log}");
}

/// Frames that belong to no call cost the server's time, and a few lines of its log, but are none of its business.
#[tokio::test]
async fn frames_that_ask_for_nothing_are_not_heard_out_for_another_user() {
    let Some(stranger) = OtherUser::second() else { return };
    let server = TestServer::start(2, true).await;
    let socket = server.socket().display().to_string();
    let mut chatter = Running::start(stranger.stranger(&["chatter", &socket, "200"]));
    chatter.line_with("closed").await;
    works(&server).await;
    let log = server.end().await;
    assert!(log.contains("frames before the process was let in: connect first"), "{log}");
    assert!(log.contains("bytes before the process was let in: connect first"), "{log}");
    assert!(log.lines().count() <= few_lines(&log), "{log}");
}

/// While the server does nothing, as many wait as a large job brings: none is turned away, and none has to try again. The test is
/// alone in its process, as it may need more descriptors than others are to have.
#[tokio::test]
async fn a_thousand_processes_connect_at_once() {
    if !is_alone(a_thousand_processes_connect_at_once) {
        return;
    }
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    // both wires have a socket for each, and the system has a limit of its own for those that wait
    let free =
        limit.maximum.map_or(usize::MAX, |maximum| usize::try_from(maximum.saturating_sub(100)).unwrap());
    let queue = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
    let count = 1000.min(free / 2).min(queue);
    let server = TestServer::start(1, false).await;
    server.process.stop().await;
    let (mut sockets, mut streams) = (Vec::new(), Vec::new());
    for number in 0..count {
        let socket = within(UnixStream::connect(server.socket())).await;
        sockets.push(socket.unwrap_or_else(|error| panic!("socket {number}: {error}")));
        streams.push(within(TcpStream::connect(server.native)).await.unwrap());
    }
    server.process.signal(Signal::CONT);
    drop((sockets, streams));
    server.client(0).await.unwrap();
    server.end().await;
}
