//! Requests that the host carries out: passed up with the caller's identity, timed here, answered in their own form.

pub(crate) mod cleanup;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Instant;

use pmix_types::message::{Failure, Log, Lookup, LookupReply, Publish, Reply, Spawn, SpawnReply, Unpublish};
use pmix_types::{
    DataRange, Directives, Info, Key, KeyName, Nspace, Pdata, Persistence, ProcId, Status, Uid, ValueType,
    keys,
};

use crate::connections::Kind;
use crate::context::{Context, Owner};
use crate::ids::ReplyTo;
use crate::timers::{Timer, deadline};
use crate::upcall::Form;
use crate::users::push_identity;
use crate::{Answer, Asked, Caller, ConnId, UpcallId, UpcallRequest, not_supported};

/// Bytes of requests of one user that may be left at the host by connections that are gone.
const MAX_LEFT: usize = 64 << 20;
/// What a request takes there besides its own bytes.
const UPCALL: usize = 4 << 10;

/// Requests that the host carries out.
#[derive(Debug, Default)]
pub(crate) struct Forwards {
    pending: BTreeMap<UpcallId, Forwarded>,
    left: Left,
}

/// A request that the host carries out.
#[derive(Debug)]
struct Forwarded {
    to: ReplyTo,
    deadline: Option<Instant>,
    form: Form,
    bytes: usize,
}

impl Forwarded {
    /// Whether the host need not go on when the caller is gone: it only waits.
    const fn only_looks(&self) -> bool {
        matches!(self.form, Form::Found(_))
    }
}

/// A process has left a connected set, as its host agrees: to be told before it is answered.
#[derive(Debug)]
pub(crate) struct LeftSet {
    pub(crate) to: ReplyTo,
    pub(crate) nspace: Nspace,
    pub(crate) notify_each: bool,
}

/// Requests that the host goes on with although their connections are gone: by user, so that nobody leaves more and more
/// behind by coming again and again.
#[derive(Debug, Default)]
struct Left {
    all: BTreeMap<UpcallId, (Uid, usize)>,
    by_uid: BTreeMap<Uid, usize>,
}

impl Left {
    /// A connection is gone: a request of it is still at the host.
    fn add(&mut self, upcall: UpcallId, uid: Uid, bytes: usize) {
        self.all.insert(upcall, (uid, bytes + UPCALL));
        *self.by_uid.entry(uid).or_default() += bytes + UPCALL;
    }

    /// The host has answered, or need not.
    fn remove(&mut self, upcall: UpcallId) {
        let Some((uid, bytes)) = self.all.remove(&upcall) else { return };
        if let Some(held) = self.by_uid.get_mut(&uid) {
            *held -= bytes;
            if *held == 0 {
                self.by_uid.remove(&uid);
            }
        }
    }

    /// Whether a user has left so much behind that the host takes no more of it.
    fn check(&self, asked: &Asked) -> Result<(), Failure> {
        let uid = asked.by.uid;
        let bytes = self.by_uid.get(&uid).copied().unwrap_or_default();
        if bytes < MAX_LEFT {
            return Ok(());
        }
        let message = format!(
            "too many requests of uid {uid} are still at the host, although their processes have disconnected: try again later"
        );
        Err(Failure::new(Status::ERR_RESOURCE_BUSY, message))
    }

    fn is_empty(&self) -> bool {
        self.all.is_empty() && self.by_uid.is_empty()
    }
}

