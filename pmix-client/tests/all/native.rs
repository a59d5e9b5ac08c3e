//! The wire of the C library: servers that are gone, silent, hostile, or ask for something that this library does not have.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use pmix_client::types::Status;
use pmix_client::{Client, Error, Limits, ProcId, Rank, Scope, keys};
use pmix_native::conn::{ClientAnswer, Connect, Frame, Framing};
use pmix_native::msg::{Body, Context, NspaceData, ProcData, Reply, Request};
use pmix_native::{Dialect, Encoding, Version};
use pmix_test_wait::{StillClock, within};
use pmix_types::message::{Finalize, LATENESS, Request as Operation};
use pmix_types::{Info, KeyVal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;

use crate::common::{HOUR, MOMENT};

fn proc(rank: u32) -> ProcId {
    ProcId::new("job".parse().unwrap(), Rank::from_raw(rank))
}

/// Settings of a client of a server at this address.
fn at(address: SocketAddr) -> pmix_client::ClientBuilder {
    Client::builder().uri(format!("srv.0;tcp4://{address}")).proc(proc(0))
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// An address at which nothing listens as long as the socket is kept.
fn deserted() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// The server's end of a connection, played by the test.
struct Served {
    stream: TcpStream,
    context: Context,
    arrived: BytesMut,
}

impl Served {
    /// Takes a connection as far as the greeting.
    async fn accept(listener: &TcpListener) -> (Self, Connect) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut arrived = BytesMut::new();
        let connect = loop {
            if let Some(connect) = Connect::decode(&mut arrived).unwrap() {
                break connect;
            }
            assert_ne!(stream.read_buf(&mut arrived).await.unwrap(), 0);
        };
        let context = Context::new(connect.encoding, connect.version.parse().unwrap());
        (Self { stream, context, arrived }, connect)
    }

    /// Lets a client in and tells it of a job of two ranks.
    async fn admit(listener: &TcpListener) -> Self {
        let (mut served, _) = Self::accept(listener).await;
        served.say(&ClientAnswer { index: 3 }.encode()).await;
        let (frame, request) = served.asked().await;
        assert_eq!((frame.index, request), (3, Request::Job));
        let mut data = NspaceData::new("job".parse().unwrap());
        data.entries.push(KeyVal { key: keys::JOB_SIZE.key_name(), value: 2u32.into() }.into());
        served.answer(frame.tag, &Body::Job(data).into()).await;
        served
    }

    async fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn asked(&mut self) -> (Frame, Request) {
        loop {
            if let Some(frame) = Framing::default().decode(&mut self.arrived).unwrap() {
                let request = Request::decode(&self.context, &frame.payload).unwrap();
                return (frame, request);
            }
            assert_ne!(self.stream.read_buf(&mut self.arrived).await.unwrap(), 0, "the client is gone");
        }
    }

    async fn answer(&mut self, tag: u32, reply: &Reply) {
        let payload = reply.encode(&self.context).unwrap();
        self.frame(tag, payload).await;
    }

    async fn frame(&mut self, tag: u32, payload: Bytes) {
        let mut bytes = BytesMut::new();
        Framing::default().encode(&Frame { index: 0, tag, payload }, &mut bytes).unwrap();
        self.say(&bytes).await;
    }
}

/// A connected client and its server.
async fn pair() -> (Client, Served) {
    pair_with(|client| client).await
}

async fn pair_with(
    set: impl FnOnce(pmix_client::ClientBuilder) -> pmix_client::ClientBuilder,
) -> (Client, Served) {
    let (listener, address) = listener().await;
    let (client, served) =
        within(async { tokio::join!(set(at(address)).init(), Served::admit(&listener)) }).await;
    (client.unwrap(), served)
}

#[tokio::test]
async fn a_server_that_is_gone_is_told_at_once() {
    let _clock = StillClock::start();
    let (_reserved, address) = deserted();
    let error = within(at(address).init()).await.unwrap_err();
    assert!(matches!(&error, Error::Transport(_)), "{error:?}");
    assert!(
        error.to_string().contains(&address.to_string()) && error.to_string().contains("has ended"),
        "{error}"
    );
}

#[tokio::test]
async fn a_refusal_is_told_at_once_whatever_its_form() {
    let _clock = StillClock::start();
    let (listener, address) = listener().await;
    let refusals: [&[u8]; 3] = [&[], &[0, 0], &Status::ERR_INVALID_CRED.to_raw().to_be_bytes()];
    for refusal in refusals {
        let refuse = async {
            let (mut served, _) = Served::accept(&listener).await;
            served.say(refusal).await;
        };
        let (error, ()) = within(async { tokio::join!(at(address).init(), refuse) }).await;
        let error = error.unwrap_err();
        let status = if refusal.len() == 4 { Status::ERR_INVALID_CRED } else { Status::ERR_UNREACH };
        assert_eq!(error.status(), status, "{error}");
    }
}

#[tokio::test]
async fn ini_07_a_server_that_says_nothing_or_half_of_it_is_given_up_at_the_callers_limit() {
    let clock = StillClock::start();
    let (listener, address) = listener().await;
    let answer = ClientAnswer { index: 0 }.encode();
    // nothing, half an answer, an answer and no job data, half of the job data
    let parts: [&[u8]; 4] =
        [&[], &answer[..6], &answer, &[&answer[..], &[0, 0, 0, 0, 0, 0, 0, 101, 0, 0]].concat()];
    for said in parts {
        let limit = Duration::from_millis(200);
        let init = tokio::spawn(at(address).timeout(limit).init());
        let (mut served, _) = within(Served::accept(&listener)).await;
        served.say(said).await;
        if said.len() >= answer.len() {
            assert_eq!(within(served.asked()).await.1, Request::Job);
        }
        clock.pass(limit - MOMENT).await;
        assert!(!init.is_finished());
        clock.pass(MOMENT).await;
        assert!(within(init).await.unwrap().unwrap_err().is_timeout());
    }
}

#[tokio::test]
async fn gen_12_a_call_of_a_silent_server_ends_at_its_limit_and_the_connection_lives() {
    let clock = StillClock::start();
    let (client, mut served) = pair().await;
    let limit = Duration::from_secs(1);
    let limited = tokio::spawn(client.lookup(["port"]).wait(1).timeout(limit).into_future());
    let (frame, _) = within(served.asked()).await;
    clock.pass(limit - MOMENT).await;
    assert!(!limited.is_finished());
    // and as long as a server may take to answer that it is over
    clock.pass(MOMENT + LATENESS + Duration::from_secs(1)).await;
    let error = within(limited).await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error}");
    // half of the answer, and then the rest with that to another call
    let late = Reply::from(Status::ERR_NOT_FOUND).encode(&served.context).unwrap();
    let mut bytes = BytesMut::new();
    Framing::default().encode(&Frame { index: 0, tag: frame.tag, payload: late }, &mut bytes).unwrap();
    served.say(&bytes[..9]).await;
    served.say(&bytes[9..]).await;
    let serve = async {
        let (frame, request) = served.asked().await;
        assert!(matches!(request, Request::Operation(Operation::Fence(_))));
        served.answer(frame.tag, &Status::SUCCESS.into()).await;
    };
    let (fenced, ()) = within(async { tokio::join!(client.fence_all().into_future(), serve) }).await;
    fenced.unwrap();
}

