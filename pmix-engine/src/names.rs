//! Names of groups and connected sets in requests are replaced by the members before anything else sees them (IDN-06, GRP-12,
//! CON-07).
//!
//! Collectives know the names of connected sets themselves: a fence of a set is another one than that of its members.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytes::Bytes;
use pmix_types::job::Target;
use pmix_types::message::*;
use pmix_types::trace::TraceContext;
use pmix_types::{
    AllocDirective, App, DataArray, Directives, Event, FabricOperation, GroupOpt, Info, IofChannels, Key,
    KeyName, Nspace, ProcId, Query, Rank, ResourceBlockDirective, ResourceUnit, Status, Value,
    for_each_request, keys,
};

use crate::Caller;
use crate::bootstrap::Bootstraps;
use crate::collective::Collectives;
use crate::connected::ConnectedSets;
use crate::context::Context;
use crate::group::{Groups, not_complete};
use crate::users::{not_own, rename_group};

/// What names may mean, for a caller.
pub(crate) struct Names<'a> {
    pub(crate) cx: &'a Context,
    pub(crate) groups: &'a Groups,
    pub(crate) sets: &'a ConnectedSets,
    pub(crate) collectives: &'a Collectives,
    pub(crate) bootstraps: &'a Bootstraps,
    pub(crate) by: &'a Caller,
}

/// A request, or a part of one, in which names are replaced.
pub(crate) trait ResolveNames {
    fn resolve(&mut self, names: &Names<'_>) -> Result<(), Failure>;
}

/// Directives that name several processes.
const LISTS: [&Key<DataArray>; 3] =
    [&keys::EVENT_CUSTOM_RANGE, &keys::EVENT_AFFECTED_PROCS, &keys::GROUP_ADD_MEMBERS];
/// Directives that name one.
const SINGLES: [&Key<ProcId>; 3] = [&keys::EVENT_AFFECTED_PROC, &keys::PARENT_ID, &keys::LOG_SOURCE];

/// Resolves a request field by field.
macro_rules! by_field {
    ($name:ident [own] $($field:ident)*) => {};
    ($name:ident [] $($field:ident)*) => {
        impl ResolveNames for $name {
            fn resolve(&mut self, names: &Names<'_>) -> Result<(), Failure> {
                $(self.$field.resolve(names)?;)*
                Ok(())
            }
        }
    };
}

macro_rules! requests {
    ($(
        $name:ident $snake:ident { names: [$($names:ident)?], $($columns:tt)* }
        ($($field:ident)*) ($($rest:ident $(= $directives:literal)?)*)
    )+) => {
        $(by_field! { $name [$($names)?] $($field)* $($rest)* })+

        impl ResolveNames for Request {
            fn resolve(&mut self, names: &Names<'_>) -> Result<(), Failure> {
                match self {
                    $(Self::$name(request) => request.resolve(names),)+
                }
            }
        }
    };
}

for_each_request!(requests);

macro_rules! nameless {
    ($($type:ty),+ $(,)?) => {$(
        impl ResolveNames for $type {
            #[inline]
            fn resolve(&mut self, _: &Names<'_>) -> Result<(), Failure> {
                Ok(())
            }
        }
    )+};
}
nameless!(
    i32,
    u64,
    String,
    Bytes,
    Option<u32>,
    Option<String>,
    Option<KeyName>,
    Option<TraceContext>,
    Vec<KeyName>,
    Vec<Info>,
    Vec<Status>,
    Vec<App>,
    Vec<PutEntry>,
    Vec<ResourceUnit>,
    Info,
    Status,
    AllocDirective,
    FabricOperation,
    GroupOpt,
    IofChannels,
    ResourceBlockDirective,
);

impl ResolveNames for ProcId {
    fn resolve(&mut self, names: &Names<'_>) -> Result<(), Failure> {
        names.drop_own_cluster(&mut self.nspace);
        if !names.is_name(&self.nspace) {
            return Ok(());
        }
        names.check_own([&*self])?;
        if let Some(member) = names.groups.member(&names.in_group(self)) {
            *self = member;
        }
        // a process may be named by its rank among those who have connected (CON-07)
        if let Some(member) = names.sets.member(self) {
            *self = member;
        }
        Ok(())
    }
}

impl ResolveNames for Vec<ProcId> {
    fn resolve(&mut self, names: &Names<'_>) -> Result<(), Failure> {
        names.resolve_procs(self)
    }
}

/// The participants of a fence.
impl ResolveNames for Option<Vec<ProcId>> {
    fn resolve(&mut self, names: &Names<'_>) -> Result<(), Failure> {
        self.as_mut().map_or(Ok(()), |procs| names.resolve_groups(procs))
    }
}

/// The id of a group.
impl ResolveNames for Nspace {
    fn resolve(&mut self, names: &Names<'_>) -> Result<(), Failure> {
        *self = names.group_id(self)?;
        Ok(())
    }
}

impl ResolveNames for Option<Nspace> {
    fn resolve(&mut self, names: &Names<'_>) -> Result<(), Failure> {
        self.iter_mut().for_each(|nspace| names.drop_own_cluster(nspace));
        Ok(())
    }
}

impl ResolveNames for Directives {
    fn resolve(&mut self, names: &Names<'_>) -> Result<(), Failure> {
        if self.is_empty() { Ok(()) } else { names.resolve_infos(self) }
    }
}

impl ResolveNames for Event {
    fn resolve(&mut self, names: &Names<'_>) -> Result<(), Failure> {
        names.name_group(&mut self.info)?;
        names.resolve_infos(&mut self.info)
    }
}

impl ResolveNames for Vec<Query> {
    fn resolve(&mut self, names: &Names<'_>) -> Result<(), Failure> {
        self.iter_mut().try_for_each(|query| {
            names.name_group(&mut query.qualifiers)?;
            names.resolve_qualifiers(&mut query.qualifiers);
            Ok(())
        })
    }
}

impl ResolveNames for Connect {
    fn resolve(&mut self, names: &Names<'_>) -> Result<(), Failure> {
        names.resolve_groups(&mut self.procs)
    }
}

impl ResolveNames for Disconnect {
    fn resolve(&mut self, names: &Names<'_>) -> Result<(), Failure> {
        names.resolve_groups(&mut self.procs)
    }
}

impl ResolveNames for GroupConstruct {
    fn resolve(&mut self, names: &Names<'_>) -> Result<(), Failure> {
        self.group.resolve(names)?;
        self.procs.resolve(names)?;
        names.check_own(&self.procs)?;
        self.directives.resolve(names)
    }
}

/// Whether a group of this id is there or about to be.
pub(crate) fn is_group(
    id: &Nspace,
    groups: &Groups,
    collectives: &Collectives,
    bootstraps: &Bootstraps,
) -> bool {
    collectives.is_group(id, groups) || bootstraps.has(id)
}

impl Names<'_> {
    fn is_group(&self, id: &Nspace) -> bool {
        is_group(id, self.groups, self.collectives, self.bootstraps)
    }

