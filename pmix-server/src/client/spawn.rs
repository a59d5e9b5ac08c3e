use pmix_types::message::{Failure, Spawn};
use pmix_types::{Nspace, Status, keys};

builder! {
    /// A request to start a job; await it for the namespace of the job. See
    /// [`ServerClient::spawn`](super::ServerClient::spawn).
    ///
    /// # Errors
    /// When awaited: `ERR_BAD_PARAM` without applications, `ERR_NOT_SUPPORTED` if the host does not start jobs or does
    /// not support a required directive, `ERR_TIMEOUT`, `ERR_INIT` after the server has stopped, and errors of the host,
    /// such as `ERR_JOB_EXE_NOT_FOUND` (SPN-06).
    ///
    /// # Cancel safety
    /// Not safe: once requested, the job is started. Dropping the future only drops its namespace.
    SpawnBuilder(Spawn) -> Nspace
}

impl SpawnBuilder {
    /// The working directory of the processes.
    #[doc(alias = "PMIX_WDIR")]
    pub fn wdir(self, dir: impl Into<String>) -> Self {
        self.directive(keys::WDIR, dir)
    }

    /// The nodes to use, by name (SPN-02).
    #[doc(alias = "PMIX_HOST")]
    pub fn hosts<S: AsRef<str>>(self, nodes: impl IntoIterator<Item = S>) -> Self {
        let names: Vec<_> = nodes.into_iter().map(|node| node.as_ref().to_owned()).collect();
        self.directive(keys::HOST, names.join(","))
    }

    /// Requests an event `EVENT_JOB_END` when the processes of the job have ended (SPN-05).
    #[doc(alias = "PMIX_NOTIFY_COMPLETION")]
    pub fn notify_completion(self) -> Self {
        self.directive(keys::NOTIFY_COMPLETION, true)
    }

    /// Has the standard output and error of the new processes forwarded, so that it can be pulled (IOF-04).
    #[doc(alias = "PMIX_FWD_STDOUT", alias = "PMIX_FWD_STDERR")]
    pub fn forward_output(self) -> Self {
        self.directive(keys::FWD_STDOUT, true).directive(keys::FWD_STDERR, true)
    }

    async fn ask(self) -> Result<Nspace, Failure> {
        let (client, request) = self.draft.ready()?;
        if request.apps.is_empty() {
            return Err(Failure::new(Status::ERR_BAD_PARAM, "there is no application to start"));
        }
        client.link.call(request).await.map(|reply| reply.nspace)
    }
}
