//! Published data of all nodes, which one of them keeps.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use pmix_types::message::{Failure, Lookup, LookupReply, Publish, Reply, Request, Unpublish};
use pmix_types::{Directives, Info, KeyName, Nspace, Persistence, ProcId, Status};

use super::host::lock;
use super::peer::{Ask, Told, encode, unreadable};
use super::store::{Item, Look, Over, Party, Place, Store, User};
use super::{Exchange, PublishLimits, StandardHost};
use pmix_server::host::{Found, HostError, HostResult, UpcallContext};

/// How long a lookup of another node waits before that node has to ask again: nobody waits longer than this for
/// an asker whose node is gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the node that keeps the data may take to answer.
const ANSWER: Duration = Duration::from_secs(30);

/// What a host needs for published data.
#[derive(Debug, Default)]
pub(super) struct Publishing {
    store: Mutex<Store>,
    disk: OnceLock<Arc<dyn Disk>>,
    /// The node that keeps the data of all.
    keeper: OnceLock<String>,
    /// Lookups of other nodes that wait here, by node and ticket.
    places: Mutex<BTreeMap<Ticket, u64>>,
    last_ticket: AtomicU64,
    /// Jobs and tools of this node that have asked for something.
    callers: Mutex<BTreeMap<Nspace, Caller>>,
    /// What the keeper is still to be told of.
    over: Mutex<Outbox>,
}

/// A request of another node.
type Ticket = (String, u64);

/// What lasts longer than the host.
pub(super) trait Disk: std::fmt::Debug + Send + Sync {
    /// Files items under their numbers; they are on disk when it returns.
    fn insert(&self, items: &[(u64, Item)]) -> Result<(), String>;

    /// Removes items by their numbers.
    fn remove(&self, numbers: &[u64]) -> Result<(), String>;
}

/// What is known of a namespace whose processes have asked for something.
#[derive(Clone, Copy, Debug)]
struct Caller {
    session: Option<u32>,
    /// Whether the server knew it as a job; tools have none.
    is_job: bool,
}

#[derive(Debug, Default)]
struct Outbox {
    queue: VecDeque<Over>,
    /// Whether a task is at it.
    is_open: bool,
}

impl StandardHost {
    /// The same host with other limits to what each user may have published. To be called on the node that keeps
    /// the data, the first by name, before its server starts.
    #[must_use]
    pub fn with_publish_limits(self, limits: PublishLimits) -> Self {
        self.store().set_limits(limits);
        self
    }

    /// A session is over, by its number or, with `None`, that of jobs that were given none: removes what its
    /// processes have published until its end (PUB-08).
    pub fn end_session(&self, session: Option<u32>) {
        self.forget_published(Over::Session(session));
    }

    pub(super) async fn publish_data(&self, cx: &UpcallContext, req: Publish) -> HostResult<()> {
        self.ask_keeper(cx, Request::Publish(req)).await?;
        self.forget_late(&cx.caller).await;
        Ok(())
    }

    pub(super) async fn look_up(&self, cx: &UpcallContext, req: Lookup) -> HostResult<Found> {
        match self.ask_keeper(cx, Request::Lookup(req)).await? {
            Reply::Lookup(reply) => Ok(reply.found),
            _ => Err(unreadable("answer").into()),
        }
    }

    pub(super) async fn unpublish_data(&self, cx: &UpcallContext, req: Unpublish) -> HostResult<()> {
        self.ask_keeper(cx, Request::Unpublish(req)).await?;
        Ok(())
    }

    /// Carries out what a process of another node asks for.
    pub(super) async fn serve_publisher(
        &self,
        asker: Party,
        request: Request,
        ticket: u64,
    ) -> Result<Reply, Failure> {
        let waits = Some((asker.node.clone(), ticket));
        Ok(self.serve(asker, request, waits).await?)
    }

    /// Ends the wait of another node's lookup.
    pub(super) fn give_up(&self, node: &str, ticket: u64) {
        let place = lock(&self.0.publishing.places).remove(&(node.to_owned(), ticket));
        if let Some(number) = place {
            self.store().leave(number);
        }
    }

