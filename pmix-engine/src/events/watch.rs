use std::collections::{BTreeMap, BTreeSet};

use pmix_types::{Directives, Status};

use super::super::connect::push_identity;
use super::super::upcall::{DeregisterEventsRequest, RegisterEvents, Upcall};
use super::super::{Caller, Engine, UpcallPurpose, UpcallRequest};

/// Codes that the host may be asked to watch.
const MAX_WATCHED: usize = 4096;

/// What the host is asked to watch: each code once, as long as somebody wants it (HST-06).
///
/// A host that refuses is asked again with the next registration; what happens on this node is heard all the same.
#[derive(Debug, Default)]
pub(crate) struct Watch(BTreeMap<Status, Code>);

#[derive(Debug)]
struct Code {
    /// Registrations that name it.
    wanted: usize,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The host does not know of it, or has refused.
    Idle,
    /// The host is asked to watch it. Nothing else is asked meanwhile, as upcalls may overtake each other.
    Asking,
    Watched,
    /// The host is told that nobody wants it.
    Releasing,
}

/// Codes of an upcall.
#[derive(Debug)]
pub(crate) struct Watched {
    codes: Vec<Status>,
    is_start: bool,
}

impl Watch {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has_room_for(&self, codes: &[Status]) -> bool {
        self.0.len() + codes.iter().filter(|code| is_of_host(**code)).count() <= MAX_WATCHED
    }
}

impl Engine {
    /// Asks the host for those codes that only it can see and that it is not asked for yet.
    pub(super) fn watch_codes(&mut self, codes: &[Status], directives: Directives, caller: Caller) {
        if !self.cx.config.capabilities.has(Upcall::RegisterEvents) {
            return;
        }
        let mut fresh = Vec::new();
        for code in named_once(codes) {
            let held = self.events.watch.0.entry(code).or_insert(Code { wanted: 0, stage: Stage::Idle });
            held.wanted += 1;
            if held.stage == Stage::Idle {
                fresh.push(code);
            }
        }
        self.start_watch(fresh, directives, caller);
    }

    /// A registration of these codes has ended.
    pub(super) fn unwatch_codes(&mut self, codes: &[Status]) {
        let codes = named_once(codes);
        for code in &codes {
            if let Some(held) = self.events.watch.0.get_mut(code) {
                held.wanted -= 1;
            }
        }
        self.settle_watch(codes);
    }

    /// The host has answered.
    pub(crate) fn on_watch_answer(&mut self, watched: Watched, is_ok: bool) {
        let Watched { codes, is_start } = watched;
        for code in &codes {
            if let Some(held) = self.events.watch.0.get_mut(code) {
                held.stage = if is_start && is_ok { Stage::Watched } else { Stage::Idle };
            }
        }
        let mut again = Vec::new();
        if !is_start {
            // somebody has come meanwhile
            let is_wanted = |code: &Status| self.events.watch.0.get(code).is_some_and(|held| held.wanted > 0);
            again = codes.iter().copied().filter(is_wanted).collect();
        }
        self.settle_watch(codes);
        self.start_watch(again, Directives::new(), self.cx.self_caller());
    }

    fn start_watch(&mut self, codes: Vec<Status>, mut directives: Directives, caller: Caller) {
        if codes.is_empty() {
            return;
        }
        self.set_stage(&codes, Stage::Asking);
        push_identity(&mut directives, (caller.uid, caller.gid));
        let request = RegisterEvents::new(codes.clone()).with_directives(directives);
        let purpose = UpcallPurpose::Watch(Watched { codes, is_start: true });
        self.cx.upcall(purpose, caller, UpcallRequest::RegisterEvents(request));
    }

    /// Gives up those of the codes that nobody wants, as far as the host is not busy with them.
    fn settle_watch(&mut self, codes: Vec<Status>) {
        let mut over = Vec::new();
        for code in codes {
            match self.events.watch.0.get(&code) {
                Some(Code { wanted: 0, stage: Stage::Watched }) => over.push(code),
                Some(Code { wanted: 0, stage: Stage::Idle }) => {
                    self.events.watch.0.remove(&code);
                }
                _ => {}
            }
        }
        if over.is_empty() {
            return;
        }
        if !self.cx.config.capabilities.has(Upcall::DeregisterEvents) {
            self.events.watch.0.retain(|code, _| !over.contains(code));
            return;
        }
        self.set_stage(&over, Stage::Releasing);
        let request = DeregisterEventsRequest::new(over.clone());
        let purpose = UpcallPurpose::Watch(Watched { codes: over, is_start: false });
        self.cx.upcall(purpose, self.cx.self_caller(), UpcallRequest::DeregisterEvents(request));
    }

    fn set_stage(&mut self, codes: &[Status], stage: Stage) {
        for code in codes {
            if let Some(held) = self.events.watch.0.get_mut(code) {
                held.stage = stage;
            }
        }
    }
}

/// The host's among the codes, without repeats.
fn named_once(codes: &[Status]) -> Vec<Status> {
    let codes: BTreeSet<Status> = codes.iter().copied().filter(|code| is_of_host(*code)).collect();
    codes.into_iter().collect()
}

/// Codes that come only if the host is asked for them: events of the system, and those that are not the Standard's.
fn is_of_host(code: Status) -> bool {
    code.is_user_defined() || (Status::EVENT_SYS_OTHER..=Status::EVENT_SYS_BASE).contains(&code)
}