    /// The id by which the server knows what the caller calls so.
    fn group_id(&self, id: &Nspace) -> Result<Nspace, Failure> {
        self.cx.config.group_of_user(self.by.uid, id).map(Cow::into_owned)
    }

    /// Puts that id in the place of the one in infos. What is no id names no group.
    fn name_group(&self, infos: &mut Directives) -> Result<(), Failure> {
        rename_group(infos, |id| match Nspace::new(id) {
            Ok(id) => self.group_id(&id).map(|id| id.to_string()),
            Err(_) => Ok(id.to_owned()),
        })
    }

    /// A name, if it is that of a group, with the id by which the server knows it.
    fn in_group<'b>(&self, name: &'b ProcId) -> Cow<'b, ProcId> {
        match self.cx.config.group_of_user(self.by.uid, &name.nspace) {
            Ok(Cow::Owned(id)) => Cow::Owned(ProcId::new(id, name.rank)),
            _ => Cow::Borrowed(name),
        }
    }

    fn resolve_groups(&self, procs: &mut Vec<ProcId>) -> Result<(), Failure> {
        self.replace(procs, |proc| self.members_of_group(proc))?;
        self.check_own(&*procs)
    }

    fn resolve_procs(&self, procs: &mut Vec<ProcId>) -> Result<(), Failure> {
        self.replace(procs, |proc| {
            self.members_of_group(proc).or_else(|| self.sets.named(proc, self.by, self.cx))
        })
    }

    /// A namespace of one's own cluster is known here without the name of the cluster (IDN-05).
    fn drop_own_cluster(&self, nspace: &mut Nspace) {
        if !nspace.contains(':') || self.cx.jobs.contains_key(nspace) {
            return;
        }
        let job = self.cx.jobs.get(&self.by.proc.nspace).or_else(|| self.cx.jobs.values().next());
        let own = job.and_then(|job| job.data.lookup(keys::CLUSTER_ID.name(), &Target::Job));
        let is_own = |cluster: &str| matches!(&own, Some(Value::String(own)) if own == cluster);
        if let (Some(_), name) = nspace.split_cluster(is_own)
            && let Ok(name) = Nspace::new(name)
        {
            *nspace = name;
        }
    }

    fn resolve_qualifiers(&self, qualifiers: &mut Directives) {
        let named = qualifiers.iter().any(|info| match &info.value {
            Value::Proc(proc) => proc.nspace.contains(':'),
            Value::String(nspace) => info.is(&keys::NSPACE.text()) && nspace.contains(':'),
            _ => false,
        });
        if !named {
            return;
        }
        let mut infos = std::mem::take(qualifiers).into_vec();
        for info in &mut infos {
            match &mut info.value {
                Value::Proc(proc) => self.drop_own_cluster(&mut proc.nspace),
                Value::String(text) if *info.key == *keys::NSPACE.name() => {
                    if let Ok(mut nspace) = Nspace::new(text.as_str()) {
                        self.drop_own_cluster(&mut nspace);
                        *text = nspace.to_string();
                    }
                }
                _ => {}
            }
        }
        *qualifiers = infos.into();
    }

    /// Puts what names mean in their place; `None` for the name of a process.
    fn replace(
        &self,
        procs: &mut Vec<ProcId>,
        members: impl Fn(&ProcId) -> Option<Result<Vec<ProcId>, Failure>>,
    ) -> Result<(), Failure> {
        procs.iter_mut().for_each(|proc| self.drop_own_cluster(&mut proc.nspace));
        let is_known = |name: &&Nspace| self.is_name(name) && !self.is_strange(name);
        let known: BTreeSet<_> = nspaces_of(&*procs).into_iter().filter(is_known).cloned().collect();
        if known.is_empty() {
            return Ok(());
        }
        // each name and each member once: a short list of large groups must not become a very long one
        let (mut names, mut met, mut all) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for proc in procs.drain(..) {
            if !names.insert(proc.clone()) {
                continue;
            }
            let meant = if known.contains(&proc.nspace) { members(&proc) } else { None };
            let meant = meant.unwrap_or_else(|| Ok(vec![proc]))?;
            all.extend(meant.into_iter().filter(|proc| met.insert(proc.clone())));
        }
        *procs = all;
        Ok(())
    }

    /// Whether it is the name of a group or connected set.
    fn is_name(&self, name: &Nspace) -> bool {
        let Self { cx, sets, by, .. } = self;
        let is_group = || cx.config.group_of_user(by.uid, name).is_ok_and(|id| self.is_group(&id));
        !cx.jobs.contains_key(name) && (is_group() || sets.id_of(name).is_some())
    }

    /// Whether it is the name of a connected set that the caller may not know. Where the caller may name any process, such a
    /// name is left as it is and matches no process.
    fn is_strange(&self, name: &Nspace) -> bool {
        !self.cx.jobs.contains_key(name) && self.sets.is_strange(name, self.by, self.cx)
    }

    /// Refuses such names in the same way as jobs of another user.
    fn check_own<'a>(&self, procs: impl IntoIterator<Item = &'a ProcId>) -> Result<(), Failure> {
        let strange = nspaces_of(procs).into_iter().find(|name| self.is_strange(name));
        strange.map_or(Ok(()), |name| Err(not_own(self.by.uid, name)))
    }

    fn members_of_group(&self, proc: &ProcId) -> Option<Result<Vec<ProcId>, Failure>> {
        let proc = &*self.in_group(proc);
        // a group cannot be used before it is complete (GRP-08)
        let incomplete = || self.is_group(&proc.nspace).then(|| Err(not_complete(&proc.nspace)));
        self.groups.named(proc).or_else(incomplete)
    }

    fn resolve_infos(&self, infos: &mut Directives) -> Result<(), Failure> {
        for key in LISTS {
            let mut procs = match infos.get_value(key.name()) {
                // C programs write a single process this way
                Some(Value::Proc(proc)) => vec![proc.clone()],
                Some(Value::DataArray(array)) => match &**array {
                    DataArray::Proc(procs) => procs.clone(),
                    _ => continue,
                },
                _ => continue,
            };
            let before = procs.clone();
            self.resolve_procs(&mut procs)?;
            if procs != before {
                put(infos, Info::new(key, DataArray::Proc(procs)));
            }
        }
        for key in SINGLES {
            let Some(Value::Proc(proc)) = infos.get_value(key.name()) else { continue };
            let (mut procs, before) = (vec![proc.clone()], proc.clone());
            self.resolve_procs(&mut procs)?;
            match &procs[..] {
                [one] if *one == before => {}
                [one] => put(infos, Info::new(key, one.clone())),
                // where one process is meant, a name of several stays what it is
                _ if *key.name() != *keys::EVENT_AFFECTED_PROC.name() => {}
                _ => {
                    infos.remove(key);
                    put(infos, Info::new(&keys::EVENT_AFFECTED_PROCS, DataArray::Proc(procs)));
                }
            }
        }
        Ok(())
    }

    /// What a query means by the names of connected sets; `None` if it names none.
    pub(crate) fn meant(&self, qualifiers: &Directives) -> Option<Meant> {
        let ranks: Vec<Rank> = qualifiers
            .iter()
            .filter(|info| info.is(&keys::RANK))
            .filter_map(|info| info.get().ok())
            .collect();
        let (mut meant, mut has_set) = (Meant::default(), false);
        for info in qualifiers.iter() {
            let named = match &info.value {
                Value::Proc(proc) if info.is(&keys::PROCID) => vec![proc.clone()],
                Value::String(nspace) if info.is(&keys::NSPACE.text()) => {
                    let all = ProcId::wildcard(Nspace::new(nspace.as_str()).ok()?);
                    if ranks.is_empty() {
                        vec![all]
                    } else {
                        ranks.iter().map(|rank| all.with_rank(*rank)).collect()
                    }
                }
                // it stands with the namespace now
                _ if info.is(&keys::RANK) => continue,
                _ => {
                    meant.qualifiers.push(info.clone());
                    continue;
                }
            };
            for name in named {
                let is_proc = info.is(&keys::PROCID) || !name.rank.is_wildcard();
                let members = match self.cx.jobs.contains_key(&name.nspace) {
                    true => None,
                    false => self.sets.named(&name, self.by, self.cx),
                };
                has_set |= members.is_some();
                for member in members.and_then(Result::ok).unwrap_or_else(|| vec![name]) {
                    meant.push(member, is_proc);
                }
            }
        }
        has_set.then_some(meant)
    }
}

