//! Finds values, given and derived.

use crate::map::MapForm;
use crate::{DataArray, Key, KeyVal, ProcId, Rank, RankSet, Realm, Value, keys};

use super::nodes::Node;
use super::target::home_of;
use super::{JobData, NodeRef, Target, names, read};

impl JobData {
    /// The value that a get finds: the given one, else one derived from given values. `None` if it is not known, or if
    /// the job has no such app, node or process.
    ///
    /// Derived values have the type of their key. A value given for the job is also found for each of its processes if
    /// the realm of its key is the process. `SPAWNED` is false unless given. A `NODE_RANK` given for a node is that of the
    /// job's first process there, and those of the others follow.
    ///
    /// # Standard
    /// Rules GET-40..49, REG-20, REG-21.
    pub fn lookup(&self, key: &str, target: &Target<'_>) -> Option<Value> {
        match *target {
            Target::Session(id) => self.lookup_in_session(key, id),
            Target::Job => self.lookup_in_job(key),
            Target::App(number) => self.lookup_in_app(key, number),
            Target::AppOf(rank) => self.lookup_in_app(key, self.app_of(rank)?),
            Target::Node(NodeRef::Of(rank)) => self.lookup_on_node_of(key, rank),
            Target::Node(named) => self.lookup_on_node(key, &self.node(named)?),
            Target::Proc(rank) => self.lookup_of_proc(key, rank),
        }
    }

    /// All values given for a target, without derived ones. The values of the job include the maps, as text.
    pub fn given(&self, target: &Target<'_>) -> Vec<KeyVal> {
        match *target {
            Target::Session(id) if self.is_session(id) => self.session.to_key_vals(),
            Target::Session(_) => Vec::new(),
            Target::Job => {
                let maps = [keys::NODE_MAP.key_name(), keys::PROC_MAP.key_name()].into_iter();
                let maps = maps.filter_map(|key| Some(KeyVal { value: self.map_text(&key)?, key }));
                self.job.to_key_vals().into_iter().chain(maps).collect()
            }
            Target::App(number) => self.given_to_app(number),
            Target::AppOf(rank) => {
                self.app_of(rank).map_or_else(Vec::new, |number| self.given_to_app(number))
            }
            Target::Node(named) => {
                let entry = self.node(named).and_then(|node| node.entry);
                entry.map_or_else(Vec::new, |entry| entry.values.to_key_vals())
            }
            Target::Proc(rank) => self.given_to_proc(rank),
        }
    }

    fn given_to_app(&self, number: u32) -> Vec<KeyVal> {
        self.apps.get(&number).map_or_else(Vec::new, |app| app.values.to_key_vals())
    }

    fn given_to_proc(&self, rank: Rank) -> Vec<KeyVal> {
        let app = self.apps.iter().find(|(_, app)| app.given.contains(rank));
        let app = app.map(|(number, _)| KeyVal { key: keys::APPNUM.key_name(), value: (*number).into() });
        let of_column = |(key, value): (_, &Value)| KeyVal { key, value: value.clone() };
        let columns = self.columns.iter().filter_map(|(key, column)| Some((key.clone(), column.get(rank)?)));
        columns.map(of_column).chain(app).collect()
    }

    fn is_session(&self, id: Option<u32>) -> bool {
        id.is_none() || id == self.session_id()
    }

    fn lookup_in_session(&self, key: &str, id: Option<u32>) -> Option<Value> {
        if !self.is_session(id) {
            return None;
        }
        let given = self.session.get(key).cloned();
        given.or_else(|| self.derive_for_session(key)).or_else(|| self.resources.get(key).cloned())
    }

    /// What follows from the nodes of the session, which may be more than the job uses (RGX-05).
    fn derive_for_session(&self, key: &str) -> Option<Value> {
        let read =
            |key: &Key<String>| read::parse_node_map(&key.key_name(), self.session.get(key.name())?).ok();
        let map = || read(&keys::NODE_MAP).or_else(|| read(&keys::NODE_MAP_RAW));
        match key {
            names::NODE_LIST | names::NODE_MAP_RAW => Some(map()?.to_raw().into()),
            names::NODE_MAP => c_text(map()?.encode(MapForm::Pmix)).map(Value::from),
            names::NUM_NODES => u32::try_from(map()?.len()).ok().map(Value::from),
            _ => None,
        }
    }

    fn lookup_in_job(&self, key: &str) -> Option<Value> {
        let given = self.job.get(key).cloned();
        let derived = given.or_else(|| self.derive_for_job(key));
        derived
            .or_else(|| self.resources.get(key).cloned())
            .or_else(|| (key == names::SPAWNED).then(|| false.into()))
    }

    fn lookup_in_app(&self, key: &str, number: u32) -> Option<Value> {
        let given = self.apps.get(&number).and_then(|app| app.values.get(key)).cloned();
        given.or_else(|| self.derive_for_app(key, number))
    }

    fn lookup_on_node(&self, key: &str, node: &Node<'_>) -> Option<Value> {
        let given = node.entry.and_then(|entry| entry.values.get(key)).cloned();
        given.or_else(|| self.derive_for_node(key, node))
    }

    fn lookup_on_node_of(&self, key: &str, rank: Rank) -> Option<Value> {
        let given = self.columns.get(key).and_then(|column| column.get(rank)).cloned();
        given.or_else(|| self.lookup_on_node(key, &self.node_of_rank(rank)?))
    }

