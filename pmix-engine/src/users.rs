//! Users: who may receive the events of a process; `visibility.rs` decides which jobs it may see.
//!
//! Each user is a trust domain. Processes of the server's own user and of root see everything and reach everybody; those of
//! another user see their own namespace and the jobs of their user, and reach only these.

use std::borrow::Cow;
use std::convert::Infallible;

use pmix_types::message::Failure;
use pmix_types::{Directives, Event, Gid, Info, Nspace, ProcId, Status, Uid, Value, keys};

use super::Config;

/// On whose authority an event is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    /// The server, its host, its user or root: everybody may receive it.
    Trusted,
    /// A process of another user.
    Of { uid: Uid, nspace: Nspace },
}

/// A receiver of events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listener<'a> {
    pub(super) proc: &'a ProcId,
    pub(super) uid: Uid,
    /// Whether it is no process of a job.
    pub(super) is_tool: bool,
    /// Whether it is the host of this server.
    pub(super) is_server: bool,
}

impl Config {
    /// Whether a user may see everything.
    pub(super) fn trusts(&self, uid: Uid) -> bool {
        uid == self.uid || uid.is_root()
    }

    /// The group that a process of a user calls by this id. Each user has ids of its own (GRP-11): in the server, between
    /// servers and for the host, the id of a user who does not see everything is followed by `@` and the user.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` if it is too long with that.
    pub(super) fn group_of_user<'a>(&self, uid: Uid, id: &'a Nspace) -> Result<Cow<'a, Nspace>, Failure> {
        if self.trusts(uid) {
            return Ok(Cow::Borrowed(id));
        }
        let too_long = |_| {
            let message =
                format!("the group id {id} is too long: with @{uid} it exceeds {} bytes", Nspace::MAX_LEN);
            Failure::new(Status::ERR_BAD_PARAM, message)
        };
        Nspace::new(format!("{id}@{uid}")).map(Cow::Owned).map_err(too_long)
    }

    /// What processes of a user call a group.
    pub(super) fn group_for_user<'a>(&self, uid: Uid, id: &'a str) -> &'a str {
        let own = || id.strip_suffix(&uid.to_string())?.strip_suffix('@');
        if self.trusts(uid) { id } else { own().unwrap_or(id) }
    }

    /// An event as a process of a user receives it: with what it calls the group that the event is about.
    pub(super) fn event_for_user(&self, uid: Uid, event: &Event) -> Event {
        let mut event = event.clone();
        self.name_group_for_user(uid, &mut event.info);
        event
    }

    /// Calls the group that infos name as processes of a user do.
    pub(super) fn name_group_for_user(&self, uid: Uid, infos: &mut Directives) {
        if self.trusts(uid) {
            return;
        }
        let Ok(()) = rename_group(infos, |id| Ok::<_, Infallible>(self.group_for_user(uid, id).to_owned()));
    }
}

/// Calls the group that infos name otherwise.
pub(super) fn rename_group<E>(
    infos: &mut Directives,
    rename: impl Fn(&str) -> Result<String, E>,
) -> Result<(), E> {
    if infos.get_value(keys::GROUP_ID.name()).is_none() {
        return Ok(());
    }
    let mut all = std::mem::take(infos).into_vec();
    for info in all.iter_mut().filter(|info| info.is(&keys::GROUP_ID)) {
        if let Value::String(id) = &mut info.value {
            *id = rename(id)?;
        }
    }
    *infos = all.into();
    Ok(())
}

impl Voice {
    /// Whether somebody may receive what it tells. Tools of users who see everything receive all of it. Their jobs do not,
    /// as they must not depend on what another user says.
    pub(super) fn is_for(&self, listener: Listener<'_>, config: &Config) -> bool {
        match self {
            Self::Trusted => true,
            Self::Of { uid, nspace } => {
                listener.uid == *uid
                    || listener.proc.nspace == *nspace
                    || listener.is_tool && config.trusts(listener.uid)
            }
        }
    }
}

/// Reports that a namespace does not belong to this user, and nothing else about it.
pub(super) fn not_own(uid: Uid, nspace: &Nspace) -> Failure {
    Failure::new(Status::ERR_NO_PERMISSIONS, format!("job {nspace} does not belong to uid {uid}"))
}

/// Adds user and group of the caller, as reported by the kernel, in place of what the caller claims (GEN-13).
pub(super) fn push_identity(directives: &mut Directives, uid: Uid, gid: Option<Gid>) {
    directives.remove(&keys::USERID);
    directives.remove(&keys::GRPID);
    directives.push(Info::new(&keys::USERID, uid));
    directives.extend(gid.map(|gid| Info::new(&keys::GRPID, gid)));
}
