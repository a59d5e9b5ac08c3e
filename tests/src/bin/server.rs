//! A server in a process of its own, so that descriptors and file systems can run out, and other users and environments
//! be tried.
//!
//! `pmix-test-server [--root DIR] [--tools] [--native] [--descriptors COUNT]` says `started <session directory>` and goes
//! on until its standard input ends, or says why it did not start. With `--descriptors` it has so many left to open.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is how it talks to the test")]
#![allow(clippy::expect_used, reason = "a test that asks for nonsense fails")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::process::ExitCode;

use pmix_server::{NativeWire, Server, ServerBuilder};
use rustix::process::{Resource, Rlimit, setrlimit};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let (builder, descriptors) = settings();
    if let Some(count) = descriptors {
        leave_descriptors(count).expect("the limit can be lowered");
    }
    match builder.start().await {
        Ok(server) => {
            println!("started {}", server.handle().session_dir().display());
            let _ = io::stdin().read_to_end(&mut Vec::new());
            server.stop().await;
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn settings() -> (ServerBuilder, Option<u64>) {
    let mut builder = Server::builder().hostname("here");
    let mut descriptors = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().expect("the option has a value");
        match arg.as_str() {
            "--root" => builder = builder.session_root(value()),
            "--tools" => builder = builder.tool_support(true),
            "--native" => builder = builder.native_wire(NativeWire::On),
            "--descriptors" => descriptors = Some(value().parse().expect("a number")),
            _ => panic!("what is {arg}?"),
        }
    }
    (builder, descriptors)
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
