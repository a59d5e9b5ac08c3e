//! The host's way into the library.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use pmix_types::job::{JobData, JobSpec};
use pmix_types::message::{Failure, Output, Request};
use pmix_types::{Directives, Event, Info, IofChannels, Nspace, ProcId, Status};

use crate::door::Door;
use crate::driver::Inbox;
use crate::host::HostObject;
use crate::open_mpi;
use crate::server::NativeWire;
use pmix_engine::{CallValue, HostCall, Presence, ServerStats};

/// The host's way into the library: registration, direct modex, events. Cheap to clone; may be used from
/// inside upcalls, and outlives the server harmlessly (calls then fail with `ERR_INIT`).
#[derive(Clone)]
pub struct ServerHandle {
    inbox: Inbox,
    shared: Arc<Shared>,
}

/// What is settled when a server has started.
pub(crate) struct Shared {
    pub(crate) server: ProcId,
    pub(crate) hostname: String,
    pub(crate) uri: String,
    pub(crate) dir: PathBuf,
    pub(crate) native: Option<(pmix_native::conn::ServerUri, NativeWire)>,
    pub(crate) harvest: Vec<String>,
    pub(crate) door: Door,
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHandle").field("uri", &self.shared.uri).finish_non_exhaustive()
    }
}

/// Variables that a process needs to find its server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    variables: Vec<(String, String)>,
    defaults: Vec<(String, String)>,
}