#[tokio::test]
async fn evt_21_what_waits_fails_at_once_when_the_server_dies() {
    let _clock = StillClock::start();
    let (client, mut served) = pair().await;
    let mut events = {
        let serve = async {
            let (frame, _) = served.asked().await;
            served.answer(frame.tag, &Status::SUCCESS.into()).await;
        };
        let registered = async { client.events([]).await };
        within(async { tokio::join!(registered, serve) }).await.0.unwrap()
    };
    let (get, fence) = (client.get::<u32>(proc(1), "never"), client.fence_all());
    let die = async {
        let _ = (served.asked().await, served.asked().await);
        // as the kernel does for a process that is killed with unread data
        served.stream.set_zero_linger().unwrap();
        drop(served);
    };
    let (got, fenced, ()) = within(async { tokio::join!(get.into_future(), fence.into_future(), die) }).await;
    for error in [got.unwrap_err(), fenced.unwrap_err()] {
        assert!(error.is_lost_connection() && !error.is_server_stopped(), "{error}");
    }
    let lost = within(events.recv()).await.unwrap().unwrap();
    assert_eq!(lost.code, Status::ERR_LOST_CONNECTION);
    assert!(within(client.commit().into_future()).await.is_ok(), "nothing was put");
    assert!(within(client.fence_all().into_future()).await.unwrap_err().is_lost_connection());
}

