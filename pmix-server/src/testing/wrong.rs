//! Hosts that break one rule each: they show that the [checks](super::conformance) find it, and that nothing a host
//! does can hang or crash its server.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use pmix_types::{DataArray, Info, InfoFlags, Nspace, Pdata, ProcId, ProcInfo, Rank, Status, Value, keys};

use crate::handle::ServerHandle;
use crate::host::*;

/// What a [`Faulty`] host does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Its fence is over as soon as its own node has entered.
    HastyFence,
    /// Its fence waits, and loses the data.
    FenceWithoutData,
    /// Its fence takes requirements that nobody knows.
    CarelessFence,
    /// Its connect is over as soon as its own node has called.
    HastyConnect,
    /// Its connect hands every process the same number.
    TwinRanks,
    /// Its direct modex never answers.
    SilentDirectModex,
    /// Its direct modex answers with bytes that mean nothing.
    GarbledDirectModex,
    /// Its publish succeeds and keeps nothing.
    ForgetfulPublish,
    /// Its published data is for everybody, whatever the range, as often as one likes, and a key may be published
    /// again.
    PublicBoard,
    /// Its lookup never answers.
    SilentLookup,
    /// Its query panics.
    PanickingQuery,
    /// Its query finds everything: what it does not know is nought.
    LyingQuery,
    /// Its process tables run backwards.
    BackwardTable,
    /// Its events stay on their node.
    MuteEvents,
    /// It lets clients in and then panics.
    PanickingConnection,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::HastyFence,
        Self::FenceWithoutData,
        Self::CarelessFence,
        Self::HastyConnect,
        Self::TwinRanks,
        Self::SilentDirectModex,
        Self::GarbledDirectModex,
        Self::ForgetfulPublish,
        Self::PublicBoard,
        Self::SilentLookup,
        Self::PanickingQuery,
        Self::LyingQuery,
        Self::BackwardTable,
        Self::MuteEvents,
        Self::PanickingConnection,
    ];
}

/// A host with one fault; in all else it is the host it was made from.
#[derive(Debug)]
pub struct Faulty<H> {
    host: H,
    fault: Fault,
    board: Board,
    handle: OnceLock<ServerHandle>,
}

/// What was published on all nodes, for [`Fault::PublicBoard`].
type Board = Arc<Mutex<Vec<Pdata>>>;

