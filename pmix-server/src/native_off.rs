//! In place of the native front end where the feature `native-wire` is off.

use std::io;

use pmix_native::conn::ServerUri;
use pmix_types::ProcId;

use crate::door::Door;
use crate::error::ServerError;
use crate::inbox::Inbox;

/// There is none.
#[derive(Debug)]
pub(crate) enum Port {}

impl Port {
    pub(crate) fn open(_: &ProcId, _: Door) -> Result<(Self, ServerUri), ServerError> {
        Err(ServerError::Tcp(io::ErrorKind::Unsupported.into()))
    }

    pub(crate) async fn accept(self, _: Inbox, _: ProcId) {
        match self {}
    }
}
