//! Servers that are gone, or go, at each moment of a conversation: each end is told at once, while no time passes, by an error
//! of its type.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::BytesMut;
use pmix_native::Version;
use pmix_native::conn::{ClientAnswer, Connect, Frame, Framing};
use pmix_native::msg::{Body, Context, NspaceData, Reply as Answer, Request as Ask};
use pmix_test_wait::{StillClock, within};
use pmix_types::message::{DeregisterEvents, Reply, Request};
use pmix_types::{KeyVal, ProcId, Status, keys};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::{Client, ClientBuilder, Error};

/// A time that timers are sure to tell apart.
const MOMENT: Duration = Duration::from_millis(5);

fn at(address: SocketAddr) -> ClientBuilder {
    let proc = ProcId::new("job".parse().unwrap(), pmix_types::Rank::from_raw(0));
    Client::builder().uri(format!("srv.0;tcp4://{address}")).proc(proc)
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A server that is played by the test, after the handshake.
struct Server {
    socket: TcpStream,
    context: Context,
    arrived: BytesMut,
}

impl Server {
    async fn accept(listener: &TcpListener) -> Self {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut arrived = BytesMut::new();
        let connect = loop {
            socket.read_buf(&mut arrived).await.unwrap();
            if let Some(connect) = Connect::decode(&mut arrived).unwrap() {
                break connect;
            }
        };
        let release: Version = connect.version.parse().unwrap();
        Self { socket, context: Context::new(connect.encoding, release), arrived }
    }

    /// Lets the client in, and tells it of its job.
    async fn admit(&mut self) {
        self.socket.write_all(&ClientAnswer { index: 1 }.encode()).await.unwrap();
        let (tag, asked) = self.asked().await;
        assert_eq!(asked, Ask::Job);
        let mut data = NspaceData::new("job".parse().unwrap());
        data.entries.push(KeyVal { key: keys::JOB_SIZE.key_name(), value: 1u32.into() }.into());
        self.answer(tag, Body::Job(data)).await;
    }

    async fn asked(&mut self) -> (u32, Ask) {
        loop {
            if let Some(frame) = Framing::default().decode(&mut self.arrived).unwrap() {
                return (frame.tag, Ask::decode(&self.context, &frame.payload).unwrap());
            }
            self.socket.read_buf(&mut self.arrived).await.unwrap();
        }
    }

    fn frame(&self, tag: u32, answer: impl Into<Answer>) -> BytesMut {
        let payload = answer.into().encode(&self.context).unwrap();
        let mut bytes = BytesMut::new();
        Framing::default().encode(&Frame { index: 1, tag, payload }, &mut bytes).unwrap();
        bytes
    }

    async fn answer(&mut self, tag: u32, answer: impl Into<Answer>) {
        let bytes = self.frame(tag, answer);
        self.socket.write_all(&bytes).await.unwrap();
    }
}

/// A client and the server that has let it in.
async fn admitted() -> (Client, Server) {
    let (listener, address) = listener().await;
    let server = async {
        let mut server = Server::accept(&listener).await;
        server.admit().await;
        server
    };
    let (client, server) = tokio::join!(at(address).init(), server);
    (client.unwrap(), server)
}

fn transport(error: &Error, problem: &str) {
    assert_eq!(error.status(), Status::ERR_UNREACH, "{error}");
    assert!(error.to_string().contains(problem), "{error}");
}

#[tokio::test]
async fn ini_02_a_server_that_is_gone_refuses_the_connection() {
    let _clock = StillClock::start();
    // no other program can listen there meanwhile
    let reserved = TcpSocket::new_v4().unwrap();
    reserved.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let builder = at(reserved.local_addr().unwrap());
    transport(&within(builder.init()).await.unwrap_err(), "nothing listens there");
}

#[tokio::test]
async fn ini_02_a_server_that_closes_the_connection_in_the_handshake_is_told_of() {
    let _clock = StillClock::start();
    for words in 0..3 {
        let (listener, address) = listener().await;
        let serve = async {
            let mut server = Server::accept(&listener).await;
            // nothing, half an answer, or all of it but no job
            let answer = ClientAnswer { index: 1 }.encode();
            server.socket.write_all(&answer[..answer.len() * words / 2]).await.unwrap();
        };
        let (client, ()) = within(async { tokio::join!(at(address).init(), serve) }).await;
        transport(&client.unwrap_err(), "closed the connection");
    }
}

/// Half open: the server has ended and says no more, or has closed its side and reads on.
#[tokio::test]
async fn evt_21_a_connection_that_ends_on_one_side_fails_what_waits_and_what_comes() {
    let _clock = StillClock::start();
    for is_half_open in [false, true] {
        let (client, mut server) = admitted().await;
        let waiting = {
            let client = client.clone();
            tokio::spawn(async move { client.fence_all().await })
        };
        let (tag, _) = server.asked().await;
        // the answer breaks off
        let bytes = server.frame(tag, Status::SUCCESS);
        server.socket.write_all(&bytes[..bytes.len() - 1]).await.unwrap();
        server.socket.shutdown().await.unwrap();
        let kept = is_half_open.then_some(server);
        let error = within(waiting).await.unwrap().unwrap_err();
        assert!(error.is_lost_connection(), "{error}");
        assert!(within(client.fence_all()).await.unwrap_err().is_lost_connection());
        drop(kept);
    }
}

#[tokio::test]
async fn gen_12_a_server_that_says_nothing_is_given_up_at_the_limit() {
    let clock = StillClock::start();
    let (listener, address) = listener().await;
    let limit = Duration::from_millis(300);
    let init = tokio::spawn(at(address).timeout(limit).init());
    let _server = within(Server::accept(&listener)).await;
    clock.pass(limit - MOMENT).await;
    assert!(!init.is_finished());
    clock.pass(MOMENT).await;
    let error = within(init).await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error}");
}

/// Its clock does not run in the server.
#[tokio::test]
async fn gen_12_what_comes_too_late_is_dropped() {
    let clock = StillClock::start();
    let (client, mut server) = admitted().await;
    let everybody = client.proc_id().clone();
    let limit = Duration::from_secs(1);
    let late = tokio::spawn(client.connect([everybody]).timeout(limit).into_future());
    let (first, _) = within(server.asked()).await;
    clock.pass(limit - MOMENT).await;
    assert!(!late.is_finished());
    clock.pass(MOMENT).await;
    assert!(within(late).await.unwrap().unwrap_err().is_timeout());
    let next = client.request(Request::DeregisterEvents(DeregisterEvents::new(7)));
    server.answer(first, Status::SUCCESS).await;
    assert_eq!(within(next).await.unwrap_err().status(), Status::ERR_BAD_PARAM);
    let fence = async { client.fence_all().await.map(|()| Reply::Done) };
    let serve = async {
        let (tag, _) = server.asked().await;
        assert_ne!(tag, first);
        server.answer(tag, Status::SUCCESS).await;
    };
    let (done, ()) = within(async { tokio::join!(fence, serve) }).await;
    assert!(matches!(done, Ok(Reply::Done)));
}
