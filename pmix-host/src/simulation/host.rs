//! The host of all three servers: carries what they say to each other, and keeps what is published.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use pmix_types::job::JobSpec;
use pmix_types::message::Failure;
use pmix_types::{DataRange, Directives, Nspace, ProcId, Status, keys};

use super::Fate;
use super::collectives::Gathering;
use super::fixtures::*;
use super::groups::{Bootstrap, step_of_invitation};
use super::model::Who;
use super::world::{NODES, World};
use crate::store::{Ended, LookupOutcome, Requester, Store, User, Waiting};
use pmix_engine::{Answer, CallValue, Caller, HostCall, Input, UpcallId, UpcallRequest};

/// What the host says when it is made to fail.
pub(super) const HOST_FAILS: Status = Status::from_raw(-4242);

pub(super) type Outcome<T> = Result<T, Failure>;

/// Something on its way.
#[derive(Debug)]
pub(super) enum Parcel {
    /// The host comes to do what a server has asked for.
    Work(usize, UpcallId, Caller, Box<UpcallRequest>),
    Reply(usize, UpcallId, Outcome<Answer>),
    Call(usize, HostCall, Wish),
    /// A process's connection ends.
    Loss(usize),
}

/// Why the host has called a server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wish {
    Nothing,
    /// For this fetch of another server.
    Fetch(usize, UpcallId),
}

#[derive(Debug, Default)]
pub(super) struct Host {
    pub(super) fate: Option<Fate>,
    /// It has answered with something else than was asked for.
    pub(super) spoke_nonsense: bool,
    /// Neither answered nor cancelled.
    pub(super) upcalls: BTreeSet<(usize, UpcallId)>,
    /// Answered or cancelled.
    pub(super) past: Vec<(usize, UpcallId)>,
    asleep: Vec<Parcel>,
    pub(super) store: Store,
    waiting: BTreeMap<(usize, UpcallId), Waiting>,
    /// Processes that it knows to take part in nothing any more.
    pub(super) gone: BTreeSet<usize>,
    /// By step of the program.
    pub(super) gatherings: BTreeMap<usize, Gathering>,
    /// Groups by bootstrap, by step.
    pub(super) bootstraps: BTreeMap<usize, Bootstrap>,
    /// Where invitations have arrived: step and node.
    pub(super) invited: BTreeSet<(usize, usize)>,
    pub(super) spawned: Vec<Nspace>,
}

impl World {
    pub(super) fn upcall(&mut self, node: usize, id: UpcallId, caller: Caller, request: UpcallRequest) {
        assert!(self.host.upcalls.insert((node, id)));
        self.check_caller(node, &caller, &request);
        match request {
            UpcallRequest::Fence(_)
            | UpcallRequest::Connect(_)
            | UpcallRequest::Disconnect(_)
            | UpcallRequest::Group(_) => {
                self.gather(node, id, &request);
            }
            UpcallRequest::Bootstrap(ref request) => {
                let who = self.model.index(&caller.proc);
                self.bootstrap_called(node, id, who, request);
            }
            UpcallRequest::ClientConnected(_) | UpcallRequest::ClientLost(_) => {
                self.bag.push(Parcel::Work(node, id, caller, Box::new(request)));
            }
            request => {
                let fate = self.host.fate.take();
                if let (Some(_), UpcallRequest::NotifyEvent(request)) = (fate, &request) {
                    if let Some(number) = event_number(request) {
                        self.model.events.get_mut(&number).unwrap().lossy = true;
                    }
                    self.group_event_is_lost(request);
                }
                match fate {
                    None => self.bag.push(Parcel::Work(node, id, caller, Box::new(request))),
                    Some(Fate::Fails) => {
                        self.bag.push(Parcel::Reply(node, id, Err(failure(HOST_FAILS))));
                    }
                    Some(Fate::Nonsense) => {
                        self.host.spoke_nonsense = true;
                        self.bag.push(Parcel::Reply(node, id, Ok(Answer::Identity(proc("x", 0)))));
                    }
                    Some(Fate::Sleeps) => {
                        self.host.asleep.push(Parcel::Work(node, id, caller, Box::new(request)));
                    }
                }
            }
        }
    }

