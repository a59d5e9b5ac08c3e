//! Processes that speak PMI-1, without a program.

use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;

use bytes::BytesMut;
use pmix_client::ProcId;
use pmix_pmi1::{Reader, Request, Response, Token};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::{TestNode, within};

/// Both directions of a connection.
trait Stream: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

/// A process that speaks PMI-1 over the socket that it has inherited, or over a port.
pub struct Pmi1Session {
    stream: Pin<Box<dyn Stream>>,
    arrived: BytesMut,
    reader: Reader,
}

impl std::fmt::Debug for Pmi1Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pmi1Session").finish_non_exhaustive()
    }
}

impl Pmi1Session {
    /// What a process of this rank inherits, before it says anything.
    ///
    /// # Panics
    /// If the server does not serve PMI-1.
    pub async fn of(node: &TestNode, rank: u32) -> Self {
        Self::of_proc(node, &node.proc(rank)).await
    }

    /// What this process inherits.
    ///
    /// # Panics
    /// If the server does not serve PMI-1.
    pub async fn of_proc(node: &TestNode, proc: &ProcId) -> Self {
        let environment = node.handle().setup_fork(proc).await.unwrap();
        let socket = StdUnixStream::from(environment.pmi1().unwrap().open().unwrap());
        socket.set_nonblocking(true).unwrap();
        Self::over(UnixStream::from_std(socket).unwrap())
    }

    /// A connection to a port.
    ///
    /// # Panics
    /// If there is none.
    pub async fn at(port: &str) -> Self {
        Self::over(TcpStream::connect(port).await.unwrap())
    }

    /// The address of the port of a server, and the number of a process there.
    ///
    /// # Panics
    /// If there is none.
    pub async fn port(node: &TestNode, rank: u32) -> (String, String) {
        let environment = node.handle().setup_fork(&node.proc(rank)).await.unwrap();
        let value = |name| environment.iter().find(|pair| pair.0 == name).unwrap().1.to_owned();
        (value("PMI_PORT"), value("PMI_ID"))
    }

    fn over(stream: impl Stream + 'static) -> Self {
        Self { stream: Box::pin(stream), arrived: BytesMut::new(), reader: Reader::default() }
    }

    /// A process that has done its init.
    ///
    /// # Panics
    /// If it is not let in.
    pub async fn init(node: &TestNode, rank: u32) -> Self {
        let mut session = Self::of(node, rank).await;
        let answer = session.ask(&Request::Init { version: 1, subversion: 1 }).await;
        assert_eq!(answer, Response::Init { version: 1, subversion: 1, rc: 0 });
        session
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Panics
    /// If the connection ends instead.
    pub async fn ask(&mut self, request: &Request) -> Response {
        self.say(&request.encode()).await;
        self.answer().await.expect("the connection has ended")
    }

    /// Sends a line, and waits for its answer.
    ///
    /// # Panics
    /// If the connection ends instead.
    pub async fn line(&mut self, line: &str) -> Response {
        self.say(format!("{line}\n").as_bytes()).await;
        self.answer().await.expect("the connection has ended")
    }

    /// Sends bytes, as many as the server takes.
    pub async fn say(&mut self, bytes: &[u8]) {
        // it may hang up before it has read all
        let _ = within(self.stream.write_all(bytes)).await;
    }

    /// The next answer; `None` when the server has closed the connection.
    ///
    /// # Panics
    /// If it is none.
    pub async fn answer(&mut self) -> Option<Response> {
        loop {
            if let Some(answer) = self.reader.response(&mut self.arrived).unwrap() {
                return Some(answer);
            }
            match within(self.stream.read_buf(&mut self.arrived)).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Stores a value.
    ///
    /// # Panics
    /// If that fails.
    pub async fn put(&mut self, key: &str, value: &str) {
        let put = Request::Put { kvsname: None, key: token(key), value: token(value) };
        assert_eq!(self.ask(&put).await, Response::Put(Ok(())));
    }

    /// A value, if there is one.
    ///
    /// # Panics
    /// If something else is answered.
    pub async fn get(&mut self, key: &str) -> Option<String> {
        match self.ask(&Request::Get { kvsname: None, key: token(key) }).await {
            Response::Value(found) => found.ok().map(|value| value.to_string()),
            other => panic!("{other:?}"),
        }
    }
}

fn token(text: &str) -> Token {
    Token::new(text).unwrap()
}
