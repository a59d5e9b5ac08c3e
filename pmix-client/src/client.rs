//! The process itself, and the methods of [`Client`] that deal with other processes; those for the server and its host stand beside their
//! builders.

mod locality;

use std::fmt;

use pmix_types::message::{Abort, Log, Publish, Reply, Request, Spawn};
use pmix_types::{
    App, DataRange, Event, Info, Nspace, NspaceError, ProcId, Procs, Scope, Status, Value, ValueType, keys,
};

use crate::core::Core;
use crate::error::Error;
use crate::ops::{
    self, AbortBuilder, ConnectBuilder, DisconnectBuilder, Draft, EventsBuilder, FenceBuilder,
    FinalizeBuilder, GetAllBuilder, GetBuilder, GroupConstructBuilder, GroupDeclineBuilder,
    GroupDestructBuilder, GroupInviteBuilder, GroupJoinBuilder, GroupLeaveBuilder, HandlerBuilder, InputSink,
    JobView, LogBuilder, LookupBuilder, NotifyBuilder, OutputBuilder, PublishBuilder, SpawnBuilder, Target,
    UnpublishBuilder,
};
use pmix_types::{AnyKey, KeyOf};

/// A process that takes part in PMIx, and its connection to the server.
///
/// Cheap to clone: all clones are the same process, and replace the Standard's reference count of inits (INI-04,
/// INI-05). [`Client::finalize`] ends the connection for all of them. If the last clone is dropped without it, the
/// connection closes at once, which a host may treat as a failure of the process. The drop never blocks, and may happen
/// outside of a runtime. A builder, a [`Group`](crate::Group), a [`ConnectedSet`](crate::ConnectedSet) and a
/// [`Fabric`](crate::Fabric) each hold a clone.
///
/// [`ClientBuilder::init`](crate::ClientBuilder::init) starts one task on the caller's runtime, which carries all
/// traffic; replies arrive as long as that runtime runs. The runtime may be of either flavour.
///
/// Data that the process itself holds (job data, its own puts, the data of fences and of earlier gets) stays readable
/// after the connection is lost. Everything that needs the server then fails with [`Error::Lost`].
///
/// # How calls are made
/// Each method with options returns a builder, which does nothing until it is awaited. The builder's page describes its
/// options, its errors and what happens when the future is dropped, with examples. Builders and their futures own what
/// they need, so they can be moved into tasks. All methods take arguments in the same forms: processes as [`Procs`], a
/// single process or namespace by value or by reference, keys as [`AnyKey`] and [`TypedKey`](crate::TypedKey).
///
/// # Time limits
/// Without a limit, an operation waits until the server answers: for ever if the server hangs. The server keeps the
/// limit of an operation (`timeout` of the builder, or the directive `TIMEOUT`), as it knows which participants are
/// missing and reports them. If the server does not answer within 3 seconds after the limit, the call fails with
/// `ERR_TIMEOUT` and the message that the server did not answer. This has the same effect as dropping the future: the
/// request may still be carried out, and a late reply is dropped. The connection stays open, except after a finalize, and
/// works again when the server does. Calls with a limit require a runtime with a timer. The limit of
/// [`ClientBuilder::timeout`](crate::ClientBuilder::timeout) is kept by the client itself, exactly.
///
/// The Standard counts limits in whole seconds. Only a get accepts a fraction of a second, as giving up early does not
/// affect other processes. All other builders refuse it with `ERR_BAD_PARAM` instead of rounding it; a finalize is
/// carried out all the same, without the limit.
#[derive(Clone)]
pub struct Client {
    core: Core,
}

/// The process itself.
impl Client {
    pub(crate) const fn new(core: Core) -> Self {
        Self { core }
    }

    pub(crate) fn core(&self) -> Core {
        self.core.clone()
    }

    pub(crate) fn draft<R>(&self, request: R) -> Draft<R> {
        Draft::new(self.core(), request)
    }

