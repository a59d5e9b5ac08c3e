//! A connection: one request after the other.

use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Duration;

use pmix_engine::PeerCred;
use pmix_pmi1::{Entry, Error, Request as Ask, Response, SUBVERSION, Token, VERSION};
use pmix_types::message::{Failure, Finalize, Reply, Request};
use pmix_types::{ProcId, Rank};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::reading::{End, Received};
use super::session::{NotLetIn, Session};
use super::{Front, translate};
use crate::account::own_uid;
use crate::door::warn_with;
use crate::line::UNREAD;
use crate::loopback::{Arrival, log_refusal};
use pmix_proto::owner::Owners;

/// A connection to the port without a greeting within this time is closed.
const GREETING_WITHIN: Duration = Duration::from_secs(10);
/// The key of the places of all ranks, which nobody puts.
const MAPPING: &str = "PMI_process_mapping";

/// Serves a process that has inherited the other end, until it closes that or its job is gone.
pub(super) async fn of_pair(front: Arc<Front>, proc: ProcId, stream: StdUnixStream, job: CancellationToken) {
    let Ok(stream) = UnixStream::from_std(stream) else { return };
    // no buffer is made for a process that never looks at it
    tokio::select! {
        biased;
        ready = stream.readable() => if ready.is_err() { return },
        () = job.cancelled() => return,
    }
    let (from, to) = stream.into_split();
    let talk = Talk {
        reading: Received::new(from),
        to,
        session: None,
        who: Who { proc, peer: None },
        cursor: Cursor::default(),
        front,
    };
    tokio::select! {
        biased;
        // what it takes while it is idle is small
        () = Box::pin(talk.run()) => {}
        () = job.cancelled() => {}
    }
}

/// Serves a process that has come to the port.
pub(super) async fn of_port(front: Arc<Front>, arrival: Arrival, owners: Arc<Owners>) {
    let Arrival { stream, sockets, uid, mut guest } = arrival;
    let (from, to) = stream.into_split();
    let mut reading = Received::new(from);
    let turn_away = |reason: &str| log_refusal(front.door.turn_away(uid), uid, sockets.from, reason);
    let id = match tokio::time::timeout(GREETING_WITHIN, reading.greeting()).await {
        Ok(Ok(id)) => id,
        Ok(Err(reason)) => return turn_away(&reason),
        Err(_) => return turn_away("no greeting arrived in time"),
    };
    // a place is taken for its own user only, or others would keep its process out
    let owner = match front.proc_of(id) {
        Some(proc) => front.user_of(&proc).await.ok().map(|owner| owner.uid),
        None => None,
    };
    if owner.is_some_and(|owner| owner != uid) {
        return turn_away(&format!("the process with PMI_ID {id} belongs to another user"));
    }
    let (proc, job, _taken) = match front.take(id) {
        Ok(taken) => taken,
        Err(reason) => return turn_away(&reason),
    };
    let peer = PeerCred { uid, gid: None, pid: None };
    let session = match Session::open(front.clone(), proc.clone(), peer, &mut reading).await {
        Ok(session) => session,
        Err(NotLetIn::Refused(failure)) => return turn_away(&failure.to_string()),
        Err(NotLetIn::Ended(_)) => return,
    };
    // requests count only if the connection is still open, so that its owner can be verified
    match owners.uid_of(&sockets) {
        Ok(still) if still == uid => guest.let_in(),
        Ok(other) => {
            let reason = format!("its socket now belongs to uid {other}, no longer to uid {uid}");
            return session.close(&reason).await;
        }
        Err(error) => {
            let reason = format!("{proc} disconnected before it was let in: {error}");
            log_refusal(front.door.line(uid), uid, sockets.from, &reason);
            return session.close("").await;
        }
    }
    let who = Who { proc, peer: Some(peer) };
    let welcome = in_ack(&session);
    let mut talk = Talk { reading, to, session: Some(session), who, cursor: Cursor::default(), front };
    match talk.say(&welcome).await {
        Ok(()) => tokio::select! {
            biased;
            () = Box::pin(talk.run()) => {}
            () = job.cancelled() => {}
        },
        Err(end) => talk.end(&end).await,
    }
}