    /// The host receives the caller as reported by the kernel, and no time limit (GEN-12, GEN-13).
    fn check_caller(&self, node: usize, caller: &Caller, request: &UpcallRequest) {
        use UpcallRequest as R;
        let directives = match request {
            R::Publish(request) => &request.directives,
            R::Lookup(request) => &request.directives,
            R::Unpublish(request) => &request.directives,
            R::Spawn(request) => &request.directives,
            R::Log(request) => &request.directives,
            R::JobControl(request) => &request.directives,
            R::Query(request) => &request.directives,
            R::IofPull(request) => &request.pull.directives,
            R::PushStdin(request) => &request.directives,
            _ => return,
        };
        if matches!(request, R::Query(_)) && self.model.who.iter().all(|who| who.proc != caller.proc) {
            // the server itself asks whom a collective lacks whose time is over
            assert!(directives.get(&keys::TIMEOUT).unwrap().is_none(), "{request:?}");
            return;
        }
        let who = &self.model.who[self.model.index(&caller.proc)];
        assert_eq!((who.node, who.uid), (node, caller.uid));
        assert_eq!(directives.get(&keys::USERID).unwrap(), Some(who.uid), "{request:?}");
        assert_eq!(directives.get(&keys::TIMEOUT).unwrap(), None, "{request:?}");
    }

    pub(super) fn cancelled(&mut self, node: usize, id: UpcallId) {
        assert!(self.host.upcalls.remove(&(node, id)), "{id:?} is cancelled and not under way");
        self.host.past.push((node, id));
        if let Some(mut wait) = self.host.waiting.remove(&(node, id)) {
            let served = wait.try_found();
            assert!(served.is_none(), "who waits is served as soon as the data is there");
            self.host.store.cancel(&wait);
        }
        self.withdraw(node, id);
        self.withdraw_bootstrap(node, id);
    }

    pub(super) fn deliver(&mut self, parcel: Parcel) {
        match parcel {
            Parcel::Work(node, id, caller, request) => self.work(node, id, caller, *request),
            Parcel::Reply(node, upcall, result) => {
                if self.host.upcalls.remove(&(node, upcall)) {
                    self.host.past.push((node, upcall));
                }
                self.feed(node, Input::HostReply { upcall, result });
            }
            // a server that has forgotten a namespace would wait for it to come back
            Parcel::Call(_, HostCall::DmodexRequest { proc, .. }, Wish::Fetch(to, upcall))
                if self.over.contains(&proc.nspace) =>
            {
                self.says(to, upcall, Err(failure(Status::ERR_NOT_FOUND)));
            }
            Parcel::Call(node, call, wish) => {
                let invited = step_of_invitation(&call);
                self.call(node, call, wish);
                if let Some(step) = invited {
                    self.invitation_arrives(step, node);
                }
            }
            Parcel::Loss(who) => self.kill(who),
        }
    }

    fn says(&mut self, node: usize, id: UpcallId, result: Outcome<Answer>) {
        self.bag.push(Parcel::Reply(node, id, result));
    }

