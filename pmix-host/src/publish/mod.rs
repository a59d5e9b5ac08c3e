//! Published data of all nodes, which one of them keeps.

#[cfg(feature = "durable")]
mod durable;
mod keeping;
mod outbox;
mod record;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use pmix_server::host::{HostError, HostResult, LookupResult, UpcallContext};
use pmix_types::message::{Failure, Lookup, LookupReply, Publish, Reply, Request, Unpublish};
use pmix_types::{Directives, KeyName, Nspace, Persistence, ProcId, Status};
use tokio::time::Instant;

#[cfg(feature = "durable")]
pub use self::durable::DurableError;
#[cfg(feature = "durable")]
pub(crate) use self::durable::open;
use self::keeping::{bytes_of, to_its_end};
use self::outbox::Outbox;
pub use self::record::{DurableRecord, DurableStore, UnreadableRecord};

use crate::ExchangeError;
use crate::internode::{PeerReply, PeerRequest, Site, decode_reply, unreadable};
use crate::jobs::JobTable;
use crate::pace::Pace;
use crate::store::{Ended, Item, Look, PublishLimits, Requester, Store, Waiting};
use crate::user::{User, lock};

/// How long a lookup of another node waits before that node has to ask again: no lookup waits longer than this for
/// a node that is gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the node that keeps the data may take to answer.
const ANSWER: Duration = Duration::from_secs(30);
/// How long to wait before the node that keeps the data is told of an end again, or a server is asked again about a job.
const AGAIN: Duration = Duration::from_secs(1);

/// Published data, as processes of this node reach it.
#[derive(Debug)]
pub(crate) struct Publishing {
    site: Arc<Site>,
    jobs: Arc<JobTable>,
    store: Mutex<Store>,
    durable: OnceLock<Arc<dyn DurableStore>>,
    /// Counts the bytes that each user has had kept lately.
    pace: Arc<Mutex<Pace>>,
    /// Lookups of other nodes that wait here, by node and ticket.
    places: Mutex<BTreeMap<Ticket, u64>>,
    last_ticket: AtomicU64,
    /// Jobs whose processes on this node have requested something, with their sessions. Of tools nothing is kept.
    publishers: Mutex<BTreeMap<Nspace, Option<u32>>>,
    /// Whether a task looks out for jobs that are deregistered. Changes only while `publishers` is locked.
    is_watching: AtomicBool,
    /// Who publishes at the moment, and whether it has left.
    under_way: Mutex<BTreeMap<ProcId, Weak<AtomicBool>>>,
    /// What the keeper is still to be told of.
    outbox: Mutex<Outbox>,
}

/// A request of another node.
type Ticket = (String, u64);

impl Publishing {
    pub(crate) fn new(site: Arc<Site>, jobs: Arc<JobTable>, pace: Arc<Mutex<Pace>>) -> Self {
        Self {
            site,
            jobs,
            store: Mutex::default(),
            durable: OnceLock::new(),
            pace,
            places: Mutex::default(),
            last_ticket: AtomicU64::new(0),
            publishers: Mutex::default(),
            is_watching: AtomicBool::new(false),
            under_way: Mutex::default(),
            outbox: Mutex::default(),
        }
    }

    pub(crate) fn set_limits(&self, limits: PublishLimits) {
        self.store().set_limits(limits);
    }

    pub(crate) async fn publish(self: &Arc<Self>, cx: &UpcallContext, req: Publish) -> HostResult<()> {
        let has_left = self.publishes(&cx.caller);
        let session = self.session_of(&cx.caller.nspace).await;
        let published = self.ask_keeper(cx, session.flatten(), Request::Publish(req)).await.map(drop);
        // also if no answer has come: the data may still be on its way
        match session {
            Some(_) => self.forget_late(&cx.caller).await,
            // what it has brought came after the notice
            None if has_left.load(Ordering::Relaxed) => self.forget_tool(&cx.caller),
            None => {}
        }
        published
    }

    pub(crate) async fn look_up(
        self: &Arc<Self>,
        cx: &UpcallContext,
        req: Lookup,
    ) -> HostResult<LookupResult> {
        let session = self.session_of(&cx.caller.nspace).await.flatten();
        match self.ask_keeper(cx, session, Request::Lookup(req)).await? {
            Reply::Lookup(reply) => Ok(reply.found),
            _ => Err(unreadable("reply").into()),
        }
    }

