//! Servers that are gone, or go, at each moment of a conversation: each end is told within a second, by an error of its type.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use pmix_native::Version;
use pmix_native::conn::{ClientAnswer, Connect, Frame, Framing};
use pmix_native::msg::{Body, Context, NspaceData, Reply as Answer, Request as Ask};
use pmix_types::message::{Reply, Request};
use pmix_types::{KeyVal, ProcId, Status, keys};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::{Client, ClientBuilder, Error};

fn at(listener: &TcpListener) -> ClientBuilder {
    let proc = ProcId::new("job".parse().unwrap(), pmix_types::Rank::from_raw(0));
    let address = listener.local_addr().unwrap();
    Client::builder().uri(format!("srv.0;tcp4://{address}")).proc(proc)
}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// What comes of it, which must be soon.
async fn soon<F: IntoFuture>(future: F) -> F::Output {
    let began = Instant::now();
    let output = tokio::time::timeout(Duration::from_secs(5), future).await.expect("it waits");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    output
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
    let listener = listener().await;
    let server = async {
        let mut server = Server::accept(&listener).await;
        server.admit().await;
        server
    };
    let (client, server) = tokio::join!(at(&listener).init(), server);
    (client.unwrap(), server)
}

fn transport(error: &Error, problem: &str) {
    assert_eq!(error.status(), Status::ERR_UNREACH, "{error}");
    assert!(error.to_string().contains(problem), "{error}");
}

#[tokio::test]
async fn ini_02_a_server_that_is_gone_refuses_the_connection() {
    let listener = listener().await;
    let builder = at(&listener);
    drop(listener);
    transport(&soon(builder.init()).await.unwrap_err(), "nothing listens there");
}

#[tokio::test]
async fn ini_02_a_server_that_closes_the_connection_in_the_handshake_is_told_of() {
    for words in 0..3 {
        let listener = listener().await;
        let serve = async {
            let mut server = Server::accept(&listener).await;
            // nothing, half an answer, or all of it but no job
            let answer = ClientAnswer { index: 1 }.encode();
            server.socket.write_all(&answer[..answer.len() * words / 2]).await.unwrap();
        };
        let (client, ()) = soon(async { tokio::join!(at(&listener).init(), serve) }).await;
        transport(&client.unwrap_err(), "closed the connection");
    }
}

/// Half open: the server has ended and says no more, or has closed its side and reads on.
#[tokio::test]
async fn evt_21_a_connection_that_ends_on_one_side_fails_what_waits_and_what_comes() {
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
        let error = soon(waiting).await.unwrap().unwrap_err();
        assert!(error.is_lost_connection(), "{error}");
        assert!(soon(client.fence_all()).await.unwrap_err().is_lost_connection());
        drop(kept);
    }
}

#[tokio::test]
async fn gen_12_a_server_that_says_nothing_is_given_up_at_the_limit() {
    let listener = listener().await;
    let began = Instant::now();
    let limit = Duration::from_millis(300);
    let error = soon(at(&listener).timeout(limit).init()).await.unwrap_err();
    assert!(error.is_timeout() && began.elapsed() >= limit, "{error}");
}

/// Its clock does not run in the server.
#[tokio::test]
async fn gen_12_what_comes_too_late_is_dropped() {
    let (client, mut server) = admitted().await;
    let everybody = client.proc_id().clone();
    let late = client.connect([everybody]).timeout(Duration::from_secs(1)).into_future();
    let (error, (first, _)) = tokio::join!(late, server.asked());
    assert!(error.unwrap_err().is_timeout());
    let next = client.request(Request::DeregisterEvents(7));
    server.answer(first, Status::SUCCESS).await;
    assert_eq!(soon(next).await.unwrap_err().status(), Status::ERR_BAD_PARAM);
    let fence = async { client.fence_all().await.map(|()| Reply::Done) };
    let serve = async {
        let (tag, _) = server.asked().await;
        assert_ne!(tag, first);
        server.answer(tag, Status::SUCCESS).await;
    };
    let (done, ()) = soon(async { tokio::join!(fence, serve) }).await;
    assert!(matches!(done, Ok(Reply::Done)));
}