    fn lookup_of_proc(&self, key: &str, rank: Rank) -> Option<Value> {
        if !rank.is_valid() {
            return None;
        }
        let given = self.columns.get(key).and_then(|column| column.get(rank)).cloned();
        let found =
            given.or_else(|| self.derive_for_proc(key, rank)).or_else(|| self.node_name_of(key, rank));
        // what is said once for the job holds for each process of it
        let holds_for_each = || home_of(key) == Realm::Proc && self.contains(rank);
        found.or_else(|| if holds_for_each() { self.lookup_in_job(key) } else { None })
    }

    pub(super) fn derive_for_job(&self, key: &str) -> Option<Value> {
        match key {
            names::JOB_SIZE => Some(self.placement.as_ref()?.rank_count().into()),
            names::NUM_NODES => Some(self.node_count()?.into()),
            names::NODE_LIST => Some(self.node_map.as_ref()?.to_raw().into()),
            names::NSPACE => Some(Value::String(self.nspace.to_string())),
            names::SESSION_ID => self.session.get(key).cloned(),
            _ => self.map_text(key),
        }
    }

    fn map_text(&self, key: &str) -> Option<Value> {
        let text = match key {
            names::NODE_MAP => c_text(self.node_map.as_ref()?.encode(MapForm::Pmix))?,
            names::PROC_MAP => c_text(self.proc_map.as_ref()?.encode(MapForm::Pmix))?,
            names::NODE_MAP_RAW => self.node_map.as_ref()?.to_raw(),
            names::PROC_MAP_RAW => self.proc_map.as_ref()?.to_listed(),
            _ => return None,
        };
        Some(text.into())
    }

    pub(super) fn derive_for_app(&self, key: &str, number: u32) -> Option<Value> {
        match key {
            names::APPNUM => {
                (self.apps.contains_key(&number) || self.only_app() == Some(number)).then(|| number.into())
            }
            names::APPLDR => Some(self.ranks_of_app(number)?.first()?.into()),
            names::APP_SIZE => count(self.ranks_of_app(number)?.as_ref()),
            _ => None,
        }
    }

    fn derive_for_node(&self, key: &str, node: &Node<'_>) -> Option<Value> {
        match key {
            names::HOSTNAME => Some(node.name()?.into()),
            names::NODEID => Some(node.id()?.into()),
            names::LOCAL_PEERS => Some(self.ranks_on(node)?.to_list_string().into()),
            names::LOCAL_PROCS => {
                let proc = |rank| ProcId::new(self.nspace.clone(), rank);
                Some(DataArray::Proc(self.ranks_on(node)?.iter().map(proc).collect()).into())
            }
            names::LOCAL_SIZE => count(&self.ranks_on(node)?),
            names::LOCALLDR => Some(self.ranks_on(node)?.first()?.into()),
            _ => None,
        }
    }

    /// What follows for a process without any value of the same key.
    pub(super) fn derive_for_proc(&self, key: &str, rank: Rank) -> Option<Value> {
        match key {
            names::RANK => self.contains(rank).then(|| rank.into()),
            names::PROCID => self.contains(rank).then(|| ProcId::new(self.nspace.clone(), rank).into()),
            names::NSPACE => self.derive_for_job(key),
            names::HOSTNAME => Some(self.placed(rank)?.name()?.into()),
            names::NODEID => Some(self.placed(rank)?.id()?.into()),
            names::LOCAL_RANK => Some(u16::try_from(self.local_rank(rank)?).ok()?.into()),
            names::NODE_RANK => self.node_rank(rank).map(Value::from),
            names::GLOBAL_RANK => self.global_rank(rank).map(Value::from),
            names::APPNUM => self.app_of(rank).map(Value::from),
            names::APP_RANK => self.app_rank(rank).map(Value::from),
            _ => None,
        }
    }

    /// The node of a process by the process map alone.
    fn placed(&self, rank: Rank) -> Option<Node<'_>> {
        Some(self.node_at(self.placement.as_ref()?.node_of(rank)?))
    }

    /// Name or id of a process's node by all that is known.
    fn node_name_of(&self, key: &str, rank: Rank) -> Option<Value> {
        match key {
            names::HOSTNAME | names::NODEID => self.derive_for_node(key, &self.node_of_rank(rank)?),
            _ => None,
        }
    }

    fn local_rank(&self, rank: Rank) -> Option<u64> {
        if let Some(placement) = &self.placement {
            return placement.local_rank(rank).map(u64::from);
        }
        self.ranks_on(&self.node_of_rank(rank)?)?.position(rank)
    }

    /// The number given for the node is that of the job's first process there; the others follow.
    fn node_rank(&self, rank: Rank) -> Option<u16> {
        let first: u16 = self.placed(rank)?.entry?.values.get(names::NODE_RANK)?.get().ok()?;
        first.checked_add(u16::try_from(self.local_rank(rank)?).ok()?)
    }

    fn global_rank(&self, rank: Rank) -> Option<Rank> {
        if !self.contains(rank) {
            return None;
        }
        let offset = self.job.get(names::NPROC_OFFSET).map_or(Some(0), |value| {
            value.get::<Rank>().map(Rank::to_raw).or_else(|_| value.get::<u32>()).ok()
        })?;
        Rank::new(offset.checked_add(rank.to_raw())?).ok()
    }

    fn app_rank(&self, rank: Rank) -> Option<Rank> {
        let number = self.app_of(rank)?;
        if self.only_app().is_some() {
            return Some(rank);
        }
        let position = self.ranks_of_app(number)?.position(rank)?;
        Rank::new(u32::try_from(position).ok()?).ok()
    }
}

fn count(ranks: &RankSet) -> Option<Value> {
    u32::try_from(ranks.len()).ok().map(Value::from)
}

/// The text without the NUL that C puts behind it.
fn c_text(mut bytes: Vec<u8>) -> Option<String> {
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    String::from_utf8(bytes).ok()
}
