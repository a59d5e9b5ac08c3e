//! One head at a time: a key in etcd that lasts as long as its head renews a lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pmix_proto::etcd::compare::{CompareResult, CompareTarget, TargetUnion};
use pmix_proto::etcd::request_op::Request;
use pmix_proto::etcd::response_op::Response;
use pmix_proto::etcd::{Compare, KeyValue, PutRequest, RangeRequest, RequestOp, TxnResponse};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{Etcd, EtcdError};

/// How long a head that is gone is still the head.
const TTL: Duration = Duration::from_secs(10);
/// How often it renews that.
const RENEWAL: Duration = Duration::from_secs(3);
/// How often to look whether there is a head.
const LOOK: Duration = Duration::from_secs(1);

/// A head's right to change what the DVM keeps in etcd. It ends when this is dropped, or after [`TTL`] if the head is gone.
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
    /// What this head is called.
    who: String,
    /// The revision of etcd at which it has begun; 0 while it has not.
    epoch: AtomicI64,
    lease: AtomicI64,
}

/// What has come of an attempt.
enum Attempt {
    Begun,
    /// Another head has it.
    Held(String),
    /// Another head has had it since this one.
    Superseded,
}

impl Mandate {
    /// Waits until no other head has it. Those that have it meanwhile are told.
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
    ) -> Result<Self, EtcdError> {
        let term = Term { etcd, who, epoch: AtomicI64::new(0), lease: AtomicI64::new(0) };
        let mut told = None;
        loop {
            let holder = term.holder().await?;
            let holder = match holder {
                Some(holder) => holder,
                None => match term.begin(false).await? {
                    Attempt::Held(holder) => holder,
                    Attempt::Begun | Attempt::Superseded => break,
                },
            };
            if told.as_ref() != Some(&holder) {
                tell(&holder);
                told = Some(holder);
            }
            sleep_until(Instant::now() + LOOK).await;
        }
        let term = Arc::new(term);
        let (sender, lost) = watch::channel(None);
        let renewing = tokio::spawn(term.clone().keep(sender));
        Ok(Self { term, lost, renewing })
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
        if let Err(error) = self.term.etcd.revoke(self.term.lease.load(Ordering::Relaxed)).await {
            tracing::warn!(%error, "another head has to wait until this one is known to be gone");
        }
    }
}

impl Term {
    /// What a change is bound to; `None` while this head may make none.
    pub(super) fn condition(&self) -> Option<Compare> {
        let epoch = self.epoch.load(Ordering::Relaxed);
        (epoch != 0).then(|| self.is_created_at(epoch))
    }

    fn is_created_at(&self, revision: i64) -> Compare {
        Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Create.into(),
            key: self.etcd.key("head"),
            target_union: Some(TargetUnion::CreateRevision(revision)),
        }
    }

    /// Who has it.
    async fn holder(&self) -> Result<Option<String>, EtcdError> {
        let key = self.etcd.key("head");
        let keys = self.etcd.below(&key).await?;
        Ok(keys.into_iter().find(|found| found.key == key).map(|found| name(&found)))
    }

    /// Begins, or begins `again` if no other head has had it since.
    async fn begin(&self, again: bool) -> Result<Attempt, EtcdError> {
        let lease = self.etcd.lease(TTL).await?;
        let before = self.lease.load(Ordering::Relaxed);
        let (head, last) = (self.etcd.key("head"), self.etcd.key("last"));
        let range =
            |key: &Bytes| op(Request::RequestRange(RangeRequest { key: key.clone(), ..Default::default() }));
        let put = |key: &Bytes, value: String, lease| {
            op(Request::RequestPut(PutRequest { key: key.clone(), value: value.into(), lease }))
        };
        let success =
            vec![range(&last), put(&head, self.who.clone(), lease), put(&last, lease.to_string(), 0)];
        let answer = self.etcd.transaction(vec![self.is_created_at(0)], success, vec![range(&head)]).await?;
        let found = first(&answer);
        if !answer.succeeded {
            // its own, if the answer to an earlier attempt was lost
            if let Some(own) = found.filter(|found| found.lease == lease) {
                self.set(lease, own.create_revision);
                return Ok(Attempt::Begun);
            }
            self.give_back(lease).await;
            return Ok(Attempt::Held(found.map(name).unwrap_or_default()));
        }
        if again && found.is_none_or(|last| last.value != before.to_string().as_bytes()) {
            self.give_back(lease).await;
            return Ok(Attempt::Superseded);
        }
        self.set(lease, answer.header.unwrap_or_default().revision);
        Ok(Attempt::Begun)
    }

    fn set(&self, lease: i64, epoch: i64) {
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
        let mut is_silent = false;
        loop {
            sleep_until(Instant::now() + RENEWAL).await;
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
                    if std::mem::take(&mut is_silent) {
                        tracing::warn!("etcd answers again");
                    }
                    continue;
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_silent, true) {
                        tracing::warn!(%error, "what is published to last is refused until etcd answers");
                    }
                    continue;
                }
                Ok(Attempt::Held(by)) => format!("{by} is the head of this DVM now"),
                Ok(Attempt::Superseded) => "another one has been the head of this DVM since".to_owned(),
            };
            self.epoch.store(0, Ordering::Relaxed);
            lost.send_replace(Some(why));
            return;
        }
    }
}

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

fn first(answer: &TxnResponse) -> Option<&KeyValue> {
    let Some(Response::ResponseRange(range)) = answer.responses.first()?.response.as_ref() else {
        return None;
    };
    range.kvs.first()
}

fn name(head: &KeyValue) -> String {
    pmix_types::escaped(&String::from_utf8_lossy(&head.value)).to_string()
}