/// Who a process is.
fn in_ack(session: &Session) -> Response {
    let size = session.job.size().unwrap_or(1);
    Response::InitAck { size, rank: session.proc.rank.to_raw(), debug: false }
}

/// The process at the other end.
struct Who {
    proc: ProcId,
    /// Its user, as the kernel reports it; `None` if it has inherited its end.
    peer: Option<PeerCred>,
}

/// A connection with all that it holds.
struct Talk<R, W> {
    front: Arc<Front>,
    reading: Received<R>,
    to: W,
    who: Who,
    /// From init to finalize.
    session: Option<Session>,
    cursor: Cursor,
}

/// Where a process is that reads one value after the other.
#[derive(Debug, Default)]
struct Cursor {
    /// The number of the next value.
    next: u64,
    /// Whose values come after those here; none for those of the job.
    rank: Option<u32>,
    /// Values that come next, the last one first: of one process at a time.
    left: Vec<(Token, Token)>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Talk<R, W> {
    /// Carries out requests until the connection ends.
    async fn run(mut self) {
        let end = loop {
            let asked = match self.reading.request().await {
                Ok(asked) => asked,
                Err(end) => break end,
            };
            let answered = match asked {
                Ok(request) => self.answer(request).await,
                Err(error) => Ok(failed(&error)),
            };
            let said = match answered {
                Ok(Some(response)) => self.say(&response).await,
                Ok(None) => Ok(()),
                Err(end) => Err(end),
            };
            if let Err(end) = said {
                break end;
            }
        };
        self.end(&end).await;
    }

    async fn end(self, end: &End) {
        if let End::Broken(reason) = end {
            self.warn(&format!("closed a connection: {reason}"));
        }
        if let Some(session) = self.session {
            session.close(end.reason()).await;
        }
    }

    /// Logs something about the process, unless there has been too much about its user.
    fn warn(&self, text: &str) {
        let uid = self.who.peer.map_or_else(own_uid, |peer| peer.uid);
        warn_with!(self.front.door.line(uid), proc = %self.who.proc, "{text}");
    }

    /// Writes an answer. A process that does not read it is disconnected after a while.
    async fn say(&mut self, response: &Response) -> Result<(), End> {
        let patience = self.front.inbox.patience();
        match tokio::time::timeout(patience, self.to.write_all(&response.encode())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Closed),
            Err(_) => Err(End::Broken(UNREAD.into())),
        }
    }

    /// The answer to a request, if it has one.
    async fn answer(&mut self, request: Ask) -> Result<Option<Response>, End> {
        Ok(Some(match request {
            Ask::Init { version, subversion } => return self.init(version, subversion).await.map(Some),
            Ask::GetMaxes => Response::MAXES,
            Ask::Other(command) => refused(command.as_str(), "not_supported"),
            Ask::SingInit { .. } => refused("singinit", "this process has a launcher"),
            _ if self.session.is_none() => refused("init_first", "send init first"),
            Ask::Abort { exit_code, message } => {
                // whoever aborts waits for nothing
                let _ = self.ask(translate::abort(exit_code, message.as_ref())).await?;
                return Ok(None);
            }
            Ask::Finalize => {
                let _ = self.ask(Request::Finalize(Finalize::new())).await?;
                self.say(&Response::FinalizeAck).await?;
                // the process may begin anew
                if let Some(session) = self.session.take() {
                    session.close("").await;
                }
                self.cursor = Cursor::default();
                return Ok(None);
            }
            Ask::BarrierIn => match self.ask(translate::barrier()).await? {
                Ok(_) => Response::BarrierOut,
                // processes take any `barrier_out` for a success
                Err(failure) => refused("barrier_failed", &failure.to_string()),
            },
            Ask::Put { kvsname, key, value } => {
                Response::Put(self.put(kvsname.as_ref(), &key, &value).await?)
            }
            Ask::Get { kvsname, key } => Response::Value(self.get(kvsname.as_ref(), &key).await?),
            Ask::GetByIndex { kvsname, index } if self.is_own(kvsname.as_ref()) => {
                Response::Entry(self.entry(index).await?)
            }
            Ask::GetByIndex { .. } => Response::Entry(None),
            Ask::PublishName { service, port } => {
                let asked = translate::publish(&service, &port);
                Response::Published(self.carry_out(asked).await?.map(drop))
            }
            Ask::UnpublishName { service } => {
                Response::Unpublished(self.carry_out(translate::unpublish(&service)).await?.map(drop))
            }
            Ask::LookupName { service } => {
                let found = self.carry_out(translate::lookup(&service)).await?;
                Response::Port(found.and_then(|reply| match reply {
                    Reply::Lookup(found) => translate::port(&found),
                    _ => Err(Token::of_text("service_not_found")),
                }))
            }
            Ask::Spawn(spawn) => {
                let ignored = translate::ignored(&spawn);
                if !ignored.is_empty() {
                    self.warn(&format!("ignoring unsupported MPI_Info keys in a spawn request: {ignored}"));
                }
                Response::Spawned(self.carry_out(translate::spawn(spawn)).await?.map(drop))
            }
            about => match &self.session {
                Some(session) => of_job(session, &about),
                None => refused("init_first", "send init first"),
            },
        }))
    }

