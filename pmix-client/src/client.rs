//! The methods of [`Client`]: what a process says to others here, what it asks of server and host in `manager.rs`.

mod manager;

use std::fmt;

use pmix_types::message::{Abort, Log, Publish, Reply, Request, Spawn};
use pmix_types::{App, Event, Nspace, ProcId, Procs, Scope, Status, Value, ValueType};

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
/// Cheap to clone: all clones are the same process, and take the place of the Standard's counted references (INI-04,
/// INI-05). [`Client::finalize`] ends the connection for all of them. When the last clone is dropped without it the
/// connection closes at once, which a host may take for a failure of the process; the drop never blocks and may happen
/// outside of a runtime. A builder, a [`Group`](crate::Group), a [`ConnectedSet`](crate::ConnectedSet) and a [`Fabric`](crate::Fabric) each hold a clone.
///
/// [`ClientBuilder::init`](crate::ClientBuilder::init) starts one task on the caller's runtime, which carries all traffic;
/// replies arrive as long as that runtime runs. Both flavours of runtime will do.
///
/// Data that the process holds itself (job data, what it has put, what a fence has collected, what earlier gets have brought)
/// stays readable after the connection is lost. All that needs the server then fails with [`Error::Lost`].
///
/// # How calls are made
/// Each method with options returns a builder, which does nothing until it is awaited. Its page has the options, examples,
/// errors and what happens when the future is dropped. Builders and their futures own what they need, so they can be moved
/// into tasks. Arguments are taken alike everywhere: processes as [`Procs`], one process or namespace by value or by
/// reference, keys as [`AnyKey`] and [`TypedKey`](crate::TypedKey) say.
///
/// # Time limits
/// Without a limit an operation waits as long as the server lets it, for ever if the server hangs. A limit (`timeout` of the
/// builder, or the directive `TIMEOUT`) is kept by the server, which knows who is missing and reports it. If the server
/// does not answer within 5 seconds after the limit, the call fails with `ERR_TIMEOUT` and the message that the server
/// did not answer. That is as if its future had been dropped: what was sent may still be carried out, and a reply that
/// comes later is dropped. The connection stays, and works again if the server does. The runtime needs its timer for calls
/// with a limit. [`ClientBuilder::timeout`](crate::ClientBuilder::timeout) is kept here, to the moment.
///
/// The Standard counts limits in whole seconds. Only a get can have one with a fraction, as giving up changes nothing for
/// others; all other builders refuse such a limit with `ERR_BAD_PARAM` instead of rounding it.
#[derive(Clone)]
pub struct Client {
    core: Core,
}

/// The process itself.
impl Client {
    pub(crate) const fn new(core: Core) -> Self {
        Self { core }
    }

    fn core(&self) -> Core {
        self.core.clone()
    }

    fn draft<R>(&self, request: R) -> Draft<R> {
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

    /// Name of the node the process runs on, as the host calls it.
    pub fn hostname(&self) -> &str {
        self.core.hostname()
    }

    /// Whether the process runs without a server.
    pub fn is_singleton(&self) -> bool {
        self.core.is_singleton()
    }

    /// Whether there is a connection to a server, as far as is known.
    #[doc(alias = "PMIx_Initialized")]
    #[doc(alias = "PMIx_tool_is_connected")]
    pub fn is_connected(&self) -> bool {
        self.core.is_connected()
    }

    /// Sends a request as it is and returns what the server replies.
    ///
    /// For programs that test servers or carry requests for others. Nothing that the process holds is read or changed;
    /// events of a registration made this way are dropped: use [`Client::events`].
    ///
    /// # Errors
    /// Errors of the server; [`Error::Lost`] if the connection is or gets lost, `ERR_UNREACH` for a singleton,
    /// `ERR_INIT` after finalize.
    ///
    /// # Cancel safety
    /// Once sent the request goes on; dropping the future only drops the reply.
    pub async fn request(&self, request: Request) -> Result<Reply, Error> {
        self.core.request(request).await
    }

    /// Finalizes the connection; await the builder.
    ///
    /// The future is ready when the server has answered (INI-07). From the moment it is sent (after the barrier,
    /// if there is one) calls through other clones fail with `ERR_INIT` (GEN-10), and so do those that still wait
    /// when the answer comes. Staged values that were not committed are lost. The process may be initialized again
    /// later (INI-08).
    #[doc(alias = "PMIx_Finalize")]
    pub fn finalize(self) -> FinalizeBuilder {
        FinalizeBuilder::of(self.core)
    }

    /// Has the host end processes, by default all of the own namespace (ABT-01); await the builder.
    ///
    /// `status` is the exit status to be reported, `message` is for the user and may be empty.
    #[doc(alias = "PMIx_Abort")]
    pub fn abort(&self, status: i32, message: impl Into<String>) -> AbortBuilder {
        AbortBuilder::new(self.draft(Abort::new(status, message)))
    }
}

/// Values that processes put and get.
impl Client {
    /// Stages a value under a key of this process; [`Client::commit`] shows it to others.
    ///
    /// Putting a key again replaces its value and scope (PUT-04). Until the commit only this process sees it
    /// (PUT-05), and with [`Scope::INTERNAL`] also after it.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a reserved key (PUT-02) and for a text that is no key, `ERR_NOT_SUPPORTED` for a
    /// scope other than local, remote, global and internal (PUT-03), `ERR_INIT` after finalize.
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

