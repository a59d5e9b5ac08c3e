//! Groups made by bootstrap (GRP-02): leaders name themselves, how many they are, and whom they add. No server knows the
//! members before all leaders have called, so the host finds out who they are; they then enter a construct as any
//! other.

use std::collections::BTreeMap;
use std::time::Instant;

use pmix_types::message::{Failure, GroupConstruct};
use pmix_types::why::Wait;
use pmix_types::{DataArray, Directives, Memory, Nspace, ProcId, Status, keys};

use super::collective::Entry;
use super::context::{Context, Owner};
use super::group::{GroupTerms, MAX_GROUPS_OF_PROC, add_terms, one_by_one, terms_of};
use super::invite::Below;
use super::timers::{Timer, deadline};
use super::upcall::{BootstrapRequest, Bootstrapped, Upcall};
use super::{Answer, Asked, UpcallId, UpcallRequest, not_supported};

/// Bytes that the list of processes may take that a leader adds: it goes to another node, and is kept there.
const MAX_ADDED: usize = 4 << 20;

/// Processes of this node that wait until the members of their group are known.
#[derive(Debug, Default)]
pub(crate) struct Bootstraps(BTreeMap<UpcallId, BootstrapCaller>);

/// A process that has called.
#[derive(Debug)]
struct BootstrapCaller {
    asked: Asked,
    group: Nspace,
    directives: Directives,
    deadline: Option<Instant>,
    leads: bool,
    /// It has ended or finalized, and has its answer.
    is_gone: bool,
}

/// Whether a construct is one by bootstrap: it says how many lead it, or names nobody.
pub(crate) fn is_meant(construct: &GroupConstruct) -> bool {
    let names_some = |key| construct.directives.get_value(key).is_some();
    construct.procs.is_empty()
        || names_some(keys::GROUP_BOOTSTRAP.name())
        || names_some(keys::GROUP_ADD_MEMBERS.name())
}

impl Bootstraps {
    pub(crate) fn waiting(&self) -> usize {
        self.0.len()
    }

    /// Whether a process of this node waits for the members of this group.
    pub(crate) fn has(&self, id: &Nspace) -> bool {
        self.0.values().any(|caller| caller.group == *id)
    }

    pub(crate) fn waits<'a>(&'a self, cx: &'a Context) -> impl Iterator<Item = Wait> + 'a {
        self.0.iter().map(|(upcall, caller)| {
            let mut wait = cx.wait(upcall.0, "group bootstrap", Some(caller.asked.at));
            wait.about = Some(caller.group.to_string());
            wait.left = cx.left(caller.deadline);
            wait.expected.insert(&caller.asked.by.proc);
            wait.arrived.insert(&caller.asked.by.proc);
            wait.at_host = true;
            wait
        })
    }

    pub(crate) fn on_construct(
        &mut self,
        asked: Asked,
        construct: GroupConstruct,
        below: &Below<'_>,
        cx: &mut Context,
    ) {
        let to = asked.to;
        // a process that begins anew is no longer the one that has called
        let is_former = |caller: &BootstrapCaller| {
            caller.is_gone && caller.asked.by.proc == asked.by.proc && caller.group == construct.group
        };
        let former = self.0.iter().find(|(_, caller)| is_former(caller)).map(|(upcall, _)| *upcall);
        if let Some(former) = former {
            self.0.remove(&former);
            cx.cancel_upcall(former);
        }
        match self.check(&asked, construct, below, cx) {
            Err(failure) => cx.reply(to, Err(failure)),
            Ok((request, directives, deadline)) => {
                let (group, leads) = (request.group.clone(), request.leaders.is_some());
                let Ok(group) = Nspace::new(group) else { return };
                let request = UpcallRequest::Bootstrap(request);
                let upcall = cx.upcall(Owner::Bootstrap, asked.by.clone(), request);
                cx.timers.set(deadline, Timer::Bootstrap(upcall));
                self.0.insert(
                    upcall,
                    BootstrapCaller { asked, group, directives, deadline, leads, is_gone: false },
                );
            }
        }
    }