    pub(crate) async fn unpublish(self: &Arc<Self>, cx: &UpcallContext, req: Unpublish) -> HostResult<()> {
        let session = self.session_of(&cx.caller.nspace).await.flatten();
        self.ask_keeper(cx, session, Request::Unpublish(req)).await.map(drop)
    }

    /// Carries out what a process of another node requests, perhaps again.
    pub(crate) async fn serve_peer(
        self: &Arc<Self>,
        requester: Requester,
        request: Request,
        ticket: u64,
        is_again: bool,
    ) -> Result<Reply, Failure> {
        let from = Some((requester.node.clone(), ticket));
        let publishes = matches!(request, Request::Publish(_)).then(|| requester.user.proc.clone());
        let reply = self.serve(requester, request, from, is_again).await?;
        // that node need not know of its end
        publishes.iter().for_each(|proc| _ = self.forget_ended(proc));
        Ok(reply)
    }

    /// Ends the wait of another node's lookup.
    pub(crate) fn give_up(&self, node: &str, ticket: u64) {
        let place = lock(&self.places).remove(&(node.to_owned(), ticket));
        if let Some(number) = place {
            self.store().leave(number);
        }
    }

    /// Has the keeper remove what was to be kept no longer (PUB-08).
    pub(crate) fn forget(self: &Arc<Self>, ended: Ended) {
        if self.is_keeper() {
            return self.remove_ended(&ended);
        }
        if lock(&self.outbox).push(ended) {
            tokio::spawn(send_all(Arc::downgrade(self)));
        }
    }

    /// A job that was started here has ended.
    pub(crate) fn forget_job(self: &Arc<Self>, nspace: &Nspace) {
        lock(&self.publishers).remove(nspace);
        self.forget_all_of(nspace);
    }

    /// The connection of a process was lost. A process that this host has not started counts as ended then.
    pub(crate) fn forget_lost(self: &Arc<Self>, proc: &ProcId) {
        let is_known = lock(&self.publishers).contains_key(&proc.nspace);
        if is_known && !self.jobs.contains(&proc.nspace) {
            self.forget(Ended::of_proc(proc));
        }
    }

    /// A tool has left the server here, or was lost.
    pub(crate) fn forget_tool(self: &Arc<Self>, tool: &ProcId) {
        if let Some(has_left) = lock(&self.under_way).get(tool).and_then(Weak::upgrade) {
            has_left.store(true, Ordering::Relaxed);
        }
        self.forget(Ended::Tool { proc: tool.clone(), node: self.site.node().to_owned() });
    }

    /// A publish begins. While it is under way, the result tells whether its process, if it is a tool, has left.
    fn publishes(&self, proc: &ProcId) -> Arc<AtomicBool> {
        let mut all = lock(&self.under_way);
        let known = all.get(proc).and_then(Weak::upgrade);
        // that of one that has left is not for another of its name
        if let Some(has_left) = known.filter(|has_left| !has_left.load(Ordering::Relaxed)) {
            return has_left;
        }
        // of those that publish nothing, nothing is kept
        all.retain(|_, has_left| has_left.strong_count() > 0);
        let has_left = Arc::default();
        all.insert(proc.clone(), Arc::downgrade(&has_left));
        has_left
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }

    /// Has INDEF data kept by a store too, whose records are published from the start. The first one counts.
    ///
    /// # Errors
    /// A record cannot be read; nothing has changed.
    pub(crate) fn keep_on(
        &self,
        durable: Arc<dyn DurableStore>,
        records: &[DurableRecord],
    ) -> Result<(), UnreadableRecord> {
        let item = |record: &DurableRecord| Ok((record.number, record.item()?));
        let items = records.iter().map(item).collect::<Result<Vec<_>, _>>()?;
        let mut store = self.store();
        if self.durable.set(durable).is_ok() {
            items.into_iter().for_each(|(number, item)| store.restore(number, item));
        }
        Ok(())
    }

    fn keeper(&self) -> &str {
        self.site.keeper()
    }

