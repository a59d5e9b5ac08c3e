//! A process of a job that does one thing until it fails, for tests in which a host is lost meanwhile.
//!
//! `pmix-test-phase PHASE GO ABSENT`: all ranks meet, and say `ready RANK`. Then, once there is the file `GO`, if it is not `-`, they do
//! again and again what the phase says, except the rank `ABSENT`, if it is not `-`, which does nothing more. One that fails says
//! `outcome RANK STATUS MESSAGE`, and ends.

#![allow(clippy::print_stdout, reason = "this is how it talks to the test")]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use pmix_client::types::App;
use pmix_client::{Client, Error, ProcId, Procs, Rank, Scope, Value, keys};

/// How often to look for a file.
const AGAIN: Duration = Duration::from_millis(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [phase, go, absent] = &args[..] else { return ExitCode::from(2) };
    match run(phase, go, absent).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let rank = std::env::var("PMIX_RANK").unwrap_or_default();
            println!("outcome {rank} {:?} {error}", error.status());
            ExitCode::FAILURE
        }
    }
}

/// A process, and all of its job.
struct Member {
    client: Client,
    me: ProcId,
    all: Vec<ProcId>,
}

async fn run(phase: &str, go: &str, absent: &str) -> Result<(), Error> {
    let client = Client::from_env().init().await?;
    let me = client.proc_id().clone();
    let size = client.job(&me.nspace).get(keys::JOB_SIZE).await?;
    let all = (0..size).map(|rank| me.with_rank(Rank::from_raw(rank))).collect();
    client.fence_all().await?;
    println!("ready {}", me.rank);
    if me.rank.to_string() == absent {
        std::future::pending::<()>().await;
    }
    let mut again = tokio::time::interval(AGAIN);
    while go != "-" && !Path::new(go).exists() {
        again.tick().await;
    }
    let member = Member { client, me, all };
    let mut round = 0;
    let error = loop {
        match member.act(phase, round).await {
            Ok(()) if phase == "finalize" => return Ok(()),
            Ok(()) => round += 1,
            Err(error) => break error,
        }
    };
    println!("outcome {} {:?} {error} {:?}", member.me.rank, error.status(), error.procs());
    member.client.finalize().await
}

impl Member {
    async fn act(&self, phase: &str, round: u32) -> Result<(), Error> {
        let Self { client, me, all } = self;
        let key = |proc: &ProcId| format!("phase.{}.{round}", proc.rank);
        let procs = || Procs::from(all.clone());
        match phase {
            "fence" => client.fence_all().await,
            "collect" => {
                client.put(Scope::GLOBAL, key(me), vec![7u8; 1 << 16])?;
                client.commit().await?;
                client.fence_all().collect_data().await
            }
            "get" => {
                client.put(Scope::GLOBAL, key(me), round)?;
                client.commit().await?;
                for proc in all {
                    client.get::<Value>(proc, key(proc)).await?;
                }
                Ok(())
            }
            "connect" => {
                client.connect(procs()).await?;
                client.disconnect(procs()).await
            }
            "group" => client.group_construct("phase", procs()).await?.destruct().await,
            // on each node in turn; the others wait for the one that starts them
            "spawn" => {
                if me.rank == Rank::from_raw(0) {
                    let nodes = client.resolve_nodes(Some(&me.nspace)).await?;
                    let turn = usize::try_from(round).unwrap_or_default() % nodes.len().max(1);
                    client.spawn([App::new("true", 1)]).hosts(nodes.get(turn)).await?;
                }
                client.fence_all().await
            }
            "publish" => {
                client.publish().data(key(me), round).await?;
                client.lookup([key(me)]).await?;
                client.unpublish([key(me)]).await
            }
            // nobody publishes it
            "lookup" => client.lookup([key(me)]).wait_all().await.map(drop),
            "output" => {
                println!("{}", "output ".repeat(100));
                tokio::task::yield_now().await;
                Ok(())
            }
            "finalize" => client.clone().finalize().embed_barrier().await,
            _ => std::future::pending().await,
        }
    }
}
