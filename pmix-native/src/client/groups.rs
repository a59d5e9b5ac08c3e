//! Groups that this process belongs to. Servers do not know their ids as namespaces, so requests name the members.

use std::any::Any;
use std::collections::BTreeMap;

use pmix_types::job::JobData;
use pmix_types::message::Request;
use pmix_types::{Nspace, ProcId, for_each_request};

/// The members of each group, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups(BTreeMap<Nspace, Vec<ProcId>>);

impl Groups {
    pub(super) fn insert(&mut self, id: Nspace, members: Vec<ProcId>) {
        self.0.insert(id, members);
    }

    pub(super) fn remove(&mut self, id: &Nspace) -> Option<Vec<ProcId>> {
        self.0.remove(id)
    }

    pub(super) fn members(&self, id: &Nspace) -> &[ProcId] {
        self.0.get(id).map_or(&[], Vec::as_slice)
    }

    /// Names the processes themselves in a field of a request, where some are named as members of a group.
    fn resolve_field(&self, field: &mut dyn Any) {
        if let Some(procs) = field.downcast_mut::<Vec<ProcId>>() {
            self.resolve_all(procs);
        } else if let Some(Some(procs)) = field.downcast_mut::<Option<Vec<ProcId>>>() {
            self.resolve_all(procs);
        } else if let Some(proc) = field.downcast_mut::<ProcId>()
            && let [one] = self.one(proc.clone()).as_slice()
        {
            *proc = one.clone();
        }
    }

    fn resolve_all(&self, procs: &mut Vec<ProcId>) {
        if procs.iter().any(|proc| self.0.contains_key(&proc.nspace)) {
            *procs = std::mem::take(procs).into_iter().flat_map(|proc| self.one(proc)).collect();
        }
    }

    fn one(&self, proc: ProcId) -> Vec<ProcId> {
        let Some(members) = self.0.get(&proc.nspace) else { return vec![proc] };
        if proc.rank.is_wildcard() {
            return members.clone();
        }
        let at = usize::try_from(proc.rank.to_raw()).ok().and_then(|at| members.get(at));
        vec![at.cloned().unwrap_or(proc)]
    }
}

macro_rules! by_field {
    ($($name:ident $snake:ident { $($columns:tt)* } ($($field:ident)*) ($($rest:ident $(= $directives:literal)?)*))+) => {
        impl Groups {
            /// Names the processes themselves where a request names members of groups.
            pub(super) fn resolve(&self, request: &mut Request) {
                if self.0.is_empty() {
                    return;
                }
                match request {
                    $(Request::$name(request) => {
                        let _ = &request;
                        $(self.resolve_field(&mut request.$field);)*
                        $(self.resolve_field(&mut request.$rest);)*
                    })+
                }
            }
        }
    };
}
for_each_request!(by_field);

/// Most processes that are spelled out: a server may call a job as large as it likes.
const MAX_SPELLED_OUT: usize = 1 << 18;

/// The processes that a list of participants stands for, each once: those of a whole job one by one, where the job is known and
/// not too large.
pub(super) fn spelled_out<'a>(procs: &[ProcId], job: impl Fn(&Nspace) -> Option<&'a JobData>) -> Vec<ProcId> {
    let mut all = Vec::new();
    for proc in procs {
        let ranks =
            if proc.rank.is_wildcard() { job(&proc.nspace).and_then(JobData::all_ranks) } else { None };
        let room = MAX_SPELLED_OUT.saturating_sub(all.len()) as u64;
        match ranks.filter(|ranks| ranks.len() <= room) {
            Some(ranks) => all.extend(ranks.iter().map(|rank| proc.with_rank(rank))),
            None => all.push(proc.clone()),
        }
    }
    let mut seen = std::collections::HashSet::new();
    all.retain(|proc| seen.insert(proc.clone()));
    all
}

#[cfg(test)]
mod tests {
    use pmix_types::{KeyVal, Rank, keys};

    use super::super::job::job_data;
    use super::*;
    use crate::msg::NspaceData;

    /// A job of which only the size is known, as a server tells it.
    fn job(name: &str, size: u32) -> (Nspace, JobData) {
        let mut data = NspaceData::new(name.parse().unwrap());
        data.entries.push(KeyVal { key: keys::JOB_SIZE.key_name(), value: size.into() }.into());
        (data.nspace.clone(), job_data(None, data, "n0"))
    }

    #[test]
    fn jobs_that_are_too_large_are_not_spelled_out() {
        let most = u32::try_from(MAX_SPELLED_OUT).unwrap();
        let jobs =
            BTreeMap::from([job("most", most), job("more", most + 1), job("all", u32::MAX), job("two", 2)]);
        let all = |name: &str| ProcId::wildcard(name.parse().unwrap());
        let spelled = |names: &[&str]| {
            let procs: Vec<_> = names.iter().map(|name| all(name)).collect();
            spelled_out(&procs, |nspace| jobs.get(nspace))
        };
        let first = all("most").with_rank(Rank::from_raw(0));
        let whole = spelled(&["most"]);
        assert_eq!((whole.len(), &whole[0]), (MAX_SPELLED_OUT, &first));
        for name in ["more", "all", "unknown"] {
            assert_eq!(spelled(&[name]), [all(name)]);
        }
        // all of a list together
        let both = spelled(&["most", "two"]);
        assert_eq!((both.len(), both.last()), (MAX_SPELLED_OUT + 1, Some(&all("two"))));
        let two = [0, 1].map(|rank: u32| all("two").with_rank(Rank::from_raw(rank)));
        assert_eq!(spelled(&["all", "two", "two"]), [&[all("all")][..], &two].concat());
        assert_eq!(spelled(&["two", "most"])[..2], two);
    }
}