impl Environment {
    /// Sets them for a command; other variables of the command stay (CLI-07). [`Defaults`](Self::defaults) are set
    /// where neither the command nor the environment of this process has the variable.
    pub fn apply(&self, command: &mut std::process::Command) {
        let is_set = |command: &std::process::Command, name: &str| {
            command.get_envs().any(|(held, _)| held == name) || std::env::var_os(name).is_some()
        };
        for (name, value) in &self.defaults {
            if !is_set(command, name) {
                command.env(name, value);
            }
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }

    /// Name and value of each, without the [`defaults`](Self::defaults).
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Name and value of each variable that gives way to what users have set: parameters of MPI libraries.
    pub fn defaults(&self) -> impl Iterator<Item = (&str, &str)> {
        self.defaults.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Name and value of each, owned, without the [`defaults`](Self::defaults).
    pub fn into_vec(self) -> Vec<(String, String)> {
        self.variables
    }
}

impl ServerHandle {
    pub(crate) fn new(inbox: Inbox, shared: Shared) -> Self {
        Self { inbox, shared: Arc::new(shared) }
    }

    /// Where front ends bring what happens.
    pub(crate) const fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// Identity of the server.
    pub fn proc_id(&self) -> &ProcId {
        &self.shared.server
    }

    /// Name of the node.
    pub fn hostname(&self) -> &str {
        &self.shared.hostname
    }

    /// Where the server is reached: `<nspace>.<rank>;unix:<path>`.
    pub fn uri(&self) -> &str {
        &self.shared.uri
    }

    pub(crate) fn harvested_names(&self) -> &[String] {
        &self.shared.harvest
    }

    /// The server's private directory; removed when it stops.
    pub fn session_dir(&self) -> &Path {
        &self.shared.dir
    }

    /// Tells the server of a job, before its first process starts here (REG-01). Again for the same
    /// namespace, adds to and replaces its data (REG-09).
    ///
    /// A name should not begin with `pmix`, which is logged as a warning: programs build keys from their namespace, and
    /// keys that begin so are reserved (GEN-01), so that the C library refuses to put them.
    ///
    /// Where more processes share a machine than processors, say so for each of its nodes:
    /// `spec.node_info(node, &keys::NODE_OVERSUBSCRIBED, true)`, and nothing elsewhere, as Open MPI 5 takes any value for a
    /// yes. MPI libraries that are not told wait for each other by spinning, and a collective takes seconds in place of microseconds. Open MPI 5 asks for that key when it starts, and
    /// Open MPI 4 looks at a variable, which is among the [`defaults`](Environment::defaults) of
    /// [`setup_fork`](Self::setup_fork) then. `StandardHost` of `pmix-host` does it for launchers that
    /// know their processors (`Launcher::machine`).
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` if the description contradicts itself; nothing is registered then.
    ///
    /// # Cancel safety
    /// Once started it is carried out; dropping the future only discards the answer.
    #[doc(alias = "PMIx_server_register_nspace")]
    pub async fn register_nspace(&self, spec: JobSpec) -> Result<(), Failure> {
        let nspace = spec.nspace().clone();
        self.register_nspace_infos(nspace, None, spec.into_infos()).await
    }

    /// As [`ServerHandle::register_nspace`], from the Standard's arguments. `local_procs` is the number of
    /// processes on this node; `None` if the process map tells.
    ///
    /// # Errors
    /// As [`ServerHandle::register_nspace`].
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    pub async fn register_nspace_infos(
        &self,
        nspace: Nspace,
        local_procs: Option<u32>,
        infos: Vec<Info>,
    ) -> Result<(), Failure> {
        if nspace.as_str().starts_with("pmix") {
            tracing::warn!(
                %nspace,
                "the name of this job begins with pmix: keys that its programs build from it count as reserved, and the C \
                 library refuses them; choose another name"
            );
        }
        self.call(HostCall::RegisterNspace { nspace, local_procs, infos }).await
    }

    /// Forgets a namespace, its clients and their data; what is pending for them fails (REG-11).
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` if it is not registered.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_deregister_nspace")]
    pub async fn deregister_nspace(&self, nspace: &Nspace) -> Result<(), Failure> {
        self.call(HostCall::DeregisterNspace(nspace.clone())).await
    }

    /// Announces a local process before it starts: who connects as `proc` must have this user and group
    /// (CLI-01, CLI-02). The object comes back with its upcalls (CLI-04).
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` if the rank is not that of one process, is none of the job's, or is on another node by the job's
    /// maps. A process may be registered before its namespace; then that is checked when the namespace is.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_register_client")]
    pub async fn register_client(
        &self,
        proc: &ProcId,
        uid: u32,
        gid: u32,
        object: Option<HostObject>,
    ) -> Result<(), Failure> {
        self.call(HostCall::RegisterClient { proc: proc.clone(), uid, gid, object }).await
    }

    /// Forgets one client and its data (CLI-08).
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` or `ERR_NOT_FOUND` if it is not registered.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_deregister_client")]
    pub async fn deregister_client(&self, proc: &ProcId) -> Result<(), Failure> {
        self.call(HostCall::DeregisterClient(proc.clone())).await
    }

    /// Tells the server that a local process has ended, so that nobody waits for it any more: collectives it
    /// has not entered fail, naming it and the reason. Its data stays.
    ///
    /// The server finds out by itself when a connected process dies; this is for those that end before they
    /// connect, or after finalize. An addition to the Standard.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if it is not registered here.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    pub async fn client_ended(&self, proc: &ProcId, reason: impl Into<String>) -> Result<(), Failure> {
        self.call(HostCall::ClientEnded { proc: proc.clone(), reason: reason.into() }).await
    }

    /// What a registered process needs in its environment (CLI-07): the way to its server, and what
    /// [`setup_local_support`](Self::setup_local_support) has brought. With the native wire, also its place in the job by
    /// the names that Open MPI's launchers use (`OMPI_COMM_WORLD_RANK` and the like), by which scripts and libraries
    /// choose; as far as the job's data tells it.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` or `ERR_INVALID_NAMESPACE` if it is not registered.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    #[doc(alias = "PMIx_server_setup_fork")]
    pub async fn setup_fork(&self, proc: &ProcId) -> Result<Environment, Failure> {
        let CallValue::Variables(given) = self.inbox.call(HostCall::VariablesOf(proc.clone())).await? else {
            return Err(Status::ERROR.into());
        };
        let vars = [
            ("PMIX_NAMESPACE", proc.nspace.to_string()),
            ("PMIX_RANK", proc.rank.to_string()),
            ("PMIX_GRPC_URI", self.shared.uri.clone()),
            ("PMIX_HOSTNAME", self.shared.hostname.clone()),
        ];
        let mut environment: Vec<_> =
            vars.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        if let Some((uri, wire)) = &self.shared.native {
            let mut launch =
                pmix_native::env::Launch::new(uri.clone(), proc.clone(), self.shared.hostname.clone());
            launch.server_tmpdir = Some(self.shared.dir.clone());
            launch.open_mpi_4 = *wire == NativeWire::WithOpenMpi4;
            for (name, value) in launch.variables() {
                if !environment.iter().any(|(held, _)| held == name) {
                    environment.push((name.to_owned(), value));
                }
            }
        }
        let mut defaults = Vec::new();
        if self.shared.native.is_some()
            && let Ok(job) = self.job_data(&proc.nspace).await
        {
            environment.extend(open_mpi::place(&job, proc.rank));
            defaults.extend(open_mpi::parameters(&job, &self.shared.hostname));
        }
        // what leads to the server is not the host's to change
        for (name, value) in given {
            if !environment.iter().any(|(held, _)| *held == name) {
                environment.push((name, value));
            }
        }
        Ok(Environment { variables: environment, defaults })
    }

    /// The data of a local process for the server of another node, as soon as it has committed; with
    /// `REQUIRED_KEY` as soon as that key is there (DMX-02, DMX-03). For rank `WILDCARD` the job-level data
    /// of the namespace. Waits as long as it takes; the asking side keeps the time.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if the process is not on this node or has ended, `ERR_EXISTS_OUTSIDE_SCOPE` if the
    /// required key was put for local processes only.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    #[doc(alias = "PMIx_server_dmodex_request")]
    pub async fn dmodex_request(&self, proc: &ProcId, directives: Directives) -> Result<Bytes, Failure> {
        match self.inbox.call(HostCall::DmodexRequest { proc: proc.clone(), directives }).await? {
            CallValue::Blob(blob) => Ok(blob),
            _ => Err(Status::ERROR.into()),
        }
    }

    /// Waits until it is known what comes here of an operation that another node waits for, given as the fence, connect or
    /// disconnect that a process there has asked for: an operation of these participants ends here, or none of them can
    /// enter it any more. A host that has not been called for an operation which others wait for should ask, as nobody
    /// else tells it of participants that have all ended before (CON-12). An addition to the Standard.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for another request, or one without participants; `ERR_OUT_OF_RESOURCE` with too many of these
    /// calls under way; `ERR_INVALID_NAMESPACE` and the like when a participating namespace ends, `ERR_INIT` after the
    /// server has stopped.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn presence(&self, operation: Request) -> Result<Presence, Failure> {
        match self.inbox.call(HostCall::Absence(operation)).await? {
            CallValue::Presence(presence) => Ok(presence),
            _ => Err(Status::ERROR.into()),
        }
    }

