use pmix_types::message::{Failure, Lookup, LookupReply, Publish, Unpublish};
use pmix_types::{AnyKey, DataArray, DataRange, Gid, Info, Persistence, Procs, Status, Uid, Value, keys};

builder! {
    /// Data to publish. Await it to publish it. See [`ServerClient::publish`](super::ServerClient::publish).
    ///
    /// # Errors
    /// When awaited: `ERR_BAD_PARAM` without data and for an invalid key, `ERR_DUPLICATE_KEY` if a key is already
    /// published in the same range, `ERR_NOT_SUPPORTED` if the host keeps no data (PUB-17), `ERR_TIMEOUT`, `ERR_INIT`
    /// after the server has stopped, and errors of the host.
    ///
    /// # Cancel safety
    /// Not safe: once requested, the data is published.
    PublishBuilder(Publish) -> ()
}

impl PublishBuilder {
    /// Adds a key and its value. A key that is a directive of publish, such as [`keys::RANGE`], is treated as a
    /// directive (PUB-02).
    pub fn data(mut self, key: impl AnyKey, value: impl Into<Value>) -> Self {
        if let Some(key) = self.draft.name(key) {
            self.draft.request.data.push(Info::dynamic(key, value));
        }
        self
    }

    /// Who can find the data: [`DataRange::SESSION`] by default (PUB-01, PUB-06). The server belongs to no session, so
    /// this is the processes of all sessions.
    #[doc(alias = "PMIX_RANGE")]
    pub fn range(self, range: DataRange) -> Self {
        self.directive(keys::RANGE, range)
    }

    /// Lets only these processes find the data: [`DataRange::CUSTOM`].
    #[doc(alias = "PMIX_RANGE_CUSTOM")]
    pub fn custom_range(self, procs: impl Into<Procs>) -> Self {
        let procs = DataArray::Proc(self.draft.procs(procs));
        self.range(DataRange::CUSTOM).directive(keys::EVENT_CUSTOM_RANGE, procs)
    }

    /// How long the data is kept: [`Persistence::APP`] by default (PUB-01, PUB-08).
    #[doc(alias = "PMIX_PERSISTENCE")]
    pub fn persistence(self, persistence: Persistence) -> Self {
        self.directive(keys::PERSISTENCE, persistence)
    }

    /// Lets processes with these effective user or group ids find the data, instead of those of the server's user
    /// (PUB-09).
    #[doc(alias = "PMIX_ACCESS_PERMISSIONS")]
    pub fn access(self, users: impl IntoIterator<Item = Uid>, groups: impl IntoIterator<Item = Gid>) -> Self {
        let users = DataArray::Uint32(users.into_iter().map(Uid::as_raw).collect());
        let groups = DataArray::Uint32(groups.into_iter().map(Gid::as_raw).collect());
        let (users, groups) =
            (Info::new(&keys::ACCESS_USERIDS, users), Info::new(&keys::ACCESS_GRPIDS, groups));
        self.directive(keys::ACCESS_PERMISSIONS, DataArray::Info(vec![users, groups]))
    }

    async fn ask(self) -> Result<(), Failure> {
        let (client, request) = self.draft.ready()?;
        client.link.call(request).await
    }
}

builder! {
    /// A pending lookup; await it for the data. See [`ServerClient::lookup`](super::ServerClient::lookup).
    ///
    /// # Errors
    /// When awaited: `ERR_NOT_FOUND` if nothing was found, `ERR_BAD_PARAM` without keys and for an invalid key,
    /// `ERR_NOT_SUPPORTED` if the host keeps no data (PUB-17), `ERR_TIMEOUT`, `ERR_INIT` after the server has stopped,
    /// and errors of the host. That some keys were not found is no error (PUB-12).
    ///
    /// # Cancel safety
    /// Safe: the upcall is cancelled; see [`UpcallContext::cancelled`](crate::UpcallContext::cancelled). It may
    /// nevertheless have consumed data with [`Persistence::FIRST_READ`].
    LookupBuilder(Lookup) -> LookupReply
}

impl LookupBuilder {
    /// Looks only for data published by processes in this range of the server; [`DataRange::SESSION`] by default
    /// (PUB-10).
    #[doc(alias = "PMIX_RANGE")]
    pub fn range(self, range: DataRange) -> Self {
        self.directive(keys::RANGE, range)
    }

    /// Looks only for data published by these processes: [`DataRange::CUSTOM`].
    #[doc(alias = "PMIX_RANGE_CUSTOM")]
    pub fn custom_range(self, procs: impl Into<Procs>) -> Self {
        let procs = DataArray::Proc(self.draft.procs(procs));
        self.range(DataRange::CUSTOM).directive(keys::EVENT_CUSTOM_RANGE, procs)
    }

    /// Waits until this number of the keys is published (PUB-13). 0, or more than the number of keys, means all.
    #[doc(alias = "PMIX_WAIT")]
    pub fn wait(self, count: usize) -> Self {
        self.directive(keys::WAIT, i32::try_from(count).unwrap_or(i32::MAX))
    }

    /// Waits until all keys are published (PUB-13).
    #[doc(alias = "PMIX_WAIT")]
    pub fn wait_all(self) -> Self {
        self.wait(0)
    }

    async fn ask(self) -> Result<LookupReply, Failure> {
        let (client, request) = self.draft.ready()?;
        if request.keys.is_empty() {
            return Err(Failure::new(Status::ERR_BAD_PARAM, "a lookup needs at least one key"));
        }
        client.link.call(request).await
    }
}

builder! {
    /// A request to withdraw published data. Await it to send it. See
    /// [`ServerClient::unpublish`](super::ServerClient::unpublish).
    ///
    /// # Errors
    /// When awaited: `ERR_BAD_PARAM` for an empty list of keys and for an invalid key, `ERR_NOT_SUPPORTED` if the host
    /// keeps no data (PUB-17), `ERR_TIMEOUT`, `ERR_INIT` after the server has stopped, and errors of the host.
    ///
    /// # Cancel safety
    /// Not safe: once requested, the data is unpublished.
    UnpublishBuilder(Unpublish) -> ()
}

impl UnpublishBuilder {
    /// The range that the data was published in: [`DataRange::SESSION`] by default (PUB-15).
    #[doc(alias = "PMIX_RANGE")]
    pub fn range(self, range: DataRange) -> Self {
        self.directive(keys::RANGE, range)
    }

    /// Unpublishes only data that was published for exactly these processes: [`DataRange::CUSTOM`].
    #[doc(alias = "PMIX_RANGE_CUSTOM")]
    pub fn custom_range(self, procs: impl Into<Procs>) -> Self {
        let procs = DataArray::Proc(self.draft.procs(procs));
        self.range(DataRange::CUSTOM).directive(keys::EVENT_CUSTOM_RANGE, procs)
    }

    async fn ask(self) -> Result<(), Failure> {
        let (client, request) = self.draft.ready()?;
        client.link.call(request).await
    }
}