impl Forwards {
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.left.is_empty()
    }

    /// When a request times out.
    pub(crate) fn deadline(&self, upcall: UpcallId) -> Option<Instant> {
        self.pending.get(&upcall)?.deadline
    }

    /// The keys of a lookup.
    pub(crate) fn about(&self, upcall: UpcallId) -> Option<String> {
        match &self.pending.get(&upcall)?.form {
            Form::Found(keys) => Some(keys.iter().map(KeyName::as_str).collect::<Vec<_>>().join(", ")),
            _ => None,
        }
    }

    /// # Errors
    /// The user of a request has left too much at the host.
    pub(crate) fn check_left(&self, asked: &Asked) -> Result<(), Failure> {
        self.left.check(asked)
    }

    pub(crate) fn publish(&mut self, asked: Asked, mut publish: Publish, cx: &mut Context) {
        let Publish { data, directives, .. } = &mut publish;
        // what is a directive by its key is no data, wherever it stands (PUB-02); neither is what must be carried out and has a
        // key that is not for processes to publish (GEN-05)
        let is_directive =
            |info: &mut Info| is_publish_directive(info) || info.is_required() && info.key.is_reserved();
        directives.extend(data.extract_if(.., is_directive));
        let result = if data.is_empty() {
            Err(bad_param("there is no data to publish"))
        } else {
            fill_in_range(directives).and_then(|()| fill_in_persistence(directives))
        };
        self.pass_up(asked, result.map(|()| UpcallRequest::Publish(publish)), Form::of::<Publish>(), cx);
    }

    pub(crate) fn lookup(&mut self, asked: Asked, mut lookup: Lookup, cx: &mut Context) {
        let result = if lookup.keys.is_empty() {
            Err(bad_param("a lookup needs keys"))
        } else {
            fill_in_range(&mut lookup.directives)
        };
        let form = Form::Found(lookup.keys.clone());
        self.pass_up(asked, result.map(|()| UpcallRequest::Lookup(lookup)), form, cx);
    }

    pub(crate) fn unpublish(&mut self, asked: Asked, mut unpublish: Unpublish, cx: &mut Context) {
        let result = fill_in_range(&mut unpublish.directives);
        self.pass_up(
            asked,
            result.map(|()| UpcallRequest::Unpublish(unpublish)),
            Form::of::<Unpublish>(),
            cx,
        );
    }

    /// The host is told whose child the job is, and what kind of process has asked for it.
    pub(crate) fn spawn(&mut self, asked: Asked, mut spawn: Spawn, cx: &mut Context) {
        let result = if spawn.apps.is_empty() {
            Err(bad_param("there is no application to start"))
        } else {
            check_user(&asked.by, &spawn.directives).and_then(|()| fill_in_spawn_limit(&mut spawn.directives))
        };
        let requester = cx.conns.get(&asked.to.conn).map(|conn| conn.kind);
        push_requester(&mut spawn.directives, &asked.by.proc, requester);
        self.pass_up(asked, result.map(|()| UpcallRequest::Spawn(spawn)), Form::Spawned, cx);
    }

    pub(crate) fn log(&mut self, asked: Asked, log: Log, cx: &mut Context) {
        let result = if log.data.is_empty() {
            Err(bad_param("there is nothing to log"))
        } else {
            Ok(UpcallRequest::Log(log))
        };
        self.pass_up(asked, result, Form::of::<Log>(), cx);
    }

    /// Calls the host, if it serves this, with the caller's identity (GEN-13) and without the time limit, which is
    /// kept here (GEN-12).
    pub(crate) fn pass_up(
        &mut self,
        asked: Asked,
        request: Result<UpcallRequest, Failure>,
        form: Form,
        cx: &mut Context,
    ) {
        let left = self.left.check(&asked);
        let Asked { at, by, to, bytes } = asked;
        let timed = left.and(request).and_then(|mut request| {
            if !cx.config.capabilities.has(request.upcall()) {
                return Err(not_supported(request.upcall().operation()));
            }
            let mut until = None;
            if let Some(directives) = request.directives_mut() {
                until = deadline(at, directives)?;
                directives.remove(&keys::TIMEOUT);
                push_identity(directives, by.uid, by.gid);
            }
            Ok((request, until))
        });
        match timed {
            Err(failure) => cx.reply(to, Err(failure)),
            Ok((request, deadline)) => {
                let id = cx.upcall(Owner::Forward, by, request);
                self.pending.insert(id, Forwarded { to, deadline, form, bytes });
                cx.timers.set(deadline, Timer::Upcall(id));
            }
        }
    }

    /// The host has ended an upcall, whatever it was for: nothing of it is left there.
    pub(crate) fn on_end_of(&mut self, upcall: UpcallId) {
        self.left.remove(upcall);
    }

    /// The host has carried out a request, or reports why it could not. A process that has left a connected set is for
    /// the caller to tell of, and then to answer.
    pub(crate) fn on_answer(
        &mut self,
        upcall: UpcallId,
        result: Result<Answer, Failure>,
        cx: &mut Context,
    ) -> Option<LeftSet> {
        let Forwarded { to, deadline, form, .. } = self.pending.remove(&upcall)?;
        cx.timers.clear(deadline, Timer::Upcall(upcall));
        let result = result.and_then(|answer| match (form, answer) {
            (Form::Found(keys), Answer::Found(found)) => found_reply(&keys, found).map(Ok),
            (Form::Reply(form), Answer::Done) => form(Reply::Done).map(Ok),
            (Form::Reply(form), Answer::Reply(reply)) => form(reply).map(Ok),
            (Form::Spawned, Answer::Spawned(nspace)) => {
                let mut reply = SpawnReply::new(nspace);
                reply.job = cx.jobs.get(&reply.nspace).map(|job| job.data.clone());
                Ok(Ok(Reply::Spawn(reply)))
            }
            (Form::Left { nspace, notify_each }, Answer::Done) => {
                Ok(Err(LeftSet { to, nspace, notify_each }))
            }
            (form, answer) => {
                let message = format!("the host answered {answer:?} instead of {form:?}");
                Err(Failure::new(Status::ERROR, message))
            }
        });
        let reply = match result {
            Ok(Err(left)) => return Some(left),
            Ok(Ok(reply)) => Ok(reply),
            Err(failure) => Err(failure),
        };
        cx.reply(to, reply);
        None
    }

    pub(crate) fn on_timeout(&mut self, upcall: UpcallId, cx: &mut Context) {
        self.left.remove(upcall);
        if let Some(forwarded) = self.pending.remove(&upcall) {
            cx.cancel_upcall(upcall);
            let failure = Failure::new(Status::ERR_TIMEOUT, "the host did not answer within the time limit");
            cx.reply(forwarded.to, Err(failure));
        }
    }

    /// A connection is gone. Its lookups are returned, to be cancelled. The host is asked to cancel the spawns of a tool, because their
    /// jobs would not end with it. All else goes on.
    pub(crate) fn conn_gone(
        &mut self,
        conn: ConnId,
        kind: Kind,
        uid: Uid,
        cx: &mut Context,
    ) -> BTreeSet<UpcallId> {
        let (left, mut lookups) = (&mut self.left, BTreeSet::new());
        self.pending.retain(|upcall, held| {
            if held.to.conn != conn {
                return true;
            }
            if held.only_looks() {
                cx.timers.clear(held.deadline, Timer::Upcall(*upcall));
                lookups.insert(*upcall);
                return false;
            }
            if kind == Kind::Tool && matches!(held.form, Form::Spawned) {
                cx.ask_to_cancel(*upcall);
            }
            left.add(*upcall, uid, held.bytes);
            true
        });
        for (upcall, held) in &cx.upcalls {
            match held.owner {
                Owner::Answer(to) if to.conn == conn => self.left.add(*upcall, uid, 0),
                Owner::Input { to, bytes } if to.conn == conn => self.left.add(*upcall, uid, bytes),
                _ => {}
            }
        }
        lookups
    }
}

