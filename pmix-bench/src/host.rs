//! A host that completes each upcall immediately, so that only the library is measured.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use pmix_server::host::{
    Abort, ConnectRequest, Connected, DeregisterEventsRequest, DirectModexRequest, DisconnectRequest, Event,
    FenceRequest, Lookup, LookupResult, Publish, QueryRequest, QueryResults, RegisterEvents, Unpublish,
};
use pmix_server::types::{
    DataArray, Info, KeyName, Nspace, Pdata, Pid, ProcId, ProcInfo, ProcState, Query, Rank, Status, keys,
};
use pmix_server::{Capabilities, HostError, HostModule, HostResult, Upcall, UpcallContext, async_trait};

/// What a query names that asks for a table made for it, with the number of its rows.
const TABLE: &str = "bench-table.";

/// The host of a launch.
#[derive(Debug, Default)]
pub(crate) struct Host {
    published: Mutex<HashMap<KeyName, Pdata>>,
    tables: Mutex<HashMap<u32, Info>>,
    namespaces: OnceLock<Info>,
}

impl Host {
    fn answer(&self, query: &Query) -> Option<Info> {
        let [key] = query.keys.as_slice() else { return None };
        if *key == *keys::QUERY_NAMESPACES.name() {
            let names = || Info::new(&keys::QUERY_NAMESPACES, "bench-0,bench-table");
            return Some(self.namespaces.get_or_init(names).clone());
        }
        let asked = query.qualifiers.get_value(keys::NSPACE.name())?.as_str()?;
        let rows = asked.strip_prefix(TABLE)?.parse().ok()?;
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        (*key == *keys::QUERY_PROC_TABLE.name())
            .then(|| tables.entry(rows).or_insert_with(|| table(rows)).clone())
    }
}

/// A table of this many processes.
fn table(rows: u32) -> Info {
    let nspace = Nspace::new("bench-table").unwrap_or_else(|_| Nspace::none());
    let row = |rank: u32| {
        let mut row = ProcInfo::new(ProcId::new(nspace.clone(), Rank::from_raw(rank)));
        row.hostname = Some(format!("node{:05}", rank / 64));
        row.executable = Some("bench_application".to_owned());
        (row.pid, row.state) = (Pid(1000 + rank.cast_signed()), ProcState::RUNNING);
        row
    };
    Info::new(&keys::QUERY_PROC_TABLE, DataArray::ProcInfo((0..rows).map(row).collect()))
}

#[async_trait]
impl HostModule for Host {
    fn capabilities(&self) -> Capabilities {
        use Upcall as U;
        let served = [
            U::ClientConnected,
            U::ClientFinalized,
            U::Abort,
            U::Fence,
            U::DirectModex,
            U::Publish,
            U::Lookup,
            U::Unpublish,
            U::Connect,
            U::Disconnect,
            U::RegisterEvents,
            U::DeregisterEvents,
            U::NotifyEvent,
            U::Query,
        ];
        let served: Capabilities = served.into_iter().collect();
        let all = served.iter().collect::<Vec<_>>();
        served.begun_by_server(all)
    }

    async fn abort(&self, cx: &UpcallContext, req: Abort) -> HostResult<()> {
        eprintln!("pmix-bench: {} aborts: {} {}", cx.caller, req.status, req.message);
        Ok(())
    }

    /// One node that gathers from all: what came up goes down again.
    async fn fence(&self, _: &UpcallContext, req: FenceRequest) -> HostResult<Bytes> {
        Ok(req.data)
    }

    async fn direct_modex(&self, _: &UpcallContext, req: DirectModexRequest) -> HostResult<Bytes> {
        Err(HostError::new(Status::ERR_NOT_FOUND, format!("{} has no server here", req.proc)))
    }

    async fn publish(&self, cx: &UpcallContext, req: Publish) -> HostResult<()> {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        for Info { key, value, .. } in req.data {
            if published.contains_key(&key) {
                return Err(HostError::new(Status::ERR_DUPLICATE_KEY, format!("{key} is published already")));
            }
            published.insert(key.clone(), Pdata::new(cx.caller.clone(), key, value));
        }
        Ok(())
    }

    async fn lookup(&self, _: &UpcallContext, req: Lookup) -> HostResult<LookupResult> {
        let published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(req.keys.iter().filter_map(|key| published.get(key).cloned()).collect())
    }

    async fn unpublish(&self, _: &UpcallContext, req: Unpublish) -> HostResult<()> {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        for key in &req.keys {
            published.remove(key);
        }
        Ok(())
    }

    async fn connect(&self, _: &UpcallContext, _: ConnectRequest) -> HostResult<Connected> {
        Ok(Connected::default())
    }

    async fn disconnect(&self, _: &UpcallContext, _: DisconnectRequest) -> HostResult<()> {
        Ok(())
    }

    async fn register_events(&self, _: &UpcallContext, _: RegisterEvents) -> HostResult<()> {
        Ok(())
    }

    async fn deregister_events(&self, _: &UpcallContext, _: DeregisterEventsRequest) -> HostResult<()> {
        Ok(())
    }

    async fn notify_event(&self, _: &UpcallContext, _: Event) -> HostResult<()> {
        Ok(())
    }

    /// Answers are built once. What it does not know it leaves to the server, such as who is on which node.
    async fn query(&self, _: &UpcallContext, req: QueryRequest) -> HostResult<QueryResults> {
        let found = req.queries.iter().map(|query| Some(query.results(vec![self.answer(query)?])));
        match found.collect::<Option<Vec<_>>>() {
            Some(results) => Ok(QueryResults::complete(results)),
            None => Err(HostError::new(Status::ERR_NOT_SUPPORTED, "")),
        }
    }
}
