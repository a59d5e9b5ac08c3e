//! A server played by the test: it reads and says what the test tells it to.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pmix_client::types::job::{JobData, JobSpec};
use pmix_client::types::message::{Failure, Hello, Modex, ProcData, Push, PutEntry, Reply, Request, Welcome};
use pmix_client::types::{ProcId, Rank, Scope, Value, keys};
use pmix_client::{Client, ClientBuilder, EventStream};
use pmix_proto::v1::session_server::{Session, SessionServer};
use pmix_proto::v1::{ClientMessage, ServerMessage};
use pmix_proto::{Assembler, ClientBody, EncodedBody, Limits};
use pmix_test_wait::within;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tower::Service;

pub(crate) fn proc(nspace: &str, rank: u32) -> ProcId {
    ProcId::new(nspace.parse().unwrap(), Rank::from_raw(rank))
}

/// The client under test: rank 1 of job `job`.
pub(crate) fn me() -> ProcId {
    proc("job", 1)
}

pub(crate) fn server_id() -> ProcId {
    proc("srv.host", 0)
}

/// A job of four processes on two nodes.
pub(crate) fn job(nspace: &str) -> Arc<JobData> {
    let spec =
        JobSpec::new(nspace.parse().unwrap()).node_map(["n0", "n1"]).unwrap().ranks_block(2, 2).unwrap();
    let mut job = JobData::new(nspace.parse().unwrap());
    job.register(&spec.info(&keys::UNIV_SIZE, 4u32).into_infos(), "n0").unwrap();
    Arc::new(job)
}

pub(crate) fn entry(key: &str, value: impl Into<Value>) -> PutEntry {
    PutEntry::new(Scope::GLOBAL, key.parse().unwrap(), value)
}

pub(crate) fn modex(proc: ProcId, entries: Vec<PutEntry>) -> Arc<Modex> {
    Arc::new(Modex::new(vec![ProcData::new(proc, entries)]))
}

/// A limit that no test reaches by taking long.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// A time that timers are sure to tell apart.
pub(crate) const MOMENT: Duration = Duration::from_millis(5);

/// Listens on a socket in a directory of its own.
pub(crate) struct FakeServer {
    path: PathBuf,
    conversations: mpsc::Receiver<Conversation>,
    listening: JoinHandle<()>,
    _dir: TempDir,
}

impl FakeServer {
    pub(crate) fn start() -> Self {
        Self::start_at("s")
    }

    /// Its socket has this path below the directory.
    pub(crate) fn start_at(below: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(below);
        let parent = path.parent().unwrap();
        std::fs::create_dir_all(parent).unwrap();
        // through a short link, for paths that are too long to listen on
        let link = dir.path().join("l");
        std::os::unix::fs::symlink(parent, &link).unwrap();
        let listener = UnixListener::bind(link.join(path.file_name().unwrap())).unwrap();
        let (accepted, conversations) = mpsc::channel(4);
        let listening = tokio::spawn(listen(listener, accepted));
        Self { path, conversations, listening, _dir: dir }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder().uri(format!("srv.host.0;unix:{}", self.path.display())).proc(me())
    }

    /// The next client that opens a conversation.
    pub(crate) async fn accept(&mut self) -> Conversation {
        within(self.conversations.recv()).await.unwrap()
    }

    /// A client that has been welcomed, and the server's end of its conversation.
    pub(crate) async fn connected(&mut self) -> (Client, Conversation) {
        let builder = self.builder();
        let (client, conversation) = tokio::join!(builder.init(), async {
            let mut conversation = self.accept().await;
            conversation.hello().await;
            conversation.welcome().await;
            conversation
        });
        (client.unwrap(), conversation)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(listener: UnixListener, accepted: mpsc::Sender<Conversation>) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let (hang_up, hung_up) = mpsc::channel::<()>(1);
        let service = SessionServer::new(Handler { accepted: accepted.clone(), hang_up });
        let service = service_fn(move |request| service.clone().call(request));
        tokio::spawn(async move {
            let mut hung_up = hung_up;
            let connection =
                http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service);
            tokio::select! {
                _ = connection => {}
                _ = hung_up.recv() => {}
            }
        });
    }
}

