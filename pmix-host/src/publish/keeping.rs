//! Work on a store that keeps published data; it goes on even if the caller stops waiting.

use std::sync::Arc;
use std::time::Duration;

use pmix_server::host::{HostError, HostResult};
use pmix_types::{Status, Uid};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{DurableRecord, DurableStore, Publishing};
use crate::pace;
use crate::user::lock;

/// How long an unpublish, or a lookup of what is read once, waits for a store to forget the data.
const DROPPING: Duration = Duration::from_secs(5);
/// How long to wait before a store is tried again.
const AGAIN: Duration = Duration::from_secs(1);

impl Publishing {
    /// Has data kept that need not be: later, if it cannot be kept now.
    pub(super) async fn keep_passing(
        self: &Arc<Self>,
        durable: &Arc<dyn DurableStore>,
        uid: Uid,
        records: Vec<DurableRecord>,
    ) {
        if durable.is_silent() || !self.could_keep_of(durable, uid, &records).await {
            let (published, durable) = (self.clone(), durable.clone());
            tokio::spawn(async move {
                let numbers: Vec<u64> = records.iter().map(|record| record.number).collect();
                let mut records = records;
                loop {
                    tokio::time::sleep_until(Instant::now() + AGAIN).await;
                    let left: Vec<u64> =
                        published.store().items(&numbers).map(|(number, _)| number).collect();
                    records.retain(|record| left.contains(&record.number));
                    if records.is_empty()
                        || !durable.is_silent() && published.could_keep_of(&durable, uid, &records).await
                    {
                        return;
                    }
                }
            });
        }
    }

    /// Whether this user may have data written now.
    pub(super) fn admit(
        &self,
        durable: Option<&Arc<dyn DurableStore>>,
        uid: Uid,
        records: &[DurableRecord],
    ) -> HostResult<()> {
        match durable {
            Some(durable) if durable.keeps_history() => lock(&self.pace).admit(uid, bytes_of(records)),
            _ => Ok(()),
        }
    }

    /// Whether data of this user is kept now, or cannot ever be.
    async fn could_keep_of(
        self: &Arc<Self>,
        durable: &Arc<dyn DurableStore>,
        uid: Uid,
        records: &[DurableRecord],
    ) -> bool {
        if self.admit(Some(durable), uid, records).is_err() {
            return false;
        }
        let is_settled = self.could_keep(durable, records.to_vec()).await;
        if !is_settled {
            lock(&self.pace).give_back(uid, bytes_of(records));
        }
        is_settled
    }

    /// Whether data is kept now, or cannot ever be.
    async fn could_keep(
        self: &Arc<Self>,
        durable: &Arc<dyn DurableStore>,
        records: Vec<DurableRecord>,
    ) -> bool {
        let numbers: Vec<u64> = records.iter().map(|record| record.number).collect();
        let inserted = durable.insert(records.clone()).await;
        match inserted {
            Ok(()) => {
                self.store().note_kept(&numbers);
                self.drop_where_kept();
                true
            }
            Err(error) if error.status() == Status::ERR_UNREACH => false,
            // too much at a time
            Err(_) if records.len() > 1 => {
                for record in records {
                    if !Box::pin(self.could_keep(durable, vec![record])).await {
                        return false;
                    }
                }
                true
            }
            Err(error) => {
                tracing::warn!(%error, "published data would be lost with this host");
                true
            }
        }
    }

    /// Removes what is not published any more where it is kept, and waits for that unless it cannot be done now.
    pub(super) async fn drop_now(self: &Arc<Self>) {
        let is_silent = self.durable().is_none_or(|durable| durable.is_silent());
        if let Some(dropping) = self.drop_where_kept().filter(|_| !is_silent) {
            let _ = tokio::time::timeout(DROPPING, dropping).await;
        }
    }

    /// Begins to remove what is not published any more where it is kept.
    pub(super) fn drop_where_kept(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        let durable = self.durable()?;
        let dropped = self.store().take_dropped();
        if dropped.is_empty() {
            return None;
        }
        let dropping = tokio::spawn(async move {
            while let Err(error) = durable.remove(dropped.clone()).await {
                if error.status() != Status::ERR_UNREACH {
                    return tracing::warn!(%error, "data that is not published any more is still kept");
                }
                tokio::time::sleep_until(Instant::now() + AGAIN).await;
            }
        });
        Some(dropping)
    }
}

/// The bytes that records take in a store that keeps its history.
pub(super) fn bytes_of(records: &[DurableRecord]) -> usize {
    records.iter().map(|record| pace::OVERHEAD + record.data.len()).sum()
}

/// Runs work to its end, even if the caller stops waiting.
pub(super) async fn to_its_end(
    work: impl Future<Output = HostResult<()>> + Send + 'static,
) -> HostResult<()> {
    let panicked = |error: tokio::task::JoinError| HostError::new(Status::ERROR, error.to_string());
    tokio::spawn(work).await.map_err(panicked)?
}
