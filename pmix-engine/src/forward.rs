//! Requests whose work is the host's: passed up with the caller's identity, timed here, answered in their own form.

use std::collections::BTreeMap;
use std::time::Instant;

use pmix_types::message::{
    Failure, Log, Lookup, LookupReply, Publish, Reply, Request, Spawn, SpawnReply, Unpublish,
};
use pmix_types::{DataRange, Directives, Info, KeyName, Nspace, Pdata, Persistence, Status, keys};

use super::connect::push_identity;
use super::ids::ReplyTo;
use super::timers::{Timer, deadline};
use super::{
    Answer, Asked, Caller, Command, ConnId, Engine, UpcallId, UpcallPurpose, UpcallRequest, not_supported,
};

/// Bytes of requests of one user that may be left at the host by connections that are gone.
const MAX_LEFT: usize = 64 << 20;
/// What a request takes there besides its own bytes.
const UPCALL: usize = 4 << 10;

/// A request that the host carries out.
#[derive(Debug)]
pub(super) struct Forwarded {
    pub(super) to: ReplyTo,
    pub(super) deadline: Option<Instant>,
    form: Form,
    bytes: usize,
}

/// How the host's answer is given to the process.
#[derive(Debug)]
pub(super) enum Form {
    Done,
    /// What was found of these keys.
    Found(Vec<KeyName>),
    Spawned,
    /// The caller has left a connected group (CON-14).
    Left {
        nspace: Nspace,
        notify_each: bool,
    },
    Info,
    Credential,
}

impl Forwarded {
    /// Whether the host need not go on when the caller is gone: it only waits.
    pub(super) const fn only_looks(&self) -> bool {
        matches!(self.form, Form::Found(_))
    }
}

/// Requests that the host goes on with although their connections are gone: by user, so that nobody leaves more and more
/// behind by coming again and again.
#[derive(Debug, Default)]
pub(super) struct Left {
    all: BTreeMap<UpcallId, (u32, usize)>,
    by_uid: BTreeMap<u32, usize>,
}

impl Left {
    /// A connection is gone: what is still at the host is left behind.
    pub(super) fn add(&mut self, upcalls: &BTreeMap<UpcallId, UpcallPurpose>, conn: ConnId, uid: u32) {
        for (upcall, purpose) in upcalls {
            let bytes = match purpose {
                UpcallPurpose::Forward(asked) if asked.to.conn == conn => asked.bytes,
                UpcallPurpose::Answer { to, bytes } if to.conn == conn => *bytes,
                _ => continue,
            };
            self.all.insert(*upcall, (uid, bytes + UPCALL));
            *self.by_uid.entry(uid).or_default() += bytes + UPCALL;
        }
    }

    /// The host has answered, or need not.
    pub(super) fn remove(&mut self, upcall: UpcallId) {
        let Some((uid, bytes)) = self.all.remove(&upcall) else { return };
        if let Some(held) = self.by_uid.get_mut(&uid) {
            *held -= bytes;
            if *held == 0 {
                self.by_uid.remove(&uid);
            }
        }
    }

    /// Whether a user has left so much behind that the host takes no more of it.
    pub(super) fn check(&self, asked: &Asked) -> Result<(), Failure> {
        let uid = asked.by.uid;
        let bytes = self.by_uid.get(&uid).copied().unwrap_or_default();
        if bytes < MAX_LEFT {
            return Ok(());
        }
        let message = format!(
            "too many requests of uid {uid} are still with the host though their processes are gone: try again later"
        );
        Err(Failure::new(Status::ERR_RESOURCE_BUSY, message))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.by_uid.is_empty()
    }
}

impl Engine {
    pub(super) fn on_publish(&mut self, asked: Asked, mut publish: Publish) {
        let Publish { data, directives, .. } = &mut publish;
        // what is a directive by its key is no data, wherever it stands (PUB-02)
        directives.extend(data.extract_if(.., |info| is_publish_directive(info)));
        let result = if data.is_empty() {
            Err(bad_param("there is no data to publish"))
        } else {
            fill_in_range(directives).and_then(|()| fill_in_persistence(directives))
        };
        self.pass_up(asked, result.map(|()| UpcallRequest::Publish(publish)), Form::Done);
    }

    pub(super) fn on_lookup(&mut self, asked: Asked, mut lookup: Lookup) {
        let result = if lookup.keys.is_empty() {
            Err(bad_param("a lookup needs keys"))
        } else {
            fill_in_range(&mut lookup.directives)
        };
        let form = Form::Found(lookup.keys.clone());
        self.pass_up(asked, result.map(|()| UpcallRequest::Lookup(lookup)), form);
    }

    pub(super) fn on_unpublish(&mut self, asked: Asked, mut unpublish: Unpublish) {
        let result = fill_in_range(&mut unpublish.directives);
        self.pass_up(asked, result.map(|()| UpcallRequest::Unpublish(unpublish)), Form::Done);
    }