    /// The process's own id (INI-03).
    pub fn proc_id(&self) -> &ProcId {
        self.core.proc()
    }

    /// Id of the server; `None` for a singleton.
    pub fn server_id(&self) -> Option<&ProcId> {
        self.core.server()
    }

    /// The host's name of the node on which the process runs.
    pub fn hostname(&self) -> &str {
        self.core.hostname()
    }

    /// Whether the process runs without a server.
    pub fn is_singleton(&self) -> bool {
        self.core.is_singleton()
    }

    /// Whether the process is connected to a server, as far as it knows.
    #[doc(alias = "PMIx_Initialized")]
    #[doc(alias = "PMIx_tool_is_connected")]
    pub fn is_connected(&self) -> bool {
        self.core.is_connected()
    }

    /// Sends a request unchanged and returns the server's reply.
    ///
    /// For programs that test servers or forward requests. It neither reads nor changes the data that the process
    /// holds. Events for a registration made this way are dropped: use [`Client::events`].
    ///
    /// # Errors
    /// Errors of the server; [`Error::Lost`] if the connection is lost, `ERR_UNREACH` for a singleton, `ERR_INIT` after
    /// finalize.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel a request that was sent; only the reply is dropped.
    pub async fn request(&self, request: Request) -> Result<Reply, Error> {
        self.core.request(request).await
    }

    /// Finalizes the connection; await the builder.
    ///
    /// The future is ready when the server has answered (INI-07). Once the request is sent (after the barrier, if there
    /// is one), calls through other clones fail with `ERR_INIT` (GEN-10); so do calls that are still waiting when the
    /// answer arrives. Values that were put but not committed are lost. The process may be initialized again later
    /// (INI-08).
    #[doc(alias = "PMIx_Finalize")]
    pub fn finalize(self) -> FinalizeBuilder {
        FinalizeBuilder::of(self.core)
    }

    /// Has the host end processes, by default all of the caller's namespace (ABT-01); await the builder.
    ///
    /// `status` is the exit status to report; `message` is for the user and may be empty.
    #[doc(alias = "PMIx_Abort")]
    pub fn abort(&self, status: i32, message: impl Into<String>) -> AbortBuilder {
        AbortBuilder::new(self.draft(Abort::new(status, message.into())))
    }
}

/// Putting and getting values.
impl Client {
    /// Stores a value under a key of this process; [`Client::commit`] makes it visible to others.
    ///
    /// Putting a key again replaces its value and scope (PUT-04). Until the commit only this process sees it
    /// (PUT-05), and with [`Scope::INTERNAL`] also after it.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a reserved or invalid key (PUT-02), `ERR_NOT_SUPPORTED` for a scope other than local,
    /// remote, global and internal (PUT-03), `ERR_INIT` after finalize.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::{Scope, keys};
    ///
    /// let client = pmix_client::Client::singleton().await?;
    /// client.put(Scope::GLOBAL, "endpoint", "10.0.0.1:7000")?;
    /// client.put(Scope::GLOBAL, "address", vec![10u8, 0, 0, 1])?;
    /// let address: Vec<u8> = client.get(None, "address").await?;
    /// assert_eq!(address, [10, 0, 0, 1]);
    /// assert!(client.put(Scope::GLOBAL, keys::JOB_SIZE, 3u32).is_err());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Put")]
    pub fn put(&self, scope: Scope, key: impl AnyKey, value: impl Into<Value>) -> Result<(), Error> {
        ops::put(&self.core, scope, key, value.into())
    }

