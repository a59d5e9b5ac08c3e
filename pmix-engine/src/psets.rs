//! Process sets: names that the host gives to processes (PST-01).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pmix_types::message::Failure;
use pmix_types::{DataArray, DataRange, Directives, Event, Info, ProcId, Status, Value, keys};

use super::registry::Job;
use super::users::Voice;
use super::{CallValue, Caller, Engine};

/// Members by name. A set never changes.
#[derive(Debug, Default)]
pub(super) struct Psets(BTreeMap<String, Vec<ProcId>>);

impl Psets {
    /// Names of the sets that a process belongs to, in order.
    pub(super) fn names_of(&self, proc: &ProcId) -> impl Iterator<Item = &str> {
        let is_member = |members: &[ProcId]| members.iter().any(|member| member.matches(proc));
        self.0.iter().filter(move |(_, members)| is_member(members)).map(|(name, _)| name.as_str())
    }
}

impl Engine {
    /// The answer to a query, if it is about sets. Who may see one of the members may see the set.
    pub(super) fn pset_answer(
        &self,
        asker: &Caller,
        key: &str,
        qualifiers: &Directives,
    ) -> Result<Option<Value>, Failure> {
        let is_shown = |members: &[ProcId]| {
            members.iter().any(|proc| self.cx.may_see(&asker.proc, asker.uid, &proc.nspace))
        };
        let shown = self.psets.0.iter().filter(|(_, members)| is_shown(members));
        if key == keys::QUERY_NUM_PSETS.name() {
            return Ok(Some(Value::Size(shown.count() as u64)));
        }
        if key == keys::QUERY_PSET_NAMES.name() {
            let names: Vec<_> = shown.map(|(name, _)| name.as_str()).collect();
            return Ok(Some(names.join(",").into()));
        }
        if key != keys::QUERY_PSET_MEMBERSHIP.name() {
            return Ok(None);
        }
        let name: String = qualifiers.get(&keys::PSET_NAME)?.ok_or_else(|| {
            let message = format!("{key} needs a process set: qualify it with {}", keys::PSET_NAME.name());
            Failure::new(Status::ERR_BAD_PARAM, message)
        })?;
        let members = self.psets.0.get(&name).filter(|members| is_shown(members));
        Ok(members.map(|members| DataArray::Proc(members.clone()).into()))
    }

    /// Those who may see one of the members hear of a set.
    fn pset_voice(&self, members: &[ProcId]) -> Voice {
        let mut owners = members.iter().map(|proc| self.cx.jobs.get(&proc.nspace).and_then(Job::owner));
        match (owners.next().flatten(), members.first()) {
            (Some(uid), Some(first)) if owners.all(|other| other == Some(uid)) => {
                self.cx.voice_of(uid, first)
            }
            _ => Voice::Trusted,
        }
    }

    pub(super) fn on_define_pset(
        &mut self,
        name: String,
        members: Vec<ProcId>,
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
            Entry::Vacant(free) => free.insert(members.clone()),
        };
        self.tell_all(&event, &self.pset_voice(&members))
    }

    pub(super) fn on_delete_pset(&mut self, name: &str) -> Result<CallValue, Failure> {
        let Some(members) = self.psets.0.remove(name) else {
            let message = format!("there is no process set {name}");
            return Err(Failure::new(Status::ERR_NOT_FOUND, message));
        };
        let event = Event::new(Status::PROCESS_SET_DELETE, ProcId::none())
            .with_range(DataRange::LOCAL)
            .with_info(Info::new(&keys::PSET_NAME, name));
        self.tell_all(&event, &self.pset_voice(&members))
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