    /// What the host is asked, the other directives, and until when the caller waits.
    fn check(
        &self,
        asked: &Asked,
        construct: GroupConstruct,
        below: &Below<'_>,
        cx: &Context,
    ) -> Result<(BootstrapRequest, Directives, Option<Instant>), Failure> {
        let GroupConstruct { group: id, procs, mut directives, .. } = construct;
        let bad = |message: &str| Err(Failure::new(Status::ERR_BAD_PARAM, format!("group {id}: {message}")));
        let caller = &asked.by.proc;
        if id.is_empty() {
            return bad("a group needs an id");
        }
        let leaders = directives.take(&keys::GROUP_BOOTSTRAP)?;
        let added = match directives.take(&keys::GROUP_ADD_MEMBERS)? {
            None => Vec::new(),
            Some(DataArray::Proc(procs)) => procs,
            Some(_) => return bad("GROUP_ADD_MEMBERS is not a list of processes"),
        };
        // it is all that the construct itself is not told
        directives.remove(&keys::GROUP_BOOTSTRAP);
        directives.remove(&keys::GROUP_ADD_MEMBERS);
        match leaders {
            Some(0) => return bad("GROUP_BOOTSTRAP is the number of leaders, which is 1 or more"),
            Some(_) if procs.iter().any(|proc| proc != caller) || procs.is_empty() => {
                return bad("a leader passes itself alone; GROUP_ADD_MEMBERS names those who do not lead");
            }
            None if !procs.is_empty() => {
                let message = "GROUP_ADD_MEMBERS needs GROUP_BOOTSTRAP, or members that are not listed would not know of it";
                return Err(not_supported(message));
            }
            None if !added.is_empty() => return bad("only a leader adds members"),
            _ => {}
        }
        if !cx.config.capabilities.has(Upcall::Bootstrap) {
            return Err(not_supported("constructing a group by bootstrap"));
        }
        let added = one_by_one(&added, cx);
        let is_process =
            |proc: &ProcId| !proc.nspace.is_empty() && (proc.rank.is_wildcard() || proc.rank.is_valid());
        if let Some(nobody) = added.iter().find(|proc| !is_process(proc)) {
            return bad(&format!("{nobody} cannot be a member"));
        }
        if added.memory() > MAX_ADDED {
            let message =
                format!("the list of members takes {} bytes, the limit is {MAX_ADDED}", added.memory());
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        cx.check_partners(asked, added.iter().map(|proc| &proc.nspace))?;
        let own = |held: &&BootstrapCaller| held.asked.by.proc == *caller;
        if self.0.values().filter(own).any(|held| held.group == id)
            || below.collectives.is_constructing(&id, caller)
        {
            let message = format!("{caller} is constructing group {id} already");
            return Err(Failure::new(Status::ERR_INVALID_OPERATION, message));
        }
        if self.0.values().filter(own).count() >= MAX_GROUPS_OF_PROC {
            let message = format!("{caller} is constructing {MAX_GROUPS_OF_PROC} groups, which is the limit");
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        below.collectives.check_new_group(&id, caller, &below.lower, cx)?;
        // the others would wait for one who cannot enter (GEN-07)
        GroupTerms::take(&mut directives.clone())?;
        let until = deadline(asked.at, &mut directives)?;
        let terms = terms_of(&directives).collect();
        let request = BootstrapRequest::new(id.to_string(), leaders, added).with_directives(terms);
        Ok((request, directives, until))
    }

    /// The members are known: the process enters the construct with them.
    pub(crate) fn on_answer(
        &mut self,
        upcall: UpcallId,
        result: Result<Answer, Failure>,
        below: &mut Below<'_>,
        cx: &mut Context,
    ) {
        let Some(caller) = self.0.remove(&upcall) else { return };
        let BootstrapCaller { asked, group, mut directives, deadline, is_gone, .. } = caller;
        cx.timers.clear(deadline, Timer::Bootstrap(upcall));
        // the others learn of its end in the construct, but a clone goes on for it (IDN-07)
        if is_gone || !cx.is_connected(&asked.by.proc) {
            return;
        }
        let bootstrapped = result.and_then(|answer| {
            Bootstrapped::try_from(answer).map_err(|other| {
                let message = format!("the host answered a group bootstrap with {other:?}");
                Failure::new(Status::ERROR, message)
            })
        });
        match bootstrapped {
            Err(failure) => cx.reply(asked.to, Err(failure)),
            Ok(Bootstrapped { leaders, members, directives: terms, .. }) => {
                add_terms(&mut directives, &terms);
                let entry = Entry::bootstrapped(group, members, directives, leaders, deadline);
                below.collectives.enter(&asked, entry, &mut below.lower, cx);
            }
        }
    }

    pub(crate) fn on_timeout(&mut self, upcall: UpcallId, cx: &mut Context) {
        let Some(BootstrapCaller { asked, group, leads, .. }) = self.0.remove(&upcall) else { return };
        cx.cancel_upcall(upcall);
        let why = if leads {
            "not all leaders have called"
        } else {
            "its leaders have not all called, or not added it"
        };
        let message = format!("group {group}: {why} in time");
        cx.reply(asked.to, Err(Failure::new(Status::ERR_TIMEOUT, message)));
    }

    /// A process has ended or finalized. That it has called still counts, so that the others learn of its end in the
    /// construct, and do not wait for it (GRP-06).
    pub(crate) fn proc_gone(&mut self, proc: &ProcId, cx: &mut Context) {
        let is_its = |caller: &BootstrapCaller| caller.asked.by.proc == *proc && !caller.is_gone;
        for (upcall, caller) in self.0.iter_mut().filter(|(_, caller)| is_its(caller)) {
            caller.is_gone = true;
            cx.timers.clear(caller.deadline.take(), Timer::Bootstrap(*upcall));
            let message = format!("group {}: {proc} has ended or finalized", caller.group);
            cx.reply(caller.asked.to, Err(Failure::new(Status::ERR_LOST_CONNECTION, message)));
        }
    }

    /// A namespace is gone, and with it all that its processes have called.
    pub(crate) fn nspace_gone(&mut self, nspace: &Nspace, why: &str, cx: &mut Context) {
        self.0.retain(|upcall, caller| {
            let is_gone = caller.asked.by.proc.nspace == *nspace;
            if is_gone {
                cx.timers.clear(caller.deadline, Timer::Bootstrap(*upcall));
                cx.cancel_upcall(*upcall);
                // who has finalized has its answer, and its connection may still be there
                if !caller.is_gone {
                    let failure = Failure::new(Status::ERR_INVALID_NAMESPACE, why);
                    cx.reply(caller.asked.to, Err(failure));
                }
            }
            !is_gone
        });
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
