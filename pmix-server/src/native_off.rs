//! Replaces the native front end if the feature `native-wire` is off.

use std::io;

use pmix_native::conn::ServerUri;
use pmix_types::ProcId;
use tokio_util::task::TaskTracker;

use crate::door::Door;
use crate::error::ServerError;
use crate::inbox::Inbox;

/// Cannot be opened.
#[derive(Debug)]
pub(crate) enum NativePort {}

impl NativePort {
    pub(crate) fn open(_: &ProcId, _: Door) -> Result<(Self, ServerUri), ServerError> {
        Err(ServerError::Tcp(io::ErrorKind::Unsupported.into()))
    }

    pub(crate) async fn accept(self, _: Inbox, _: ProcId, _: TaskTracker) {
        match self {}
    }
}
