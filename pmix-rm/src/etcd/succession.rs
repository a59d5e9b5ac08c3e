//! Jobs, nodes and the session in etcd, for the next head.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_host::{EndedJob, JobStore, KeptJob};
use pmix_proto::etcd::KeyValue;
use pmix_server::host::{HostError, HostResult};
use pmix_types::{Nspace, Status};
use tokio::time::{Instant, sleep_until, timeout};

use super::EtcdError;
use super::changes::{MAX_BYTES, MAX_RECORDS};
use super::mandate::{Mandate, STOPPED, Term};
use crate::claim::Doubt;
use crate::nodes::{KeptNode, KeptSession};

const SESSION: &str = "session";
const NODES: &str = "nodes/";
const JOBS: &str = "jobs/";
const ENDED: &str = "ended/";

/// Jobs whose ends are kept.
const MAX_ENDED: u64 = 1000;
/// How long the end of a job, or news of a node, waits for etcd to keep it. It is kept later then.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before etcd is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// What the heads before have kept.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) session: KeptSession,
    pub(crate) nodes: Vec<KeptNode>,
    pub(crate) jobs: Vec<KeptJob>,
}

/// Keeps what the next head has to know, under the mandate of this one.
#[derive(Clone, Debug)]
pub(crate) struct EtcdSuccession(Arc<Term>);

impl EtcdSuccession {
    pub(crate) fn new(mandate: &Mandate) -> Self {
        Self(mandate.term().clone())
    }

    /// The number of this head: each has a higher one than those before.
    pub(crate) fn epoch(&self) -> u64 {
        self.0.epoch().and_then(|epoch| u64::try_from(epoch).ok()).unwrap_or_default()
    }

    /// What the heads before have kept, unless they have ended their session, and the ends of jobs. What is left of a session that
    /// has ended is removed.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) async fn read(&self) -> Result<(Option<Kept>, Vec<EndedJob>), EtcdError> {
        let etcd = &self.0.etcd;
        let mut ended = Vec::new();
        for found in self.below(ENDED).await? {
            let (number, job) = ended_in(&found).ok_or_else(|| foreign(&found))?;
            self.0.ends.fetch_max(number, Ordering::Relaxed);
            ended.push(job);
        }
        let Some(session) =
            self.below(SESSION).await?.into_iter().find(|found| found.key == etcd.key(SESSION))
        else {
            self.remove(JOBS, |_| true).await?;
            return Ok((None, ended));
        };
        let session = serde_json::from_slice(&session.value).map_err(|_| foreign(&session))?;
        let mut nodes = Vec::new();
        for found in self.below(NODES).await? {
            nodes.push(serde_json::from_slice(&found.value).map_err(|_| foreign(&found))?);
        }
        let (mut jobs, prefix) = (Vec::new(), etcd.key(JOBS));
        for found in self.below(JOBS).await? {
            let name = found.key.strip_prefix(&*prefix).and_then(|name| std::str::from_utf8(name).ok());
            let nspace = name.and_then(|name| Nspace::new(name).ok()).ok_or_else(|| foreign(&found))?;
            jobs.push(KeptJob::new(nspace, found.value));
        }
        Ok((Some(Kept { session, nodes, jobs }), ended))
    }

    async fn below(&self, prefix: &str) -> Result<Vec<KeyValue>, EtcdError> {
        self.0.etcd.below(&self.0.etcd.key(prefix)).await
    }

    /// Keeps a session with all of its nodes, and forgets those of another one.
    ///
    /// Waits for etcd.
    ///
    /// # Errors
    /// It is not kept: another head has begun, or etcd refuses.
    pub(crate) async fn keep(&self, session: &KeptSession, nodes: &[KeptNode]) -> Result<(), EtcdError> {
        let (key, value) = (self.0.etcd.key(SESSION), json(session));
        let is_there =
            self.below(SESSION).await?.iter().any(|found| found.key == key && found.value == value);
        if !is_there {
            // half of it must not be taken for a session
            insist(&self.0, Vec::new(), vec![SESSION.to_owned()]).await?;
        }
        let own: Vec<_> = nodes.iter().map(node_key).collect();
        self.remove(NODES, |name| !own.iter().any(|own| own == name)).await?;
        for nodes in nodes.chunks(MAX_RECORDS / 2) {
            let nodes = nodes.iter().map(|node| (node_key(node), json(node))).collect();
            insist(&self.0, nodes, Vec::new()).await?;
        }
        insist(&self.0, vec![(SESSION.to_owned(), value)], Vec::new()).await
    }

    /// The session is over: there is nothing to take over.
    ///
    /// # Errors
    /// It may still be there.
    pub(crate) async fn clear(&self) -> Result<(), EtcdError> {
        self.0.set(Vec::new(), vec![SESSION.to_owned()]).await?;
        self.remove(NODES, |_| true).await?;
        self.remove(JOBS, |_| true).await
    }

    /// Heads that wait end as well.
    ///
    /// # Errors
    /// They may not.
    pub(crate) async fn stop(&self) -> Result<(), EtcdError> {
        self.0.set(vec![(STOPPED.to_owned(), self.0.id().to_owned().into())], Vec::new()).await
    }

    async fn remove(&self, prefix: &str, is_one: impl Fn(&str) -> bool) -> Result<(), EtcdError> {
        let root = self.0.etcd.key("");
        let names = self.below(prefix).await?.into_iter().filter_map(|found| {
            let name = std::str::from_utf8(found.key.strip_prefix(&*root)?).ok()?.to_owned();
            is_one(&name).then_some(name)
        });
        for names in names.collect::<Vec<_>>().chunks(MAX_RECORDS / 2) {
            self.0.set(Vec::new(), names.to_vec()).await?;
        }
        Ok(())
    }

    /// Keeps what is known of a node now.
    pub(crate) async fn keep_node(&self, node: &KeptNode) {
        self.keep_in_time(vec![(node_key(node), json(node))], Vec::new()).await;
    }

    /// Waits until etcd confirms that this is the head, for as long as it is silent, up to this time.
    ///
    /// # Errors
    /// Why it is not, or cannot know.
    pub(crate) async fn confirm(&self, within: Duration) -> Result<(), Doubt> {
        let deadline = Instant::now() + within;
        loop {
            match self.0.is_head().await {
                Ok(true) => return Ok(()),
                Ok(false) if self.0.is_over() => {
                    return Err(Doubt::Superseded("another head has taken its place".to_owned()));
                }
                // its lease has run out, and it may begin again
                Ok(false) if Instant::now() + AGAIN < deadline => {}
                Ok(false) => {
                    return Err(Doubt::Superseded("etcd does not know it as the head any more".to_owned()));
                }
                Err(error) if Instant::now() + AGAIN >= deadline => {
                    return Err(Doubt::CutOff(format!(
                        "{error}; if this host is cut off, another one is the head now"
                    )));
                }
                Err(error) => tracing::warn!(%error, "no node is declared lost until etcd answers"),
            }
            sleep_until(Instant::now() + AGAIN).await;
        }
    }

    /// Makes a change, as soon as etcd answers, and waits a while for it.
    async fn keep_in_time(&self, puts: Vec<(String, Bytes)>, deletes: Vec<String>) {
        let term = self.0.clone();
        let kept = tokio::spawn(async move { insist(&term, puts, deletes).await });
        match timeout(PATIENCE, kept).await {
            Ok(Ok(Err(error))) => {
                tracing::warn!(%error, "the next head will not know everything that this one knows")
            }
            Ok(_) => {}
            Err(_) => tracing::warn!("etcd is slow or silent: the latest changes will be stored there later"),
        }
    }
}

