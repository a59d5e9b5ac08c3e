//! Replaces the front end of PMI-1 if the feature `pmi1` is off.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;

use pmix_types::job::JobData;
use pmix_types::{Nspace, ProcId};

use crate::door::Door;
use crate::error::ServerError;
use crate::inbox::Inbox;
use crate::wire::Pmi1Wire;

/// Cannot be opened.
#[derive(Debug)]
pub(crate) enum Front {}

/// Cannot be opened.
#[derive(Debug)]
pub(crate) enum Pmi1Port {}

/// A socket for PMI-1, which nobody has without the feature `pmi1`.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_enums, reason = "there is none")]
pub enum Pmi1Socket {}

impl Pmi1Socket {
    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn open(&self) -> io::Result<OwnedFd> {
        match *self {}
    }
}

/// Fails: without the feature `pmi1` there is no such descriptor.
///
/// # Errors
/// Always.
pub fn inherit_pmi_fd(_: &mut Command, _: OwnedFd) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails: without the feature `pmi1` there is no such descriptor.
///
/// # Errors
/// Always.
pub fn number_pmi_fd(_: &mut Command, _: OwnedFd) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Parameters of MPI libraries: none.
pub(crate) const fn parameters() -> [(String, String); 0] {
    []
}

impl Front {
    pub(crate) fn open(
        _: Pmi1Wire,
        _: &Door,
        _: &Inbox,
        _: &tokio::runtime::Handle,
    ) -> Result<(Option<Arc<Self>>, Option<Pmi1Port>), ServerError> {
        Ok((None, None))
    }

    pub(crate) fn socket(self: &Arc<Self>, _: &ProcId) -> Pmi1Socket {
        match **self {}
    }

    pub(crate) fn variables(&self, _: &JobData, _: &ProcId) -> Vec<(String, String)> {
        match *self {}
    }

    pub(crate) fn forgets(&self, _: &Nspace) {
        match *self {}
    }
}

impl Pmi1Port {
    pub(crate) async fn accept(self) {
        match self {}
    }
}