    /// Stores a value under any process id, for this process only: it is never sent anywhere (PUT-09).
    ///
    /// Reserved keys are allowed (PUT-10): what was learned some other way can be kept where a get finds it.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a text that is no key and for an id that names no process, `ERR_INIT` after finalize.
    #[doc(alias = "PMIx_Store_internal")]
    pub fn store_internal(
        &self,
        proc: impl Into<ProcId>,
        key: impl AnyKey,
        value: impl Into<Value>,
    ) -> Result<(), Error> {
        ops::store_internal(&self.core, proc.into(), key, value.into())
    }

    /// Sends what was put since the last commit to the server, which shows it to others by its scope.
    ///
    /// With nothing staged it succeeds without contacting the server (PUT-07). If it fails the values stay staged, and the
    /// next commit sends them again.
    ///
    /// # Errors
    /// [`Error::Lost`] if the connection is or gets lost, `ERR_INIT` after finalize, and errors of the server.
    ///
    /// # Cancel safety
    /// Once sent the commit stands. When the future is dropped the values stay staged, so the next commit may
    /// send them a second time, which does no harm.
    #[doc(alias = "PMIx_Commit")]
    pub async fn commit(&self) -> Result<(), Error> {
        ops::commit(&self.core).await
    }

    /// Gets a value; await the builder.
    ///
    /// `target` is a process id, or `None` for the process itself (GET-01). Give the rank of the process for
    /// what it has put, and `WILDCARD` (or [`Client::job`]) for what is known of a job. A typed key decides
    /// the type of the result; with a text or a [`KeyName`](pmix_types::KeyName) the caller does, and [`Value`] fits all.
    ///
    /// What the process holds is answered locally, without contacting the server: own puts, job data, and what a fence with
    /// [`FenceBuilder::collect_data`] or an earlier get has brought. Otherwise the server is asked, and waits
    /// until the process has committed the key (GET-22); see [`GetBuilder`] for limits.
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

    /// A job to ask about.
    pub fn job(&self, nspace: impl Into<Nspace>) -> JobView {
        JobView::new(self.core(), nspace.into())
    }

    /// Waits for other processes; await the builder.
    ///
    /// All participants must name the set the same way (FEN-03), and the caller must be one of them (FEN-05).
    #[doc(alias = "PMIx_Fence")]
    #[doc(alias = "PMIx_Fence_nb")]
    pub fn fence(&self, procs: impl Into<Procs>) -> FenceBuilder {
        FenceBuilder::of(self.core(), procs.into())
    }

    /// Waits for all processes of the own namespace (FEN-01); await the builder.
    pub fn fence_all(&self) -> FenceBuilder {
        self.fence(Procs::own_nspace())
    }
}

/// Data that is published for whoever looks it up.
impl Client {
    /// Publishes data, also for processes of other jobs; await the builder.
    ///
    /// Published data has nothing to do with what is put: [`Client::get`] does not see it, and [`Client::lookup`] sees
    /// nothing else (PUB-18). By default, the processes of the session can find it (PUB-01) if they are of the same user
    /// (PUB-09), until all of the caller's application have ended.
    #[doc(alias = "PMIx_Publish")]
    #[doc(alias = "PMIx_Publish_nb")]
    pub fn publish(&self) -> PublishBuilder {
        PublishBuilder::new(self.draft(Publish::new(Vec::new())))
    }

    /// Looks up data that processes have published under these keys; await the builder.
    ///
    /// It does not wait for data to come (PUB-13), unless [`LookupBuilder::wait`] or [`LookupBuilder::wait_all`] say so.
    /// If a key is published in several ranges that reach the caller, the narrowest one counts (PUB-14). See
    /// [`PublishBuilder`] for an example.
    #[doc(alias = "PMIx_Lookup")]
    #[doc(alias = "PMIx_Lookup_nb")]
    pub fn lookup<K: AnyKey>(&self, keys: impl IntoIterator<Item = K>) -> LookupBuilder {
        LookupBuilder::of(self.core(), keys)
    }

