//! Hosts that break one rule each. They show that the [checks](crate) detect it, and that no host can hang or crash its
//! server.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use pmix_types::{
    AllocDirective, DataArray, Info, InfoFlags, Nspace, Pdata, ProcId, ProcInfo, Rank, Status, Value, keys,
};

use pmix_server::ServerHandle;
use pmix_server::host::*;
use pmix_types::for_each_upcall;

/// The fault of a [`Faulty`] host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Its fence ends as soon as its own node has entered.
    HastyFence,
    /// Its fence waits, but loses the data.
    FenceWithoutData,
    /// Its fence accepts unknown required directives.
    CarelessFence,
    /// Its connect ends as soon as its own node has entered.
    HastyConnect,
    /// Its connect assigns the same rank to every process.
    TwinRanks,
    /// Its direct modex never answers.
    SilentDirectModex,
    /// Its direct modex answers with invalid bytes.
    GarbledDirectModex,
    /// Its publish succeeds, but stores nothing.
    ForgetfulPublish,
    /// Every process finds its published data, in any range and any number of times, and a key may be published again.
    PublicBoard,
    /// Its store keeps the first value of a key, whatever its range, and forgets others.
    SingleSlot,
    /// Its lookup never answers.
    SilentLookup,
    /// Its lookup always waits.
    PatientLookup,
    /// Its query panics.
    PanickingQuery,
    /// Its query answers unknown keys with 0.
    LyingQuery,
    /// Its process tables are in reverse order.
    BackwardTable,
    /// Its events do not leave their node.
    MuteEvents,
    /// It panics when a client connects.
    PanickingConnection,
    /// Its spawn names a job, but starts nothing.
    EmptySpawn,
    /// Its spawn accepts unknown required directives.
    CarelessSpawn,
    /// Its job control succeeds, but does nothing.
    IdleJobControl,
    /// Its abort succeeds, but ends nothing.
    IdleAbort,
    /// Its input goes nowhere.
    LostInput,
    /// Its log succeeds, whatever the channels.
    ContentLog,
    /// It validates everything.
    CredulousValidation,
    /// Its credentials name another user.
    WrongHolder,
    /// It forgets nothing of processes that are lost.
    LongMemory,
    /// All tools are the same to it.
    TwinTools,
    /// Its allocations can be given back again and again.
    EndlessRelease,
    /// Its groups are made as soon as its own node has entered.
    HastyGroup,
    /// Its groups are made when all have called, but it loses the data.
    GroupWithoutData,
    /// Its groups have the same number, all of them.
    TwinGroups,
    /// Its groups by bootstrap have only the leaders for members.
    LonelyLeaders,
    /// It implements lookup, but does not declare it.
    SilentAboutLookup,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 33] = [
        Self::HastyFence,
        Self::FenceWithoutData,
        Self::CarelessFence,
        Self::HastyConnect,
        Self::TwinRanks,
        Self::SilentDirectModex,
        Self::GarbledDirectModex,
        Self::ForgetfulPublish,
        Self::PublicBoard,
        Self::SingleSlot,
        Self::SilentLookup,
        Self::PatientLookup,
        Self::PanickingQuery,
        Self::LyingQuery,
        Self::BackwardTable,
        Self::MuteEvents,
        Self::PanickingConnection,
        Self::EmptySpawn,
        Self::CarelessSpawn,
        Self::IdleJobControl,
        Self::IdleAbort,
        Self::LostInput,
        Self::ContentLog,
        Self::CredulousValidation,
        Self::WrongHolder,
        Self::LongMemory,
        Self::TwinTools,
        Self::EndlessRelease,
        Self::HastyGroup,
        Self::GroupWithoutData,
        Self::TwinGroups,
        Self::LonelyLeaders,
        Self::SilentAboutLookup,
    ];
}

/// A host with one fault, which otherwise behaves like the host that it wraps.
#[derive(Debug)]
pub struct Faulty<H> {
    host: H,
    fault: Fault,
    board: Board,
    handle: OnceLock<ServerHandle>,
}

/// The data published on all nodes, for [`Fault::PublicBoard`] and [`Fault::SingleSlot`].
type Board = Arc<Mutex<Vec<Pdata>>>;