    pub(super) fn on_spawn(&mut self, asked: Asked, mut spawn: Spawn) {
        let result = if spawn.apps.is_empty() {
            Err(bad_param("there is no application to start"))
        } else {
            check_user(&asked.by, &spawn.directives).and_then(|()| fill_in_spawn_limit(&mut spawn.directives))
        };
        self.pass_up(asked, result.map(|()| UpcallRequest::Spawn(spawn)), Form::Spawned);
    }

    pub(super) fn on_log(&mut self, asked: Asked, log: Log) {
        let result = if log.data.is_empty() {
            Err(bad_param("there is nothing to log"))
        } else {
            Ok(UpcallRequest::Log(log))
        };
        self.pass_up(asked, result, Form::Done);
    }

    /// Requests that only a host can carry out, and that need nothing from the server on their way to it.
    pub(super) fn on_host_request(&mut self, asked: Asked, request: Request) {
        match UpcallRequest::passed_up(request) {
            Ok((request, form)) => self.pass_up(asked, Ok(request), form),
            Err(other) => self.cx.reply(asked.to, Err(not_supported(other.operation()))),
        }
    }

    /// Calls the host, if it serves this, with the caller's identity (GEN-13) and without the time limit, which is
    /// kept here (GEN-12).
    pub(super) fn pass_up(&mut self, asked: Asked, request: Result<UpcallRequest, Failure>, form: Form) {
        let left = self.left.check(&asked);
        let Asked { at, by, to, bytes } = asked;
        let timed = left.and(request).and_then(|mut request| {
            if !self.cx.config.capabilities.has(request.upcall()) {
                return Err(not_supported(request.upcall().operation()));
            }
            let mut until = None;
            if let Some(directives) = request.directives_mut() {
                until = deadline(at, directives)?;
                directives.remove(&keys::TIMEOUT);
                push_identity(directives, (by.uid, by.gid));
            }
            Ok((request, until))
        });
        match timed {
            Err(failure) => self.cx.reply(to, Err(failure)),
            Ok((request, deadline)) => {
                let purpose = UpcallPurpose::Forward(Forwarded { to, deadline, form, bytes });
                let id = self.cx.upcall(purpose, by, request);
                self.cx.timers.set(deadline, Timer::Upcall(id));
            }
        }
    }

    pub(super) fn on_forwarded(
        &mut self,
        upcall: UpcallId,
        asked: Forwarded,
        result: Result<Answer, Failure>,
    ) {
        self.cx.timers.clear(asked.deadline, Timer::Upcall(upcall));
        let result = result.and_then(|answer| match (asked.form, answer) {
            (Form::Done, Answer::Done) => Ok(Reply::Done),
            (Form::Found(keys), Answer::Found(found)) => found_reply(&keys, found),
            (Form::Info, Answer::Info(info)) => Ok(Reply::Info(info)),
            (Form::Credential, Answer::Credential(credential)) => Ok(Reply::Credential(credential)),
            (Form::Spawned, Answer::Spawned(nspace)) => {
                let mut reply = SpawnReply::new(nspace);
                reply.job = self.cx.jobs.get(&reply.nspace).map(|job| job.data.clone());
                Ok(Reply::Spawn(reply))
            }
            (Form::Left { nspace, notify_each }, Answer::Done) => {
                self.on_left(asked.to.conn, &nspace, notify_each);
                Ok(Reply::Done)
            }
            (form, answer) => {
                let message = format!("the host answered {answer:?} where {form:?} was asked for");
                Err(Failure::new(Status::ERROR, message))
            }
        });
        self.cx.reply(asked.to, result);
    }

    pub(super) fn on_upcall_timeout(&mut self, upcall: UpcallId) {
        if let Some(UpcallPurpose::Forward(asked)) = self.cx.upcalls.remove(&upcall) {
            self.left.remove(upcall);
            self.cx.out.push(Command::CancelUpcall(upcall));
            let failure = Failure::new(Status::ERR_TIMEOUT, "the host did not answer in the time given");
            self.cx.reply(asked.to, Err(failure));
        }
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

/// Jobs run as who asks for them: another user or group cannot be named, whoever asks.
fn check_user(by: &Caller, directives: &Directives) -> Result<(), Failure> {
    for (key, own) in [(&keys::USERID, Some(by.uid)), (&keys::GRPID, by.gid)] {
        if let Some(named) = directives.get(key)?.filter(|named| Some(*named) != own) {
            let own = own.map_or_else(|| "a group that is not known".to_owned(), |own| own.to_string());
            let message = format!("{key} names {named}: jobs of {} run as {own}", by.proc);
            return Err(Failure::new(Status::ERR_NO_PERMISSIONS, message));
        }
    }
    Ok(())
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