/// Which keys were asked for and not found is told by the status (PUB-12).
fn found_reply(keys: &[KeyName], found: Vec<Pdata>) -> Result<Reply, Failure> {
    let missing: Vec<_> =
        keys.iter().filter(|key| !found.iter().any(|data| data.key == **key)).map(KeyName::as_str).collect();
    match (found.is_empty(), missing.is_empty()) {
        (true, _) => {
            let message = format!("nothing is published under {}", missing.join(", "));
            Err(Failure::new(Status::ERR_NOT_FOUND, message))
        }
        (false, false) => Ok(Reply::Lookup(LookupReply::new(Status::ERR_PARTIAL_SUCCESS, found))),
        (false, true) => Ok(Reply::Lookup(LookupReply::new(Status::SUCCESS, found))),
    }
}

/// Keys that say how to publish, rather than what (PUB-02).
fn is_publish_directive(info: &Info) -> bool {
    [
        keys::RANGE.name(),
        keys::PERSISTENCE.name(),
        keys::TIMEOUT.name(),
        keys::ACCESS_PERMISSIONS.name(),
        keys::ACCESS_USERIDS.name(),
        keys::ACCESS_GRPIDS.name(),
        keys::EVENT_CUSTOM_RANGE.name(),
        keys::USERID.name(),
        keys::GRPID.name(),
    ]
    .contains(&info.key.as_str())
}