    /// Puts a value that only a get with equal [qualifiers](crate::GetBuilder::qualifier) returns. A process can put several
    /// under one key, beside one without qualifiers.
    ///
    /// # Errors
    /// As [`put`](Self::put), and `ERR_BAD_PARAM` without qualifiers and if the key and its qualifiers, as text, are longer than
    /// a key may be.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::{Info, Scope, keys};
    ///
    /// let client = pmix_client::Client::singleton().await?;
    /// let of = |group: u64| Info::new(&keys::GROUP_CONTEXT_ID, group);
    /// client.put_qualified(Scope::GLOBAL, "id", 107, [of(7)])?;
    /// client.put_qualified(Scope::GLOBAL, "id", 108, [of(8)])?;
    /// assert_eq!(client.get::<i32>(None, "id").qualifier(of(8)).await?, 108);
    /// assert!(client.get::<i32>(None, "id").await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Standard
    /// None; `PMIX_QUALIFIED_VALUE` of OpenPMIx 4.2.
    #[doc(alias = "PMIX_QUALIFIED_VALUE")]
    pub fn put_qualified(
        &self,
        scope: Scope,
        key: impl AnyKey,
        value: impl Into<Value>,
        qualifiers: impl IntoIterator<Item = Info>,
    ) -> Result<(), Error> {
        ops::put_qualified(&self.core, scope, key, value.into(), qualifiers)
    }

    /// Stores a value under any process id, for this process only: it is never sent anywhere (PUT-09).
    ///
    /// Reserved keys are allowed (PUT-10), so that a get can find information that the process obtained in some other
    /// way.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an invalid key and for an id that names no process, `ERR_INIT` after finalize.
    #[doc(alias = "PMIx_Store_internal")]
    pub fn store_internal(
        &self,
        proc: impl Into<ProcId>,
        key: impl AnyKey,
        value: impl Into<Value>,
    ) -> Result<(), Error> {
        ops::store_internal(&self.core, proc.into(), key, value.into())
    }

    /// Sends everything put since the last commit to the server, which gives it to other processes according to its
    /// scope.
    ///
    /// If nothing was put since then, it succeeds without contacting the server (PUT-07). If it fails, the next commit
    /// sends the values again.
    ///
    /// # Errors
    /// [`Error::Lost`] if the connection is lost, `ERR_INIT` after finalize, and errors of the server.
    ///
    /// # Cancel safety
    /// Dropping the future does not undo a commit that was sent. The next commit may send the values a second time,
    /// which does no harm.
    #[doc(alias = "PMIx_Commit")]
    pub async fn commit(&self) -> Result<(), Error> {
        ops::commit(&self.core).await
    }

    /// Gets a value; await the builder.
    ///
    /// `target` is a process id, or `None` for the process itself (GET-01). For values that a process has put, the rank
    /// is that of the process; for values of a job, it is `WILDCARD` (see also [`Client::job`]). A typed key determines
    /// the type of the result. With a string or a [`KeyName`](pmix_types::KeyName), the caller chooses it; [`Value`]
    /// accepts every type.
    ///
    /// Data that the process holds is answered locally, without contacting the server: its own puts, job data, and the
    /// data of fences with [`FenceBuilder::collect_data`] and of earlier gets. Otherwise the request goes to the
    /// server, which waits until the process has committed the key (GET-22); see [`GetBuilder`] for limits.
    #[doc(alias = "PMIx_Get")]
    #[doc(alias = "PMIx_Get_nb")]
    pub fn get<T: ValueType>(&self, target: impl Into<Target>, key: impl KeyOf<T>) -> GetBuilder<T> {
        GetBuilder::of(self.core(), target.into(), key)
    }

    /// Gets all keys that a process has put, with their values; await the builder.
    #[doc(alias = "PMIx_Get")]
    pub fn get_all(&self, target: impl Into<Target>) -> GetAllBuilder {
        GetAllBuilder::of(self.core(), target.into())
    }

