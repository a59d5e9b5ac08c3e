//! The front end of PMI-1.1: programs of MPICH and its relatives become clients of the same engine, and share jobs with those of
//! the other wires.
//!
//! A process inherits one end of a pair of sockets, which is made when it is started, so nobody else can speak for it. The
//! server holds the other end without a buffer until something arrives: processes that never look at it cost a descriptor and
//! an idle task each. Where nothing can be inherited, a port serves processes, which name themselves by a number; the kernel says
//! whose they are.
//!
//! The protocol is a strict sequence of requests and answers. So a connection has one request under way, and reads the next one
//! when the answer is written: what it can make the server hold does not grow with what it sends.

mod connection;
mod mapping;
mod peer;
mod reading;
mod session;
mod socket;
mod translate;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pmix_pmi1::Token;
use pmix_types::job::{JobData, NodeRef, Target};
use pmix_types::{Nspace, ProcId, keys};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::door::Door;
use crate::error::ServerError;
use crate::inbox::Inbox;
use crate::loopback::Loopback;
use crate::wire::Pmi1Wire;
use mapping::mapping;
use pmix_proto::owner::Owners;
pub use socket::{Pmi1Socket, inherit_pmi_fd, number_pmi_fd};

/// State that all connections of a server share.
#[derive(Debug)]
pub(crate) struct Front {
    inbox: Inbox,
    door: Door,
    /// The runtime of the server's thread.
    runtime: Handle,
    port: Option<SocketAddr>,
    state: Mutex<Pmi1State>,
}

#[derive(Debug, Default)]
struct Pmi1State {
    jobs: BTreeMap<Nspace, Job>,
    /// Processes that may use the port, by the numbers that their environment has.
    ids: BTreeMap<i32, Place>,
    last_id: i32,
}

/// A job with processes that may use this wire.
#[derive(Debug, Default)]
struct Job {
    /// Cancelled when the job is gone: those of its processes that have not connected hold nothing from then on.
    gone: CancellationToken,
    /// The last [`mapping`] that was made, and of what: each process asks for it, and making it takes a look at each rank.
    mapping: Option<(Weak<JobData>, Option<Token>)>,
}

/// A process that may use the port.
#[derive(Debug)]
struct Place {
    proc: ProcId,
    /// Whether it has a connection.
    is_taken: bool,
}

/// The place of a process that has a connection to the port, released on drop.
#[derive(Debug)]
struct Taken {
    front: Arc<Front>,
    id: i32,
}

/// Forgets a job when it is dropped.
pub(crate) struct Forgets<'a> {
    front: &'a Front,
    nspace: &'a Nspace,
}

/// The port of the loopback interface.
#[derive(Debug)]
pub(crate) struct Pmi1Port {
    front: Arc<Front>,
    loopback: Loopback,
}

/// Parameters of MPI libraries. MPICH 4.3 and newer refuse to choose between PMI-1 and PMIx, whose variables are there, too.
pub(crate) fn parameters() -> [(String, String); 1] {
    [("MPIR_CVAR_PMI_VERSION".to_owned(), "1".to_owned())]
}

impl Front {
    /// Opens what is needed: nothing, or the port.
    pub(crate) fn open(
        wire: Pmi1Wire,
        door: &Door,
        inbox: &Inbox,
        runtime: &Handle,
    ) -> Result<(Option<Arc<Self>>, Option<Pmi1Port>), ServerError> {
        if wire == Pmi1Wire::Off {
            return Ok((None, None));
        }
        let opened = wire.has_port().then(|| Loopback::open(door.clone())).transpose();
        let (loopback, port) = opened.map_err(ServerError::of_pmi1)?.unzip();
        let front = Arc::new(Self {
            inbox: inbox.clone(),
            door: door.clone(),
            runtime: runtime.clone(),
            port,
            state: Mutex::default(),
        });
        let port = loopback.map(|loopback| Pmi1Port { front: front.clone(), loopback });
        Ok((Some(front), port))
    }

    /// What makes the socket of a process.
    pub(crate) fn socket(self: &Arc<Self>, proc: &ProcId) -> Pmi1Socket {
        Pmi1Socket::new(self.clone(), proc.clone())
    }

