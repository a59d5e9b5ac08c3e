//! Published data in etcd.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_host::{DurableRecord, DurableStore};
use pmix_proto::etcd::request_op::Request;
use pmix_proto::etcd::{DeleteRangeRequest, PutRequest, RequestOp};
use pmix_server::host::{HostError, HostResult};
use pmix_types::Status;

use super::mandate::{Mandate, Term};
use super::{Etcd, EtcdError};

/// Changes at a time, and their bytes: etcd takes 128 and 1.5 MiB unless told otherwise.
const MAX_RECORDS: usize = 100;
const MAX_BYTES: usize = 1 << 20;

/// Where the records are.
const PUBLISHED: &str = "published/";

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
            let number = kept.key.strip_prefix(&*prefix)?;
            let number = std::str::from_utf8(number).ok()?.parse().ok()?;
            Some(DurableRecord::new(number, kept.value))
        };
        let records = kept.into_iter().map(record).collect::<Option<_>>().ok_or(EtcdError::Unreadable)?;
        Ok((Self(term.clone()), records))
    }

    async fn change(&self, changes: Vec<RequestOp>) -> HostResult<()> {
        let condition = self.0.condition().ok_or_else(superseded)?;
        match self.0.etcd.transaction(vec![condition], changes, Vec::new()).await {
            Ok(answer) if answer.succeeded => Ok(()),
            Ok(_) => Err(superseded()),
            Err(EtcdError::Refused(status)) => {
                let message = format!("etcd does not keep it: {}", status.message());
                Err(HostError::new(Status::ERR_OUT_OF_RESOURCE, message))
            }
            Err(error) => {
                let message =
                    format!("what is to last (INDEF) cannot be published or taken back now: {error}");
                Err(HostError::new(Status::ERR_UNREACH, message))
            }
        }
    }
}

fn key(etcd: &Etcd, number: u64) -> Bytes {
    // in the order of their numbers
    etcd.key(&format!("{PUBLISHED}{number:020}"))
}

fn superseded() -> HostError {
    let message = "what is to last (INDEF) cannot be published or taken back now: etcd does not know this head as that of the DVM";
    HostError::new(Status::ERR_UNREACH, message)
}

#[async_trait]
impl DurableStore for EtcdStore {
    async fn insert(&self, records: Vec<DurableRecord>) -> HostResult<()> {
        let bytes: usize = records.iter().map(|record| record.data.len()).sum();
        if records.len() > MAX_RECORDS || bytes > MAX_BYTES {
            let message = format!(
                "{} values of {bytes} bytes in all are published at a time: etcd keeps at most {MAX_RECORDS}, of {MAX_BYTES} bytes",
                records.len()
            );
            return Err(HostError::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        let put = |record: DurableRecord| {
            let (key, value) = (key(&self.0.etcd, record.number), record.data);
            RequestOp { request: Some(Request::RequestPut(PutRequest { key, value, lease: 0 })) }
        };
        self.change(records.into_iter().map(put).collect()).await
    }

    async fn remove(&self, numbers: Vec<u64>) -> HostResult<()> {
        for numbers in numbers.chunks(MAX_RECORDS) {
            let delete = |number: &u64| {
                let key = key(&self.0.etcd, *number);
                RequestOp { request: Some(Request::RequestDeleteRange(DeleteRangeRequest { key })) }
            };
            self.change(numbers.iter().map(delete).collect()).await?;
        }
        Ok(())
    }
}