    fn work(&mut self, node: usize, id: UpcallId, caller: Caller, request: UpcallRequest) {
        use UpcallRequest as R;
        let is_wanted = self.host.upcalls.contains(&(node, id));
        let answer = match request {
            R::ClientLost(request) => {
                self.is_over_for_host(self.model.index(&request.proc));
                Ok(Answer::Done)
            }
            R::Publish(request) => {
                let publisher = self.requester(&caller);
                let result = self.host.store.publish(publisher, request);
                self.serve_waiting();
                result.map(|()| Answer::Done).map_err(Failure::from)
            }
            // who has given up reads nothing
            R::Lookup(_) if !is_wanted => return,
            R::Lookup(request) => match self.host.store.lookup(self.requester(&caller), request) {
                Ok(LookupOutcome::Found(found)) => {
                    self.model.handed_out(&found);
                    Ok(Answer::Found(found))
                }
                Ok(LookupOutcome::Waits(wait)) => {
                    self.host.waiting.insert((node, id), wait);
                    return;
                }
                Err(error) => Err(Failure::from(error)),
            },
            R::Unpublish(request) => {
                let result = self.host.store.unpublish(&self.requester(&caller).user, request);
                result.map(|()| Answer::Done).map_err(Failure::from)
            }
            R::DirectModex(_) if !is_wanted => return,
            R::DirectModex(request) if self.over.contains(&request.proc.nspace) => {
                Err(failure(Status::ERR_NOT_FOUND))
            }
            R::DirectModex(request) => {
                let target = self.model.who[self.model.index(&request.proc)].node;
                let call = HostCall::DmodexRequest { proc: request.proc, directives: request.directives };
                self.bag.push(Parcel::Call(target, call, Wish::Fetch(node, id)));
                return;
            }
            R::NotifyEvent(request) => {
                assert!(request.range != DataRange::LOCAL && request.range != DataRange::PROC_LOCAL);
                if request.range != DataRange::RM {
                    for other in (0..NODES).filter(|other| *other != node) {
                        let call = HostCall::NotifyEvent(request.clone());
                        self.bag.push(Parcel::Call(other, call, Wish::Nothing));
                    }
                }
                Ok(Answer::Done)
            }
            R::Spawn(_) => Ok(Answer::Spawned(self.spawn())),
            R::JobControl(_) => Ok(Answer::from(Vec::<pmix_types::Info>::new())),
            R::Query(_) => Err(failure(Status::ERR_NOT_SUPPORTED)),
            _ => Ok(Answer::Done),
        };
        self.says(node, id, answer);
    }

    fn requester(&self, caller: &Caller) -> Requester {
        let Who { node, session, .. } = self.model.who[self.model.index(&caller.proc)];
        let user = User::new(caller.proc.clone(), caller.uid, caller.gid);
        Requester::new(user, format!("n{node}"), Some(session))
    }

    fn serve_waiting(&mut self) {
        let mut served = Vec::new();
        for (at, wait) in &mut self.host.waiting {
            served.extend(wait.try_found().map(|found| (*at, found)));
        }
        for ((node, id), found) in served {
            self.host.waiting.remove(&(node, id));
            self.model.handed_out(&found);
            self.says(node, id, Ok(Answer::Found(found)));
        }
    }

    fn spawn(&mut self) -> Nspace {
        let nspace = nspace(&format!("s{}", self.number()));
        let infos = JobSpec::new(nspace.clone()).into_infos();
        for node in 0..NODES {
            let (nspace, infos) = (nspace.clone(), infos.clone());
            let call = HostCall::RegisterNspace { nspace, local_procs: Some(0), infos };
            self.bag.push(Parcel::Call(node, call, Wish::Nothing));
        }
        self.host.spawned.push(nspace.clone());
        nspace
    }

    /// A server has the data that another's fetch is for.
    pub(super) fn fetched(&mut self, node: usize, upcall: UpcallId, result: Outcome<CallValue>) {
        let result = result.map(|value| match value {
            CallValue::Blob(blob) => {
                self.model.check_outgoing(&read_blob(&blob));
                Answer::Blob(blob)
            }
            other => panic!("{other:?}"),
        });
        self.says(node, upcall, result);
    }

    /// The host learns that a process no longer takes part in any operation.
    pub(super) fn is_over_for_host(&mut self, who: usize) {
        self.host.gone.insert(who);
        let proc: ProcId = self.model.who[who].proc.clone();
        self.host.store.forget(&Ended::of_proc(&proc));
        self.settle_collectives();
        self.settle_bootstraps();
    }

    /// The host does what it has slept over.
    pub(super) fn wake(&mut self) {
        let asleep = std::mem::take(&mut self.host.asleep);
        self.bag.extend(asleep);
        self.wake_collectives();
        self.wake_bootstraps();
    }

    /// Blobs of several servers joined end to end.
    pub(super) fn joined<'a>(blobs: impl Iterator<Item = &'a Bytes>) -> Bytes {
        blobs.flat_map(|blob| blob.iter().copied()).collect()
    }
}

pub(super) fn event_number(event: &pmix_types::Event) -> Option<u32> {
    let info = event.info.iter().find(|info| info.key.as_str() == "n")?;
    info.value.get().ok()
}

/// What a server asks of the host in the name of a step of the program.
pub(super) fn step_of(directives: &Directives) -> usize {
    let info = directives.iter().find(|info| info.key.as_str() == "step").expect("GEN-14: what was given");
    info.value.get::<u32>().unwrap() as usize
}
