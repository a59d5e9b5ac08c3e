use pmix_types::message::{Failure, Fence};
use pmix_types::{Procs, Status, keys};

use super::builder::{Draft, builder};
use crate::client::Client;
use crate::core::Core;
use crate::error::{Error, directive};
use crate::trace;

impl Client {
    /// Waits until all these processes have entered the fence; await the builder.
    ///
    /// All participants must name the processes in the same way (FEN-03), and the caller must be one of them (FEN-05).
    #[doc(alias = "PMIx_Fence")]
    #[doc(alias = "PMIx_Fence_nb")]
    pub fn fence(&self, procs: impl Into<Procs>) -> FenceBuilder {
        FenceBuilder::of(self.core(), procs.into())
    }

    /// A fence of all processes of the caller's namespace (FEN-01); await the builder.
    pub fn fence_all(&self) -> FenceBuilder {
        self.fence(Procs::own_nspace())
    }
}

builder! {
    /// A pending fence; await it to enter. See [`Client::fence`](crate::Client::fence).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// let client = pmix_client::Client::singleton().await?;
    /// client.fence(client.proc_id()).collect_data().await?;
    ///
    /// // a builder owns what it needs, so that the fence can go on in a task of its own
    /// let everybody = tokio::spawn(client.fence_all().into_future());
    /// everybody.await.expect("the task does not panic")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: `ERR_BAD_PARAM` for an empty set, `ERR_NOT_A_MEMBER` if the caller is not part of the set
    /// (FEN-05), `ERR_TIMEOUT` with the missing participants in [`Error::procs`], `ERR_PROC_TERM_WO_SYNC` if
    /// participants ended before they entered, which [`Error::procs`] names (FEN-13), [`Error::Lost`] if the connection
    /// is lost, `ERR_INIT` after finalize, and
    /// errors of the host.
    ///
    /// # Cancel safety
    /// Not safe: once the request is sent, the caller takes part. Dropping the future only drops the result.
    FenceBuilder(Fence) -> ()
}

impl FenceBuilder {
    pub(crate) fn of(core: Core, procs: Procs) -> Self {
        Self::new(Draft::new(core, Fence::new(procs.into_named())))
    }

    /// Collects the committed data of the participants, so that later gets are answered locally (FEN-06). Either all
    /// participants should request this or none.
    #[doc(alias = "PMIX_COLLECT_DATA")]
    pub fn collect_data(self) -> Self {
        self.directive(keys::COLLECT_DATA, true)
    }

    /// Waits for every clone of the caller, that is, for every process connected under its rank at the time when the other
    /// participants have entered (IDN-07). By default, the entry of one of them is enough.
    #[doc(alias = "PMIX_ALL_CLONES_PARTICIPATE")]
    pub fn all_clones(self) -> Self {
        self.directive(keys::ALL_CLONES_PARTICIPATE, true)
    }

    async fn ask(self) -> Result<(), Error> {
        let (core, mut request) = self.draft.ready(Self::OPERATION)?;
        if request.procs.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::bad_param(Self::OPERATION, "the set of participants is empty"));
        }
        if core.is_singleton() {
            return alone(&core, request);
        }
        let procs = request.procs.clone();
        let collects = request.directives.flag(&keys::COLLECT_DATA).map_err(directive(Self::OPERATION))?;
        request.since = core.store().generation(&procs);
        let traced = trace::fence(core.proc(), request.procs.as_deref());
        request.trace = traced.as_ref().map(|(_, trace)| *trace);
        let answered = core.call(request).await;
        trace::end(traced, &answered);
        match answered? {
            Some(fenced) => core.store_mut().keep_collected(procs, fenced),
            // the server keeps what was collected: what came before may be outdated
            None if collects => core.store_mut().outdate(procs.as_deref()),
            None => {}
        }
        Ok(())
    }
}

/// A fence of a process without server: it can only wait for itself.
fn alone(core: &Core, request: Fence) -> Result<(), Error> {
    const OPERATION: &str = FenceBuilder::OPERATION;
    let Fence { procs, mut directives, .. } = request;
    let (me, procs) = (core.proc(), procs.unwrap_or_default());
    if !procs.is_empty() && !procs.iter().any(|proc| proc.matches(me)) {
        let failure = Failure::new(Status::ERR_NOT_A_MEMBER, "the caller is not one of the participants");
        return Err(Error::failed(OPERATION, failure));
    }
    if procs.iter().any(|proc| !proc.matches(me)) {
        return Err(Error::singleton(OPERATION));
    }
    for flag in [&keys::COLLECT_DATA, &keys::COLLECT_GENERATED_JOB_INFO, &keys::ALL_CLONES_PARTICIPATE] {
        directives.take_flag(flag).map_err(directive(OPERATION))?;
    }
    directives.take(&keys::TIMEOUT).map_err(directive(OPERATION))?;
    directives.deny_unprocessed().map_err(directive(OPERATION))
}