    /// Withdraws what this very process has published under these keys (PUB-15); await the builder.
    ///
    /// A key that it has not published is no error. When the future is ready the keys may be published again (PUB-16).
    #[doc(alias = "PMIx_Unpublish")]
    #[doc(alias = "PMIx_Unpublish_nb")]
    pub fn unpublish<K: AnyKey>(&self, keys: impl IntoIterator<Item = K>) -> UnpublishBuilder {
        UnpublishBuilder::of(self.core(), keys)
    }

    /// Withdraws all that this very process has published in a range (PUB-15); await the builder.
    #[doc(alias = "PMIx_Unpublish")]
    pub fn unpublish_all(&self) -> UnpublishBuilder {
        UnpublishBuilder::all(self.core())
    }
}

/// Events, and messages for people.
impl Client {
    /// Opens a stream of the events with these codes, or of all if there are none; await the builder.
    ///
    /// The registration is complete when the future is ready; nothing that is older than it arrives but what
    /// the server has kept for latecomers (EVT-13, EVT-15).
    #[doc(alias = "PMIx_Register_event_handler")]
    pub fn events(&self, codes: impl IntoIterator<Item = Status>) -> EventsBuilder {
        EventsBuilder::of(self.core(), codes)
    }

    /// Calls a handler for events with these codes, or for all if there are none.
    ///
    /// The handlers of a process form a chain: each sees the results of those before it, and may end the chain (EVT-06).
    /// Streams of [`Client::events`] stand beside the chain and hear everything. See [`HandlerBuilder::handle`].
    #[doc(alias = "PMIx_Register_event_handler")]
    pub fn on_event(&self, codes: impl IntoIterator<Item = Status>) -> HandlerBuilder {
        HandlerBuilder::of(self.core(), codes)
    }

    /// Notifies others of an event, as far as its range goes; await the builder. A bare code is an event for the own
    /// namespace.
    ///
    /// Ready when the server has taken it, which says nothing of its delivery (EVT-17). An event for
    /// [`DataRange::PROC_LOCAL`](pmix_types::DataRange::PROC_LOCAL) goes to this process's own streams and handlers
    /// and nowhere else (EVT-11). Its source is this process, whatever the event says.
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
    /// A process id with rank `WILDCARD` means all of a namespace. Only channels that the job was spawned to
    /// forward are there to be pulled (IOF-04): see [`SpawnBuilder::forward_output`].
    #[doc(alias = "PMIx_IOF_pull")]
    pub fn pull_output(&self, procs: impl Into<Procs>) -> OutputBuilder {
        OutputBuilder::of(self.core(), procs.into())
    }

    /// Input for processes: what is written goes to the standard input of all targets.
    ///
    /// Nothing is sent yet, so nothing can fail here. The host decides which processes take input (IOF-12).
    #[doc(alias = "PMIx_IOF_push")]
    pub fn push_stdin(&self, targets: impl Into<Procs>) -> InputSink {
        InputSink::of(self.core(), targets.into())
    }
}

/// Jobs, connected sets and groups.
impl Client {
    /// Starts a job; await the builder for its namespace.
    ///
    /// Ready when all its processes have started (SPN-01); if one of them cannot be, none is left. The new job is
    /// connected to the caller's: the processes of either hear of failures in the other by `ERR_PROC_TERM_WO_SYNC`, and by
    /// the status with which the other ends, unless the job is [`independent`](SpawnBuilder::independent) (CON-18). There
    /// is nothing to disconnect. The job's data is answered locally from then on (SPN-04).
    #[doc(alias = "PMIx_Spawn")]
    #[doc(alias = "PMIx_Spawn_nb")]
    pub fn spawn(&self, apps: impl IntoIterator<Item = App>) -> SpawnBuilder {
        SpawnBuilder::new(self.draft(Spawn::new(apps.into_iter().collect())))
    }

    /// Makes processes of several namespaces known to each other, so that the host treats them as one application
    /// (CON-01); await the builder. It has nothing to do with the connection to the server.
    ///
    /// Ready when all named processes have called it (CON-02), in whatever order they name them (CON-03). After it the
    /// job data of the other namespaces is answered locally (CON-08), and the whole can be addressed by the
    /// namespace of the [`ConnectedSet`](crate::ConnectedSet), if the host makes one (CON-07). Processes that are connected may
    /// connect again: that waits for all, gives the same set and changes nothing; one disconnect ends it (CON-15).
    #[doc(alias = "PMIx_Connect")]
    #[doc(alias = "PMIx_Connect_nb")]
    pub fn connect(&self, procs: impl Into<Procs>) -> ConnectBuilder {
        ConnectBuilder::of(self.core(), procs.into())
    }

