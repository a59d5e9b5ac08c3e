//! Changes of what is kept, one after the other, each once.
//!
//! An answer of etcd can be lost, and a member that was silent can carry a change out later. So each change also sets a key, on
//! condition that nobody has set it since the change before: none is made twice, or after a later one. What a change without
//! answer was to keep is removed by a later one, because its caller has been told that it is not kept.

use std::collections::BTreeSet;

use bytes::Bytes;
use pmix_host::DurableRecord;
use pmix_proto::etcd::compare::{CompareTarget, TargetUnion};
use pmix_proto::etcd::request_op::Request;
use pmix_proto::etcd::{DeleteRangeRequest, PutRequest};
use tokio::time::timeout;

use super::EtcdError;
use super::client::LIMIT;
use super::mandate::{Term, condition, found, op, range};

/// Changes at a time, and their bytes: etcd takes 128 and 1.5 MiB unless told otherwise.
pub(super) const MAX_RECORDS: usize = 100;
pub(super) const MAX_BYTES: usize = 1 << 20;
/// Keys that a change removes because it is not known whether an earlier one has set them.
const MAX_DOUBTFUL: usize = 20;
/// How often a change is tried against a last change that is another one each time.
const MAX_ATTEMPTS: u32 = 100;

/// Where the records are.
pub(super) const PUBLISHED: &str = "published/";

/// What is known of the changes before.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The revision of the last one; `None` if it is not known.
    last: Option<i64>,
    count: u64,
    /// Keys that may be there, and are not to be.
    doubtful: BTreeSet<String>,
}

fn name(number: u64) -> String {
    // in the order of their numbers
    format!("{PUBLISHED}{number:020}")
}

impl Term {
    /// Keeps records and removes others, all or nothing.
    ///
    /// # Errors
    /// Nothing is kept, or what is will be removed; nothing may be removed.
    pub(super) async fn change(&self, kept: Vec<DurableRecord>, removed: &[u64]) -> Result<(), EtcdError> {
        let puts = kept.into_iter().map(|record| (name(record.number), record.data)).collect();
        self.set(puts, removed.iter().copied().map(name).collect()).await
    }

    /// Sets keys and removes others, all or nothing.
    ///
    /// # Errors
    /// Nothing is set, or what is will be removed; nothing may be removed.
    pub(super) async fn set(
        &self,
        puts: Vec<(String, Bytes)>,
        deletes: Vec<String>,
    ) -> Result<(), EtcdError> {
        let Ok(mut changes) = timeout(LIMIT, self.changes.lock()).await else {
            return Err(EtcdError::Silent("earlier changes are not answered either".to_owned()));
        };
        changes.count += 1;
        let (change, own) = (self.etcd.key("change"), format!("{} {}", self.id(), changes.count));
        let names: BTreeSet<String> = puts.iter().map(|(name, _)| name.clone()).collect();
        // what is set now is not removed
        changes.doubtful.retain(|name| !names.contains(name));
        let doubtful: Vec<String> = changes.doubtful.iter().take(MAX_DOUBTFUL).cloned().collect();
        let deletes: BTreeSet<&String> = deletes.iter().chain(&doubtful).collect();
        let puts = puts.into_iter().map(|(name, value)| {
            op(Request::RequestPut(PutRequest { key: self.etcd.key(&name), value, lease: 0 }))
        });
        let deletes = deletes
            .into_iter()
            .map(|name| op(Request::RequestDeleteRange(DeleteRangeRequest { key: self.etcd.key(name) })));
        let sets =
            op(Request::RequestPut(PutRequest { key: change.clone(), value: own.clone().into(), lease: 0 }));
        let success: Vec<_> = puts.chain(deletes).chain([sets]).collect();
        let failure = vec![range(&self.etcd.key("head")), range(&change)];
        let mut attempts = 0;
        loop {
            let epoch = self.epoch().ok_or(EtcdError::Superseded)?;
            let last = match changes.last {
                Some(last) => last,
                None => self.last_change(&change).await?,
            };
            let is_next = condition(CompareTarget::Mod, change.clone(), TargetUnion::ModRevision(last));
            let conditions = vec![self.is_created_at(epoch), is_next];
            let answer = match self.etcd.transaction(conditions, success.clone(), failure.clone()).await {
                Ok(answer) => answer,
                Err(error) => {
                    if let EtcdError::Silent(_) = error {
                        self.note_silent(true);
                        changes.last = None;
                        changes.doubtful.extend(names);
                    }
                    return Err(error);
                }
            };
            let made = match (answer.succeeded, found(&answer, 1)) {
                (true, _) => answer.header.map(|header| header.revision),
                // at the first attempt, whose answer was lost
                (false, Some(last)) if last.value == own => Some(last.mod_revision),
                (false, last) => {
                    if found(&answer, 0).is_none_or(|head| head.create_revision != epoch) {
                        return Err(EtcdError::Superseded);
                    }
                    // one before, whose answer was lost, has been made since
                    changes.last = Some(last.map_or(0, |last| last.mod_revision));
                    attempts += 1;
                    if attempts >= MAX_ATTEMPTS {
                        return Err(EtcdError::Nonsense(
                            "another last change each time, which no head has made",
                        ));
                    }
                    continue;
                }
            };
            changes.last = made;
            changes.doubtful.retain(|name| !doubtful.contains(name));
            return Ok(());
        }
    }

    async fn last_change(&self, change: &Bytes) -> Result<i64, EtcdError> {
        let keys = self.etcd.below(change).await?;
        Ok(keys.into_iter().find(|found| found.key == *change).map_or(0, |found| found.mod_revision))
    }

    /// Begins to remove what may be there and is not to be; the next change does so, too.
    pub(super) async fn clear_up(&self) {
        // one that is under way keeps no lease waiting
        if self.changes.try_lock().is_ok_and(|changes| !changes.doubtful.is_empty())
            && let Err(error) = self.change(Vec::new(), &[]).await
        {
            tracing::debug!(%error, "records that may be in etcd are not removed yet");
        }
    }
}