struct Handler {
    accepted: mpsc::Sender<Conversation>,
    hang_up: mpsc::Sender<()>,
}

#[tonic::async_trait]
impl Session for Handler {
    type ConnectStream = ReceiverStream<Result<ServerMessage, tonic::Status>>;

    async fn connect(
        &self,
        request: tonic::Request<tonic::Streaming<ClientMessage>>,
    ) -> Result<tonic::Response<Self::ConnectStream>, tonic::Status> {
        let (said, saying) = mpsc::channel(64);
        let assembler = Assembler::new(Limits::default());
        let messages = request.into_inner();
        let conversation = Conversation { messages, assembler, said, hang_up: self.hang_up.clone() };
        self.accepted.send(conversation).await.map_err(|_| tonic::Status::unavailable("the test is over"))?;
        Ok(tonic::Response::new(ReceiverStream::new(saying)))
    }
}

/// The server's end of a conversation.
pub(crate) struct Conversation {
    messages: tonic::Streaming<ClientMessage>,
    assembler: Assembler,
    said: mpsc::Sender<Result<ServerMessage, tonic::Status>>,
    hang_up: mpsc::Sender<()>,
}

impl Conversation {
    /// A stream of all events, which is registered under this number.
    pub(crate) async fn events(&mut self, client: &Client, number: u64) -> EventStream {
        let (events, ()) = tokio::join!(client.events([]), async {
            let (id, _) = self.request().await;
            self.reply(id, Reply::Registered(number)).await;
        });
        events.unwrap()
    }

    /// What the client says next; `None` if it has ended the conversation.
    async fn next(&mut self) -> Option<(u64, ClientBody)> {
        loop {
            let message = within(self.messages.message()).await.ok().flatten()?;
            if let Some(complete) = self.assembler.accept_client(message).unwrap() {
                return Some(complete);
            }
        }
    }

    pub(crate) async fn hello(&mut self) -> Hello {
        match self.next().await {
            Some((0, ClientBody::Hello { hello, .. })) => hello,
            other => panic!("no hello but {other:?}"),
        }
    }

    /// The next request with its id.
    pub(crate) async fn request(&mut self) -> (u64, Request) {
        match self.next().await {
            Some((id, ClientBody::Request(request))) => (id, request),
            other => panic!("no request but {other:?}"),
        }
    }

    /// Waits for the client to end the conversation.
    pub(crate) async fn end(&mut self) {
        let said = self.next().await;
        assert!(said.is_none(), "{said:?}");
    }

    pub(crate) async fn welcome(&mut self) {
        let welcome = Welcome::new(me(), server_id(), "n0".into());
        let job = pmix_proto::encode_job(&job("job"));
        self.say(0, &EncodedBody::welcome(&welcome, pmix_proto::VERSION, Some(job))).await;
    }

    pub(crate) async fn reply(&mut self, id: u64, reply: Reply) {
        self.say(id, &EncodedBody::reply(&reply)).await;
    }

    pub(crate) async fn fail(&mut self, id: u64, failure: Failure) {
        self.say(id, &EncodedBody::failure(&failure)).await;
    }

    pub(crate) async fn push(&mut self, push: Push) {
        self.say(0, &EncodedBody::push(&push)).await;
    }

    pub(crate) async fn say(&mut self, id: u64, body: &EncodedBody) {
        for message in body.messages(id) {
            within(self.said.send(Ok(message))).await.unwrap();
        }
    }

    /// Cuts the connection, as a server does that is killed.
    pub(crate) async fn hang_up(self) {
        self.hang_up.send(()).await.unwrap();
    }
}