/// Makes a change, as soon as etcd answers, and after those that have come before.
async fn insist(term: &Term, puts: Vec<(String, Bytes)>, deletes: Vec<String>) -> Result<(), EtcdError> {
    let _turn = term.turn.lock().await;
    loop {
        match term.set(puts.clone(), deletes.clone()).await {
            Err(error @ EtcdError::Silent(_)) => tracing::debug!(%error, "waiting for etcd"),
            // the lease has run out; if no other head has begun, it does again
            Err(EtcdError::Superseded) if !term.is_over() => {}
            made => return made,
        }
        sleep_until(Instant::now() + AGAIN).await;
    }
}

fn node_key(node: &KeptNode) -> String {
    format!("{NODES}{:06}", node.place)
}

fn job_key(nspace: &Nspace) -> String {
    format!("{JOBS}{nspace}")
}

/// In the order in which they have ended.
fn ended_key(number: u64) -> String {
    format!("{ENDED}{number:020}")
}

fn json(what: &impl serde::Serialize) -> Bytes {
    // structures of plain fields can always be written
    serde_json::to_vec(what).unwrap_or_default().into()
}

/// The number of the job, a space, its namespace, a byte 0, and what is kept.
fn ended_value(EndedJob { number, nspace, data, .. }: &EndedJob) -> Bytes {
    let mut value = format!("{number} {nspace}\0").into_bytes();
    value.extend_from_slice(data);
    value.into()
}

fn ended_in(found: &KeyValue) -> Option<(u64, EndedJob)> {
    let key = found.key.rsplit(|byte| *byte == b'/').next()?;
    let at = found.value.iter().position(|byte| *byte == 0)?;
    let (number, nspace) = std::str::from_utf8(found.value.get(..at)?).ok()?.split_once(' ')?;
    let job = EndedJob::new(number.parse().ok()?, Nspace::new(nspace).ok()?, found.value.slice(at + 1..));
    Some((std::str::from_utf8(key).ok()?.parse().ok()?, job))
}

fn foreign(found: &KeyValue) -> EtcdError {
    let key = String::from_utf8_lossy(&found.key).into_owned();
    EtcdError::Foreign(pmix_types::escaped(&key).to_string())
}

#[async_trait]
impl JobStore for EtcdSuccession {
    /// Waits for etcd: a job of which the next head does not know would be ended by it.
    async fn begin(&self, job: KeptJob) -> HostResult<()> {
        let KeptJob { nspace, data, .. } = job;
        if data.len() > MAX_BYTES {
            let message = format!(
                "{nspace}: the record of where its processes run, which a successor of the head needs, has {} bytes, and etcd stores at \
                 most {MAX_BYTES}: place the processes in blocks, or start several jobs",
                data.len()
            );
            return Err(HostError::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        insist(&self.0, vec![(job_key(&nspace), data)], Vec::new()).await.map_err(|error| {
            HostError::new(Status::ERR_UNREACH, format!("{nspace} cannot be started by this head: {error}"))
        })
    }

    async fn end(&self, job: EndedJob) {
        let number = self.0.ends.fetch_add(1, Ordering::Relaxed) + 1;
        let oldest = number.checked_sub(MAX_ENDED).map(ended_key);
        self.keep_in_time(vec![(ended_key(number), ended_value(&job))], oldest.into_iter().collect()).await;
    }

    fn forget(&self, nspace: &Nspace) {
        let (term, key) = (self.0.clone(), job_key(nspace));
        tokio::spawn(async move {
            if let Err(error) = insist(&term, Vec::new(), vec![key]).await {
                tracing::debug!(%error, "a job that is over stays in etcd until the next head removes it");
            }
        });
    }
}