    /// Lets the process in, unless its connection has shown it in already.
    async fn init(&mut self, version: u32, _: u32) -> Result<Response, End> {
        let answer = |rc| Response::Init { version: VERSION, subversion: SUBVERSION, rc };
        if version != VERSION {
            return Ok(answer(-1));
        }
        if self.session.is_some() {
            return Ok(answer(0));
        }
        let proc = self.who.proc.clone();
        let peer = match self.who.peer {
            Some(peer) => Ok(peer),
            None => self.front.user_of(&proc).await,
        };
        let opened = match peer {
            Ok(peer) => Session::open(self.front.clone(), proc, peer, &mut self.reading).await,
            Err(failure) => Err(NotLetIn::Refused(failure)),
        };
        match opened {
            Ok(session) => {
                self.session = Some(session);
                Ok(answer(0))
            }
            Err(NotLetIn::Refused(failure)) => Err(End::Broken(failure.to_string())),
            Err(NotLetIn::Ended(end)) => Err(end),
        }
    }

    async fn ask(&mut self, request: Request) -> Result<Result<Reply, Failure>, End> {
        match &mut self.session {
            Some(session) => session.ask(request, &mut self.reading).await,
            None => Err(End::Stopped),
        }
    }

    /// Has the engine carry out a request, unless it is none.
    async fn carry_out(&mut self, request: Result<Request, Token>) -> Result<Result<Reply, Token>, End> {
        match request {
            Ok(request) => Ok(self.ask(request).await?.map_err(|failure| translate::reason(&failure))),
            Err(reason) => Ok(Err(reason)),
        }
    }

    /// Whether this is the key-value space of the process's job; there is no other.
    fn is_own(&self, kvsname: Option<&Token>) -> bool {
        kvsname.is_none_or(|name| *name == self.kvsname())
    }

    fn kvsname(&self) -> Token {
        Token::of_text(self.who.proc.nspace.as_str())
    }

    async fn put(
        &mut self,
        kvsname: Option<&Token>,
        key: &Token,
        value: &Token,
    ) -> Result<Result<(), Token>, End> {
        if !self.is_own(kvsname) {
            return Ok(Err(Token::of_text("no_such_kvsname")));
        }
        let asked = translate::key(key).and_then(|key| translate::put(key, value));
        Ok(self.carry_out(asked).await?.map(drop))
    }

