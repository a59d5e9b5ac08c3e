//! Names of groups in requests are replaced by the members before anything else sees them (IDN-06, GRP-12).

use std::collections::BTreeSet;

use pmix_types::message::{Failure, Request};
use pmix_types::{DataArray, Directives, Info, Key, Nspace, ProcId, Status, Value, keys};

use super::groups::Groups;
use crate::context::Context;

impl Groups {
    /// Replaces the names of groups by their members; `is_group` also knows the groups that are being made.
    pub(crate) fn resolve(
        &self,
        request: &mut Request,
        is_group: impl Fn(&Nspace) -> bool,
        cx: &Context,
    ) -> Result<(), Failure> {
        let names = Names { cx, groups: self, is_group };
        match request {
            Request::Get(get) => {
                if let Some(member) = self.member(&get.proc) {
                    get.proc = member;
                }
                Ok(())
            }
            Request::Fence(fence) => fence.procs.as_mut().map_or(Ok(()), |procs| names.resolve_procs(procs)),
            Request::Connect(connect) => names.resolve_procs(&mut connect.procs),
            Request::Disconnect(disconnect) => names.resolve_procs(&mut disconnect.procs),
            Request::GroupConstruct(construct) => names.resolve_procs(&mut construct.procs),
            Request::GroupInvite(invite) => names.resolve_procs(&mut invite.procs),
            Request::Abort(abort) => names.resolve_procs(&mut abort.procs),
            Request::JobControl(control) => names.resolve_procs(&mut control.targets),
            Request::IofPull(pull) => names.resolve_procs(&mut pull.procs),
            Request::IofPush(input) => names.resolve_procs(&mut input.targets),
            Request::RegisterEvents(registration) => names.resolve_infos(&mut registration.directives),
            Request::Notify(event) => names.resolve_infos(&mut event.info),
            Request::Monitor(monitor) => names.resolve_infos(&mut monitor.directives),
            _ => Ok(()),
        }
    }
}

struct Names<'a, F> {
    cx: &'a Context,
    groups: &'a Groups,
    is_group: F,
}

impl<F: Fn(&Nspace) -> bool> Names<'_, F> {
    fn resolve_procs(&self, procs: &mut Vec<ProcId>) -> Result<(), Failure> {
        let is_name =
            |proc: &ProcId| !self.cx.jobs.contains_key(&proc.nspace) && (self.is_group)(&proc.nspace);
        if !procs.iter().any(is_name) {
            return Ok(());
        }
        // each name and each member once: a short list of large groups must not become a very long one
        let (mut names, mut met, mut members) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for proc in procs.drain(..) {
            if !names.insert(proc.clone()) {
                continue;
            }
            let meant = match self.groups.named(&proc) {
                Some(meant) => meant?,
                // a group cannot be used before it is complete (GRP-08)
                None if (self.is_group)(&proc.nspace) => return Err(not_complete(&proc.nspace)),
                None => vec![proc],
            };
            members.extend(meant.into_iter().filter(|proc| met.insert(proc.clone())));
        }
        *procs = members;
        Ok(())
    }

    fn resolve_infos(&self, infos: &mut Directives) -> Result<(), Failure> {
        const LISTS: [&Key<DataArray>; 2] = [&keys::EVENT_CUSTOM_RANGE, &keys::EVENT_AFFECTED_PROCS];
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
                infos.remove(key);
                infos.push(Info::new(key, DataArray::Proc(procs)));
            }
        }
        Ok(())
    }
}

pub(crate) fn not_complete(id: &Nspace) -> Failure {
    let message = format!("group {id} cannot be used or left before its construction is complete");
    Failure::new(Status::ERR_INVALID_OPERATION, message)
}