#[tokio::test]
async fn garbage_in_a_reply_fails_its_call_and_garbage_in_frames_ends_the_connection() {
    let mut limits = Limits::default();
    limits.body_bytes = 4096;
    let (client, mut served) = pair_with(|client| client.limits(limits)).await;
    let serve = async {
        let (frame, _) = served.asked().await;
        served.frame(frame.tag, Bytes::from_static(&[0xff, 0xff])).await;
        // a message that is larger than allowed: it is skipped
        let (frame, _) = served.asked().await;
        served.frame(frame.tag, vec![7; 100_000].into()).await;
        // pushes of no sense, and replies to nothing
        for tag in [0, 2, 7, 4711] {
            served.frame(tag, Bytes::from_static(b"nonsense")).await;
        }
        let (frame, _) = served.asked().await;
        served.answer(frame.tag, &Status::SUCCESS.into()).await;
    };
    let calls = async {
        let broken = client.fence_all().await.unwrap_err();
        let large = client.fence_all().await.unwrap_err();
        (broken, large, client.fence_all().await)
    };
    let ((broken, large, fine), ()) = within(async { tokio::join!(calls, serve) }).await;
    assert!(broken.to_string().contains("cannot be read"), "{broken}");
    assert_eq!(large.status(), Status::ERR_OUT_OF_RESOURCE, "{large}");
    fine.unwrap();
}

#[tokio::test]
async fn get_20_a_process_is_asked_for_once_until_the_next_fence() {
    let (client, mut served) = pair().await;
    let data = |served: &Served| {
        let mut data = ProcData::new(proc(1));
        for (key, value) in [("a", 1u32), ("b", 2)] {
            data.entries.push(KeyVal { key: key.parse().unwrap(), value: value.into() }.into());
        }
        Reply::from(Body::Get(vec![data])).encode(&served.context).unwrap()
    };
    let serve = async {
        let mut gets = 0;
        for _ in 0..4 {
            let (frame, request) = served.asked().await;
            match request {
                Request::Operation(Operation::Get(get)) => {
                    gets += 1;
                    assert_eq!(get.proc, proc(1));
                    let payload = data(&served);
                    served.frame(frame.tag, payload).await;
                }
                _ => served.answer(frame.tag, &Status::SUCCESS.into()).await,
            }
        }
        gets
    };
    let calls = async {
        client.fence_all().collect_data().await.unwrap();
        for (key, value) in [("a", 1u32), ("b", 2), ("a", 1)] {
            assert_eq!(client.get::<u32>(proc(1), key).await.unwrap(), value);
        }
        client.fence_all().collect_data().await.unwrap();
        // what was collected is not here, but it was collected: even an optional get finds it
        assert_eq!(client.get::<u32>(proc(1), "b").optional().await.unwrap(), 2);
    };
    let ((), gets) = within(async { tokio::join!(calls, serve) }).await;
    assert_eq!(gets, 2);
}

#[tokio::test]
async fn get_03_a_get_without_limit_outlasts_the_patience_of_the_server() {
    let (client, mut served) = pair().await;
    let serve = async {
        for status in [Status::ERR_TIMEOUT, Status::ERR_TIMEOUT, Status::ERR_NOT_FOUND, Status::ERR_TIMEOUT] {
            let (frame, request) = served.asked().await;
            assert!(matches!(request, Request::Operation(Operation::Get(_))));
            served.answer(frame.tag, &status.into()).await;
        }
    };
    let calls = async {
        let patient = client.get::<u32>(proc(1), "late").await.unwrap_err();
        let limited = client.get::<u32>(proc(1), "late").timeout(HOUR).await.unwrap_err();
        (patient, limited)
    };
    let ((patient, limited), ()) = within(async { tokio::join!(calls, serve) }).await;
    assert!(patient.is_not_found() && limited.is_timeout(), "{patient} {limited}");
}