    async fn get(&mut self, kvsname: Option<&Token>, key: &Token) -> Result<Result<Token, Token>, End> {
        let not_found = || Ok(Err(Token::of_text(&format!("key_{key}_not_found"))));
        let Some(session) = self.session.as_ref().filter(|_| self.is_own(kvsname)) else {
            return Ok(Err(Token::of_text("no_such_kvsname")));
        };
        if key.as_str() == MAPPING {
            return self
                .front
                .mapping(&session.proc.nspace, &session.job)
                .map_or_else(not_found, |mapping| Ok(Ok(mapping)));
        }
        let name = match translate::key(key) {
            Ok(name) => name,
            Err(reason) => return Ok(Err(reason)),
        };
        if let Some(value) = translate::preput(&session.job, &name) {
            return Ok(Ok(value));
        }
        let asked = translate::get(&session.proc, name);
        match self.ask(asked).await? {
            Ok(Reply::Get(found)) => Ok(translate::value(&found)),
            _ => not_found(),
        }
    }

    /// The value of this number: first come those that the job has had from the start, then those of rank after rank.
    async fn entry(&mut self, index: u64) -> Result<Option<Entry>, End> {
        let Some(session) = &self.session else { return Ok(None) };
        let (own, size) = (session.proc.clone(), session.job.size().unwrap_or(0));
        if index < self.cursor.next || self.cursor.next == 0 {
            let mut left = translate::all_preput(&session.job);
            left.reverse();
            self.cursor = Cursor { next: 0, rank: None, left };
        }
        loop {
            while let Some((key, value)) = self.cursor.left.pop() {
                self.cursor.next += 1;
                if self.cursor.next > index {
                    return Ok(Some(Entry::new(self.cursor.next, key, value)));
                }
            }
            let rank = self.cursor.rank.map_or(0, |rank| rank + 1);
            if rank >= size {
                self.cursor = Cursor::default();
                return Ok(None);
            }
            self.cursor.rank = Some(rank);
            if let Ok(Reply::Get(found)) = self.ask(translate::get_all(&own, Rank::from_raw(rank))).await? {
                let entries = found.modex.procs.iter().flat_map(|data| &data.entries);
                self.cursor.left =
                    entries.filter_map(|entry| translate::pair(&entry.key, &entry.value)).collect();
                self.cursor.left.reverse();
            }
        }
    }
}

/// What the job data says of a process.
fn of_job(session: &Session, about: &Ask) -> Response {
    use pmix_types::job::Target;
    use pmix_types::keys;
    let job = &session.job;
    let rank = session.proc.rank;
    match about {
        Ask::GetUniverseSize => {
            let size = job.lookup(keys::UNIV_SIZE.name(), &Target::Session(None));
            let size = size.and_then(|size| size.get::<u32>().ok()).or_else(|| job.size());
            Response::UniverseSize(size.and_then(|size| i32::try_from(size).ok()).unwrap_or(-1))
        }
        Ask::GetAppnum => {
            let number = job.lookup(keys::APPNUM.name(), &Target::Proc(rank));
            let number = number.and_then(|number| number.get::<u32>().ok());
            Response::Appnum(number.and_then(|number| i32::try_from(number).ok()).unwrap_or(0))
        }
        Ask::GetMyKvsname => Response::MyKvsname(Token::of_text(session.proc.nspace.as_str())),
        Ask::InitAck { .. } => in_ack(session),
        other => refused("unexpected", &format!("{other:?}")),
    }
}

/// An answer that no process takes for a success.
fn refused(command: &str, reason: &str) -> Response {
    Response::Failed { command: Token::of_text(command), reason: Token::of_text(reason) }
}

/// The answer to a message that cannot be read. Text that is not UTF-8 comes from the program, which can go on if its operation
/// fails.
fn failed(error: &Error) -> Option<Response> {
    let (command, reason) = (error.command()?.as_str(), Token::of_text(&error.to_string()));
    let is_of_program = matches!(error, Error::NotText { .. });
    Some(match command {
        "put" if is_of_program => Response::Put(Err(reason)),
        "get" if is_of_program => Response::Value(Err(reason)),
        "publish_name" if is_of_program => Response::Published(Err(reason)),
        "unpublish_name" if is_of_program => Response::Unpublished(Err(reason)),
        "lookup_name" if is_of_program => Response::Port(Err(reason)),
        "spawn" if is_of_program => Response::Spawned(Err(reason)),
        _ => Response::Failed { command: Token::of_text(command), reason },
    })
}
