//! A session on the native wire without the C library.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use pmix_client::ProcId;
use pmix_native::conn::{
    ClientAnswer, Connect, Frame, Framing, Peer as Who, Security, ServerUri, ToolAnswer, User, tag,
};
use pmix_native::msg::{Context, Push, Reply, Request};
use pmix_native::{Dialect, Encoding, Version};
use rustix::process::{getegid, geteuid};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{TestNode, within};

/// The address that a launched process finds in its environment.
///
/// # Panics
/// If the node does not speak the native wire.
pub async fn native_address(node: &TestNode) -> SocketAddr {
    let env = node.handle().setup_fork(&node.proc(0)).await.unwrap();
    let variable = Dialect::V41.uri_variable();
    let uri = env.iter().find(|(name, _)| *name == variable).unwrap().1.to_owned();
    let address = uri.parse::<ServerUri>().unwrap().address;
    assert!(address.ip().is_loopback());
    address
}

/// Connects to the address that a launched process finds in its environment.
///
/// # Panics
/// If the node does not speak the native wire.
pub async fn native_stream(node: &TestNode) -> TcpStream {
    TcpStream::connect(native_address(node).await).await.unwrap()
}

/// The message of a process of our own user that connects.
pub fn native_connect(peer: Who, encoding: Encoding, version: &str) -> Connect {
    Connect::new(peer, Security::native(native_user()), encoding, version)
}

/// Our own user.
pub fn native_user() -> User {
    User { uid: geteuid().as_raw().into(), gid: getegid().as_raw().into() }
}

/// A process on the native wire that has been let in.
#[derive(Debug)]
pub struct NativeSession {
    /// How it speaks.
    pub context: Context,
    /// Its own name.
    pub proc: ProcId,
    stream: TcpStream,
    arrived: BytesMut,
    last_tag: u32,
    pushes: Vec<Push>,
}

/// A message as it is sent.
fn framed(tag: u32, payload: Bytes) -> BytesMut {
    let mut sent = BytesMut::new();
    Framing::default().encode(&Frame { index: 0, tag, payload }, &mut sent).unwrap();
    sent
}

impl NativeSession {
    /// Connects as a client or tool, with a library of this release.
    pub async fn open(node: &TestNode, peer: Who, encoding: Encoding, version: &str) -> Self {
        Self::open_on(native_stream(node).await, peer, encoding, version).await
    }

    /// The same on a stream that is open.
    pub async fn open_on(mut stream: TcpStream, peer: Who, encoding: Encoding, version: &str) -> Self {
        let connect = native_connect(peer.clone(), encoding, version).encode().unwrap();
        stream.write_all(&connect).await.unwrap();
        let mut session = Self {
            context: Context::new(
                encoding,
                version.parse().unwrap_or_else(|_| Version::of_dialect(encoding.dialect)),
            ),
            proc: peer.proc().cloned().unwrap_or_else(ProcId::none),
            stream,
            arrived: BytesMut::new(),
            last_tag: tag::FIRST_REQUEST,
            pushes: Vec::new(),
        };
        loop {
            session.receive().await;
            if let Who::Client(_) = peer {
                if ClientAnswer::decode(&mut session.arrived).unwrap().is_some() {
                    return session;
                }
            } else if let Some(answer) =
                ToolAnswer::decode(&mut session.arrived, peer.wants_identity()).unwrap()
            {
                session.proc = answer.assigned.unwrap_or(session.proc);
                return session;
            }
        }
    }

    /// Its connection, for what no frame says.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Asks and waits for the answer.
    pub async fn ask(&mut self, request: &Request) -> Reply {
        let payload = request.encode(&self.context).unwrap();
        let answer = self.ask_bytes(payload).await;
        Reply::decode(&self.context, request.command(), &answer).unwrap()
    }

    /// Asks with these bytes; the bytes of the answer.
    pub async fn ask_bytes(&mut self, payload: impl Into<Bytes>) -> Bytes {
        self.say(payload).await;
        loop {
            let frame = self.next_frame().await;
            match Push::decode(&self.context, frame.tag, &frame.payload).unwrap() {
                Some(push) => self.pushes.push(push),
                None => {
                    assert_eq!(frame.tag, self.last_tag, "an answer that nobody has asked for");
                    assert!(!frame.payload.is_empty(), "a client takes that for the end");
                    return frame.payload;
                }
            }
        }
    }

    /// Sends a request without waiting for its answer; the server may have closed the connection.
    pub async fn tell(&mut self, request: &Request) {
        self.last_tag += 1;
        let request = framed(self.last_tag, request.encode(&self.context).unwrap());
        let _ = self.stream.write_all(&request).await;
    }

    /// The answer to what was asked next, whatever else is said: none of it is kept. `None` at the end.
    pub async fn skip_to_answer(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = Framing::default().decode(&mut self.arrived).unwrap() {
                return Some(frame.payload);
            }
            if within(self.stream.read_buf(&mut self.arrived)).await.is_ok_and(|read| read > 0) {
                continue;
            }
            return None;
        }
    }

    /// Sends a heartbeat.
    pub async fn beat(&mut self) {
        self.send(tag::HEARTBEAT, Bytes::new()).await;
    }

    /// What the server says unasked next.
    pub async fn push(&mut self) -> Push {
        if !self.pushes.is_empty() {
            return self.pushes.remove(0);
        }
        let frame = self.next_frame().await;
        Push::decode(&self.context, frame.tag, &frame.payload).unwrap().unwrap()
    }

    async fn say(&mut self, payload: impl Into<Bytes>) {
        self.last_tag += 1;
        self.send(self.last_tag, payload.into()).await;
    }

    /// Sends a message under a tag of its own.
    pub async fn send(&mut self, tag: u32, payload: Bytes) {
        self.stream.write_all(&framed(tag, payload)).await.unwrap();
    }

    /// The next message, whatever it is.
    pub async fn next_frame(&mut self) -> Frame {
        loop {
            if let Some(frame) = Framing::default().decode(&mut self.arrived).unwrap() {
                return frame;
            }
            self.receive().await;
        }
    }

    async fn receive(&mut self) {
        assert_ne!(
            within(self.stream.read_buf(&mut self.arrived)).await.unwrap(),
            0,
            "the server closed the connection"
        );
    }
}