    /// A view of a job, to get its values.
    pub fn job(&self, nspace: impl TryInto<Nspace, Error: Into<NspaceError>>) -> JobView {
        JobView::new(self.core(), nspace.try_into().map_err(Into::into))
    }

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

/// Published data.
impl Client {
    /// Publishes data, which processes of other jobs can find too; await the builder.
    ///
    /// Published data is separate from data that was put: [`Client::get`] does not see it, and [`Client::lookup`] sees
    /// nothing else (PUB-18). By default, processes of the same session (PUB-01) and the same user (PUB-09) can find
    /// it, until all processes of the caller's application have ended.
    #[doc(alias = "PMIx_Publish")]
    #[doc(alias = "PMIx_Publish_nb")]
    pub fn publish(&self) -> PublishBuilder {
        PublishBuilder::new(self.draft(Publish::new(Vec::new())))
    }

    /// Looks up data that processes have published under these keys; await the builder.
    ///
    /// By default it does not wait for missing data (PUB-13); see [`LookupBuilder::wait`] and
    /// [`LookupBuilder::wait_all`]. If a key is published in several ranges that include the caller, the narrowest one
    /// wins (PUB-14). See [`PublishBuilder`] for an example.
    #[doc(alias = "PMIx_Lookup")]
    #[doc(alias = "PMIx_Lookup_nb")]
    pub fn lookup<K: AnyKey>(&self, keys: impl IntoIterator<Item = K>) -> LookupBuilder {
        LookupBuilder::of(self.core(), keys)
    }

    /// Unpublishes the data that this process has published under these keys (PUB-15); await the builder.
    ///
    /// A key that this process has not published is not an error. When the future is ready, the keys may be published
    /// again (PUB-16).
    #[doc(alias = "PMIx_Unpublish")]
    #[doc(alias = "PMIx_Unpublish_nb")]
    pub fn unpublish<K: AnyKey>(&self, keys: impl IntoIterator<Item = K>) -> UnpublishBuilder {
        UnpublishBuilder::of(self.core(), keys)
    }

    /// Unpublishes all data that this process has published in a range (PUB-15); await the builder.
    #[doc(alias = "PMIx_Unpublish")]
    pub fn unpublish_all(&self) -> UnpublishBuilder {
        UnpublishBuilder::all(self.core())
    }
}

/// Events, and messages for people.
impl Client {
    /// Opens a stream of the events with these codes, or of all events if no code is given; await the builder.
    ///
    /// When the future is ready, the registration is complete. The stream has no older events, apart from those that
    /// the server has kept for late registrations (EVT-13, EVT-15).
    #[doc(alias = "PMIx_Register_event_handler")]
    pub fn events(&self, codes: impl IntoIterator<Item = Status>) -> EventsBuilder {
        EventsBuilder::of(self.core(), codes)
    }

    /// Calls a handler for events with these codes, or for all events if no code is given.
    ///
    /// The handlers of a process form a chain: each sees the results of those before it, and may end the chain
    /// (EVT-06). Streams of [`Client::events`] are not part of the chain and always receive their events. See
    /// [`HandlerBuilder::handle`].
    #[doc(alias = "PMIx_Register_event_handler")]
    pub fn on_event(&self, codes: impl IntoIterator<Item = Status>) -> HandlerBuilder {
        HandlerBuilder::of(self.core(), codes)
    }

    /// Declares a programming model to the other libraries of this process, by an event `MODEL_DECLARED` for their handlers
    /// and streams of this client. Add details with [`info`](NotifyBuilder::info), such as `MODEL_LIBRARY_NAME`,
    /// `MODEL_LIBRARY_VERSION`, `THREADING_MODEL` and `MODEL_NUM_THREADS`. Await the builder.
    ///
    /// Values passed to [`ClientBuilder::directives`](crate::ClientBuilder::directives) under these keys go to the host; processes
    /// and tools that may see this process can query the keys with its `PROCID`.
    #[doc(alias = "PMIX_MODEL_DECLARED", alias = "PMIX_PROGRAMMING_MODEL")]
    pub fn declare_model(&self, model: impl Into<String>) -> NotifyBuilder {
        let event = self.notify(Status::MODEL_DECLARED).range(DataRange::PROC_LOCAL).non_default();
        event.info(keys::PROGRAMMING_MODEL, model)
    }

