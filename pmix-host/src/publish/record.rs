//! Data that is to outlast the host, as it is kept elsewhere.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use pmix_proto::v1;
use pmix_server::async_trait;
use pmix_server::host::HostResult;
use pmix_types::{DataRange, Gid, Persistence, ProcId, Status, Uid};
use prost::Message;

use crate::store::{Access, Item, Requester};
use crate::user::User;

/// What keeps data that is published with [`Persistence::INDEF`], so that it outlasts the host:
/// [`StandardHost::with_durable`](crate::StandardHost::with_durable).
#[async_trait]
pub trait DurableStore: fmt::Debug + Send + Sync + 'static {
    /// Keeps records under their numbers, all or none. They are safe when it returns.
    ///
    /// # Errors
    /// They are not kept: the publish fails with this status, and publishes nothing.
    async fn insert(&self, records: Vec<DurableRecord>) -> HostResult<()>;

    /// Whether the store also keeps data of this persistence, so that a successor of the host has it. Data with [`Persistence::INDEF`]
    /// must be kept, or its publish fails; data of another persistence is kept as soon as the store can, and its publish does not fail
    /// if the store does. By default, only `INDEF`.
    fn keeps(&self, persistence: Persistence) -> bool {
        persistence == Persistence::INDEF
    }

    /// Whether the store is known to be out of reach at the moment. Publishes whose data need not be kept then do not
    /// wait for it. By default, `false`.
    fn is_silent(&self) -> bool {
        false
    }

    /// Whether the store grows with all that is written, whatever it forgets, until somebody compacts it. How fast ordinary users write to
    /// such a store is limited: a publish with [`Persistence::INDEF`] beyond that fails with `ERR_RESOURCE_BUSY`. By default, `false`.
    fn keeps_history(&self) -> bool {
        false
    }

    /// Forgets records; those that are not there are no error.
    ///
    /// # Errors
    /// They may still be there. For data with `INDEF` the unpublish fails with this status, and the data is found again. For other
    /// data it succeeds: after `ERR_UNREACH` the removal is repeated, otherwise a warning is logged.
    async fn remove(&self, numbers: Vec<u64>) -> HostResult<()>;
}

#[async_trait]
impl<T: DurableStore + ?Sized> DurableStore for Arc<T> {
    async fn insert(&self, records: Vec<DurableRecord>) -> HostResult<()> {
        (**self).insert(records).await
    }

    async fn remove(&self, numbers: Vec<u64>) -> HostResult<()> {
        (**self).remove(numbers).await
    }

    fn keeps(&self, persistence: Persistence) -> bool {
        (**self).keeps(persistence)
    }

    fn is_silent(&self) -> bool {
        (**self).is_silent()
    }

    fn keeps_history(&self) -> bool {
        (**self).keeps_history()
    }
}

/// A value that is to outlast the host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DurableRecord {
    /// Its number, which no other has. Values are found in the order of their numbers.
    pub number: u64,
    /// Value, publisher and access, in the protobuf format of this crate.
    pub data: Bytes,
}

/// A record that makes no sense: another program has changed it, or a later release has written it.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("record {number} of the store of published data cannot be read")]
#[non_exhaustive]
pub struct UnreadableRecord {
    /// Its number.
    pub number: u64,
}

pmix_types::statuses! {
    UnreadableRecord,
    "`ERR_FILE_READ_FAILURE`",
    |_this| Status::ERR_FILE_READ_FAILURE;
}

pmix_types::message_first!(UnreadableRecord);

impl DurableRecord {
    /// A record as it was kept.
    pub fn new(number: u64, data: impl Into<Bytes>) -> Self {
        Self { number, data: data.into() }
    }

    pub(crate) fn of(number: u64, item: &Item) -> Self {
        Self::new(number, Record::from(item).encode_to_vec())
    }

    pub(crate) fn item(&self) -> Result<Item, UnreadableRecord> {
        let record = Record::decode(self.data.clone()).ok();
        record.and_then(Record::into_item).ok_or(UnreadableRecord { number: self.number })
    }
}

/// An item as it is kept.
#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(message, optional, tag = "1")]
    data: Option<v1::Pdata>,
    #[prost(uint32, tag = "2")]
    uid: u32,
    #[prost(uint32, optional, tag = "3")]
    gid: Option<u32>,
    #[prost(string, tag = "4")]
    node: String,
    #[prost(uint32, optional, tag = "5")]
    session: Option<u32>,
    #[prost(uint32, tag = "6")]
    range: u32,
    #[prost(message, repeated, tag = "7")]
    custom: Vec<v1::Proc>,
    #[prost(message, optional, tag = "8")]
    named: Option<AccessList>,
    /// None for INDEF, which was once the only one that was kept.
    #[prost(uint32, optional, tag = "9")]
    persistence: Option<u32>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct AccessList {
    #[prost(uint32, repeated, tag = "1")]
    users: Vec<u32>,
    #[prost(uint32, repeated, tag = "2")]
    groups: Vec<u32>,
}

impl From<&Item> for Record {
    fn from(item: &Item) -> Self {
        let Item { publisher, data, access, persistence, .. } = item;
        let named = |(users, groups): &(Vec<Uid>, Vec<Gid>)| AccessList {
            users: users.iter().map(|uid| uid.as_raw()).collect(),
            groups: groups.iter().map(|gid| gid.as_raw()).collect(),
        };
        Self {
            data: Some(data.into()),
            uid: publisher.user.uid.as_raw(),
            gid: publisher.user.gid.map(Gid::as_raw),
            node: publisher.node.clone(),
            session: publisher.session,
            range: access.range.to_raw().into(),
            custom: access.custom.iter().map(v1::Proc::from).collect(),
            named: access.named.as_ref().map(named),
            persistence: Some(*persistence)
                .filter(|persistence| *persistence != Persistence::INDEF)
                .map(|persistence| persistence.to_raw().into()),
        }
    }
}

impl Record {
    /// `None` if it makes no sense.
    fn into_item(self) -> Option<Item> {
        let Self { data, uid, gid, node, session, range, custom, named, persistence } = self;
        let persistence = match persistence {
            None => Persistence::INDEF,
            Some(raw) => Persistence::from_raw(raw.try_into().ok()?),
        };
        let data: pmix_types::Pdata = data?.try_into().ok()?;
        let user = User { proc: data.proc.clone(), uid: uid.into(), gid: gid.map(Gid::new) };
        let custom = custom.into_iter().map(ProcId::try_from).collect::<Result<_, _>>().ok()?;
        let access = Access {
            range: DataRange::from_raw(range.try_into().ok()?),
            custom,
            named: named.map(|AccessList { users, groups }| {
                (users.into_iter().map(Uid::new).collect(), groups.into_iter().map(Gid::new).collect())
            }),
        };
        Some(Item {
            publisher: Arc::new(Requester { user, node, session }),
            data,
            access: Arc::new(access),
            persistence,
        })
    }
}
