//! A server in a process of its own, for tests of what that process may use: files, memory, log lines.
//!
//! `pmix-test-server DIR RANKS [other-users]` serves both wires below `DIR`, with a job `job` of so many local ranks of
//! its own user, and a [`StandardHost`] that launches nothing. Says its URI and its native address, then one line
//! `ready`, and ends with its input.

#![allow(clippy::print_stdout, reason = "this is how it talks to the test")]

use std::error::Error;
use std::io::{self, IsTerminal, Read};

use pmix_client::{Nspace, ProcId, Rank};
use pmix_native::Dialect;
use pmix_server::standard::{MemoryExchange, StandardHost};
use pmix_server::types::job::JobSpec;
use pmix_server::{NativeWire, Server};
use pmix_tests::NullLauncher;
use rustix::process::{getegid, geteuid};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(io::stderr().is_terminal()).init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (dir, ranks, rest) = match &args[..] {
        [dir, ranks, rest @ ..] => (dir, ranks.parse()?, rest),
        _ => return Err("usage: pmix-test-server DIR RANKS [other-users]".into()),
    };
    let server = Server::builder()
        .session_root(dir)
        .hostname("n0")
        .host(StandardHost::new(NullLauncher, MemoryExchange::single("n0")))
        .native_wire(NativeWire::On)
        .other_users(rest.iter().any(|word| word == "other-users"))
        .start()
        .await?;
    let handle = server.handle();
    let job = Nspace::new("job")?;
    let spec = JobSpec::new(job.clone()).node_map(["n0"])?.ranks_block(1, ranks)?;
    handle.register_nspace(spec).await?;
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    for rank in 0..ranks {
        handle.register_client(&ProcId::new(job.clone(), Rank::from_raw(rank)), uid, gid, None).await?;
    }
    let environment = handle.setup_fork(&ProcId::new(job, Rank::from_raw(0))).await?;
    let native = environment.iter().find(|(name, _)| *name == Dialect::V41.uri_variable());
    println!("uri {}", handle.uri());
    println!("native {}", native.map_or("", |(_, uri)| uri));
    println!("ready");
    tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new())).await??;
    server.stop().await;
    Ok(())
}
