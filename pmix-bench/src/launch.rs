//! `launch`: a server with its host, and the ranks of a job, one or more times.

use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use clap::Args;
use pmix_server::ServerHandle;
use pmix_server::types::{Gid, Nspace, ProcId, Rank, Uid};
use rustix::process::{getgid, getuid};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::job::Shape;
use crate::node::Node;
use crate::page::{Page, RANKS, stamp};
use crate::record::Printer;
use crate::{Result, clock, frames};

/// Starts the ranks of a job, each with a fresh namespace, and waits for their end.
#[derive(Debug, Args)]
pub(crate) struct Launch {
    /// Ranks on this node, at most 256
    #[arg(short)]
    n: u32,
    /// Ranks of the job; ranks beyond N exist in its description only
    #[arg(short)]
    t: Option<u32>,
    /// Number of launches
    #[arg(short, default_value_t = 1)]
    r: u32,
    /// Seconds after which a launch is given up
    #[arg(short = 'T', default_value_t = 60)]
    limit: u64,
    /// A rank's program with its arguments: `pmix-bench client PHASE...`, or `client_bench PHASE...`
    #[arg(last = true, required = true)]
    client: Vec<String>,
}

/// Where ranks are started.
struct Stage<'a> {
    shape: Shape,
    handle: &'a ServerHandle,
    page: &'static Page,
    path: &'a Path,
}

/// What is measured from outside of the ranks.
#[derive(Debug, Default)]
struct Stats {
    init: Vec<f64>,
    finalize: Vec<f64>,
    fork_to_main: Vec<f64>,
    to_last_init: Vec<f64>,
    register_nspace: Vec<f64>,
    register_client: Vec<f64>,
    rss_client: Vec<f64>,
    uss_client: Vec<f64>,
    rss_server: Vec<f64>,
    uss_server: Vec<f64>,
}

impl Launch {
    pub(crate) async fn run(self) -> Result<()> {
        if self.n < 1 || self.n as usize > RANKS {
            return Err(format!("-n takes 1 to {RANKS}").into());
        }
        let shape = Shape { total: self.t.unwrap_or(0).max(self.n), local: self.n };
        let node = Node::start().await?;
        let directory = TempDir::new()?;
        let path = directory.path().join("page");
        let page = Page::create(&path)?;
        let stage = Stage { shape, handle: node.handle(), page, path: &path };
        let mut stats = Stats::default();
        let limit = Duration::from_secs(self.limit);
        let all = async {
            for round in 0..self.r {
                self.once(round, &stage, &mut stats).await?;
            }
            Result::Ok(())
        };
        let done = tokio::time::timeout(limit, all).await;
        if !matches!(done, Ok(Ok(()))) {
            page.fail();
        }
        done.map_err(|_| format!("the ranks are not done after {} s", self.limit))??;
        if std::env::var_os("BENCH_LAUNCH_STATS").is_some() {
            stats.print(shape.local, shape.total.into(), node.init)?;
        }
        node.stop().await;
        Ok(())
    }

    async fn once(&self, round: u32, stage: &Stage<'_>, stats: &mut Stats) -> Result<()> {
        let Stage { shape, handle, page, path } = *stage;
        page.begin(shape.local, shape.total);
        let nspace = format!("bench-{round}");
        let spec = shape.describe(&nspace)?;
        let nspace = Nspace::new(nspace)?;
        let infos = spec.into_infos();
        let begin = clock::now();
        handle.register_nspace_infos(nspace.clone(), Some(shape.local), infos).await?;
        stats.register_nspace.push(clock::since(begin));
        let user = (Uid::new(getuid().as_raw()), Gid::new(getgid().as_raw()));
        let procs: Vec<_> = Rank::first(shape.local).map(|rank| ProcId::new(nspace.clone(), rank)).collect();
        for proc in &procs {
            let begin = clock::now();
            handle.register_client(proc, user.0, user.1, None).await?;
            stats.register_client.push(clock::since(begin));
        }
        if self.client.iter().any(|word| word == "frames") {
            frames::serve(path, shape.local)?;
        }
        let mut children = Vec::new();
        stamp(&page.first_fork);
        for (proc, slot) in procs.iter().zip(&page.slots) {
            let mut command = self.command();
            handle.setup_fork(proc).await?.apply(command.as_std_mut());
            command.env("BENCH_SHM", path);
            stamp(&slot.fork);
            children.push(command.spawn().map_err(|error| format!("{}: {error}", self.client[0]))?);
        }
        let ended = wait_all(children, page).await?;
        if let Some((rank, status)) = ended.iter().enumerate().find(|(_, status)| !status.success()) {
            return Err(format!("rank {rank} ended with {status}").into());
        }
        stats.read(page, shape.local);
        handle.deregister_nspace(&nspace).await?;
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.client[0]);
        command.args(&self.client[1..]).kill_on_drop(true);
        command
    }
}

/// Waits for all; the first that fails lets the others go.
async fn wait_all(children: Vec<Child>, page: &'static Page) -> Result<Vec<ExitStatus>> {
    let mut waiting = tokio::task::JoinSet::new();
    for (rank, mut child) in children.into_iter().enumerate() {
        waiting.spawn(async move { child.wait().await.map(|status| (rank, status)) });
    }
    let mut ended = Vec::new();
    while let Some(one) = waiting.join_next().await {
        let (rank, status) = one??;
        if !status.success() {
            page.fail();
        }
        ended.push((rank, status));
    }
    ended.sort_by_key(|(rank, _)| *rank);
    Ok(ended.into_iter().map(|(_, status)| status).collect())
}

impl Stats {
    /// What the ranks have left on the page.
    fn read(&mut self, page: &Page, local: u32) {
        let slots = &page.slots[..local as usize];
        for slot in slots {
            let [fork, main] = [&slot.fork, &slot.main].map(|time| time.load(Relaxed));
            let init = [&slot.init_begin, &slot.init_end].map(|time| time.load(Relaxed));
            let finalize = [&slot.finalize_begin, &slot.finalize_end].map(|time| time.load(Relaxed));
            self.init.push(clock::micros(init[0], init[1]));
            self.finalize.push(clock::micros(finalize[0], finalize[1]));
            self.fork_to_main.push(clock::micros(fork, main));
            self.rss_client.push(slot.rss.load(Relaxed) as f64);
            self.uss_client.push(slot.uss.load(Relaxed) as f64);
        }
        let last = slots.iter().map(|slot| slot.init_end.load(Relaxed)).max().unwrap_or(0);
        self.to_last_init.push(clock::micros(page.first_fork.load(Relaxed), last));
        self.rss_server.push(page.server_rss.load(Relaxed) as f64);
        self.uss_server.push(page.server_uss.load(Relaxed) as f64);
    }

    fn print(&self, n: u32, size: u64, server_init: f64) -> std::io::Result<()> {
        Printer.print_one("server_init_in_launch", n, size, "us", server_init)?;
        let metrics = [
            ("client_init", "us", &self.init),
            ("client_finalize", "us", &self.finalize),
            ("fork_to_main", "us", &self.fork_to_main),
            ("launch_fork_to_last_init", "us", &self.to_last_init),
            ("register_nspace_in_launch", "us", &self.register_nspace),
            ("register_client", "us", &self.register_client),
            ("rss_client", "KiB", &self.rss_client),
            ("uss_client", "KiB", &self.uss_client),
            ("rss_server", "KiB", &self.rss_server),
            ("uss_server", "KiB", &self.uss_server),
        ];
        metrics.into_iter().try_for_each(|(name, unit, samples)| Printer.print(name, n, size, unit, samples))
    }
}
