//! Groups: how many there are, what they are called, and who their members are.

use std::fmt;

use pmix_types::message::Failure;
use pmix_types::{DataArray, Directives, Nspace, ProcId, Status, Value, keys};

use super::known::Known;
use crate::Caller;

/// Whoever knows the groups: a noun that is built on this one.
pub(crate) trait Grouping: fmt::Debug {
    /// Their ids, in order.
    fn ids(&self) -> Vec<&Nspace>;

    /// The members that have not left it; `None` for an unknown group.
    fn members_of(&self, id: &str) -> Option<Vec<ProcId>>;
}

impl Known<'_> {
    /// The answer to a query, if it is about groups. Who may see one of the members may see the group.
    pub(super) fn group_answer(
        &self,
        asker: &Caller,
        key: &str,
        qualifiers: &Directives,
    ) -> Result<Option<Value>, Failure> {
        let groups = self.sources.groups;
        let shown = |id: &str| {
            let members = groups.members_of(id)?;
            let is_shown = |proc: &ProcId| self.cx.may_see(&asker.proc, asker.uid, &proc.nspace);
            members.iter().any(is_shown).then_some(members)
        };
        let all = || groups.ids().into_iter().filter(|id| shown(id).is_some());
        if key == keys::QUERY_NUM_GROUPS.name() {
            Ok(Some(Value::Size(all().count() as u64)))
        } else if key == keys::QUERY_GROUP_NAMES.name() {
            let names = all().map(|id| id.as_str().to_owned()).collect();
            Ok(Some(DataArray::String(names).into()))
        } else if key == keys::QUERY_GROUP_MEMBERSHIP.name() {
            let id: String = qualifiers.get(&keys::GROUP_ID)?.unwrap_or_default();
            match shown(&id) {
                Some(members) => Ok(Some(DataArray::Proc(members).into())),
                None => Err(Failure::new(Status::ERR_NOT_FOUND, format!("no group {id} is known here"))),
            }
        } else {
            Ok(None)
        }
    }
}