#[tokio::test]
async fn gen_10_a_get_that_outlasts_the_patience_of_the_server_is_not_asked_again_after_finalize() {
    let (client, mut served) = pair().await;
    let (is_asked, asked) = oneshot::channel();
    let (has_ended, ended) = oneshot::channel();
    let serve = async {
        let (get, request) = served.asked().await;
        assert!(matches!(request, Request::Operation(Operation::Get(_))));
        is_asked.send(()).unwrap();
        let (finalize, request) = served.asked().await;
        assert_eq!(request, Finalize::new().into());
        served.answer(get.tag, &Status::ERR_TIMEOUT.into()).await;
        ended.await.unwrap();
        served.answer(finalize.tag, &Status::SUCCESS.into()).await;
    };
    let get = async {
        let error = client.get::<u32>(proc(1), "late").await.unwrap_err();
        has_ended.send(()).unwrap();
        error
    };
    let finalize = async {
        asked.await.unwrap();
        client.clone().finalize().await.unwrap();
    };
    let ((), error, ()) = within(async { tokio::join!(serve, get, finalize) }).await;
    assert!(matches!(error, Error::Finalized), "{error}");
}

#[tokio::test]
async fn get_several_at_once_are_asked_in_one_burst() {
    let (client, mut served) = pair().await;
    let gets = futures::future::join_all(
        (0..20).map(|rank| client.get::<u32>(proc(rank + 1), "card").into_future()),
    );
    let serve = async {
        // all of them, before the first is answered
        let mut tags = Vec::new();
        for _ in 0..20 {
            let (frame, Request::Operation(Operation::Get(get))) = served.asked().await else {
                panic!("no get")
            };
            tags.push((frame.tag, get.proc));
        }
        for (tag, proc) in tags.into_iter().rev() {
            let mut data = ProcData::new(proc.clone());
            data.entries
                .push(KeyVal { key: "card".parse().unwrap(), value: proc.rank.to_raw().into() }.into());
            served.answer(tag, &Body::Get(vec![data]).into()).await;
        }
    };
    let (found, ()) = within(async { tokio::join!(gets, serve) }).await;
    let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
    assert_eq!(found, (1..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn put_and_finalize_end_a_connection_in_order() {
    let (client, mut served) = pair().await;
    client.put(Scope::GLOBAL, "card", 7).unwrap();
    let serve = async {
        let (frame, commit) = served.asked().await;
        assert!(matches!(commit, Request::Commit(parts) if parts.len() == 2));
        served.answer(frame.tag, &Status::SUCCESS.into()).await;
        let (frame, finalize) = served.asked().await;
        assert_eq!(finalize, Finalize::new().into());
        served.answer(frame.tag, &Status::SUCCESS.into()).await;
        // then the client closes
        assert_eq!(served.stream.read(&mut [0]).await.unwrap(), 0);
    };
    let calls = async {
        client.commit().await.unwrap();
        client.finalize().await.unwrap();
    };
    within(async { tokio::join!(calls, serve) }).await;
}

/// What the environment names is what a client shows, as the programs of this library have it from a launcher.
#[tokio::test]
async fn the_greeting_is_that_of_the_environment() {
    let (listener, address) = listener().await;
    let greeted = async { Served::accept(&listener).await.1 };
    let (_, connect) = within(async {
        tokio::select! {
            _ = at(address).init() => panic!("init has returned before the server admitted the process"),
            connect = greeted => ((), connect),
        }
    })
    .await;
    assert_eq!(connect.peer.proc(), Some(&proc(0)));
    assert_eq!((&*connect.security.mechanism, &*connect.store), ("native", "hash"));
    assert_eq!(connect.encoding, Encoding::plain(Dialect::V41));
    assert_eq!(connect.version.parse(), Ok(Version::new(4, 2, 2)));
    let user = connect.security.user().unwrap();
    assert_eq!(user.uid.as_raw(), rustix::process::geteuid().as_raw());
    assert_eq!(connect.info, Vec::<Info>::new());
}
