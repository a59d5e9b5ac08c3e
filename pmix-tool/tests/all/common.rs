//! A server with a small host, in a directory of its own.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use pmix_server::host::{QueryRequest, QueryResults, ToolConnected};
use pmix_server::{
    Capabilities, HostError, HostModule, HostResult, Server, Upcall, UpcallContext, async_trait,
};
use pmix_tool::types::job::JobSpec;
use pmix_tool::types::{DataArray, Info, Pid, ProcState, Rank, Value};
use pmix_tool::{Nspace, ProcId, ProcInfo, Status, keys};

/// Lets tools in, and may answer queries in place of the server.
#[derive(Debug, Default)]
pub(crate) struct Host {
    /// Jobs with their tables; without any, the server answers by itself.
    pub(crate) jobs: Vec<(&'static str, Vec<ProcInfo>)>,
    /// Lets no tool in.
    pub(crate) refuses: bool,
    /// Answers no query, and lets nobody else do so.
    pub(crate) refuses_queries: bool,
    /// How many tools got an identity.
    pub(crate) tools: AtomicU32,
}

#[async_trait]
impl HostModule for Host {
    fn capabilities(&self) -> Capabilities {
        let asked = [Upcall::ToolConnected].into_iter();
        asked.chain((self.refuses_queries || !self.jobs.is_empty()).then_some(Upcall::Query)).collect()
    }

    async fn tool_connected(&self, _: &UpcallContext, request: ToolConnected) -> HostResult<ProcId> {
        if self.refuses {
            return Err(HostError::new(Status::ERR_NO_PERMISSIONS, "no tools today"));
        }
        let number = self.tools.fetch_add(1, Ordering::Relaxed);
        Ok(request.requested_identity.unwrap_or_else(|| proc(&format!("tool.{number}"), 0)))
    }

    async fn query(&self, _: &UpcallContext, request: QueryRequest) -> HostResult<QueryResults> {
        if self.refuses_queries {
            return Err(HostError::new(Status::ERR_NO_PERMISSIONS, "ask somebody else"));
        }
        let mut results = Vec::new();
        for query in &request.queries {
            let found = query.keys.iter().filter_map(|key| {
                let value: Value = if **key == *keys::QUERY_NAMESPACES.name() {
                    self.jobs.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",").into()
                } else {
                    let nspace: String = query.qualifiers.get(&keys::NSPACE.text()).ok()??;
                    let (_, rows) = self.jobs.iter().find(|(name, _)| *name == nspace)?;
                    DataArray::ProcInfo(rows.clone()).into()
                };
                Some(Info::dynamic(key.clone(), value))
            });
            let found: Vec<_> = found.collect();
            if !found.is_empty() {
                results.push(Info::new(&keys::QUERY_RESULTS, DataArray::Info(found)));
            }
        }
        if results.is_empty() {
            Err(Status::ERR_NOT_FOUND.into())
        } else {
            Ok(QueryResults::complete(results))
        }
    }
}

pub(crate) fn proc(nspace: &str, rank: u32) -> ProcId {
    ProcId::new(nspace.parse().unwrap(), Rank::new(rank).unwrap())
}

/// A server on node `n0` that knows the jobs by registration, each of two processes.
pub(crate) async fn start(root: &Path, nspace: &str, host: Host, jobs: &[&str]) -> Server {
    let server = Server::builder()
        .host(host)
        .hostname("n0")
        .nspace(nspace)
        .session_root(root)
        .tool_support(true)
        .start()
        .await
        .unwrap();
    for job in jobs {
        let nspace: Nspace = job.parse().unwrap();
        let spec = JobSpec::new(nspace).node_map(["n0"]).unwrap().ranks_block(1, 2).unwrap();
        server.handle().register_nspace(spec).await.unwrap();
        server.handle().register_client(&proc(job, 0), 1, 1, None).await.unwrap();
    }
    server
}

/// A running process and one that failed.
pub(crate) fn rows(nspace: &str) -> Vec<ProcInfo> {
    let row = |rank, pid, state, exit_code| {
        let mut row = ProcInfo::new(proc(nspace, rank));
        row.hostname = Some("n0".into());
        row.executable = Some("/opt/app/solver".into());
        (row.pid, row.state, row.exit_code) = (Pid(pid), state, exit_code);
        row
    };
    vec![row(0, 4711, ProcState::CONNECTED, 0), row(1, 4712, ProcState::TERM_NON_ZERO, 3)]
}
