//! A resource manager in one file, directly on [`HostModule`].
//!
//! Starts processes with `std` and `tokio`, gives them the address of their server, answers queries for the process
//! table, ends all processes when one of them aborts, and prints how each has ended.
//!
//! ```text
//! cargo run --example mini_rm                        # two copies of itself
//! cargo run --example mini_rm -- 4 target/debug/examples/hello
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pmix_client::{Client, Nspace, ProcId, Rank, Status, keys};
use pmix_server::host::{Abort, ClientConnected, QueryRequest, QueryResults};
use pmix_server::types::job::JobSpec;
use pmix_server::types::{DataArray, Gid, Info, Pid, ProcInfo, ProcState, Query, Uid};
use pmix_server::{HostModule, HostResult, Server, UpcallContext, async_trait, host_module};
use rustix::process::{getgid, getuid};
use tokio::sync::watch;
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What the resource manager knows of its only job. A clone is given to the server, which asks it.
#[derive(Clone, Default)]
struct MiniRm {
    /// In rank order.
    table: Arc<Mutex<Vec<ProcInfo>>>,
    /// Exit status that a process has aborted with.
    aborted: watch::Sender<Option<i32>>,
}

#[host_module]
#[async_trait]
impl HostModule for MiniRm {
    async fn client_connected(&self, _: &UpcallContext, req: ClientConnected) -> HostResult<()> {
        self.update(req.proc.rank, |row| row.state = ProcState::CONNECTED);
        Ok(())
    }

    async fn abort(&self, cx: &UpcallContext, req: Abort) -> HostResult<()> {
        println!("{} aborts the job: {}", cx.caller, req.message);
        self.aborted.send_replace(Some(req.status));
        Ok(())
    }

    async fn query(&self, _: &UpcallContext, mut req: QueryRequest) -> HostResult<QueryResults> {
        let mut results = Vec::new();
        for query in &mut req.queries {
            let job = query.qualifiers.take(&keys::NSPACE.text())?;
            let is_own = |job: String| self.table().iter().any(|row| *row.proc.nspace == job);
            if query.keys != [keys::QUERY_PROC_TABLE.key_name()] || !job.is_none_or(is_own) {
                // the server answers what it can itself
                return Err(Status::ERR_NOT_FOUND.into());
            }
            let table = DataArray::ProcInfo(self.table().clone());
            results.push(query.results(vec![Info::new(keys::QUERY_PROC_TABLE, table)]));
        }
        req.deny_unread()?;
        Ok(QueryResults::complete(results))
    }
}

impl MiniRm {
    fn table(&self) -> MutexGuard<'_, Vec<ProcInfo>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, rank: Rank, change: impl FnOnce(&mut ProcInfo)) {
        self.table().iter_mut().find(|row| row.proc.rank == rank).map(change);
    }

    /// Runs this many processes of a program; returns the exit code of the job.
    async fn run(&self, procs: u32, program: &str, args: &[String]) -> Result<i32> {
        let server = Server::builder().host(self.clone()).start().await?;
        let (handle, node) = (server.handle(), server.handle().hostname());
        let nspace = Nspace::new(format!("mini-rm-{}", std::process::id()))?;
        handle.register_nspace(JobSpec::new(nspace.clone()).node_map([node])?.ranks_block(1, procs)?).await?;

        let (uid, gid) = (Uid::new(getuid().as_raw()), Gid::new(getgid().as_raw()));
        // the first process may ask before the last one is started
        for rank in Rank::first(procs) {
            let mut row = ProcInfo::new(ProcId::new(nspace.clone(), rank));
            (row.hostname, row.executable) = (Some(node.into()), Some(program.into()));
            self.table().push(row);
        }
        let mut running = JoinSet::new();
        for rank in Rank::first(procs) {
            let proc = ProcId::new(nspace.clone(), rank);
            handle.register_client(&proc, uid, gid, None).await?;
            let mut command = Command::new(program);
            command.args(args);
            handle.setup_fork(&proc).await?.apply(&mut command);
            let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
            let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
            self.update(proc.rank, |row| (row.pid, row.state) = (Pid(pid), ProcState::RUNNING));

            let mut aborted = self.aborted.subscribe();
            running.spawn(async move {
                let abort = async { aborted.wait_for(Option::is_some).await.is_ok() };
                tokio::select! {
                    exit = child.wait() => (proc, exit),
                    true = abort => (proc, async { child.kill().await?; child.wait().await }.await),
                }
            });
        }

        let mut code = 0;
        while let Some(ended) = running.join_next().await {
            let (proc, exit) = ended?;
            let exit = exit?;
            println!("{proc} on {node}: {exit}");
            // who waits for it in a fence is told
            handle.client_ended(&proc, exit.to_string()).await?;
            code = if code == 0 { exit.code().unwrap_or(1) } else { code };
        }
        server.stop().await;
        Ok(self.aborted.borrow().unwrap_or(code))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let args: Vec<String> = std::env::args().collect();
    let code = match &args[..] {
        [itself] => MiniRm::default().run(2, itself, &["rank".into()]).await?,
        [_, kind] if kind == "rank" => rank().await.map(|()| 0)?,
        [_, procs, program, args @ ..] => MiniRm::default().run(procs.parse()?, program, args).await?,
        _ => return Err("give a number of processes and a program, or nothing".into()),
    };
    Ok(u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// What a copy of this program does: looks at the process table. The last one then aborts the job with code 7 if
/// `MINI_RM_ABORT` is set.
async fn rank() -> Result<()> {
    let client = Client::from_env().init().await?;
    client.fence_all().await?;
    let found = client.query([Query::new(keys::QUERY_PROC_TABLE)]).await?;
    let table = found.get(keys::QUERY_PROC_TABLE)?.ok_or("there is no process table")?;
    let rows = table.as_proc_infos().ok_or("the process table is of another type")?;
    println!("{} sees {} processes", client.proc_id(), rows.len());
    client.fence_all().await?;
    if std::env::var_os("MINI_RM_ABORT").is_some() && client.proc_id().rank.to_raw() + 1 == rows.len() as u32
    {
        client.abort(7, "asked to").await?;
    }
    Ok(client.finalize().await?)
}
