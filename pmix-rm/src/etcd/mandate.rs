//! One head at a time: a key in etcd that lasts as long as its head renews a lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pmix_proto::etcd::compare::{CompareResult, CompareTarget, TargetUnion};
use pmix_proto::etcd::request_op::Request;
use pmix_proto::etcd::response_op::Response;
use pmix_proto::etcd::{Compare, KeyValue, PutRequest, RangeRequest, RequestOp, TxnResponse};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep_until};

use super::changes::Changes;
use super::{Etcd, EtcdError};

/// How long a head that is gone is still the head.
const TTL: Duration = Duration::from_secs(10);
/// How often it renews that.
const RENEWAL: Duration = Duration::from_secs(3);
/// The key of the head.
const HEAD: &str = "head";
/// The key of the last head that was told to stop the whole DVM; read with that of the head.
pub(super) const STOPPED: &str = "head.stopped";
/// Between what a head is called and its number.
const SEPARATOR: char = '#';
/// How often to look whether there is a head, and whether etcd answers again.
const LOOK: Duration = Duration::from_secs(1);
/// Characters of the name of another head that are told.
const MAX_HOLDER: usize = 256;

/// A head's right to change what the DVM keeps in etcd. It is over [`TTL`] after this is dropped, or the head is gone.
#[derive(Debug)]
pub(crate) struct Mandate {
    term: Arc<Term>,
    lost: watch::Receiver<Option<String>>,
    renewing: tokio::task::JoinHandle<()>,
}

/// What holds while a head has it.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) etcd: Etcd,
    /// The value of its keys, which no other head has: what it is called, and a number.
    id: String,
    /// The revision of etcd at which it has begun; 0 while it has not.
    epoch: AtomicI64,
    lease: AtomicI64,
    is_over: AtomicBool,
    /// It did not answer when it was asked last.
    is_silent: AtomicBool,
    pub(super) changes: Mutex<Changes>,
    /// Whose turn it is among those that wait for etcd as long as it takes.
    pub(super) turn: Mutex<()>,
    /// How many ends of jobs have been kept since there is the DVM.
    pub(super) ends: AtomicU64,
}

/// What has come of an attempt.
enum Attempt {
    Begun,
    /// Another head has it.
    Held(String),
    /// Another head has had it since this one.
    Superseded,
}

/// What becomes of a head that wants it.
enum Course {
    Begun,
    /// This one has it.
    Waits(String),
    /// The DVM has been stopped meanwhile.
    Stopped,
}

impl Mandate {
    /// Waits until no other head has it. Those that have it meanwhile are told. `None` if one of them has been told to stop the whole
    /// DVM.
    ///
    /// # Errors
    /// etcd cannot be used.
    ///
    /// # Cancel safety
    /// Cancel-safe: what was begun ends by itself.
    pub(crate) async fn acquire(
        etcd: Etcd,
        who: String,
        mut tell: impl FnMut(&str),
    ) -> Result<Option<Self>, EtcdError> {
        let id = format!("{who}{SEPARATOR}{}", etcd.lease(TTL).await?);
        let term = Term {
            etcd,
            id,
            epoch: AtomicI64::new(0),
            lease: AtomicI64::new(0),
            is_over: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
            changes: Mutex::default(),
            turn: Mutex::default(),
            ends: AtomicU64::new(0),
        };
        let (mut told, mut stopped) = (None, None);
        loop {
            let holder = match term.attempt(&mut stopped).await {
                Ok(Course::Begun) => break,
                Ok(Course::Waits(holder)) => holder,
                Ok(Course::Stopped) => return Ok(None),
                // the other one is the head as long as etcd is silent
                Err(error) if told.is_some() && matches!(error, EtcdError::Silent(_)) => {
                    tracing::debug!(%error, "waiting for etcd");
                    sleep_until(Instant::now() + LOOK).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let holder: String = holder.chars().take(MAX_HOLDER).collect();
            if told.as_ref() != Some(&holder) {
                tell(&holder);
                told = Some(holder);
            }
            sleep_until(Instant::now() + LOOK).await;
        }
        let term = Arc::new(term);
        let (sender, lost) = watch::channel(None);
        let renewing = tokio::spawn(term.clone().keep(sender));
        Ok(Some(Self { term, lost, renewing }))
    }

    pub(super) const fn term(&self) -> &Arc<Term> {
        &self.term
    }

    /// Waits until another head has it; returns why it has ended.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub(crate) async fn lost(&mut self) -> String {
        // the sender goes on until it has told
        let lost = self.lost.wait_for(Option::is_some).await;
        lost.ok().and_then(|why| why.clone()).unwrap_or_default()
    }

    /// Ends it, so that the next head need not wait.
    pub(crate) async fn end(self) {
        self.renewing.abort();
        self.term.epoch.store(0, Ordering::Relaxed);
        self.term.is_over.store(true, Ordering::Relaxed);
        if let Err(error) = self.term.etcd.revoke(self.term.lease.load(Ordering::Relaxed)).await {
            tracing::warn!(%error, "another head has to wait until this one is known to be gone");
        }
    }
}

impl Term {
    /// The revision at which it has begun; `None` while this head may change nothing.
    pub(super) fn epoch(&self) -> Option<i64> {
        Some(self.epoch.load(Ordering::Relaxed)).filter(|epoch| *epoch != 0)
    }

    /// What each change is bound to.
    pub(super) fn is_created_at(&self, revision: i64) -> Compare {
        condition(CompareTarget::Create, self.etcd.key(HEAD), TargetUnion::CreateRevision(revision))
    }

