//! One operation of two processes, under any launcher of PMIx: `docs/interop.md` has what each server makes of each.
//!
//! Without arguments it lists its operations. With the name of one it does that, as rank 0 or 1 of a job, and says how it
//! went: `RESULT 0 TIME ok`, or the status of the server, or what was wrong. Before an operation that is to end the process it
//! says `END 0 TIME`. `beside` is the counterpart of `tests/peers/c/pmix_beside.c`. A second argument is a file to append
//! this to, for processes whose output is not forwarded any more. `--patience SECONDS` before the name says after what time an
//! answer counts as none: at a server that is known to be silent, there is no need to wait long for it.

#![allow(clippy::print_stdout, reason = "this is how it talks to the test")]

#[path = "operation/data.rs"]
mod data;
#[path = "operation/events.rs"]
mod events;
#[path = "operation/jobs.rs"]
mod jobs;
#[path = "operation/manage.rs"]
mod manage;

use std::error::Error;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use pmix_client::{Client, ProcId, Rank};

type Done = Result<(), Box<dyn Error>>;
type Act = fn(Pair) -> BoxFuture<'static, Done>;

/// No answer takes that long, on any machine.
const LONG: u64 = 100;
/// What is said instead.
static PATIENCE: OnceLock<u64> = OnceLock::new();

/// After this time there is no answer.
fn limit() -> Duration {
    Duration::from_secs(PATIENCE.get().copied().unwrap_or(LONG))
}

/// After this time what is awaited does not come: there must be time left to say so.
fn patience() -> Duration {
    limit() / 2
}

/// A process of a job of two.
#[derive(Clone, Debug)]
struct Pair {
    client: Client,
    me: ProcId,
    peer: ProcId,
    /// To append to.
    file: Option<String>,
}

impl Pair {
    async fn init(file: Option<String>) -> Result<Self, Box<dyn Error>> {
        let client = Client::from_env().init().await?;
        let me = client.proc_id().clone();
        let peer = me.with_rank(Rank::new(1 - me.rank.to_raw().min(1))?);
        Ok(Self { client, me, peer, file })
    }

    /// Whether this is rank 0.
    fn leads(&self) -> bool {
        self.me.rank == Rank::from_raw(0)
    }

    /// With what it says, the time goes, in milliseconds.
    fn tell(&self, what: &str, result: impl Display) {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        tell(self.file.as_deref(), &format!("{what} {} {time} {result}", self.me.rank));
    }
}

fn tell(file: Option<&str>, line: &str) {
    let line = format!("{}\n", line.trim_end());
    let file = file.map(|file| std::fs::OpenOptions::new().create(true).append(true).open(file));
    // whoever has started this may be gone
    let _ = match file {
        Some(Ok(mut file)) => file.write_all(line.as_bytes()),
        _ => std::io::stdout().write_all(line.as_bytes()),
    };
}

macro_rules! operations {
    ($($name:literal => $act:path;)+) => {
        const OPERATIONS: &[(&str, Act)] = &[$(($name, |pair| Box::pin($act(pair)))),+];
    };
}

