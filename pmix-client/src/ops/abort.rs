use std::future::IntoFuture;

use futures::future::BoxFuture;
use pmix_types::ProcId;
use pmix_types::message::{Abort, Request};

use crate::client::Client;
use crate::error::Error;

/// A request to abort processes. Await it to send it. See [`Client::abort`].
///
/// Ready only if the caller survives (ABT-01).
///
/// # Errors
/// When awaited: `ERR_NOT_SUPPORTED` if the host cannot end processes, `ERR_UNREACH` for a singleton,
/// [`Error::Lost`] if the connection is or gets lost, `ERR_INIT` after finalize, and what the host says.
///
/// # Cancel safety
/// Not safe: once sent, the abort takes its course.
#[derive(Clone, Debug)]
#[must_use = "an abort is asked for when it is awaited"]
pub struct AbortBuilder<'a> {
    client: &'a Client,
    abort: Abort,
}

impl<'a> AbortBuilder<'a> {
    pub(crate) fn new(client: &'a Client, status: i32, message: String) -> Self {
        Self { client, abort: Abort::new(status, message) }
    }

    /// Ends these processes instead of the own namespace; with none of them it is the own namespace again.
    pub fn procs(mut self, procs: impl IntoIterator<Item = ProcId>) -> Self {
        self.abort.procs = procs.into_iter().collect();
        self
    }
}

impl<'a> IntoFuture for AbortBuilder<'a> {
    type Output = Result<(), Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.client.session("abort")?.carry_out(Request::Abort(self.abort)).await })
    }
}