/// What a query means that names a connected set.
#[derive(Debug, Default)]
pub(crate) struct Meant {
    /// The qualifiers, by the members' own namespaces.
    pub(crate) qualifiers: Directives,
    /// The processes: a wildcard for all of a namespace.
    pub(crate) procs: Vec<ProcId>,
}

impl Meant {
    /// A process that was named, or one of those of a namespace that was.
    fn push(&mut self, proc: ProcId, is_proc: bool) {
        let info = match is_proc {
            true => Info::new(&keys::PROCID, proc.clone()),
            false => Info::new(&keys::NSPACE.text(), proc.nspace.as_str()),
        };
        if !self.qualifiers.iter().any(|held| *held == info) {
            self.qualifiers.push(info);
        }
        self.procs.push(proc);
    }
}

/// Each namespace once, as it takes time to find out what one means, and lists are long.
fn nspaces_of<'a>(procs: impl IntoIterator<Item = &'a ProcId>) -> BTreeSet<&'a Nspace> {
    procs.into_iter().map(|proc| &proc.nspace).collect()
}

/// Puts a directive in the place of one with its key.
fn put(infos: &mut Directives, info: Info) {
    let others: Vec<_> = infos.iter().filter(|held| held.key != info.key).cloned().collect();
    *infos = others.into();
    infos.push(info);
}
