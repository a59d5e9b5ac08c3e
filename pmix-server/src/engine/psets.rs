//! Process sets: names that the host gives to processes (PST-01).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pmix_types::message::Failure;
use pmix_types::{DataArray, DataRange, Directives, Event, Info, ProcId, Status, Value, keys};

use super::{CallValue, Engine, Out};

/// Members by name. A set never changes.
#[derive(Debug, Default)]
pub(super) struct Psets(BTreeMap<String, Vec<ProcId>>);

impl Psets {
    /// Names of the sets that a process belongs to, in order.
    pub(super) fn names_of(&self, proc: &ProcId) -> impl Iterator<Item = &str> {
        let is_member = |members: &[ProcId]| members.iter().any(|member| member.matches(proc));
        self.0.iter().filter(move |(_, members)| is_member(members)).map(|(name, _)| name.as_str())
    }

    /// The answer to a query, if it is about sets.
    pub(super) fn answer(&self, key: &str, qualifiers: &Directives) -> Result<Option<Value>, Failure> {
        if key == keys::QUERY_NUM_PSETS.name() {
            return Ok(Some(Value::Size(self.0.len() as u64)));
        }
        if key == keys::QUERY_PSET_NAMES.name() {
            let names: Vec<_> = self.0.keys().map(String::as_str).collect();
            return Ok(Some(names.join(",").into()));
        }
        if key != keys::QUERY_PSET_MEMBERSHIP.name() {
            return Ok(None);
        }
        let name: String = qualifiers.get(&keys::PSET_NAME)?.ok_or_else(|| {
            let message = format!("{key} needs a process set: qualify it with {}", keys::PSET_NAME.name());
            Failure::new(Status::ERR_BAD_PARAM, message)
        })?;
        Ok(self.0.get(&name).map(|members| DataArray::Proc(members.clone()).into()))
    }
}

impl Engine {
    pub(super) fn on_define_pset(
        &mut self,
        name: String,
        members: Vec<ProcId>,
        out: &mut Out,
    ) -> Result<CallValue, Failure> {
        // a list of names is joined by commas
        if name.is_empty() || name.contains(',') || members.is_empty() {
            let message = "a process set needs members and a name without commas";
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        let event = Event::new(Status::PROCESS_SET_DEFINE, ProcId::none())
            .with_range(DataRange::LOCAL)
            .with_info(Info::new(&keys::PSET_NAME, &*name))
            .with_info(Info::new(&keys::PSET_MEMBERS, DataArray::Proc(members.clone())));
        match self.psets.0.entry(name) {
            Entry::Occupied(held) if *held.get() == members => return Ok(CallValue::Done),
            Entry::Occupied(held) => {
                let message = format!("process set {} has other members, and sets do not change", held.key());
                return Err(Failure::new(Status::ERR_EXISTS, message));
            }
            Entry::Vacant(free) => free.insert(members),
        };
        self.on_host_event(&event, out)
    }

    pub(super) fn on_delete_pset(&mut self, name: &str, out: &mut Out) -> Result<CallValue, Failure> {
        if self.psets.0.remove(name).is_none() {
            let message = format!("there is no process set {name}");
            return Err(Failure::new(Status::ERR_NOT_FOUND, message));
        }
        let event = Event::new(Status::PROCESS_SET_DELETE, ProcId::none())
            .with_range(DataRange::LOCAL)
            .with_info(Info::new(&keys::PSET_NAME, name));
        self.on_host_event(&event, out)
    }

    /// Names of the sets of a process: those that came with its job, then those defined here (PST-03).
    pub(super) fn pset_names(&self, given: Option<&Value>, proc: &ProcId) -> Option<Value> {
        let mut names = match given.and_then(Value::as_array) {
            Some(DataArray::String(names)) => names.clone(),
            _ => Vec::new(),
        };
        for name in self.psets.names_of(proc) {
            if !names.iter().any(|held| held == name) {
                names.push(name.to_owned());
            }
        }
        (!names.is_empty()).then(|| DataArray::String(names).into())
    }
}