    fn is_keeper(&self) -> bool {
        self.keeper() == self.site.node()
    }

    /// Has the node that keeps the data carry out a request.
    async fn ask_keeper(
        self: &Arc<Self>,
        cx: &UpcallContext,
        session: Option<u32>,
        request: Request,
    ) -> HostResult<Reply> {
        let requester = Requester { user: User::of(cx), node: self.site.node().to_owned(), session };
        if self.is_keeper() {
            return tokio::select! {
                reply = self.serve(requester, request, None, false) => reply,
                () = cx.cancelled() => Err(Status::ERR_TIMEOUT.into()),
            };
        }
        let (keeper, waits) = (self.keeper(), matches!(request, Request::Lookup(_)));
        let ticket = self.last_ticket.fetch_add(1, Ordering::Relaxed);
        let mut peer_request = PeerRequest::Published { requester, request, ticket, is_again: false };
        loop {
            let asked = async {
                let _turn = self.site.turn(cx.uid, &peer_request).await;
                tokio::time::timeout(ANSWER, self.site.tell(keeper, &peer_request)).await
            };
            let told = tokio::select! {
                told = asked => told,
                () = cx.cancelled() => {
                    if waits {
                        let _ = self.tell_keeper(&PeerRequest::GiveUp(ticket)).await;
                    }
                    return Err(Status::ERR_TIMEOUT.into());
                }
            };
            let unreached = |why: &str| {
                let problem =
                    format!("node {keeper}, which keeps what is published, cannot be reached: {why}");
                HostError::new(Status::ERR_UNREACH, problem)
            };
            let reply = match told {
                Ok(Ok(reply)) => decode_reply(reply),
                // its successor has it all
                Ok(Err(ExchangeError::Replaced { .. })) => {
                    if let PeerRequest::Published { is_again, .. } = &mut peer_request {
                        *is_again = true;
                    }
                    continue;
                }
                Ok(Err(error)) => return Err(unreached(&error.to_string())),
                Err(_) => return Err(unreached("it does not answer")),
            };
            match reply {
                // it waited for as long as the keeper lets it: ask again
                Ok(PeerReply::Reply(Reply::Done)) if waits => {}
                Ok(PeerReply::Reply(reply)) => return Ok(reply),
                Ok(_) => return Err(unreadable("reply").into()),
                // its host or its store is gone: for the caller that is the same as a node that is gone
                Err(Failure { status: Status::ERR_UNREACH, message, .. }) => {
                    let problem = format!("node {keeper}, which keeps what is published, refuses: {message}");
                    return Err(HostError::new(Status::ERR_UNREACH, problem));
                }
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    /// A keeper that is gone, as at the end of a session, has nothing left to be told about.
    async fn tell_keeper(&self, request: &PeerRequest) -> Result<(), String> {
        match tokio::time::timeout(ANSWER, self.site.tell(self.keeper(), request)).await {
            Ok(Ok(_) | Err(ExchangeError::Unreachable { .. })) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("it does not answer".into()),
        }
    }

    /// Tells the keeper what has ended, until the outbox is empty. False if it does not take the next one at the moment.
    async fn send_ended(&self, is_late: &mut bool) -> bool {
        loop {
            let Some(ended) = lock(&self.outbox).pop() else { return true };
            let Err(error) = self.tell_keeper(&PeerRequest::Ended(ended.clone())).await else {
                *is_late = false;
                continue;
            };
            if !std::mem::replace(is_late, true) {
                tracing::warn!(
                    error,
                    keeper = self.keeper(),
                    "cannot notify the node that keeps published data of ended processes: their data stays published until that node accepts the notice"
                );
            }
            lock(&self.outbox).put_back(ended);
            return false;
        }
    }

    /// Carries out a request here, where the data is kept.
    async fn serve(
        self: &Arc<Self>,
        requester: Requester,
        request: Request,
        from: Option<Ticket>,
        is_again: bool,
    ) -> HostResult<Reply> {
        match request {
            Request::Publish(publish) => self.file(requester, publish, is_again).await.map(|()| Reply::Done),
            Request::Lookup(Lookup { keys, directives, .. }) => {
                let look = Look::new(requester, keys, directives)?;
                let found = self.find(look, from).await?;
                Ok(found.map_or(Reply::Done, |found| Reply::Lookup(LookupReply::new(Status::SUCCESS, found))))
            }
            Request::Unpublish(Unpublish { keys, directives, .. }) => {
                self.take_back(&requester.user, &keys, directives).await.map(|()| Reply::Done)
            }
            other => Err(HostError::not_supported(other.operation())),
        }
    }

    async fn file(
        self: &Arc<Self>,
        requester: Requester,
        publish: Publish,
        is_again: bool,
    ) -> HostResult<()> {
        let durable = self.durable();
        let uid = requester.user.uid;
        let (numbers, lasting, passing) = {
            let mut store = self.store();
            let numbers = store.admit(requester, publish, is_again)?;
            let is_kept = |(_, item): &(u64, &Item)| {
                durable.as_ref().is_some_and(|durable| durable.keeps(item.persistence))
            };
            let kept = store.items(&numbers).filter(is_kept);
            let (lasting, passing): (Vec<_>, Vec<_>) =
                kept.partition(|(_, item)| item.persistence == Persistence::INDEF);
            let records = |items: Vec<(u64, &Item)>| {
                items.into_iter().map(|(number, item)| DurableRecord::of(number, item)).collect::<Vec<_>>()
            };
            let (lasting, passing) = (records(lasting), records(passing));
            // what a successor of the host is asked again was admitted by its predecessor
            if !is_again && let Err(error) = self.admit(durable.as_ref(), uid, &lasting) {
                store.withdraw(&numbers);
                return Err(error);
            }
            (numbers, lasting, passing)
        };
        let Some(durable) = durable.filter(|_| !lasting.is_empty() || !passing.is_empty()) else {
            self.store().show(&numbers);
            return Ok(());
        };
        let published = self.clone();
        to_its_end(async move {
            let kept: Vec<u64> = lasting.iter().map(|record| record.number).collect();
            // of one publish, all has the same persistence
            if !passing.is_empty() {
                published.keep_passing(&durable, uid, passing).await;
                published.store().show(&numbers);
                return Ok(());
            }
            let inserted = durable.insert(lasting.clone()).await;
            let mut store = published.store();
            if inserted.is_err() {
                lock(&published.pace).give_back(uid, bytes_of(&lasting));
            }
            match inserted {
                Ok(()) => {
                    store.note_kept(&kept);
                    store.show(&numbers);
                }
                Err(_) => store.withdraw(&numbers),
            }
            inserted
        })
        .await
    }

    /// Removes what has ended with a process, an application, a job or a session.
    pub(crate) fn remove_ended(self: &Arc<Self>, ended: &Ended) {
        self.store().forget(ended);
        self.drop_where_kept();
    }

    /// Removes what a store has from an earlier host and was to last no longer than a process, an application or a session of it.
    pub(crate) fn forget_passing(self: &Arc<Self>, is_one: impl Fn(&ProcId) -> bool) {
        self.store().forget_passing(|item| is_one(&item.publisher.user.proc));
        self.drop_where_kept();
    }

    async fn take_back(
        self: &Arc<Self>,
        requester: &User,
        keys: &[KeyName],
        directives: Directives,
    ) -> HostResult<()> {
        let lasting = self.store().take_back(requester, keys, directives)?;
        self.drop_now().await;
        let Some(durable) = self.durable().filter(|_| !lasting.is_empty()) else {
            self.store().withdraw(&lasting);
            return Ok(());
        };
        let published = self.clone();
        to_its_end(async move {
            let forgotten = durable.remove(lasting.clone()).await;
            let mut store = published.store();
            match forgotten {
                Ok(()) => store.withdraw(&lasting),
                // it may still be there, and can be taken back again
                Err(_) => store.show(&lasting),
            }
            forgotten
        })
        .await
    }

    /// What a lookup finds; `None` if it comes from another node and has waited for long enough.
    async fn find(self: &Arc<Self>, look: Look, waits: Option<Ticket>) -> HostResult<Option<LookupResult>> {
        let looked = self.store().look(look);
        let place = match looked {
            Ok(found) => {
                self.drop_now().await;
                return found.map(Some);
            }
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

    fn durable(&self) -> Option<Arc<dyn DurableStore>> {
        self.durable.get().cloned()
    }

    /// The session of a job, if it has one; `None` if this is no job that the server knows.
    async fn session_of(self: &Arc<Self>, nspace: &Nspace) -> Option<Option<u32>> {
        let known = lock(&self.publishers).get(nspace).copied();
        if known.is_some() {
            return known;
        }
        let session = match self.site.job(nspace).await {
            Some(job) => job.session_id(),
            // it has just been deregistered
            None if self.jobs.contains(nspace) => return Some(None),
            None => return None,
        };
        let is_watched = {
            let mut publishers = lock(&self.publishers);
            publishers.insert(nspace.clone(), session);
            self.jobs.contains(nspace) || self.is_watching.swap(true, Ordering::Relaxed)
        };
        if !is_watched {
            tokio::spawn(watch(Arc::downgrade(self)));
        }
        Some(session)
    }

    /// The jobs here that others have started; with none of them their watch is over.
    fn watched(&self) -> Vec<Nspace> {
        let publishers = lock(&self.publishers);
        let jobs: Vec<_> = publishers.keys().filter(|nspace| !self.jobs.contains(nspace)).cloned().collect();
        self.is_watching.store(!jobs.is_empty(), Ordering::Relaxed);
        jobs
    }

    async fn forget_if_deregistered(self: &Arc<Self>, nspace: &Nspace) {
        if self.site.has_deregistered(nspace).await {
            lock(&self.publishers).remove(nspace);
            let node = self.site.node().to_owned();
            self.forget(Ended::Nspace { nspace: nspace.clone(), node });
        }
    }

    /// A process, or its application, may have ended while its data was in transit.
    async fn forget_late(self: &Arc<Self>, proc: &ProcId) {
        if self.forget_ended(proc) {
            return;
        }
        let is_known = lock(&self.publishers).contains_key(&proc.nspace);
        match is_known {
            // it was known before its data was sent: its end has come in between
            false => self.forget_all_of(&proc.nspace),
            true => self.forget_if_deregistered(&proc.nspace).await,
        }
    }

    /// Removes what came after the end of its process or application; false for a job that was not started here.
    fn forget_ended(self: &Arc<Self>, proc: &ProcId) -> bool {
        let ended = self.jobs.entries().get(&proc.nspace).map(|job| job.ended_of(proc));
        let is_here = ended.is_some();
        ended.into_iter().flatten().for_each(|ended| self.forget(ended));
        is_here
    }

    fn forget_all_of(self: &Arc<Self>, nspace: &Nspace) {
        for persistence in [Persistence::PROC, Persistence::APP] {
            self.forget(Ended::Procs { nspace: nspace.clone(), ranks: None, persistence });
        }
    }
}

/// Tells the keeper what has ended, again and again until it has taken everything, or this host is gone.
async fn send_all(published: Weak<Publishing>) {
    let mut is_late = false;
    while let Some(published) = published.upgrade() {
        if published.send_ended(&mut is_late).await {
            return;
        }
        drop(published);
        tokio::time::sleep_until(Instant::now() + AGAIN).await;
    }
}

/// Forgets jobs that others have started when they are deregistered, which nobody tells the host.
async fn watch(published: Weak<Publishing>) {
    loop {
        tokio::time::sleep_until(Instant::now() + AGAIN).await;
        let Some(published) = published.upgrade() else { return };
        let jobs = published.watched();
        if jobs.is_empty() {
            return;
        }
        for nspace in jobs {
            published.forget_if_deregistered(&nspace).await;
        }
    }
}

/// A lookup that waits; leaves its place when it is dropped.
struct Wait<'a> {
    published: &'a Publishing,
    place: Waiting,
    ticket: Option<Ticket>,
}

impl<'a> Wait<'a> {
    fn new(published: &'a Publishing, place: Waiting, ticket: Option<Ticket>) -> Self {
        if let Some(ticket) = &ticket {
            lock(&published.places).insert(ticket.clone(), place.number);
        }
        Self { published, place, ticket }
    }

    fn leave(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            lock(&self.published.places).remove(&ticket);
        }
        self.published.store().leave(self.place.number);
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;
