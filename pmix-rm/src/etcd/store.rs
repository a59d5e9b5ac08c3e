//! Published data in etcd.

use std::sync::Arc;

use async_trait::async_trait;
use pmix_host::{DurableRecord, DurableStore};
use pmix_server::host::{HostError, HostResult};
use pmix_types::{Persistence, Status};
use tonic::Code;

use super::EtcdError;
use super::changes::{MAX_BYTES, MAX_RECORDS, PUBLISHED};
use super::mandate::{Mandate, Term};

/// Keeps published data in etcd, under the mandate of its head.
#[derive(Debug)]
pub(crate) struct EtcdStore(Arc<Term>);

impl EtcdStore {
    /// The store, and the records that earlier heads have kept there.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) async fn open(mandate: &Mandate) -> Result<(Self, Vec<DurableRecord>), EtcdError> {
        let term = mandate.term();
        let prefix = term.etcd.key(PUBLISHED);
        let kept = term.etcd.below(&prefix).await?;
        let record = |kept: pmix_proto::etcd::KeyValue| {
            let name = kept.key.strip_prefix(&*prefix).and_then(|name| std::str::from_utf8(name).ok());
            match name.and_then(|name| name.parse().ok()) {
                Some(number) => Ok(DurableRecord::new(number, kept.value)),
                None => {
                    let key = String::from_utf8_lossy(&kept.key).into_owned();
                    Err(EtcdError::Foreign(pmix_types::escaped(&key).to_string()))
                }
            }
        };
        let records = kept.into_iter().map(record).collect::<Result<_, _>>()?;
        Ok((Self(term.clone()), records))
    }

    async fn change(&self, kept: Vec<DurableRecord>, removed: &[u64]) -> HostResult<()> {
        self.0.change(kept, removed).await.map_err(|error| {
            let status = match &error {
                EtcdError::Refused(status) => match status.code() {
                    Code::PermissionDenied | Code::Unauthenticated => Status::ERR_NO_PERMISSIONS,
                    Code::ResourceExhausted | Code::InvalidArgument => Status::ERR_OUT_OF_RESOURCE,
                    _ => Status::ERR_UNREACH,
                },
                _ => Status::ERR_UNREACH,
            };
            let message = format!(
                "data with persistence INDEF cannot be published or unpublished at the moment: {error}"
            );
            HostError::new(status, message)
        })
    }
}

#[async_trait]
impl DurableStore for EtcdStore {
    async fn insert(&self, records: Vec<DurableRecord>) -> HostResult<()> {
        let bytes: usize = records.iter().map(|record| record.data.len()).sum();
        if records.len() > MAX_RECORDS || bytes > MAX_BYTES {
            let message = format!(
                "one publish has {} values with {bytes} bytes in all; with etcd, the limits are {MAX_RECORDS} values and {MAX_BYTES} bytes",
                records.len()
            );
            return Err(HostError::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        self.change(records, &[]).await
    }

    /// A successor of the head has all of it.
    fn keeps(&self, _: Persistence) -> bool {
        true
    }

    /// Until it is compacted, which the head does not do, as others may use it.
    fn keeps_history(&self) -> bool {
        true
    }

    fn is_silent(&self) -> bool {
        self.0.is_silent()
    }

    async fn remove(&self, numbers: Vec<u64>) -> HostResult<()> {
        for numbers in numbers.chunks(MAX_RECORDS) {
            self.change(Vec::new(), numbers).await?;
        }
        Ok(())
    }
}
