//! Process sets: names that the host gives to processes (PST-01).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pmix_types::message::Failure;
use pmix_types::{DataArray, DataRange, Directives, Event, Info, ProcId, Status, Value, keys};

use crate::Caller;
use crate::context::Context;
use crate::jobs::Job;
use crate::users::Voice;

/// Members by name. A set never changes.
#[derive(Debug, Default)]
pub(crate) struct Psets(BTreeMap<String, Vec<ProcId>>);

impl Psets {
    /// Names of the sets that a process belongs to, in order.
    fn names_of(&self, proc: &ProcId) -> impl Iterator<Item = &str> {
        let is_member = |members: &[ProcId]| members.iter().any(|member| member.matches(proc));
        self.0.iter().filter(move |(_, members)| is_member(members)).map(|(name, _)| name.as_str())
    }

    /// Names of the sets of a process: those that came with its job, then those defined here (PST-03).
    pub(crate) fn names_with(&self, given: Option<&Value>, proc: &ProcId) -> Option<Value> {
        let mut names = match given.and_then(Value::as_array) {
            Some(DataArray::String(names)) => names.clone(),
            _ => Vec::new(),
        };
        for name in self.names_of(proc) {
            if !names.iter().any(|held| held == name) {
                names.push(name.to_owned());
            }
        }
        (!names.is_empty()).then(|| DataArray::String(names).into())
    }

    /// The answer to a query, if it is about sets. Who may see one of the members may see the set.
    pub(crate) fn answer(
        &self,
        asker: &Caller,
        key: &str,
        qualifiers: &Directives,
        cx: &Context,
    ) -> Result<Option<Value>, Failure> {
        let is_shown =
            |members: &[ProcId]| members.iter().any(|proc| cx.may_see(&asker.proc, asker.uid, &proc.nspace));
        let shown = self.0.iter().filter(|(_, members)| is_shown(members));
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
        let members = self.0.get(&name).filter(|members| is_shown(members));
        Ok(members.map(|members| DataArray::Proc(members.clone()).into()))
    }

    /// Defines a set; returns the event that tells of it, if it is new.
    pub(crate) fn define(
        &mut self,
        name: String,
        members: Vec<ProcId>,
        cx: &Context,
    ) -> Result<Option<(Event, Voice)>, Failure> {
        // a list of names is joined by commas
        if name.is_empty() || name.contains(',') || members.is_empty() {
            let message = "a process set needs members and a name without commas";
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        let event = Event::new(Status::PROCESS_SET_DEFINE, ProcId::none())
            .with_range(DataRange::LOCAL)
            .with_info(Info::new(&keys::PSET_NAME, &*name))
            .with_info(Info::new(&keys::PSET_MEMBERS, DataArray::Proc(members.clone())));
        match self.0.entry(name) {
            Entry::Occupied(held) if *held.get() == members => return Ok(None),
            Entry::Occupied(held) => {
                let message = format!("process set {} has other members, and sets do not change", held.key());
                return Err(Failure::new(Status::ERR_EXISTS, message));
            }
            Entry::Vacant(free) => free.insert(members.clone()),
        };
        Ok(Some((event, voice_of(&members, cx))))
    }

    /// Deletes a set; returns the event that tells of it.
    pub(crate) fn delete(&mut self, name: &str, cx: &Context) -> Result<(Event, Voice), Failure> {
        let Some(members) = self.0.remove(name) else {
            let message = format!("there is no process set {name}");
            return Err(Failure::new(Status::ERR_NOT_FOUND, message));
        };
        let event = Event::new(Status::PROCESS_SET_DELETE, ProcId::none())
            .with_range(DataRange::LOCAL)
            .with_info(Info::new(&keys::PSET_NAME, name));
        Ok((event, voice_of(&members, cx)))
    }
}

/// Who may see one of the members of a set may hear of it.
fn voice_of(members: &[ProcId], cx: &Context) -> Voice {
    let mut owners = members.iter().map(|proc| cx.jobs.get(&proc.nspace).and_then(Job::owner));
    match (owners.next().flatten(), members.first()) {
        (Some(uid), Some(first)) if owners.all(|other| other == Some(uid)) => cx.voice_of(uid, first),
        _ => Voice::Trusted,
    }
}
