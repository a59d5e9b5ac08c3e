//! One published item: who may find it.

use std::sync::Arc;

use pmix_types::{
    DataArray, DataRange, Directives, Info, KeyName, Memory, Pdata, Persistence, ProcId, Status, Value, keys,
};

use super::{Look, Party};
use pmix_server::host::{HostError, HostResult};

/// What an item takes in the indexes.
const PLACES: usize = 512;

/// A published key.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Item {
    pub(in super::super) publisher: Arc<Party>,
    pub(in super::super) data: Pdata,
    pub(in super::super) access: Arc<Access>,
    pub(in super::super) persistence: Persistence,
}

/// Who may find an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Access {
    pub(in super::super) range: DataRange,
    /// The processes of a custom range, in order and once.
    pub(in super::super) custom: Vec<ProcId>,
    /// Users and groups that the publisher has named, in place of its own user (PUB-09).
    pub(in super::super) named: Option<(Vec<u32>, Vec<u32>)>,
}

impl Item {
    pub(super) const fn key(&self) -> &KeyName {
        &self.data.key
    }

    /// What it counts against the limits of its user: what it takes with its places in the indexes.
    pub(super) fn bytes(&self) -> usize {
        let named = self.access.named.as_ref();
        let lists =
            self.access.custom.heap() + named.map_or(0, |(users, groups)| users.heap() + groups.heap());
        size_of::<Self>() + self.data.heap() + lists + PLACES
    }

    /// Whether the other, of the same key, would be taken for this one (PUB-04, PUB-05). Users do not meet.
    pub(super) fn is_rival(&self, other: &Self) -> bool {
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

    /// The publisher in the asker's range, and the asker in the publisher's (PUB-07, PUB-10).
    pub(super) fn is_in_range(&self, look: &Look) -> bool {
        reaches(look.range, &look.custom, &look.asker, &self.publisher)
            && reaches(self.access.range, &self.access.custom, &self.publisher, &look.asker)
    }

    /// The same user, unless the publisher has said whom else or whom instead (PUB-09).
    pub(super) fn admits(&self, asker: &Party) -> bool {
        let (own, asker) = (&self.publisher.user, &asker.user);
        match &self.access.named {
            Some((users, groups)) => {
                own == asker
                    || users.contains(&asker.uid)
                    || asker.gid.is_some_and(|gid| groups.contains(&gid))
            }
            None => own.uid == asker.uid,
        }
    }

    /// Smaller for what is nearer to the asker: narrow ranges first (PUB-14), then the own user.
    pub(super) fn distance(&self, asker: &Party) -> (u8, bool) {
        let width = match self.access.range {
            DataRange::PROC_LOCAL => 0,
            DataRange::CUSTOM => 1,
            DataRange::NAMESPACE => 2,
            DataRange::LOCAL => 3,
            DataRange::SESSION => 4,
            _ => 5,
        };
        (width, self.publisher.user.uid != asker.user.uid)
    }
}

impl Access {
    /// Reads it from the directives of a publish, which must be none but those known here (GEN-05).
    pub(super) fn take(directives: &mut Directives) -> HostResult<Self> {
        let access =
            Self { range: range(directives)?, custom: custom(directives)?, named: named(directives)? };
        Ok(access)
    }
}

/// Whether a range around one process reaches another (PUB-06).
fn reaches(range: DataRange, custom: &[ProcId], from: &Party, to: &Party) -> bool {
    match range {
        DataRange::LOCAL => from.node == to.node,
        DataRange::NAMESPACE => from.user.proc.nspace == to.user.proc.nspace,
        DataRange::SESSION => from.session == to.session,
        DataRange::GLOBAL => true,
        DataRange::CUSTOM => custom.iter().any(|proc| proc.matches(&to.user.proc)),
        DataRange::PROC_LOCAL => from.user.proc == to.user.proc,
        _ => false,
    }
}

pub(super) fn range(directives: &mut Directives) -> HostResult<DataRange> {
    let range = directives.take(&keys::RANGE)?.unwrap_or(DataRange::SESSION);
    let known = [
        DataRange::RM,
        DataRange::LOCAL,
        DataRange::NAMESPACE,
        DataRange::SESSION,
        DataRange::GLOBAL,
        DataRange::CUSTOM,
        DataRange::PROC_LOCAL,
    ];
    if known.contains(&range) { Ok(range) } else { Err(bad_param(format!("{range} is no range of data"))) }
}

pub(super) fn persistence(directives: &mut Directives) -> HostResult<Persistence> {
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
        false => Err(bad_param(format!("{persistence} does not say how long data is kept"))),
    }
}

pub(super) fn custom(directives: &mut Directives) -> HostResult<Vec<ProcId>> {
    Ok(match directives.take(&keys::EVENT_CUSTOM_RANGE)? {
        Some(DataArray::Proc(mut procs)) => {
            procs.sort();
            procs.dedup();
            procs
        }
        Some(_) => return Err(bad_param("a custom range is a list of processes")),
        None => Vec::new(),
    })
}

/// Users and groups with access, if the publisher names any.
fn named(directives: &mut Directives) -> HostResult<Option<(Vec<u32>, Vec<u32>)>> {
    let mut inner = match directives.take(&keys::ACCESS_PERMISSIONS)? {
        Some(DataArray::Info(infos)) => Directives::from(infos),
        Some(_) => return Err(bad_param("access permissions are a list of infos")),
        None => Directives::new(),
    };
    let mut ids = |key| {
        let given = match inner.take(key)? {
            None => directives.take(key)?,
            given => given,
        };
        match given {
            Some(DataArray::Uint32(ids)) => Ok(Some(ids)),
            Some(_) => Err(bad_param(format!("{} are a list of numbers of 32 bits", key.name()))),
            None => Ok(None),
        }
    };
    let (users, groups) = (ids(&keys::ACCESS_USERIDS)?, ids(&keys::ACCESS_GRPIDS)?);
    inner.deny_unprocessed()?;
    let is_given = users.is_some() || groups.is_some();
    Ok(is_given.then(|| (users.unwrap_or_default(), groups.unwrap_or_default())))
}

/// How many keys a lookup waits for: a number, 0 and a bare flag for all. Open MPI gives a boolean.
pub(super) fn wait_count(directives: &mut Directives, all: usize) -> HostResult<Option<usize>> {
    let bad = || bad_param("a lookup waits for a number of keys, or for all");
    let wait = match directives.get_value(keys::WAIT.name()) {
        None | Some(Value::Bool(false)) => None,
        Some(Value::Undef | Value::Bool(true)) => Some(all),
        Some(value) => match value.get::<i32>().ok().and_then(|count| usize::try_from(count).ok()) {
            Some(0) => Some(all),
            Some(count) => Some(count.min(all)),
            None => return Err(bad()),
        },
    };
    // read above: it comes in several types
    directives.remove(&keys::WAIT);
    Ok(wait)
}

pub(super) fn items(
    publisher: &Arc<Party>,
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

fn bad_param(problem: impl Into<String>) -> HostError {
    HostError::new(Status::ERR_BAD_PARAM, problem)
}
