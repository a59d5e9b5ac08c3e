use pmix_types::message::{Failure, Fence, Reply, Request};
use pmix_types::{Directives, Nspace, ProcId, Status, keys};

use super::builder::{awaited, directives};
use crate::client::Client;
use crate::error::Error;
use crate::sync::write;

const OPERATION: &str = "fence";

/// A set of processes for a collective operation. Order does not matter, but all participants must write the
/// set the same way: a wildcard and a list of all ranks are different sets (FEN-03).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Procs(Option<Vec<ProcId>>);

impl Procs {
    /// All processes of the caller's namespace (FEN-01).
    pub const fn own_nspace() -> Self {
        Self(None)
    }

    /// All processes of a namespace.
    pub fn nspace(nspace: Nspace) -> Self {
        ProcId::wildcard(nspace).into()
    }

    /// The processes as named; none for the whole of the caller's namespace.
    pub(super) fn named(self) -> Vec<ProcId> {
        self.0.unwrap_or_default()
    }
}

impl From<ProcId> for Procs {
    fn from(proc: ProcId) -> Self {
        Self(Some(vec![proc]))
    }
}

impl From<Vec<ProcId>> for Procs {
    fn from(procs: Vec<ProcId>) -> Self {
        Self(Some(procs))
    }
}

impl From<&[ProcId]> for Procs {
    fn from(procs: &[ProcId]) -> Self {
        Self(Some(procs.to_vec()))
    }
}

impl<const N: usize> From<[ProcId; N]> for Procs {
    fn from(procs: [ProcId; N]) -> Self {
        Self(Some(procs.into()))
    }
}

impl FromIterator<ProcId> for Procs {
    fn from_iter<I: IntoIterator<Item = ProcId>>(procs: I) -> Self {
        Self(Some(procs.into_iter().collect()))
    }
}

/// A pending fence; await it to enter. See [`Client::fence`].
///
/// # Errors
/// When awaited: `ERR_BAD_PARAM` for a set that is given but empty, `ERR_NOT_A_MEMBER` if the caller is not
/// part of it (FEN-05), `ERR_TIMEOUT` with the missing participants in [`Error::procs`], an error with the dead
/// ones if some have died before they came (FEN-13), [`Error::Lost`] if the connection is or gets lost,
/// `ERR_INIT` after finalize, and what the host says.
///
/// # Cancel safety
/// Not safe: once sent, the caller takes part; dropping the future only drops the result.
#[derive(Clone, Debug)]
#[must_use = "a fence is entered when it is awaited"]
pub struct FenceBuilder<'a> {
    client: &'a Client,
    procs: Procs,
    directives: Directives,
}

impl<'a> FenceBuilder<'a> {
    pub(crate) const fn new(client: &'a Client, procs: Procs) -> Self {
        Self { client, procs, directives: Directives::new() }
    }

    /// Brings along all that the participants have committed, so that later Gets are answered locally
    /// (FEN-06). All participants should ask for it, or none.
    #[doc(alias = "PMIX_COLLECT_DATA")]
    pub fn collect_data(self) -> Self {
        self.directive(&keys::COLLECT_DATA, true)
    }

    async fn enter(self) -> Result<(), Error> {
        let client = self.client;
        client.check()?;
        if self.procs.0.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::bad_param(OPERATION, "the set of participants is empty"));
        }
        if client.is_singleton() {
            return alone(client, self.procs.0.as_deref().unwrap_or_default(), self.directives);
        }
        let mut fence = Fence::new(self.procs.0.clone());
        fence.directives = self.directives;
        match client.session(OPERATION)?.request(Request::Fence(fence)).await? {
            Reply::Fence(collected) => {
                write(client.store()).keep_collected(self.procs.0, collected);
                Ok(())
            }
            _ => Err(Error::unexpected_reply(OPERATION)),
        }
    }
}

directives!(FenceBuilder: directives);
awaited!(FenceBuilder -> (), enter);

/// A fence of a process without server: it can only wait for itself.
fn alone(client: &Client, procs: &[ProcId], mut directives: Directives) -> Result<(), Error> {
    let me = client.proc_id();
    if !procs.is_empty() && !procs.iter().any(|proc| proc.matches(me)) {
        let failure = Failure::new(Status::ERR_NOT_A_MEMBER, "the caller is not one of the participants");
        return Err(Error::failed(OPERATION, failure));
    }
    if procs.iter().any(|proc| !proc.matches(me)) {
        return Err(Error::singleton(OPERATION));
    }
    for flag in [&keys::COLLECT_DATA, &keys::COLLECT_GENERATED_JOB_INFO] {
        directives.take_flag(flag).map_err(crate::error::directive(OPERATION))?;
    }
    directives.take(&keys::TIMEOUT).map_err(crate::error::directive(OPERATION))?;
    directives.deny_unprocessed().map_err(crate::error::directive(OPERATION))
}