    /// Notifies the processes in the event's range of an event; await the builder. If only a code is given, the event
    /// is for the caller's namespace.
    ///
    /// Ready when the server has accepted the event, which does not mean that it was delivered (EVT-17). An event for
    /// [`DataRange::PROC_LOCAL`](pmix_types::DataRange::PROC_LOCAL) goes only to the streams and handlers of this
    /// process (EVT-11). The source is always this process, regardless of the event's own.
    #[doc(alias = "PMIx_Notify_event")]
    pub fn notify(&self, event: impl Into<Event>) -> NotifyBuilder {
        NotifyBuilder::of(self.core(), event.into())
    }

    /// Logs messages on channels; await the builder.
    #[doc(alias = "PMIx_Log")]
    #[doc(alias = "PMIx_Log_nb")]
    pub fn log(&self) -> LogBuilder {
        LogBuilder::new(self.draft(Log::new(Vec::new())))
    }

    /// Subscribes to the standard output and error of processes; await the builder.
    ///
    /// A process id with rank `WILDCARD` means all processes of a namespace. Only channels whose forwarding was
    /// requested when the job was spawned can be pulled (IOF-04): see [`SpawnBuilder::forward_output`].
    #[doc(alias = "PMIx_IOF_pull")]
    pub fn pull_output(&self, procs: impl Into<Procs>) -> OutputBuilder {
        OutputBuilder::of(self.core(), procs.into())
    }

    /// A sink for the standard input of processes: what is written to it goes to all targets.
    ///
    /// This method sends nothing, so it cannot fail. The host decides which processes accept input (IOF-12).
    #[doc(alias = "PMIx_IOF_push")]
    pub fn push_stdin(&self, targets: impl Into<Procs>) -> InputSink {
        InputSink::of(self.core(), targets.into())
    }
}

/// Jobs, connected sets and groups.
impl Client {
    /// Starts a job; await the builder for its namespace.
    ///
    /// Ready when all its processes have started (SPN-01); if one of them cannot start, none is left running. Unless
    /// the new job is [`independent`](SpawnBuilder::independent), it is connected to the caller's: failures in one are
    /// notified to the processes of the other by `ERR_PROC_TERM_WO_SYNC`, and by the status with which the job ends
    /// (CON-18). No disconnect is needed. From then on, gets of the new job's data are answered locally (SPN-04).
    #[doc(alias = "PMIx_Spawn")]
    #[doc(alias = "PMIx_Spawn_nb")]
    pub fn spawn(&self, apps: impl IntoIterator<Item = App>) -> SpawnBuilder {
        SpawnBuilder::new(self.draft(Spawn::new(apps.into_iter().collect())))
    }

    /// Forgets the description of another job, which was kept at its spawn or connect: gets of its data ask the server again. For
    /// programs that start many jobs.
    pub fn forget_job(&self, nspace: &Nspace) {
        self.core.store_mut().forget_job(nspace);
    }

    /// Makes processes of several namespaces known to each other, so that the host treats them as one application
    /// (CON-01); await the builder. It has nothing to do with the connection to the server.
    ///
    /// Ready when all named processes have called it (CON-02); they may name them in any order (CON-03). After it, gets
    /// of the other namespaces' job data are answered locally (CON-08), and the connected processes can be addressed by
    /// the namespace of the [`ConnectedSet`](crate::ConnectedSet), if the host makes one (CON-07). Connected processes
    /// may connect again: the call waits for all of them, returns the same set and changes nothing; a single disconnect
    /// still ends it (CON-15).
    #[doc(alias = "PMIx_Connect")]
    #[doc(alias = "PMIx_Connect_nb")]
    pub fn connect(&self, procs: impl Into<Procs>) -> ConnectBuilder {
        ConnectBuilder::of(self.core(), procs.into())
    }