/// Hosts expect other defaults, so that they are always told (PUB-01).
fn fill_in_range(directives: &mut Directives) -> Result<(), Failure> {
    if directives.take(&keys::RANGE)?.is_none() {
        directives.push(Info::new(&keys::RANGE, DataRange::SESSION));
    }
    Ok(())
}

fn fill_in_persistence(directives: &mut Directives) -> Result<(), Failure> {
    if directives.take(&keys::PERSISTENCE)?.is_none() {
        directives.push(Info::new(&keys::PERSISTENCE, Persistence::APP));
    }
    Ok(())
}

/// Jobs run as the user who requests them: no requester can name another user or group.
fn check_user(by: &Caller, directives: &Directives) -> Result<(), Failure> {
    check_named(by, directives, &keys::USERID, Some(by.uid))?;
    check_named(by, directives, &keys::GRPID, by.gid)
}

fn check_named<T: ValueType + Copy + PartialEq + fmt::Display>(
    by: &Caller,
    directives: &Directives,
    key: &Key<T>,
    own: Option<T>,
) -> Result<(), Failure> {
    let Some(named) = directives.get(key)?.filter(|named| Some(*named) != own) else { return Ok(()) };
    let own = own.map_or_else(|| "an unknown group".to_owned(), |own| own.to_string());
    let message = format!("{key} names {named}: jobs of {} run as {own}", by.proc);
    Err(Failure::new(Status::ERR_NO_PERMISSIONS, message))
}

/// `SPAWN_TIMEOUT` means what `TIMEOUT` does (SPN-06); of both, the shorter.
fn fill_in_spawn_limit(directives: &mut Directives) -> Result<(), Failure> {
    if let Some(limit) = directives.take(&keys::SPAWN_TIMEOUT)? {
        let other = directives.take(&keys::TIMEOUT)?;
        directives.remove(&keys::SPAWN_TIMEOUT);
        directives.remove(&keys::TIMEOUT);
        let shorter = other.into_iter().chain([limit]).filter(|seconds| *seconds != 0).min();
        directives.extend(shorter.map(|seconds| Info::new(&keys::TIMEOUT, seconds)));
    }
    Ok(())
}

fn bad_param(message: &str) -> Failure {
    Failure::new(Status::ERR_BAD_PARAM, message)
}

/// Adds whose child a job is, and whether a client or a tool has asked for it, in place of what the caller claims. Only
/// those that belong to no job may name another process as its parent.
fn push_requester(directives: &mut Directives, caller: &ProcId, kind: Option<Kind>) {
    directives.remove(&keys::SPAWNED);
    directives.remove(&keys::REQUESTOR_IS_CLIENT);
    directives.remove(&keys::REQUESTOR_IS_TOOL);
    if kind == Some(Kind::Client) {
        directives.remove(&keys::PARENT_ID);
    }
    directives.push(Info::new(&keys::SPAWNED, true));
    if !directives.contains(&keys::PARENT_ID) {
        directives.push(Info::new(&keys::PARENT_ID, caller.clone()));
    }
    match kind {
        Some(Kind::Client) => directives.push(Info::new(&keys::REQUESTOR_IS_CLIENT, true)),
        Some(Kind::Tool) => directives.push(Info::new(&keys::REQUESTOR_IS_TOOL, true)),
        _ => {}
    }
}
