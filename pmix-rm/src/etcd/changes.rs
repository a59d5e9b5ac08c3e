//! Changes of the records, one after the other, each once.
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

use super::client::LIMIT;
use super::mandate::{Term, condition, found, op, range};
use super::{Etcd, EtcdError};

/// Changes at a time, and their bytes: etcd takes 128 and 1.5 MiB unless told otherwise.
pub(super) const MAX_RECORDS: usize = 100;
pub(super) const MAX_BYTES: usize = 1 << 20;
/// Records that a change removes because it is not known whether an earlier one has kept them.
const MAX_DOUBTFUL: usize = 20;

/// Where the records are.
pub(super) const PUBLISHED: &str = "published/";

/// What is known of the changes before.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The revision of the last one; `None` if it is not known.
    last: Option<i64>,
    count: u64,
    /// Records that may be there, and are not to be.
    doubtful: BTreeSet<u64>,
}

fn key(etcd: &Etcd, number: u64) -> Bytes {
    // in the order of their numbers
    etcd.key(&format!("{PUBLISHED}{number:020}"))
}

impl Term {
    /// Keeps records and removes others, all or nothing.
    ///
    /// # Errors
    /// Nothing is kept, or what is will be removed; nothing may be removed.
    pub(super) async fn change(&self, kept: Vec<DurableRecord>, removed: &[u64]) -> Result<(), EtcdError> {
        let Ok(mut changes) = timeout(LIMIT, self.changes.lock()).await else {
            return Err(EtcdError::Silent(
                "other changes have waited for as long as one may take".to_owned(),
            ));
        };
        changes.count += 1;
        let (change, own) = (self.etcd.key("change"), format!("{} {}", self.id(), changes.count));
        let numbers: Vec<u64> = kept.iter().map(|record| record.number).collect();
        let doubtful: Vec<u64> = changes.doubtful.iter().copied().take(MAX_DOUBTFUL).collect();
        let removed: BTreeSet<u64> = removed.iter().chain(&doubtful).copied().collect();
        let puts = kept.into_iter().map(|record| {
            let (key, value) = (key(&self.etcd, record.number), record.data);
            op(Request::RequestPut(PutRequest { key, value, lease: 0 }))
        });
        let deletes = removed.iter().map(|number| {
            op(Request::RequestDeleteRange(DeleteRangeRequest { key: key(&self.etcd, *number) }))
        });
        let sets =
            op(Request::RequestPut(PutRequest { key: change.clone(), value: own.clone().into(), lease: 0 }));
        let success: Vec<_> = puts.chain(deletes).chain([sets]).collect();
        let failure = vec![range(&self.etcd.key("head")), range(&change)];
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
                        changes.last = None;
                        changes.doubtful.extend(numbers);
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
                    continue;
                }
            };
            changes.last = made;
            changes.doubtful.retain(|number| !doubtful.contains(number));
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
