//! A rank: runs the phases that its arguments name, in order; rank 0 prints. The counterpart of `c/client_bench.c`, whose
//! phases these are, with the same numbers of calls.

mod collective;
mod event;
mod exchange;
mod local;
mod rank;
mod round_trip;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use pmix_client::Client;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::memory::Memory;
use crate::page::{Page, stamp};
use crate::{Result, clock};
use rank::Bench;

/// Runs a rank that has begun at this moment.
pub(crate) fn main(begin: u64, phases: &[String]) -> ExitCode {
    let Some(path) = std::env::var_os("BENCH_SHM").map(PathBuf::from) else {
        eprintln!("pmix-bench: a rank is started by `pmix-bench launch`");
        return ExitCode::from(2);
    };
    // never outlive a broken run
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let page = match Page::attach(&path) {
        Ok(page) => page,
        Err(error) => {
            eprintln!("pmix-bench: {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    };
    match run(page, begin, phases) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            page.fail();
            let rank = std::env::var("PMIX_RANK").unwrap_or_default();
            eprintln!("pmix-bench: rank {rank}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(page: &'static Page, begin: u64, phases: &[String]) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let init = clock::now();
        let client = Client::from_env().init().await?;
        let connected = clock::now();
        let bench = Bench::new(page, client);
        let slot = bench.slot();
        slot.main.store(begin, Relaxed);
        slot.init_begin.store(init, Relaxed);
        slot.init_end.store(connected, Relaxed);
        page.barrier();
        let own = Memory::own();
        slot.rss.store(own.rss, Relaxed);
        slot.uss.store(own.uss, Relaxed);
        if bench.is_first() {
            let parent = getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
            let server = Memory::of(parent);
            page.server_rss.store(server.rss, Relaxed);
            page.server_uss.store(server.uss, Relaxed);
        }
        page.barrier();
        for phase in phases {
            bench.run(phase).await?;
        }
        page.barrier();
        stamp(&slot.finalize_begin);
        bench.client.finalize().await?;
        stamp(&slot.finalize_end);
        Ok(())
    })
}

impl Bench {
    async fn run(&self, phase: &str) -> Result<()> {
        match phase {
            "init" => Ok(()),
            "barrier" => self.barrier(),
            "frames" => self.frames().await,
            "get" => self.get().await,
            "put" => self.put().await,
            "commit" => self.commit().await,
            "fence" => self.fence().await,
            "dmodex" => self.direct_modex().await,
            "getwait" => self.get_waiting().await,
            "pub" => self.publish().await,
            "query" => self.query().await,
            "event" => self.event().await,
            "connect" => self.connect().await,
            "resolve" => self.resolve().await,
            other => match other.strip_prefix("collect:").map(str::parse) {
                Some(Ok(bytes)) => self.collect(bytes).await,
                _ => Err(format!("there is no phase {other}").into()),
            },
        }
    }
}
