//! Published data: who may find what, and for how long. Knows neither time nor tasks.

use pmix_types::{
    DataArray, DataRange, Directives, Info, KeyName, Pdata, Persistence, ProcId, Status, Value, keys,
};

use crate::host::{HostError, HostResult, UpcallContext};

/// A process with the user and group that the kernel knows it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) proc: ProcId,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl User {
    /// Who asks, as the kernel says.
    pub(super) fn of(cx: &UpcallContext) -> Self {
        Self { proc: cx.caller.clone(), uid: cx.uid, gid: cx.gid }
    }
}

/// What the processes of one node have published.
#[derive(Debug, Default)]
pub(super) struct Store(Vec<Item>);

#[derive(Clone, Debug)]
struct Item {
    publisher: User,
    key: KeyName,
    value: Value,
    access: Access,
    persistence: Persistence,
}

/// Who may find an item.
#[derive(Clone, Debug)]
struct Access {
    range: DataRange,
    /// The processes of a custom range.
    custom: Vec<ProcId>,
    /// Users and groups that the publisher has named, in place of its own user (PUB-09).
    named: Option<(Vec<u32>, Vec<u32>)>,
}

/// Whom a lookup asks for, and what.
#[derive(Clone, Debug)]
pub(super) struct Look {
    asker: User,
    keys: Vec<KeyName>,
    range: DataRange,
    custom: Vec<ProcId>,
    /// How many of the keys must be there; `None` if it does not wait.
    wait: Option<usize>,
}

impl Look {
    pub(super) fn new(asker: User, keys: Vec<KeyName>, directives: &Directives) -> HostResult<Self> {
        let wait = wait_count(directives, keys.len())?;
        Ok(Self { asker, keys, range: range(directives)?, custom: custom(directives)?, wait })
    }
}

impl Store {
    /// Files all of the data, or nothing if one of the keys is taken (PUB-04).
    pub(super) fn publish(
        &mut self,
        publisher: &User,
        data: Vec<Info>,
        directives: &Directives,
    ) -> HostResult<()> {
        let access =
            Access { range: range(directives)?, custom: custom(directives)?, named: named(directives)? };
        let persistence = directives.get(&keys::PERSISTENCE)?.unwrap_or(Persistence::APP);
        let held = self.0.len();
        for Info { key, value, .. } in data {
            if self.0.iter().any(|item| item.key == key && item.is_rival(publisher, access.range)) {
                self.0.truncate(held);
                let message = format!("{key} is published already in range {}", access.range);
                return Err(HostError::new(Status::ERR_DUPLICATE_KEY, message));
            }
            let (publisher, access) = (publisher.clone(), access.clone());
            self.0.push(Item { publisher, key, value, access, persistence });
        }
        Ok(())
    }

    /// Finds what the asker may see; `None` while it is to wait (PUB-13).
    pub(super) fn look(&mut self, look: &Look) -> Option<HostResult<Vec<Pdata>>> {
        let found: Vec<_> = look.keys.iter().filter_map(|key| self.best(key, look)).collect();
        if look.wait.is_some_and(|count| found.len() < count) {
            return None;
        }
        if found.is_empty() {
            let hidden = |key: &KeyName| self.0.iter().any(|item| item.key == *key && item.is_in_range(look));
            let status = match look.keys.iter().all(hidden) {
                true => Status::ERR_NO_PERMISSIONS,
                false => Status::ERR_NOT_FOUND,
            };
            let names: Vec<_> = look.keys.iter().map(KeyName::as_str).collect();
            let message = format!("nothing is published for this process under {}", names.join(", "));
            return Some(Err(HostError::new(status, message)));
        }
        let data = found.iter().filter_map(|index| self.0.get(*index)).map(Item::data).collect();
        let mut index = 0;
        self.0.retain(|item| {
            let is_read = found.contains(&index) && item.persistence == Persistence::FIRST_READ;
            index += 1;
            !is_read
        });
        Some(Ok(data))
    }

    /// The item of the narrowest range (PUB-14).
    fn best(&self, key: &KeyName, look: &Look) -> Option<usize> {
        let visible = |item: &Item| item.key == *key && item.is_in_range(look) && item.admits(&look.asker);
        let items = self.0.iter().enumerate().filter(|(_, item)| visible(item));
        items.min_by_key(|(_, item)| width(item.access.range)).map(|(index, _)| index)
    }

    /// Removes what this very process has published in this range; no keys for all of it (PUB-15).
    pub(super) fn unpublish(
        &mut self,
        publisher: &ProcId,
        keys: &[KeyName],
        directives: &Directives,
    ) -> HostResult<()> {
        let range = range(directives)?;
        self.0.retain(|item| {
            let is_named = keys.is_empty() || keys.contains(&item.key);
            !(item.publisher.proc == *publisher && item.access.range == range && is_named)
        });
        Ok(())
    }

