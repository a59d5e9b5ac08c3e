use pmix_types::Procs;
use pmix_types::message::Abort;

use super::builder::builder;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Has the host end processes, by default all of the caller's namespace (ABT-01); await the builder.
    ///
    /// `status` is the exit status to report; `message` is for the user and may be empty.
    #[doc(alias = "PMIx_Abort")]
    pub fn abort(&self, status: i32, message: impl Into<String>) -> AbortBuilder {
        AbortBuilder::new(self.draft(Abort::new(status, message.into())))
    }
}

builder! {
    /// A request to abort processes. Await it to send it. See [`Client::abort`](crate::Client::abort).
    ///
    /// The future becomes ready only if the caller survives (ABT-01).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// use pmix_client::{Client, ProcId, Status};
    ///
    /// let client = Client::singleton().await?;
    /// let failed: Vec<ProcId> = vec![client.proc_id().clone()];
    /// let refused = client.abort(1, "the solver diverged").procs(&failed).await.unwrap_err();
    /// assert_eq!(refused.status(), Status::ERR_UNREACH); // a singleton has nobody to ask
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_SUPPORTED` if the host cannot end processes, `ERR_UNREACH` for a singleton,
    /// [`Error::Lost`] if the connection is lost, `ERR_INIT` after finalize, and errors of the host.
    ///
    /// # Cancel safety
    /// Not safe: dropping the future does not stop an abort that was sent.
    plain AbortBuilder(Abort) -> ()
}

impl AbortBuilder {
    /// Ends these processes instead of the caller's namespace. An empty list means the caller's namespace.
    pub fn procs(mut self, procs: impl Into<Procs>) -> Self {
        self.draft.request.procs = procs.into().into_named().unwrap_or_default();
        self
    }

    async fn ask(self) -> Result<(), Error> {
        let (core, request) = self.draft.online(Self::OPERATION)?;
        core.call(request).await
    }
}