    /// Whether another head has begun, or this one has ended: it does not begin again.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether etcd knows this head as that of the DVM, now.
    pub(super) async fn is_head(&self) -> Result<bool, EtcdError> {
        let Some(epoch) = self.epoch() else { return Ok(false) };
        let conditions = vec![self.is_created_at(epoch)];
        // without a range, a member of etcd that is cut off answers from what it knows
        let head = || vec![range(&self.etcd.key(HEAD))];
        Ok(self.etcd.transaction(conditions, head(), head()).await?.succeeded)
    }

    pub(super) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Takes note of whether etcd has answered.
    pub(super) fn note_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::Relaxed);
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Begins unless another head has it, or one has stopped the DVM since the first attempt, which takes note of the last one that did.
    async fn attempt(&self, stopped: &mut Option<Option<Bytes>>) -> Result<Course, EtcdError> {
        let (key, mark) = (self.etcd.key(HEAD), self.etcd.key(STOPPED));
        let keys = self.etcd.below(&key).await?;
        let by = keys.iter().find(|found| found.key == mark).map(|found| found.value.clone());
        if *stopped.get_or_insert_with(|| by.clone()) != by {
            return Ok(Course::Stopped);
        }
        // an attempt whose answer was lost is found again when it begins
        let is_others = |found: &KeyValue| found.key == key && found.value != self.id;
        if let Some(holder) = keys.into_iter().find(is_others) {
            return Ok(Course::Waits(name(&holder)));
        }
        match self.begin(false).await? {
            Attempt::Begun => Ok(Course::Begun),
            Attempt::Held(holder) => Ok(Course::Waits(holder)),
            // its key has just gone
            Attempt::Superseded => Ok(Course::Waits("another head".to_owned())),
        }
    }

    /// Begins, or begins `again` if no other head has had it since.
    async fn begin(&self, again: bool) -> Result<Attempt, EtcdError> {
        let lease = self.etcd.lease(TTL).await?;
        let (head, last) = (self.etcd.key(HEAD), self.etcd.key("last"));
        let put = |key: &Bytes, lease| {
            op(Request::RequestPut(PutRequest { key: key.clone(), value: self.id.clone().into(), lease }))
        };
        let mut conditions = vec![self.is_created_at(0)];
        if again {
            conditions.push(condition(
                CompareTarget::Value,
                last.clone(),
                TargetUnion::Value(self.id.clone().into()),
            ));
        }
        let answer =
            self.etcd.transaction(conditions, vec![put(&head, lease), put(&last, 0)], vec![range(&head)]);
        let answer = answer.await?;
        if answer.succeeded {
            self.hold(lease, answer.header.unwrap_or_default().revision);
            return Ok(Attempt::Begun);
        }
        match found(&answer, 0) {
            // by an earlier attempt, whose answer was lost
            Some(own) if own.value == self.id => {
                if own.lease != lease {
                    self.give_back(lease).await;
                }
                self.hold(own.lease, own.create_revision);
                Ok(Attempt::Begun)
            }
            holder => {
                self.give_back(lease).await;
                Ok(holder.map_or(Attempt::Superseded, |holder| Attempt::Held(name(holder))))
            }
        }
    }

    fn hold(&self, lease: i64, epoch: i64) {
        self.lease.store(lease, Ordering::Relaxed);
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    async fn give_back(&self, lease: i64) {
        if let Err(error) = self.etcd.revoke(lease).await {
            tracing::debug!(%error, "a lease ends by itself");
        }
    }

    /// Renews it until another head has it.
    async fn keep(self: Arc<Self>, lost: watch::Sender<Option<String>>) {
        let mut is_told = false;
        loop {
            // a lease outlasts one call that fails
            sleep_until(Instant::now() + if self.is_silent() { LOOK } else { RENEWAL }).await;
            let renewed = match self.etcd.renew(self.lease.load(Ordering::Relaxed)).await {
                Ok(true) => Ok(Attempt::Begun),
                Ok(false) => {
                    // what it changes now would be refused
                    self.epoch.store(0, Ordering::Relaxed);
                    self.begin(true).await
                }
                Err(error) => Err(error),
            };
            let why = match renewed {
                Ok(Attempt::Begun) => {
                    self.note_silent(false);
                    if std::mem::take(&mut is_told) {
                        tracing::warn!("etcd answers again");
                    }
                    self.clear_up().await;
                    continue;
                }
                Err(error) => {
                    self.note_silent(true);
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!(%error, "publishes with persistence INDEF are refused until etcd answers");
                    }
                    continue;
                }
                Ok(Attempt::Held(by)) => format!("{by} is the head of this DVM now"),
                Ok(Attempt::Superseded) => {
                    "another process has been the head of this DVM in the meantime".to_owned()
                }
            };
            self.epoch.store(0, Ordering::Relaxed);
            self.is_over.store(true, Ordering::Relaxed);
            lost.send_replace(Some(why));
            return;
        }
    }
}

pub(super) fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

pub(super) fn range(key: &Bytes) -> RequestOp {
    op(Request::RequestRange(RangeRequest { key: key.clone(), ..Default::default() }))
}

pub(super) fn condition(target: CompareTarget, key: Bytes, is: TargetUnion) -> Compare {
    Compare { result: CompareResult::Equal.into(), target: target.into(), key, target_union: Some(is) }
}

/// The key that this operation of a transaction has found.
pub(super) fn found(answer: &TxnResponse, number: usize) -> Option<&KeyValue> {
    let response = answer.responses.get(number)?.response.as_ref()?;
    let Response::ResponseRange(range) = response;
    range.kvs.first()
}

/// What a head is called.
fn name(head: &KeyValue) -> String {
    let text = String::from_utf8_lossy(&head.value);
    pmix_types::escaped(text.split(SEPARATOR).next().unwrap_or_default()).to_string()
}

impl Drop for Mandate {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}
