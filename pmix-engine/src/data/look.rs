//! What a server holds for a get, and who may see it.

use std::sync::Arc;

use pmix_types::job::{Requester, Target, target_of};
use pmix_types::message::{Failure, GetReply, Modex, ProcData};
use pmix_types::{ProcId, Rank, Status, keys};

use super::pending::{PendingGet, key_text};
use crate::context::Context;
use crate::jobs::psets::Psets;
use crate::jobs::{Job, PutData, Viewer};

/// What a look at the put data of a process gives.
pub(super) enum Look {
    Found(GetReply),
    /// It exists, but not for this requester (GET-06).
    OutOfScope,
    NotThere,
}

impl Look {
    pub(super) fn at(get: &PendingGet, cx: &Context) -> Self {
        // a namespace may be another user's when it becomes known
        let job = cx.jobs.get(&get.target.nspace).filter(|_| is_visible(get, cx));
        let Some(job) = job else { return Self::NotThere };
        if get.target.rank == Rank::UNDEF {
            // whoever has posted it: the key is unique in the namespace (GET-21)
            let Some(key) = &get.key else { return Self::NotThere };
            let found = job.put.iter().find_map(|(rank, put)| {
                let value = put.find(key, job.viewer_of(*rank), get.scope)?;
                Some(GetReply::value(value.clone()))
            });
            return found.map_or(Self::NotThere, Self::Found);
        }
        let viewer = job.viewer_of(get.target.rank);
        let Some(put) = job.put.get(&get.target.rank) else { return Self::NotThere };
        let mut reply = GetReply::default();
        if let Some(key) = &get.key {
            match put.find(key, viewer, get.scope) {
                Some(value) => reply.value = Some(value.clone()),
                None if put.hides(key, viewer) => return Self::OutOfScope,
                None => return Self::NotThere,
            }
        }
        // all else that the requester may see comes along, so that its next gets stay in the process
        reply.modex = Arc::new(modex_of(&get.target, put, viewer));
        reply.job = (get.asker.nspace != get.target.nspace).then(|| job.data.clone());
        Self::Found(reply)
    }
}

/// Whether the requester may see its target.
pub(super) fn is_visible(get: &PendingGet, cx: &Context) -> bool {
    cx.may_see(&get.asker, get.uid, &get.target.nspace)
}

/// Job-level and other reserved data: it exists from the start, so nobody waits for it (GET-30).
pub(super) fn job_level(
    get: &PendingGet,
    job: &Job,
    psets: &Psets,
    cx: &Context,
) -> Result<GetReply, Failure> {
    let PendingGet { asker, target, .. } = get;
    let is_own = asker.nspace == target.nspace;
    let mut reply = GetReply::default();
    // the requester keeps what it did not have, or wants anew (GET-08, GET-33)
    reply.job = (!is_own || get.key.is_none() || get.refresh).then(|| job.data.clone());
    if let Some(key) = &get.key {
        let requester = Requester::new(is_own.then_some(asker.rank), &cx.config.hostname);
        let realm = target_of(key, target.rank, &get.directives, &requester)?;
        reply.value = job.data.lookup(key, &realm);
        if let (None, Target::Session(Some(id))) = (&reply.value, realm) {
            reply.value = cx.of_session(asker, get.uid, id, key);
        }
        if *key == *keys::PSET_NAMES.name() {
            reply.value = psets.names_with(reply.value.as_ref(), target);
        }
        if reply.value.is_none() {
            return Err(not_found("the host did not provide it"));
        }
    }
    Ok(reply)
}

/// All that a process has put and a viewer may see.
pub(super) fn modex_of(proc: &ProcId, put: &PutData, viewer: Viewer) -> Modex {
    Modex::new(vec![ProcData::new(proc.clone(), put.visible(viewer))])
}

/// The requester names key and process itself when it reports the failure.
pub(super) fn not_found(why: &str) -> Failure {
    Failure::new(Status::ERR_NOT_FOUND, format!("not found: {why}"))
}

pub(super) fn outside_scope(get: &PendingGet) -> Failure {
    let message = format!(
        "{} of {} was put in a scope that does not include the requester",
        key_text(get.key.as_ref()),
        get.target
    );
    Failure::new(Status::ERR_EXISTS_OUTSIDE_SCOPE, message)
}