    /// Dissolves a connected set; all its processes must call it. Await the builder.
    ///
    /// Name the processes as in the connect, or by the namespace of the [`ConnectedSet`](crate::ConnectedSet). The data
    /// of the other namespaces stays available (CON-16). [`ConnectedSet::disconnect`](crate::ConnectedSet::disconnect)
    /// does the same.
    #[doc(alias = "PMIx_Disconnect")]
    #[doc(alias = "PMIx_Disconnect_nb")]
    pub fn disconnect(&self, procs: impl Into<Procs>) -> DisconnectBuilder {
        DisconnectBuilder::of(self.core(), procs.into())
    }

    /// Leaves a connected set alone, without waiting for the others (CON-14); await the builder.
    ///
    /// `nspace` is the namespace of the [`ConnectedSet`](crate::ConnectedSet), as a string or an [`Nspace`].
    /// Collectives of the remaining processes no longer wait for the caller.
    /// [`ConnectedSet::leave`](crate::ConnectedSet::leave) does the same.
    #[doc(alias = "PMIx_Disconnect")]
    pub fn disconnect_nspace(
        &self,
        nspace: impl TryInto<Nspace, Error: Into<NspaceError>>,
    ) -> DisconnectBuilder {
        DisconnectBuilder::leave(self.core(), nspace)
    }

    /// Makes a group of processes that can be named by its id; await the builder.
    ///
    /// Ready when all members have called it with the same id (GRP-01). They must name the same processes, in any form
    /// and order; the ranks in the group follow the order given by the member with the lowest `ProcId` on the first
    /// node (GRP-04). After it, gets of the members' data and of the job data of their namespaces are answered locally
    /// (GRP-05), and the id can be used in place of a namespace wherever processes are named, such as in
    /// [`Client::fence`] (IDN-06). An id that is in use as a namespace or as that of another group, or that begins
    /// with a namespace and a dot, is refused with `ERR_EXISTS` (GRP-11).
    #[doc(alias = "PMIx_Group_construct")]
    #[doc(alias = "PMIx_Group_construct_nb")]
    pub fn group_construct(
        &self,
        id: impl TryInto<Nspace, Error: Into<NspaceError>>,
        members: impl Into<Procs>,
    ) -> GroupConstructBuilder {
        GroupConstructBuilder::of(self.core(), id, members.into())
    }

    /// Makes a group with other leaders, none of which needs to know the others (GRP-02); await the builder.
    ///
    /// `leaders` is how many processes call this for the id, the caller included. Leaders may
    /// [add](GroupConstructBuilder::add_members) further members, which call [`Client::group_join_bootstrap`]. Ready when all
    /// leaders and all added members have called. Leaders come first in the group, ordered by their [`ProcId`]s,
    /// followed by the added members. Directives of one leader apply to all. All members must be processes of the
    /// same user.
    ///
    /// Leaders that pass different numbers fail with `ERR_BAD_PARAM`. If too few leaders call, the others wait: set a
    /// [`timeout`](GroupConstructBuilder::timeout). If too many call, the surplus ones wait in the same way, as
    /// leaders of the next group of this id.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client, peer: pmix_client::ProcId) -> Result<(), pmix_client::Error> {
    /// // one of two leaders, each of which adds a process
    /// let group = client.group_bootstrap("ocean", 2).add_members([peer]).await?;
    /// assert_eq!(group.members.len(), 4);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIX_GROUP_BOOTSTRAP")]
    #[doc(alias = "PMIx_Group_construct")]
    pub fn group_bootstrap(
        &self,
        id: impl TryInto<Nspace, Error: Into<NspaceError>>,
        leaders: u64,
    ) -> GroupConstructBuilder {
        GroupConstructBuilder::leading(self.core(), id, leaders)
    }