impl<H: HostModule> Faulty<H> {
    /// Gives the hosts of all nodes the same fault.
    pub fn all(hosts: impl IntoIterator<Item = H>, fault: Fault) -> Vec<Self> {
        let board = Board::default();
        hosts
            .into_iter()
            .map(|host| Self { host, fault, board: board.clone(), handle: OnceLock::new() })
            .collect()
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// The table of the first namespace that is asked for, from the last rank to the first.
    async fn backward_table(&self, req: &QueryRequest) -> HostResult<QueryResults> {
        let query = req.queries.first().ok_or(Status::ERR_NOT_FOUND)?;
        let nspace: String = query.qualifiers.get(&keys::NSPACE)?.ok_or(Status::ERR_NOT_FOUND)?;
        let nspace = Nspace::new(nspace).map_err(|_| Status::ERR_BAD_PARAM)?;
        let handle = self.handle.get().ok_or(Status::ERR_INIT)?;
        let job = handle.job_data(&nspace).await.map_err(|failure| failure.status)?;
        let rows = Rank::first(job.size().unwrap_or(0))
            .rev()
            .map(|rank| ProcInfo::new(ProcId::new(nspace.clone(), rank)));
        let table = Value::from(DataArray::ProcInfo(rows.collect()));
        let answer = Info::dynamic(keys::QUERY_PROC_TABLE.key_name(), table);
        Ok(QueryResults::complete(vec![query.results(vec![answer])]))
    }

    fn board(&self) -> std::sync::MutexGuard<'_, Vec<Pdata>> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Entries of one's own, and those that are the inner host's.
macro_rules! faulty {
    ({ $($own:tt)* } $($method:ident($request:ty) -> $answer:ty;)+) => {
        #[async_trait]
        impl<H: HostModule> HostModule for Faulty<H> {
            $($own)*

            $(async fn $method(&self, cx: &UpcallContext, req: $request) -> $answer {
                self.host.$method(cx, req).await
            })+
        }
    };
}

faulty! {
    {
        fn capabilities(&self) -> Capabilities {
            self.host.capabilities()
        }

        fn started(&self, handle: &ServerHandle) {
            // one host, one server
            let _ = self.handle.set(handle.clone());
            self.host.started(handle);
        }

        async fn client_connected(&self, cx: &UpcallContext, req: ClientConnected) -> HostResult<()> {
            assert!(!self.has(Fault::PanickingConnection), "a host that panics");
            self.host.client_connected(cx, req).await
        }

        async fn fence(&self, cx: &UpcallContext, mut req: FenceRequest) -> HostResult<Bytes> {
            match self.fault {
                Fault::HastyFence => return Ok(req.data),
                Fault::CarelessFence => req.directives = careless(req.directives),
                _ => {}
            }
            let data = self.host.fence(cx, req).await?;
            Ok(if self.has(Fault::FenceWithoutData) { Bytes::new() } else { data })
        }

        async fn connect(&self, cx: &UpcallContext, req: ConnectRequest) -> HostResult<Connected> {
            if self.has(Fault::HastyConnect) {
                return Ok(Connected { data: req.data, ..Connected::default() });
            }
            let mut connected = self.host.connect(cx, req).await?;
            if self.has(Fault::TwinRanks) {
                connected.nspace = Nspace::new("twins").ok();
                for (_, rank) in &mut connected.ranks {
                    *rank = Rank::from_raw(0);
                }
            }
            Ok(connected)
        }

        async fn direct_modex(&self, cx: &UpcallContext, req: DirectModexRequest) -> HostResult<Bytes> {
            match self.fault {
                Fault::SilentDirectModex => std::future::pending().await,
                Fault::GarbledDirectModex => Ok(Bytes::from_static(b"\xff\xffnot data of a process")),
                _ => self.host.direct_modex(cx, req).await,
            }
        }

        async fn publish(&self, cx: &UpcallContext, req: PublishRequest) -> HostResult<()> {
            match self.fault {
                Fault::ForgetfulPublish => Ok(()),
                Fault::PublicBoard => {
                    let data = req.data.into_iter();
                    let proc = &cx.caller;
                    self.board().extend(
                        data.map(|Info { key, value, .. }| Pdata { proc: proc.clone(), key, value }),
                    );
                    Ok(())
                }
                _ => self.host.publish(cx, req).await,
            }
        }

        async fn lookup(&self, cx: &UpcallContext, req: LookupRequest) -> HostResult<Found> {
            match self.fault {
                Fault::SilentLookup => std::future::pending().await,
                Fault::PublicBoard => {
                    Ok(self.board().iter().filter(|data| req.keys.contains(&data.key)).cloned().collect())
                }
                _ => self.host.lookup(cx, req).await,
            }
        }

        async fn notify_event(&self, cx: &UpcallContext, req: NotifyEventRequest) -> HostResult<()> {
            if self.has(Fault::MuteEvents) { Ok(()) } else { self.host.notify_event(cx, req).await }
        }

        async fn query(&self, cx: &UpcallContext, req: QueryRequest) -> HostResult<QueryResults> {
            assert!(!self.has(Fault::PanickingQuery), "a host that panics");
            match self.fault {
                Fault::LyingQuery => {
                    let keys = req.queries.iter().flat_map(|query| &query.keys);
                    Ok(QueryResults::complete(keys.map(|key| Info::dynamic(key.clone(), 0_u32)).collect()))
                }
                Fault::BackwardTable => self.backward_table(&req).await,
                _ => self.host.query(cx, req).await,
            }
        }
    }
    client_finalized(ClientFinalized) -> HostResult<()>;
    client_lost(ClientLost) -> ();
    abort(AbortRequest) -> HostResult<()>;
    unpublish(UnpublishRequest) -> HostResult<()>;
    spawn(SpawnRequest) -> HostResult<Nspace>;
    disconnect(DisconnectRequest) -> HostResult<()>;
    register_events(RegisterEventsRequest) -> HostResult<()>;
    deregister_events(DeregisterEventsRequest) -> HostResult<()>;
    tool_connected(ToolConnected) -> HostResult<ProcId>;
    log(LogRequest) -> HostResult<()>;
    allocate(AllocateRequest) -> HostResult<Infos>;
    job_control(JobControlRequest) -> HostResult<Infos>;
    monitor(MonitorRequest) -> HostResult<Infos>;
    get_credential(GetCredentialRequest) -> HostResult<Credential>;
    validate_credential(ValidateCredentialRequest) -> HostResult<Infos>;
    iof_pull(IofPullRequest) -> HostResult<()>;
    push_stdin(PushStdinRequest) -> HostResult<()>;
    group(GroupRequest) -> HostResult<Grouped>;
    fabric(FabricRequest) -> HostResult<Infos>;
    session_control(SessionControlRequest) -> HostResult<Infos>;
    resource_block(ResourceBlockRequest) -> HostResult<()>;
}

/// What must be done need not.
fn careless(directives: pmix_types::Directives) -> pmix_types::Directives {
    let optional = |info: Info| Info { flags: info.flags - InfoFlags::REQUIRED, ..info };
    directives.into_iter().map(optional).collect()
}