impl<H: HostModule> Faulty<H> {
    /// Wraps the hosts of all nodes with the same fault.
    pub fn all(hosts: impl IntoIterator<Item = H>, fault: Fault) -> Vec<Self> {
        let board = Board::default();
        hosts
            .into_iter()
            .map(|host| Self { host, fault, board: board.clone(), handle: OnceLock::new() })
            .collect()
    }

    /// The process table of the first namespace in the query, from the last rank to the first.
    async fn backward_table(&self, req: &QueryRequest) -> HostResult<QueryResults> {
        let query = req.queries.first().ok_or(Status::ERR_NOT_FOUND)?;
        let nspace: String = query.qualifiers.get(&keys::NSPACE.text())?.ok_or(Status::ERR_NOT_FOUND)?;
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

    /// Notes data that is published; true if it is the first under its key.
    fn is_new(&self, cx: &UpcallContext, data: &Info) -> bool {
        let mut board = self.board();
        let is_new = board.iter().all(|held| held.key != data.key);
        board.push(Pdata::new(cx.caller.clone(), data.key.clone(), data.value.clone()));
        is_new
    }

    fn board(&self) -> std::sync::MutexGuard<'_, Vec<Pdata>> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes all entries to `answer`.
macro_rules! answered_in_one_place {
    ($($(#[$doc:meta])* $name:ident $method:ident($request:ty) -> $reply:ty { $($about:tt)* })+) => {
        #[async_trait]
        impl<H: HostModule> HostModule for Faulty<H> {
            fn capabilities(&self) -> Capabilities {
                let declared = self.host.capabilities();
                match self.fault {
                    Fault::SilentAboutLookup => declared.iter().filter(|upcall| *upcall != Upcall::Lookup).collect(),
                    _ => declared,
                }
            }

            fn started(&self, handle: &ServerHandle) {
                // a host has one server
                let _ = self.handle.set(handle.clone());
                self.host.started(handle);
            }

            $(async fn $method(&self, cx: &UpcallContext, req: $request) -> HostResult<$reply> {
                let answer = self.answer(cx, UpcallRequest::$name(req)).await?;
                answer.try_into().map_err(|_| Status::ERROR.into())
            })+
        }
    };
}

for_each_upcall!(answered_in_one_place);

impl<H: HostModule> Faulty<H> {
    /// The answer of the wrapped host, unless the fault affects it.
    async fn answer(&self, cx: &UpcallContext, request: UpcallRequest) -> HostResult<Answer> {
        match (self.fault, request) {
            (Fault::PanickingConnection, UpcallRequest::ClientConnected(_)) => panic!("a host that panics"),
            (Fault::HastyFence, UpcallRequest::Fence(req)) => Ok(Answer::Blob(req.data)),
            (Fault::CarelessFence, UpcallRequest::Fence(mut req)) => {
                req.directives = careless(req.directives);
                self.host.fence(cx, req).await.map(Answer::Blob)
            }
            (Fault::FenceWithoutData, UpcallRequest::Fence(req)) => {
                self.host.fence(cx, req).await?;
                Ok(Answer::Blob(Bytes::new()))
            }
            (Fault::HastyConnect, UpcallRequest::Connect(req)) => {
                Ok(Answer::Connected(Connected::new(req.data)))
            }
            (Fault::TwinRanks, UpcallRequest::Connect(req)) => {
                let mut connected = self.host.connect(cx, req).await?;
                connected.nspace = Nspace::new("twins").ok();
                for (_, rank) in &mut connected.ranks {
                    *rank = Rank::from_raw(0);
                }
                Ok(Answer::Connected(connected))
            }
            (Fault::SilentDirectModex, UpcallRequest::DirectModex(_))
            | (Fault::SilentLookup, UpcallRequest::Lookup(_)) => std::future::pending().await,
            (Fault::GarbledDirectModex, UpcallRequest::DirectModex(_)) => {
                Ok(Answer::Blob(Bytes::from_static(b"\xff\xffnot data of a process")))
            }
            (Fault::ForgetfulPublish, UpcallRequest::Publish(_))
            | (Fault::MuteEvents, UpcallRequest::NotifyEvent(_)) => Ok(Answer::Done),
            (Fault::PublicBoard, UpcallRequest::Publish(req)) => {
                let proc = &cx.caller;
                let data = req.data.into_iter();
                self.board().extend(data.map(|Info { key, value, .. }| Pdata::new(proc.clone(), key, value)));
                Ok(Answer::Done)
            }
            (Fault::PublicBoard, UpcallRequest::Lookup(req)) => {
                let found =
                    self.board().iter().filter(|data| req.keys.contains(&data.key)).cloned().collect();
                Ok(Answer::Found(found))
            }
            (Fault::SingleSlot, UpcallRequest::Publish(mut req)) => {
                req.data.retain(|data| self.is_new(cx, data));
                match req.data.is_empty() {
                    true => Ok(Answer::Done),
                    false => self.host.publish(cx, req).await.map(|()| Answer::Done),
                }
            }
            (Fault::PatientLookup, UpcallRequest::Lookup(mut req)) => {
                req.directives = req.directives.with(&keys::WAIT, 0);
                self.host.lookup(cx, req).await.map(Answer::Found)
            }
            (Fault::PanickingQuery, UpcallRequest::Query(_)) => panic!("a host that panics"),
            (Fault::LyingQuery, UpcallRequest::Query(req)) => {
                let keys = req.queries.iter().flat_map(|query| &query.keys);
                let lies = keys.map(|key| Info::dynamic(key.clone(), 0_u32)).collect();
                Ok(Answer::Query(QueryResults::complete(lies)))
            }
            (Fault::BackwardTable, UpcallRequest::Query(req)) => {
                self.backward_table(&req).await.map(Answer::Query)
            }
            (Fault::EmptySpawn, UpcallRequest::Spawn(_)) => {
                Nspace::new("empty").map(Answer::Spawned).map_err(|_| Status::ERROR.into())
            }
            (Fault::CarelessSpawn, UpcallRequest::Spawn(mut req)) => {
                req.directives = careless(req.directives);
                for app in &mut req.apps {
                    app.info = careless(std::mem::take(&mut app.info).into()).into_vec();
                }
                self.host.spawn(cx, req).await.map(Answer::Spawned)
            }
            (Fault::IdleJobControl, UpcallRequest::JobControl(_)) => Ok(Answer::from(Infos::new())),
            (Fault::TwinTools, UpcallRequest::ToolConnected(_)) => {
                let twin = Nspace::new("twin").map_err(|_| Status::ERROR)?;
                Ok(Answer::Identity(ProcId::new(twin, Rank::from_raw(0))))
            }
            (Fault::LongMemory, UpcallRequest::ClientLost(_))
            | (Fault::IdleAbort, UpcallRequest::Abort(_))
            | (Fault::LostInput, UpcallRequest::PushStdin(_))
            | (Fault::ContentLog, UpcallRequest::Log(_)) => Ok(Answer::Done),
            (Fault::CredulousValidation, UpcallRequest::ValidateCredential(_)) => {
                Ok(Answer::from(vec![Info::new(&keys::USERID, cx.uid)]))
            }
            (Fault::WrongHolder, UpcallRequest::ValidateCredential(_)) => {
                Ok(Answer::from(vec![Info::new(&keys::USERID, cx.uid.as_raw() + 1)]))
            }
            (Fault::EndlessRelease, UpcallRequest::Allocate(req))
                if req.directive == AllocDirective::RELEASE =>
            {
                Ok(Answer::from(Infos::new()))
            }
            (Fault::HastyGroup, UpcallRequest::Group(req)) => {
                let mut grouped = Grouped::default();
                grouped.data = req.data;
                Ok(Answer::Grouped(grouped))
            }
            (Fault::GroupWithoutData, UpcallRequest::Group(req)) => {
                let mut grouped = self.host.group(cx, req).await?;
                grouped.data = Bytes::new();
                Ok(Answer::Grouped(grouped))
            }
            (Fault::TwinGroups, UpcallRequest::Group(req)) => {
                let mut grouped = self.host.group(cx, req).await?;
                grouped.context_id = grouped.context_id.map(|_| 1);
                Ok(Answer::Grouped(grouped))
            }
            (Fault::LonelyLeaders, UpcallRequest::Bootstrap(req)) => {
                let mut found = self.host.bootstrap(cx, req).await?;
                found.members.clone_from(&found.leaders);
                Ok(Answer::Bootstrapped(found))
            }
            (_, request) => call(&self.host, cx, request).await,
        }
    }
}

/// Makes required directives optional.
fn careless(directives: Directives) -> Directives {
    let optional = |info: Info| {
        let flags = info.flags - InfoFlags::REQUIRED;
        info.with_flags(flags)
    };
    directives.into_iter().map(optional).collect()
}