operations! {
    "init" => data::init;
    "data of the job" => data::job;
    "data of a peer" => data::peer;
    "data of the node" => data::node;
    "put, commit, fence, get" => data::exchange;
    "fence that collects" => data::collect;
    "fence of one" => data::fence_alone;
    "fence with a time limit" => data::fence_limit;
    "get before the commit" => data::direct;
    "get of all keys" => data::get_all;
    "get anew" => data::refresh;
    "get of what is absent" => data::absent;
    "get with a time limit" => data::get_limit;
    "values of all kinds" => data::kinds;
    "a value of 1 MiB" => data::large;
    "publish" => jobs::publish;
    "lookup" => jobs::lookup;
    "lookup that waits" => jobs::lookup_waits;
    "unpublish" => jobs::unpublish;
    "spawn" => jobs::spawn;
    "spawned process: its parent" => jobs::parent;
    "spawned process: its environment" => jobs::environment;
    "connect" => jobs::connect;
    "disconnect" => jobs::disconnect;
    "events: of this node" => events::local;
    "events: of the namespace" => events::namespace;
    "events: of named processes" => events::named;
    "events: handlers" => events::handler;
    "loss of a peer: event" => events::loss;
    "loss of a peer: fence" => events::loss_fence;
    "group construct, destruct" => manage::group;
    "group with a context id" => manage::context;
    "group invite, join" => manage::invite;
    "group leave" => manage::leave;
    "query: namespaces" => manage::namespaces;
    "query: process table" => manage::table;
    "query: attributes" => manage::attributes;
    "resolve peers" => manage::resolve_peers;
    "resolve nodes" => manage::resolve_nodes;
    "log" => manage::log;
    "job control: signal" => manage::signal;
    "job control: cleanup" => manage::cleanup;
    "job control: kill" => manage::kill;
    "monitor: heartbeat" => manage::heartbeat;
    "monitor: own alert" => manage::own_alert;
    "monitor: file" => manage::monitor_file;
    "allocate" => manage::allocate;
    "credential" => manage::credential;
    "validate credential" => manage::validate;
    "output of a peer" => manage::output;
    "input of a peer" => manage::input;
    "fabric" => manage::fabric;
    "session control" => manage::session;
    "resource block" => manage::block;
    "abort" => jobs::abort;
    "finalize" => data::finalize;
    "finalize with a barrier" => data::finalize_barrier;
    "init again" => data::again;
}

/// What other tests need.
const OTHERS: &[(&str, Act)] = &[
    ("gets of a peer", |pair| Box::pin(data::gets(pair))),
    ("beside", |pair| Box::pin(events::beside(pair))),
    ("beside by name", |pair| Box::pin(events::beside_by_name(pair))),
    ("loss of the server", |pair| Box::pin(events::server_lost(pair))),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if(|arg| arg == "--patience").is_some() {
        let seconds = args.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(LONG);
        let _ = PATIENCE.set(seconds);
    }
    let Some(name) = args.next() else {
        OPERATIONS.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    let file = args.next();
    if name == "child" {
        let parent = args.next().unwrap_or_default();
        return jobs::child(file.as_deref().unwrap_or_default(), &parent).await;
    }
    let Some((_, act)) = OPERATIONS.iter().chain(OTHERS).find(|(known, _)| *known == name) else {
        println!("what is {name:?}?");
        return ExitCode::from(2);
    };
    let pair = match tokio::time::timeout(limit(), Pair::init(file.clone())).await {
        Ok(Ok(pair)) => pair,
        Ok(Err(error)) => {
            tell(file.as_deref(), &format!("RESULT ? 0 no init: {error}"));
            return ExitCode::FAILURE;
        }
        Err(_) => {
            tell(file.as_deref(), "RESULT ? 0 no answer to init");
            return ExitCode::FAILURE;
        }
    };
    let client = pair.client.clone();
    let done = tokio::time::timeout(limit(), act(pair.clone())).await;
    pair.tell("RESULT", verdict(done));
    // the operation itself may have finalized
    let _ = tokio::time::timeout(limit(), client.finalize()).await;
    ExitCode::SUCCESS
}

/// `ok`, a status, or what is wrong.
fn verdict(done: Result<Done, tokio::time::error::Elapsed>) -> String {
    let error = match done {
        Ok(Ok(())) => return "ok".to_owned(),
        Ok(Err(error)) => error,
        Err(_) => return "no answer".to_owned(),
    };
    match error.downcast_ref::<pmix_client::Error>() {
        Some(pmix_client::Error::Pmix(refused)) => format!("status {}: {refused}", refused.failure.status),
        Some(error) if error.is_lost_connection() => format!("lost: {error}"),
        _ => format!("wrong: {error}"),
    }
}

/// Fails unless both are the same.
fn same<T: PartialEq<U> + std::fmt::Debug, U: std::fmt::Debug>(found: T, expected: U) -> Done {
    if found == expected {
        return Ok(());
    }
    Err(format!("found {found:?}, expected {expected:?}").into())
}

/// Fails unless it fails with this status.
fn refused<T>(answer: Result<T, pmix_client::Error>, expected: pmix_client::Status) -> Done {
    match answer {
        Err(pmix_client::Error::Pmix(refused)) if refused.failure.status == expected => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err(format!("it succeeds, and should fail with {expected}").into()),
    }
}