    /// Variables that processes of PMI-1 read, besides that of the descriptor. The names of a place on its node are those of
    /// MPICH's own launcher.
    pub(crate) fn variables(&self, job: &JobData, proc: &ProcId) -> Vec<(String, String)> {
        let number = |value: Option<u32>| value.map(|value| value.to_string());
        let here = |key: &pmix_types::Key<u32>| {
            job.lookup(key.name(), &Target::Node(NodeRef::Of(proc.rank)))?.get::<u32>().ok()
        };
        let local_rank = job.lookup(keys::LOCAL_RANK.name(), &Target::Proc(proc.rank));
        let local_rank = local_rank.and_then(|rank| rank.get::<u16>().ok()).map(u32::from);
        let was_spawned = translate::has_preput(job).then(|| "1".to_owned());
        let port = self.port.map(|port| (port.to_string(), self.enter(proc).to_string()));
        let (port, id) = port.unzip();
        let all = [
            ("PMI_RANK", Some(proc.rank.to_raw().to_string())),
            ("PMI_SIZE", number(job.size())),
            ("PMI_SPAWNED", was_spawned),
            ("MPI_LOCALRANKID", number(local_rank)),
            ("MPI_LOCALNRANKS", number(here(&keys::LOCAL_SIZE))),
            ("PMI_PORT", port),
            ("PMI_ID", id),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    /// A job will be gone when the result is dropped, even if nobody waits for it any more.
    pub(crate) const fn forgets<'a>(&'a self, nspace: &'a Nspace) -> Forgets<'a> {
        Forgets { front: self, nspace }
    }

    fn forget(&self, nspace: &Nspace) {
        let mut state = self.lock();
        if let Some(job) = state.jobs.remove(nspace) {
            job.gone.cancel();
        }
        state.ids.retain(|_, place| place.proc.nspace != *nspace);
    }

    /// Serves a process at the other end of this socket.
    fn serve(self: &Arc<Self>, proc: ProcId, stream: UnixStream) {
        let job = self.lock().jobs.entry(proc.nspace.clone()).or_default().gone.clone();
        self.runtime.spawn(connection::of_pair(self.clone(), proc, stream, job));
    }

    /// The number of a process for the port.
    fn enter(&self, proc: &ProcId) -> i32 {
        let mut state = self.lock();
        if let Some((id, _)) = state.ids.iter().find(|(_, place)| place.proc == *proc) {
            return *id;
        }
        state.last_id = state.last_id.checked_add(1).unwrap_or(1);
        let id = state.last_id;
        state.ids.insert(id, Place { proc: proc.clone(), is_taken: false });
        id
    }

    /// The process of this number.
    fn proc_of(&self, id: i32) -> Option<ProcId> {
        self.lock().ids.get(&id).map(|place| place.proc.clone())
    }

    /// The process of this number, for its only connection, which ends with its job.
    ///
    /// # Errors
    /// Why it cannot have one.
    fn take(self: &Arc<Self>, id: i32) -> Result<(ProcId, CancellationToken, Taken), String> {
        let mut state = self.lock();
        let Pmi1State { ids, jobs, .. } = &mut *state;
        let place = ids.get_mut(&id).ok_or_else(|| format!("there is no process with PMI_ID {id}"))?;
        if place.is_taken {
            return Err(format!("{} is connected already", place.proc));
        }
        place.is_taken = true;
        let job = jobs.entry(place.proc.nspace.clone()).or_default().gone.clone();
        Ok((place.proc.clone(), job, Taken { front: self.clone(), id }))
    }

    /// The places of all ranks of a job, if they are known and short enough to be told. Made once as long as the data of the job
    /// is the same.
    fn mapping(&self, nspace: &Nspace, job: &Arc<JobData>) -> Option<Token> {
        let as_made = |job: &Job| job.mapping.clone();
        if let Some((of, made)) = self.lock().jobs.get(nspace).and_then(as_made)
            && std::ptr::eq(of.as_ptr(), Arc::as_ptr(job))
        {
            return made;
        }
        let made = mapping(job);
        if let Some(entry) = self.lock().jobs.get_mut(nspace) {
            entry.mapping = Some((Arc::downgrade(job), made.clone()));
        }
        made
    }

    /// No lock is held for longer than it takes to look.
    fn lock(&self) -> MutexGuard<'_, Pmi1State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        self.front.forget(self.nspace);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(place) = self.front.lock().ids.get_mut(&self.id) {
            place.is_taken = false;
        }
    }
}

impl Pmi1Port {
    /// Accepts connections until aborted.
    pub(crate) async fn accept(self) {
        let Self { front, loopback } = self;
        let owners: Arc<Owners> = loopback.owners();
        let serve = |arrival| {
            drop(tokio::spawn(connection::of_port(front.clone(), arrival, owners.clone())));
        };
        loopback.accept(serve).await;
    }
}