    /// Dissolves a connected set together with all its processes; await the builder.
    ///
    /// The processes are named as they were when they connected, or by the namespace of the [`ConnectedSet`](crate::ConnectedSet). What is
    /// known of the other namespaces stays (CON-16). [`ConnectedSet::disconnect`](crate::ConnectedSet::disconnect) is the same.
    #[doc(alias = "PMIx_Disconnect")]
    #[doc(alias = "PMIx_Disconnect_nb")]
    pub fn disconnect(&self, procs: impl Into<Procs>) -> DisconnectBuilder {
        DisconnectBuilder::of(self.core(), procs.into())
    }

    /// Leaves a connected set alone, without waiting for the others (CON-14); await the builder.
    ///
    /// `nspace` is the namespace of the [`ConnectedSet`](crate::ConnectedSet), as text or not. Collectives of those who stay do not wait for the
    /// caller any more. [`ConnectedSet::leave`](crate::ConnectedSet::leave) is the same.
    #[doc(alias = "PMIx_Disconnect")]
    pub fn disconnect_nspace(&self, nspace: impl TryInto<Nspace, Error: ToString>) -> DisconnectBuilder {
        DisconnectBuilder::leave(self.core(), nspace.try_into())
    }

    /// Makes a group of processes that can be named by its id; await the builder.
    ///
    /// Ready when all members have called it with the same id (GRP-01). They name the same processes, in whatever way and
    /// order; their ranks in the group follow the order that the one with the lowest id gives on the first node (GRP-04).
    /// After it the members' data and the job data of their namespaces is answered locally (GRP-05), and the id can
    /// stand for a namespace wherever processes are named, such as in a [`Client::fence`] (IDN-06).
    #[doc(alias = "PMIx_Group_construct")]
    #[doc(alias = "PMIx_Group_construct_nb")]
    pub fn group_construct(
        &self,
        id: impl TryInto<Nspace, Error: ToString>,
        members: impl Into<Procs>,
    ) -> GroupConstructBuilder {
        GroupConstructBuilder::of(self.core(), id, members.into())
    }

    /// Ends a group together with all of its members; await the builder. What is known of the others stays.
    /// [`Group::destruct`](crate::Group::destruct) is the same.
    #[doc(alias = "PMIx_Group_destruct")]
    #[doc(alias = "PMIx_Group_destruct_nb")]
    pub fn group_destruct(&self, id: impl TryInto<Nspace, Error: ToString>) -> GroupDestructBuilder {
        GroupDestructBuilder::of(self.core(), id)
    }

    /// Leaves a group alone; await the builder. The others hear of it by an event `GROUP_LEFT`, and keep their ranks.
    /// [`Group::leave`](crate::Group::leave) is the same.
    ///
    /// Ready when they are being told, not when all of them know (GRP-10): the program must make sure that nobody waits
    /// for the caller in an operation of the group.
    #[doc(alias = "PMIx_Group_leave")]
    #[doc(alias = "PMIx_Group_leave_nb")]
    pub fn group_leave(&self, id: impl TryInto<Nspace, Error: ToString>) -> GroupLeaveBuilder {
        GroupLeaveBuilder::of(self.core(), id)
    }

    /// Makes a group of the processes that accept an invitation (GRP-03); await the builder.
    ///
    /// Each of them hears of it by an event `GROUP_INVITED`, whose source is the caller and which has the id as `GROUP_ID`.
    /// The caller leads the group, and is its first member unless it is among `procs`. Ready when all have answered and
    /// those who accept are one group, as after [`Client::group_construct`]. Events `GROUP_INVITE_ACCEPTED`,
    /// `GROUP_INVITE_DECLINED` and `GROUP_INVITE_FAILED` tell the caller of the answers, `GROUP_CONSTRUCT_COMPLETE` tells all
    /// members of the end. Processes that are linked with the C library answer in a way of their own and are not counted.
    #[doc(alias = "PMIx_Group_invite")]
    #[doc(alias = "PMIx_Group_invite_nb")]
    pub fn group_invite(
        &self,
        id: impl TryInto<Nspace, Error: ToString>,
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
        id: impl TryInto<Nspace, Error: ToString>,
        leader: impl Into<ProcId>,
    ) -> GroupJoinBuilder {
        GroupJoinBuilder::of(self.core(), id, leader.into())
    }

    /// Declines the invitation of a leader (GRP-03); await the builder.
    #[doc(alias = "PMIx_Group_join")]
    #[doc(alias = "PMIX_GROUP_DECLINE")]
    pub fn group_decline(
        &self,
        id: impl TryInto<Nspace, Error: ToString>,
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
