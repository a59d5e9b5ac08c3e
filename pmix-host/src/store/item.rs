//! One published item, and who may find it.

use std::sync::Arc;

use pmix_types::{
    DataArray, DataRange, Directives, Gid, Info, Key, KeyName, Memory, Pdata, Persistence, ProcId, Uid, keys,
};

use super::look::Look;
use super::range::{Requester, bad_param, custom, range, reaches};
use pmix_server::host::HostResult;

/// What an item takes in the indexes.
const PLACES: usize = 512;

/// A published key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) publisher: Arc<Requester>,
    pub(crate) data: Pdata,
    pub(crate) access: Arc<Access>,
    pub(crate) persistence: Persistence,
}

/// Who may find an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) range: DataRange,
    /// The processes of a custom range, in order and once.
    pub(crate) custom: Vec<ProcId>,
    /// Users and groups that the publisher has named, in place of its own user (PUB-09).
    pub(crate) named: Option<Named>,
}

/// Users and groups that may find an item.
pub(crate) type Named = (Vec<Uid>, Vec<Gid>);

impl Item {
    pub(crate) const fn key(&self) -> &KeyName {
        &self.data.key
    }

    /// Bytes that count towards the limit of its user, including its entries in the indexes.
    pub(crate) fn bytes(&self) -> usize {
        let named = self.access.named.as_ref();
        let lists =
            self.access.custom.heap() + named.map_or(0, |(users, groups)| users.heap() + groups.heap());
        size_of::<Self>() + self.data.heap() + lists + PLACES
    }

    /// Whether the other, of the same key, would be taken for this one (PUB-04, PUB-05). Users do not meet.
    pub(crate) fn is_rival(&self, other: &Self) -> bool {
        let (own, their) = (&*self.publisher, &*other.publisher);
        own.user.uid == their.user.uid
            && self.access.range == other.access.range
            && match self.access.range {
                DataRange::LOCAL => own.node == their.node,
                DataRange::NAMESPACE => own.user.proc.nspace == their.user.proc.nspace,
                DataRange::SESSION => own.session == their.session,
                DataRange::CUSTOM => self.access.custom == other.access.custom,
                DataRange::PROC_LOCAL => own.user.proc == their.user.proc,
                _ => true,
            }
    }

    /// The publisher in the reader's range, and the reader in the publisher's (PUB-07, PUB-10).
    pub(crate) fn is_in_range(&self, look: &Look) -> bool {
        reaches(look.range, &look.custom, &look.requester, &self.publisher)
            && reaches(self.access.range, &self.access.custom, &self.publisher, &look.requester)
    }

    /// The same user, unless the publisher has named other users (PUB-09).
    pub(crate) fn admits(&self, reader: &Requester) -> bool {
        let (own, reader) = (&self.publisher.user, &reader.user);
        match &self.access.named {
            Some((users, groups)) => {
                own == reader
                    || users.contains(&reader.uid)
                    || reader.gid.is_some_and(|gid| groups.contains(&gid))
            }
            None => own.uid == reader.uid,
        }
    }

    /// Smaller for what is nearer to the reader: narrow ranges first (PUB-14), then the own user.
    pub(crate) fn distance(&self, reader: &Requester) -> (u8, bool) {
        let width = match self.access.range {
            DataRange::PROC_LOCAL => 0,
            DataRange::CUSTOM => 1,
            DataRange::NAMESPACE => 2,
            DataRange::LOCAL => 3,
            DataRange::SESSION => 4,
            _ => 5,
        };
        (width, self.publisher.user.uid != reader.user.uid)
    }
}

impl Access {
    /// Reads it from the directives of a publish, which must be none but those known here (GEN-05).
    pub(crate) fn take(directives: &mut Directives) -> HostResult<Self> {
        let access =
            Self { range: range(directives)?, custom: custom(directives)?, named: named(directives)? };
        Ok(access)
    }
}

pub(crate) fn persistence(directives: &mut Directives) -> HostResult<Persistence> {
    let persistence = directives.take(&keys::PERSISTENCE)?.unwrap_or(Persistence::APP);
    let known = [
        Persistence::INDEF,
        Persistence::FIRST_READ,
        Persistence::PROC,
        Persistence::APP,
        Persistence::SESSION,
    ];
    match known.contains(&persistence) {
        true => Ok(persistence),
        false => Err(bad_param(format!("{persistence} is not a persistence of published data"))),
    }
}

/// Users and groups with access, if the publisher names any.
fn named(directives: &mut Directives) -> HostResult<Option<Named>> {
    let mut inner = match directives.take(&keys::ACCESS_PERMISSIONS)? {
        Some(DataArray::Info(infos)) => Directives::from(infos),
        Some(_) => return Err(bad_param("access permissions must be a list of infos")),
        None => Directives::new(),
    };
    let mut ids = |key: Key<DataArray>| {
        let given = match inner.take(key)? {
            None => directives.take(key)?,
            given => given,
        };
        match given {
            Some(DataArray::Uint32(ids)) => Ok(Some(ids)),
            Some(_) => Err(bad_param(format!("{} must be a list of 32-bit numbers", key.name()))),
            None => Ok(None),
        }
    };
    let (users, groups) = (ids(keys::ACCESS_USERIDS)?, ids(keys::ACCESS_GRPIDS)?);
    inner.deny_unprocessed()?;
    let is_given = users.is_some() || groups.is_some();
    let users = users.unwrap_or_default().into_iter().map(Uid::new).collect();
    let groups = groups.unwrap_or_default().into_iter().map(Gid::new).collect();
    Ok(is_given.then_some((users, groups)))
}

pub(crate) fn items(
    publisher: &Arc<Requester>,
    data: Vec<Info>,
    access: &Arc<Access>,
    persistence: Persistence,
) -> Vec<Item> {
    let item = |Info { key, mut value, .. }| {
        value.detach();
        let data = Pdata::new(publisher.user.proc.clone(), key, value);
        Item { publisher: publisher.clone(), data, access: access.clone(), persistence }
    };
    data.into_iter().map(item).collect()
}