    /// Has the keeper remove what was to live no longer (PUB-08).
    pub(super) fn forget_published(&self, over: Over) {
        if self.is_keeper() {
            return self.store().forget(&over);
        }
        let mut outbox = lock(&self.0.publishing.over);
        outbox.push(over);
        if !outbox.is_open {
            outbox.is_open = true;
            tokio::spawn(self.clone().send_over());
        }
    }

    /// A job that was started here has ended.
    pub(super) fn forget_job(&self, nspace: &Nspace) {
        lock(&self.0.publishing.callers).remove(nspace);
        self.forget_all_of(nspace);
    }

    /// The connection of a process was lost; who was started by others has ended then.
    pub(super) fn forget_lost(&self, proc: &ProcId) {
        let is_known = lock(&self.0.publishing.callers).contains_key(&proc.nspace);
        if is_known && !self.jobs().contains_key(&proc.nspace) {
            self.forget_published(Over::proc(proc));
        }
    }

    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.0.publishing.store)
    }

    /// Has INDEF data kept by a disk too, whose items are published from the start.
    #[cfg(feature = "durable")]
    pub(super) fn keep_on(&self, disk: Arc<dyn Disk>, items: Vec<(u64, Item)>) {
        let mut store = self.store();
        if self.0.publishing.disk.set(disk).is_ok() {
            for (number, item) in items {
                store.restore(number, item);
            }
        }
    }

    fn keeper(&self) -> &str {
        let exchange = &self.0.exchange;
        let first = || exchange.nodes().into_iter().min().unwrap_or_else(|| exchange.node().to_owned());
        self.0.publishing.keeper.get_or_init(first)
    }

    fn is_keeper(&self) -> bool {
        self.keeper() == self.0.exchange.node()
    }

    /// Has the node that keeps the data carry out a request.
    async fn ask_keeper(&self, cx: &UpcallContext, request: Request) -> HostResult<Reply> {
        let asker = self.party(cx).await;
        if self.is_keeper() {
            return tokio::select! {
                reply = self.serve(asker, request, None) => reply,
                () = cx.cancelled() => Err(Status::ERR_TIMEOUT.into()),
            };
        }
        let (keeper, waits) = (self.keeper(), matches!(request, Request::Lookup(_)));
        let ticket = self.0.publishing.last_ticket.fetch_add(1, Ordering::Relaxed);
        let ask = Ask::Published { asker, request, ticket };
        loop {
            let told = match tokio::time::timeout(ANSWER, self.ask(cx, keeper, &ask)).await {
                Ok(told) => told,
                Err(_) => Err(Failure::new(Status::ERR_UNREACH, "it does not answer")),
            };
            match told {
                // it has waited for long: ask again
                Ok(Told::Reply(Reply::Done)) if waits => {}
                Ok(Told::Reply(reply)) => return Ok(reply),
                Ok(Told::Blob(_)) => return Err(unreadable("answer").into()),
                Err(failure) if cx.is_cancelled() => {
                    if waits {
                        let _ = self.tell_keeper(&Ask::GiveUp(ticket)).await;
                    }
                    return Err(failure.into());
                }
                Err(Failure { status: Status::ERR_UNREACH, message, .. }) => {
                    let problem =
                        format!("node {keeper}, which keeps what is published, cannot be reached: {message}");
                    return Err(HostError::new(Status::ERR_UNREACH, problem));
                }
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    async fn tell_keeper(&self, ask: &Ask) -> Result<(), String> {
        match tokio::time::timeout(ANSWER, self.0.exchange.fetch(self.keeper(), encode(ask))).await {
            Ok(answer) => answer.map(drop).map_err(|error| error.to_string()),
            Err(_) => Err("it does not answer".into()),
        }
    }

    /// Tells the keeper what is over, until there is no more of it.
    async fn send_over(self) {
        loop {
            let next = {
                let mut outbox = lock(&self.0.publishing.over);
                let next = outbox.queue.pop_front();
                outbox.is_open = next.is_some();
                next
            };
            let Some(over) = next else { return };
            if let Err(error) = self.tell_keeper(&Ask::Over(over)).await {
                tracing::warn!(error, keeper = self.keeper(), "published data may be kept for too long");
            }
        }
    }

    /// Carries out a request here, where the data is kept.
    async fn serve(&self, asker: Party, request: Request, waits: Option<Ticket>) -> HostResult<Reply> {
        match request {
            Request::Publish(Publish { data, directives, .. }) => {
                self.file(asker, data, directives).await.map(|()| Reply::Done)
            }
            Request::Lookup(Lookup { keys, directives, .. }) => {
                let look = Look::new(asker, keys, directives)?;
                let found = self.find(look, waits).await?;
                Ok(found.map_or(Reply::Done, |found| Reply::Lookup(LookupReply::new(Status::SUCCESS, found))))
            }
            Request::Unpublish(Unpublish { keys, directives, .. }) => {
                self.take_back(&asker.user, &keys, directives).await.map(|()| Reply::Done)
            }
            other => Err(HostError::not_supported(other.operation())),
        }
    }

    async fn file(&self, asker: Party, data: Vec<Info>, directives: Directives) -> HostResult<()> {
        let (numbers, lasting) = {
            let mut store = self.store();
            let numbers = store.admit(asker, data, directives)?;
            let is_lasting = |(_, item): &(u64, &Item)| item.persistence == Persistence::INDEF;
            let lasting =
                store.items(&numbers).filter(is_lasting).map(|(number, item)| (number, item.clone()));
            let lasting: Vec<_> = lasting.collect();
            (numbers, lasting)
        };
        let Some(disk) = self.disk().filter(|_| !lasting.is_empty()) else {
            self.store().show(&numbers);
            return Ok(());
        };
        let host = self.clone();
        // goes on to the end when nobody waits for it any more
        on_disk(move || {
            let filed = disk.insert(&lasting);
            let mut store = host.store();
            match filed {
                Ok(()) => store.show(&numbers),
                Err(_) => store.withdraw(&numbers),
            }
            filed
        })
        .await
    }

    async fn take_back(&self, asker: &User, keys: &[KeyName], directives: Directives) -> HostResult<()> {
        let lasting = self.store().unpublish(asker, keys, directives)?;
        match self.disk().filter(|_| !lasting.is_empty()) {
            Some(disk) => on_disk(move || disk.remove(&lasting)).await,
            None => Ok(()),
        }
    }

    /// What a lookup finds; `None` if it comes from another node and has waited for long enough.
    async fn find(&self, look: Look, waits: Option<Ticket>) -> HostResult<Option<Found>> {
        let place = match self.store().look(look) {
            Ok(found) => return found.map(Some),
            Err(place) => place,
        };
        let patience = waits.as_ref().map(|_| PATIENCE);
        let mut wait = Wait::new(self, place, waits);
        let answer = match patience {
            Some(patience) => tokio::time::timeout(patience, &mut wait.place.answer).await.ok(),
            None => Some((&mut wait.place.answer).await),
        };
        match answer {
            Some(Ok(found)) => Ok(Some(found)),
            // given up
            Some(Err(_)) => Err(Status::ERR_TIMEOUT.into()),
            None => {
                wait.leave();
                // it may have come at this very moment
                Ok(wait.place.answer.try_recv().ok())
            }
        }
    }

    fn disk(&self) -> Option<Arc<dyn Disk>> {
        self.0.publishing.disk.get().cloned()
    }

    /// Who asks, with all that decides what it can find.
    async fn party(&self, cx: &UpcallContext) -> Party {
        let nspace = &cx.caller.nspace;
        let known = lock(&self.0.publishing.callers).get(nspace).copied();
        let caller = match known {
            Some(caller) => caller,
            None => self.get_to_know(nspace).await,
        };
        Party { user: User::of(cx), node: self.0.exchange.node().to_owned(), session: caller.session }
    }

    async fn get_to_know(&self, nspace: &Nspace) -> Caller {
        // now and then is enough
        self.forget_deregistered().await;
        let job = match self.handle() {
            Ok(handle) => handle.job_data(nspace).await.ok(),
            Err(_) => None,
        };
        let caller = Caller { session: job.as_ref().and_then(|job| job.session_id()), is_job: job.is_some() };
        lock(&self.0.publishing.callers).insert(nspace.clone(), caller);
        caller
    }

    /// Forgets jobs that others have started and deregistered.
    async fn forget_deregistered(&self) {
        let jobs: Vec<_> = {
            let callers = lock(&self.0.publishing.callers);
            callers.iter().filter(|(_, caller)| caller.is_job).map(|(nspace, _)| nspace.clone()).collect()
        };
        for nspace in jobs {
            self.forget_if_deregistered(&nspace).await;
        }
    }

    async fn forget_if_deregistered(&self, nspace: &Nspace) {
        let Ok(handle) = self.handle() else { return };
        if handle.job_data(nspace).await.is_err() {
            lock(&self.0.publishing.callers).remove(nspace);
            let node = self.0.exchange.node().to_owned();
            self.forget_published(Over::Nspace { nspace: nspace.clone(), node });
        }
    }

    /// A process may have ended while what it has published was on its way.
    async fn forget_late(&self, proc: &ProcId) {
        let rank = proc.rank.to_raw() as usize;
        let has_ended = self
            .jobs()
            .get(&proc.nspace)
            .map(|job| job.table.get(rank).is_some_and(|row| row.state.is_terminated()));
        match has_ended {
            Some(true) => self.forget_published(Over::proc(proc)),
            Some(false) => {}
            None => {
                let caller = lock(&self.0.publishing.callers).get(&proc.nspace).copied();
                match caller {
                    // it was known before its data was sent: its end has come in between
                    None => self.forget_all_of(&proc.nspace),
                    Some(Caller { is_job: true, .. }) => self.forget_if_deregistered(&proc.nspace).await,
                    Some(Caller { is_job: false, .. }) => {}
                }
            }
        }
    }

    fn forget_all_of(&self, nspace: &Nspace) {
        for persistence in [Persistence::PROC, Persistence::APP] {
            self.forget_published(Over::Procs { nspace: nspace.clone(), ranks: None, persistence });
        }
    }
}

/// A lookup that waits; leaves its place when it is dropped.
struct Wait<'a> {
    host: &'a StandardHost,
    place: Place,
    ticket: Option<Ticket>,
}

impl<'a> Wait<'a> {
    fn new(host: &'a StandardHost, place: Place, ticket: Option<Ticket>) -> Self {
        if let Some(ticket) = &ticket {
            lock(&host.0.publishing.places).insert(ticket.clone(), place.number);
        }
        Self { host, place, ticket }
    }

    fn leave(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            lock(&self.host.0.publishing.places).remove(&ticket);
        }
        self.host.store().leave(self.place.number);
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Over {
    /// One process: what was to be kept as long as it.
    fn proc(proc: &ProcId) -> Self {
        let ranks = Some([proc.rank].into_iter().collect());
        Self::Procs { nspace: proc.nspace.clone(), ranks, persistence: Persistence::PROC }
    }
}

impl Outbox {
    /// Ranks of one namespace go together, so that no more wait than there are jobs.
    fn push(&mut self, over: Over) {
        if let Over::Procs { nspace, ranks: Some(ranks), persistence } = &over {
            for waiting in &mut self.queue {
                if let Over::Procs { nspace: other, ranks: Some(others), persistence: kept } = waiting
                    && (&*other, &*kept) == (nspace, persistence)
                {
                    *others = others.union(ranks);
                    return;
                }
            }
        }
        self.queue.push_back(over);
    }
}

/// Does slow work elsewhere, to its end also when the future is dropped.
async fn on_disk(work: impl FnOnce() -> Result<(), String> + Send + 'static) -> HostResult<()> {
    let problem = match tokio::task::spawn_blocking(work).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(problem)) => problem,
        Err(error) => error.to_string(),
    };
    let message = format!("the store of published data cannot be written: {problem}");
    Err(HostError::new(Status::ERR_FILE_WRITE_FAILURE, message))
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;