    /// Enters a group to which its leaders add the caller (GRP-02); await the builder. Ready when all leaders and all
    /// added members have called; see [`Client::group_bootstrap`]. A process that no leader adds waits, so set a
    /// [`timeout`](GroupConstructBuilder::timeout).
    #[doc(alias = "PMIx_Group_construct")]
    pub fn group_join_bootstrap(
        &self,
        id: impl TryInto<Nspace, Error: Into<NspaceError>>,
    ) -> GroupConstructBuilder {
        GroupConstructBuilder::added(self.core(), id)
    }

    /// Ends a group; all its members must call it. Await the builder. The data of the other members stays available.
    /// [`Group::destruct`](crate::Group::destruct) does the same.
    #[doc(alias = "PMIx_Group_destruct")]
    #[doc(alias = "PMIx_Group_destruct_nb")]
    pub fn group_destruct(&self, id: impl TryInto<Nspace, Error: Into<NspaceError>>) -> GroupDestructBuilder {
        GroupDestructBuilder::of(self.core(), id)
    }

    /// Leaves a group without waiting for the others; await the builder. The event `GROUP_LEFT` notifies the other
    /// members, who keep their ranks. [`Group::leave`](crate::Group::leave) does the same.
    ///
    /// When the future is ready, the notification is on its way but may not have reached all members (GRP-10): the
    /// program must make sure that no member waits for the caller in an operation of the group.
    #[doc(alias = "PMIx_Group_leave")]
    #[doc(alias = "PMIx_Group_leave_nb")]
    pub fn group_leave(&self, id: impl TryInto<Nspace, Error: Into<NspaceError>>) -> GroupLeaveBuilder {
        GroupLeaveBuilder::of(self.core(), id)
    }

    /// Makes a group of the processes that accept an invitation (GRP-03); await the builder.
    ///
    /// Each process is invited by an event `GROUP_INVITED`, with the caller as its source and the id as `GROUP_ID`. The
    /// caller leads the group, and is its first member unless it is among `procs`. Ready when all have answered and
    /// those that accepted form a group, as after [`Client::group_construct`]. The events `GROUP_INVITE_ACCEPTED`,
    /// `GROUP_INVITE_DECLINED` and `GROUP_INVITE_FAILED` report the answers to the caller; `GROUP_CONSTRUCT_COMPLETE`
    /// notifies all members that the group is complete. Processes linked with the C library can be invited, and can
    /// invite, in the same way.
    #[doc(alias = "PMIx_Group_invite")]
    #[doc(alias = "PMIx_Group_invite_nb")]
    pub fn group_invite(
        &self,
        id: impl TryInto<Nspace, Error: Into<NspaceError>>,
        procs: impl Into<Procs>,
    ) -> GroupInviteBuilder {
        GroupInviteBuilder::of(self.core(), id, procs.into())
    }

    /// Accepts the invitation of a leader (GRP-03); await the builder. Ready when the group is complete.
    #[doc(alias = "PMIx_Group_join")]
    #[doc(alias = "PMIx_Group_join_nb")]
    #[doc(alias = "PMIX_GROUP_ACCEPT")]
    pub fn group_join(
        &self,
        id: impl TryInto<Nspace, Error: Into<NspaceError>>,
        leader: impl Into<ProcId>,
    ) -> GroupJoinBuilder {
        GroupJoinBuilder::of(self.core(), id, leader.into())
    }

    /// Declines the invitation of a leader (GRP-03); await the builder.
    #[doc(alias = "PMIx_Group_join")]
    #[doc(alias = "PMIX_GROUP_DECLINE")]
    pub fn group_decline(
        &self,
        id: impl TryInto<Nspace, Error: Into<NspaceError>>,
        leader: impl Into<ProcId>,
    ) -> GroupDeclineBuilder {
        GroupDeclineBuilder::of(self.core(), id, leader.into())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(f)
    }
}
