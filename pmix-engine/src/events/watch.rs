use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use pmix_types::{Directives, Status, Uid};

use crate::context::{Context, Owner};
use crate::upcall::{DeregisterEventsRequest, RegisterEvents, Upcall};
use crate::users::push_identity;
use crate::{Caller, UpcallId, UpcallRequest};

/// Limit for the codes that the host is asked to watch.
const MAX_WATCHED: usize = 4096;
/// Of these, codes for which processes of a user other than the server's own and root have registered.
const MAX_WATCHED_OF_USER: usize = MAX_WATCHED / 4;

/// The codes that the host is asked to watch: each once, as long as a registration names it (HST-06).
///
/// A host that refuses is asked again at the next registration. Events of this node are delivered in any case.
#[derive(Debug, Default)]
pub(super) struct Watch {
    codes: BTreeMap<Status, Code>,
    /// How many registrations of each user name each code.
    of_users: BTreeMap<Uid, BTreeMap<Status, usize>>,
    /// Upcalls that the host has not answered yet.
    asked: BTreeMap<UpcallId, WatchUpcall>,
}

#[derive(Debug)]
struct Code {
    /// Number of registrations that name it.
    wanted: usize,
    stage: WatchStage,
}

/// How far the host is with watching a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchStage {
    /// The host has not been asked, or has refused.
    Idle,
    /// The host is being asked to watch it. Nothing else is asked meanwhile, as upcalls may overtake each other.
    Asking,
    Watched,
    /// The host is being told that nobody is registered for it.
    Releasing,
}

/// An upcall that starts or ends the watching of these codes.
#[derive(Debug)]
struct WatchUpcall {
    codes: Vec<Status>,
    is_start: bool,
}

impl Watch {
    pub(super) fn is_empty(&self) -> bool {
        self.codes.is_empty() && self.asked.is_empty()
    }

    pub(super) fn has_room_for(&self, codes: &[Status]) -> bool {
        let fresh = named_once(codes).into_iter().filter(|code| !self.codes.contains_key(code)).count();
        self.codes.len() + fresh <= MAX_WATCHED
    }

    /// Whether processes of a user may register for these as well.
    pub(super) fn has_share_for(&self, uid: Uid, codes: &[Status]) -> bool {
        let held = self.of_users.get(&uid);
        let is_fresh = |code: &Status| !held.is_some_and(|held| held.contains_key(code));
        let fresh = named_once(codes).into_iter().filter(is_fresh).count();
        fresh == 0 || held.map_or(0, BTreeMap::len) + fresh <= MAX_WATCHED_OF_USER
    }

    /// Asks the host to watch those codes that only it can see and that it does not watch yet.
    pub(super) fn add(&mut self, codes: &[Status], directives: Directives, caller: Caller, cx: &mut Context) {
        if !cx.config.capabilities.has(Upcall::RegisterEvents) {
            return;
        }
        let mut fresh = Vec::new();
        for code in named_once(codes) {
            let held = self.codes.entry(code).or_insert(Code { wanted: 0, stage: WatchStage::Idle });
            held.wanted += 1;
            *self.of_users.entry(caller.uid).or_default().entry(code).or_default() += 1;
            if held.stage == WatchStage::Idle {
                fresh.push(code);
            }
        }
        self.start(fresh, directives, caller, cx);
    }

    /// A registration of a user for these codes has ended.
    pub(super) fn remove(&mut self, uid: Uid, codes: &[Status], cx: &mut Context) {
        let codes = named_once(codes);
        if let Entry::Occupied(mut of_user) = self.of_users.entry(uid) {
            of_user.get_mut().retain(|code, count| {
                *count -= usize::from(codes.binary_search(code).is_ok());
                *count > 0
            });
            if of_user.get().is_empty() {
                of_user.remove();
            }
        }
        for code in &codes {
            if let Some(held) = self.codes.get_mut(code) {
                held.wanted -= 1;
            }
        }
        self.settle(codes, cx);
    }

    pub(super) fn on_answer(&mut self, upcall: UpcallId, is_ok: bool, cx: &mut Context) {
        let Some(WatchUpcall { codes, is_start }) = self.asked.remove(&upcall) else { return };
        self.set_stage(&codes, if is_start && is_ok { WatchStage::Watched } else { WatchStage::Idle });
        let mut again = Vec::new();
        if !is_start {
            // somebody has registered meanwhile
            let is_wanted = |code: &Status| self.codes.get(code).is_some_and(|held| held.wanted > 0);
            again = codes.iter().copied().filter(is_wanted).collect();
        }
        self.settle(codes, cx);
        self.start(again, Directives::new(), cx.self_caller(), cx);
    }

    fn start(&mut self, codes: Vec<Status>, mut directives: Directives, caller: Caller, cx: &mut Context) {
        if codes.is_empty() {
            return;
        }
        self.set_stage(&codes, WatchStage::Asking);
        push_identity(&mut directives, caller.uid, caller.gid);
        let request = RegisterEvents::new(codes.clone()).with_directives(directives);
        let upcall = cx.upcall(Owner::Watch, caller, UpcallRequest::RegisterEvents(request));
        self.asked.insert(upcall, WatchUpcall { codes, is_start: true });
    }

    /// Ends the watching of codes that nobody is registered for, unless an upcall about them is under way.
    fn settle(&mut self, codes: Vec<Status>, cx: &mut Context) {
        let mut over = Vec::new();
        for code in codes {
            match self.codes.get(&code) {
                Some(Code { wanted: 0, stage: WatchStage::Watched }) => over.push(code),
                Some(Code { wanted: 0, stage: WatchStage::Idle }) => {
                    self.codes.remove(&code);
                }
                _ => {}
            }
        }
        if over.is_empty() {
            return;
        }
        if !cx.config.capabilities.has(Upcall::DeregisterEvents) {
            self.codes.retain(|code, _| !over.contains(code));
            return;
        }
        self.set_stage(&over, WatchStage::Releasing);
        let request = UpcallRequest::DeregisterEvents(DeregisterEventsRequest::new(over.clone()));
        let upcall = cx.upcall(Owner::Watch, cx.self_caller(), request);
        self.asked.insert(upcall, WatchUpcall { codes: over, is_start: false });
    }

    fn set_stage(&mut self, codes: &[Status], stage: WatchStage) {
        for code in codes {
            if let Some(held) = self.codes.get_mut(code) {
                held.stage = stage;
            }
        }
    }
}

/// The codes that are for the host to watch, without repeats.
fn named_once(codes: &[Status]) -> Vec<Status> {
    let codes: BTreeSet<Status> = codes.iter().copied().filter(|code| is_of_host(*code)).collect();
    codes.into_iter().collect()
}

/// Whether events of this code come only if the host watches it: system events, and codes that are not the Standard's.
fn is_of_host(code: Status) -> bool {
    code.is_user_defined() || (Status::EVENT_SYS_OTHER..=Status::EVENT_SYS_BASE).contains(&code)
}