    /// Tells local processes of an event; [`ProcId::none`] as source for the host itself (EVT-12).
    ///
    /// # Errors
    /// None but `ERR_INIT` after the server has stopped. Says nothing about delivery.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_Notify_event")]
    pub async fn notify_event(&self, event: Event) -> Result<(), Failure> {
        self.call(HostCall::NotifyEvent(event)).await
    }

    /// Tells local processes of an event of a process on another node, whose user decides who hears of it: processes and
    /// tools of other users do not.
    ///
    /// # Errors
    /// None but `ERR_INIT` after the server has stopped. Says nothing about delivery.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    pub async fn notify_event_of(&self, event: Event, uid: u32) -> Result<(), Failure> {
        self.call(HostCall::NotifyEventOf { event, uid }).await
    }

    /// Hands over output of a process: the server finds those who have asked for it (IOF-05). Ready when the bytes
    /// are no longer needed.
    ///
    /// Output that nobody has asked for yet is kept for whoever asks first, if the namespace is registered: the
    /// first 64 KiB of each channel of each process, 16 MiB in all. `IOF_CACHE_SIZE` and `IOF_DROP_OLDEST` in
    /// `info` change that; they are not passed on. `IOF_COMPLETE` says that the channel is closed (IOF-08).
    /// Calls for one channel must be made one after the other to keep its order (IOF-09).
    ///
    /// A process that reads too slowly never holds this back: it loses output and is told how much.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a directive in `info` of the wrong type, `ERR_INIT` after the server has stopped.
    /// Says nothing about delivery.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_IOF_deliver")]
    pub async fn iof_deliver(
        &self,
        source: &ProcId,
        channels: IofChannels,
        data: Bytes,
        info: Directives,
    ) -> Result<(), Failure> {
        let mut output = Output::new(source.clone(), channels, data);
        output.info = info;
        self.call(HostCall::IofDeliver(output)).await
    }

    /// The job-level data the server holds of a namespace.
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` if it is not registered.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn job_data(&self, nspace: &Nspace) -> Result<Arc<JobData>, Failure> {
        match self.inbox.call(HostCall::JobData(nspace.clone())).await? {
            CallValue::Job(job) => Ok(job),
            _ => Err(Status::ERROR.into()),
        }
    }

    /// Counters; all zero after the server has stopped.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn stats(&self) -> ServerStats {
        match self.inbox.call(HostCall::Stats).await {
            Ok(CallValue::Stats(mut stats)) => {
                stats.refused += self.shared.door.turned_away();
                stats
            }
            _ => ServerStats::default(),
        }
    }

    pub(crate) async fn call(&self, call: HostCall) -> Result<(), Failure> {
        self.inbox.call(call).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::process::Command;

    use super::*;

    #[test]
    fn parameters_give_way_to_those_of_users_and_the_way_to_the_server_does_not() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let environment = Environment {
            variables: vec![pair("PMIX_RANK", "3")],
            defaults: vec![pair("OMPI_MCA_a", "ours"), pair("OMPI_MCA_b", "ours"), pair("PATH", "ours")],
        };
        let mut command = Command::new("program");
        command.env("PMIX_RANK", "theirs").env("OMPI_MCA_b", "theirs");
        environment.apply(&mut command);
        let set: Vec<_> = command.get_envs().map(|(name, value)| (name, value.unwrap())).collect();
        let due = [("OMPI_MCA_a", "ours"), ("OMPI_MCA_b", "theirs"), ("PMIX_RANK", "3")];
        // every test inherits a PATH
        assert_eq!(set, due.map(|(name, value)| (OsStr::new(name), OsStr::new(value))));
        assert_eq!(environment.iter().collect::<Vec<_>>(), [("PMIX_RANK", "3")]);
        assert_eq!(environment.defaults().count(), 3);
    }
}
