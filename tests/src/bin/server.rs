//! A server in a process of its own, so that descriptors and file systems can run out, other users and environments be
//! tried, and memory and log be measured.
//!
//! `pmix-test-server [--root DIR] [--tools] [--native] [--other-users] [--ranks COUNT] [--put-limit BYTES]
//! [--patience MILLISECONDS] [--descriptors COUNT]` says `uri <URI>`, `native <URI>` and `started <session directory>` and goes on until its standard input ends, or says why it
//! did not start. It has a job `job` of so many ranks (1) of its own user on this node, and a host that launches nothing.
//! With `--descriptors` it has so many left to open.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is how it talks to the test")]
#![allow(clippy::expect_used, reason = "a test that asks for nonsense fails")]

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::time::Duration;

use pmix_client::{Nspace, ProcId, Rank};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_native::Dialect;
use pmix_server::types::job::JobSpec;
use pmix_server::{NativeWire, Server, ServerBuilder};
use pmix_tests::NullLauncher;
use rustix::process::{Resource, Rlimit, getegid, geteuid, setrlimit};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).init();
    let (builder, ranks, descriptors) = settings();
    if let Some(count) = descriptors {
        leave_descriptors(count).expect("the limit can be lowered");
    }
    match serve(builder, ranks).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(builder: ServerBuilder, ranks: u32) -> Result<(), Box<dyn Error>> {
    let server = builder.start().await?;
    let handle = server.handle();
    let job = Nspace::new("job")?;
    handle.register_nspace(JobSpec::new(job.clone()).node_map(["here"])?.ranks_block(1, ranks)?).await?;
    for rank in (0..ranks).map(Rank::from_raw) {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        handle.register_client(&ProcId::new(job.clone(), rank), uid, gid, None).await?;
    }
    let environment = handle.setup_fork(&ProcId::new(job, Rank::from_raw(0))).await?;
    let native = environment.iter().find(|(name, _)| *name == Dialect::V41.uri_variable());
    println!("uri {}", handle.uri());
    println!("native {}", native.map_or("", |(_, uri)| uri));
    println!("started {}", handle.session_dir().display());
    tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new())).await??;
    server.stop().await;
    Ok(())
}

fn settings() -> (ServerBuilder, u32, Option<u64>) {
    let host = StandardHost::new(NullLauncher, MemoryExchange::single("here"));
    let mut builder = Server::builder().hostname("here").host(host).raise_nofile(true);
    let (mut ranks, mut descriptors) = (1, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().expect("the option has a value");
        match arg.as_str() {
            "--root" => builder = builder.session_root(value()),
            "--tools" => builder = builder.tool_support(true),
            "--native" => builder = builder.native_wire(NativeWire::On),
            "--other-users" => builder = builder.other_users(true),
            "--ranks" => ranks = value().parse().expect("a number"),
            "--put-limit" => builder = builder.put_limit(value().parse().expect("a number")),
            "--patience" => {
                let patience = Duration::from_millis(value().parse().expect("a number"));
                builder = builder.unread_timeout(patience);
            }
            "--descriptors" => descriptors = Some(value().parse().expect("a number")),
            _ => panic!("what is {arg}?"),
        }
    }
    (builder, ranks, descriptors)
}

/// Lowers the limit for good, so that this many more descriptors can be open.
fn leave_descriptors(count: u64) -> io::Result<()> {
    let numbers = fs::read_dir("/proc/self/fd")?.flatten();
    let mut open: BTreeSet<u64> =
        numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // the one that was looked through has been closed; it had the lowest number that was free, as this one has
    let looked_through = fs::File::open("/proc/self/fd")?.as_raw_fd();
    open.remove(&u64::try_from(looked_through).map_err(io::Error::other)?);
    let mut free = 0;
    let limit = (0..).find(|number| {
        let is_enough = free == count;
        free += u64::from(!open.contains(number));
        is_enough
    });
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit })?)
}
