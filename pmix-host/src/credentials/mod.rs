//! Credentials: opaque bytes by which whoever gets them can find out the user of the process that requested them (CRD-01, CRD-02).
//!
//! There are two types. `munge` is issued and validated by the node's MUNGE daemon, so that everything in its realm understands
//! it. `hmac` needs nothing but the hosts: only the host that has issued one can validate it, and the others ask that host.

mod munge;
mod seal;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pmix_server::host::{Credential, HostError, HostResult, Infos, UpcallContext, ValidateCredential};
use pmix_types::message::{Failure, Reply, Request};
use pmix_types::{Directives, Info, Status, keys};

use crate::internode::{PeerReply, PeerRequest, Site};
use crate::user::{User, own_uid, take_identity};
use munge::Munge;
use seal::{Holder, Seal};

/// Name of the type that the node's MUNGE daemon issues.
const MUNGE: &str = "munge";
/// Name of the type that the host itself issues.
const HMAC: &str = "hmac";

/// How long another node's host is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Issues and validates credentials.
pub(crate) struct Credentials {
    site: Arc<Site>,
    seal: Seal,
    munge: Munge,
}

impl Credentials {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        Self { site, seal: Seal::default(), munge: Munge::default() }
    }

    /// The socket of the MUNGE daemon, unless one was given before.
    pub(crate) fn set_munge(&self, socket: &Path) {
        self.munge.set_socket(socket);
    }

    /// A credential of the first type that can be issued: `hmac` if the requester names none.
    pub(crate) async fn issue(
        &self,
        cx: &UpcallContext,
        mut directives: Directives,
    ) -> HostResult<Credential> {
        take_identity(&mut directives)?;
        let wanted: Option<String> = directives.take(&keys::CRED_TYPE)?;
        directives.deny_unprocessed()?;
        let user = User::of(cx);
        let mut refusal = None;
        for name in types(wanted.as_deref().unwrap_or(HMAC)) {
            let issued = match name {
                HMAC => self.seal.issue(&user, self.site.node()),
                MUNGE => self.munge.issue(&user, own_uid()).await,
                _ => Err(unknown(name)),
            };
            match issued {
                Ok(bytes) => return Ok(Credential::new(bytes, vec![Info::new(&keys::CRED_TYPE, name)])),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.unwrap_or_else(|| HostError::new(Status::ERR_BAD_PARAM, "CRED_TYPE names no type")))
    }

    /// Who holds a credential: `USERID`, `GRPID` if it is known, and `CRED_TYPE`.
    pub(crate) async fn validate(
        &self,
        cx: &UpcallContext,
        mut req: ValidateCredential,
    ) -> HostResult<Infos> {
        take_identity(&mut req.directives)?;
        let accepted: Option<String> = req.directives.take(&keys::CRED_TYPE)?;
        req.directives.deny_unprocessed()?;
        let name = if munge::is_one(&req.credential) { MUNGE } else { HMAC };
        if accepted.is_some_and(|accepted| types(&accepted).all(|other| other != name)) {
            return Err(invalid(format!("it is of type {name}, which CRED_TYPE does not name")));
        }
        if name == MUNGE {
            return self
                .munge
                .validate(&User::of(cx), own_uid(), req.credential)
                .await
                .map(|holder| answer(holder, MUNGE));
        }
        let issuer = seal::issuer(&req.credential).ok_or_else(|| invalid("its type is unknown"))?;
        if issuer == self.site.node() {
            return self.validate_own(&req);
        }
        if !self.site.has_had(&issuer) {
            return Err(invalid(format!(
                "it names the issuer {issuer:?}, which is not a node of this system"
            )));
        }
        let caller = User::of(cx);
        let request = PeerRequest::Request { caller, request: Request::ValidateCredential(req) };
        match self.site.ask_within(PATIENCE, &issuer, &request).await.and_then(PeerReply::into_reply)? {
            Reply::Info(infos) => Ok(infos),
            _ => Err(Failure::from(Status::ERR_UNPACK_FAILURE).into()),
        }
    }

    /// Validates a credential that this host has issued.
    pub(crate) fn validate_own(&self, req: &ValidateCredential) -> HostResult<Infos> {
        self.seal.validate(&req.credential, self.site.node()).map(|holder| answer(holder, HMAC))
    }
}

/// The types in a list, the preferred one first.
fn types(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

fn answer(holder: Holder, name: &str) -> Infos {
    let mut infos = vec![Info::new(&keys::USERID, holder.uid)];
    infos.extend(holder.gid.map(|gid| Info::new(&keys::GRPID, gid)));
    infos.push(Info::new(&keys::CRED_TYPE, name));
    infos
}

fn unknown(name: &str) -> HostError {
    let message = format!("credentials of type {name:?} are not issued here: use {HMAC} or {MUNGE}");
    HostError::new(Status::ERR_NOT_SUPPORTED, message)
}

fn invalid(reason: impl std::fmt::Display) -> HostError {
    HostError::new(Status::ERR_INVALID_CRED, format!("the credential is not valid: {reason}"))
}