    /// A process has ended, or all of its application have: removes what was to live no longer (PUB-08).
    pub(super) fn ended(&mut self, persistence: Persistence, is_over: impl Fn(&ProcId) -> bool) {
        self.0.retain(|item| item.persistence != persistence || !is_over(&item.publisher.proc));
    }
}

impl Item {
    fn data(&self) -> Pdata {
        Pdata { proc: self.publisher.proc.clone(), key: self.key.clone(), value: self.value.clone() }
    }

    /// Whether another's item of the same key in that range would be taken for this one. Users do not meet.
    fn is_rival(&self, publisher: &User, range: DataRange) -> bool {
        let own = &self.publisher;
        own.uid == publisher.uid
            && self.access.range == range
            && match range {
                DataRange::NAMESPACE => own.proc.nspace == publisher.proc.nspace,
                DataRange::PROC_LOCAL => own.proc == publisher.proc,
                _ => true,
            }
    }

    /// The publisher in the asker's range, and the asker in the publisher's (PUB-07, PUB-10).
    fn is_in_range(&self, look: &Look) -> bool {
        let (publisher, asker) = (&self.publisher.proc, &look.asker.proc);
        reaches(look.range, &look.custom, asker, publisher)
            && reaches(self.access.range, &self.access.custom, publisher, asker)
    }

    /// The same user, unless the publisher has said whom else or whom instead (PUB-09).
    fn admits(&self, asker: &User) -> bool {
        match &self.access.named {
            Some((users, groups)) => {
                asker.proc == self.publisher.proc || users.contains(&asker.uid) || groups.contains(&asker.gid)
            }
            None => asker.uid == self.publisher.uid,
        }
    }
}

/// Whether a range around one process reaches another (PUB-06). All processes of the store are on one node.
fn reaches(range: DataRange, custom: &[ProcId], from: &ProcId, to: &ProcId) -> bool {
    match range {
        DataRange::LOCAL | DataRange::SESSION | DataRange::GLOBAL => true,
        DataRange::NAMESPACE => from.nspace == to.nspace,
        DataRange::PROC_LOCAL => from == to,
        DataRange::CUSTOM => from == to || custom.iter().any(|proc| proc.matches(to)),
        _ => false,
    }
}

/// Ranges from narrow to wide.
const fn width(range: DataRange) -> u8 {
    match range {
        DataRange::PROC_LOCAL => 0,
        DataRange::CUSTOM => 1,
        DataRange::NAMESPACE => 2,
        DataRange::LOCAL => 3,
        DataRange::SESSION => 4,
        _ => 5,
    }
}

fn range(directives: &Directives) -> HostResult<DataRange> {
    Ok(directives.get(&keys::RANGE)?.unwrap_or(DataRange::SESSION))
}

fn custom(directives: &Directives) -> HostResult<Vec<ProcId>> {
    Ok(match directives.get(&keys::EVENT_CUSTOM_RANGE)? {
        Some(DataArray::Proc(procs)) => procs,
        _ => Vec::new(),
    })
}

/// Users and groups with access, if the publisher names any.
fn named(directives: &Directives) -> HostResult<Option<(Vec<u32>, Vec<u32>)>> {
    let inner = match directives.get(&keys::ACCESS_PERMISSIONS)? {
        Some(DataArray::Info(infos)) => Directives::from(infos),
        _ => directives.clone(),
    };
    let ids = |key| {
        Ok::<_, HostError>(match inner.get(key)? {
            Some(DataArray::Uint32(ids)) => Some(ids),
            _ => None,
        })
    };
    let (users, groups) = (ids(&keys::ACCESS_USERIDS)?, ids(&keys::ACCESS_GRPIDS)?);
    let is_given = users.is_some() || groups.is_some();
    Ok(is_given.then(|| (users.unwrap_or_default(), groups.unwrap_or_default())))
}

/// How many keys a lookup waits for: a number, 0 and a bare flag for all. Open MPI gives a boolean.
fn wait_count(directives: &Directives, all: usize) -> HostResult<Option<usize>> {
    let bad = || HostError::new(Status::ERR_BAD_PARAM, "a lookup waits for a number of keys, or for all");
    match directives.get_value(keys::WAIT.name()) {
        None | Some(Value::Bool(false)) => Ok(None),
        Some(Value::Undef | Value::Bool(true)) => Ok(Some(all)),
        Some(value) => match value.get::<i32>().ok().and_then(|count| usize::try_from(count).ok()) {
            Some(0) => Ok(Some(all)),
            Some(count) => Ok(Some(count.min(all))),
            None => Err(bad()),
        },
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
