//! A ring: each rank tells its peers who comes after it, and walks around the job from one to the next.
//!
//! Runs, built once, under every launcher of PMIx: `pmixrun`, `mpirun` of Open MPI 4 and 5, `prterun`, and `srun
//! --mpi=pmix`. Values that were put work under all of them. Not every launcher serves published data and spawn; the
//! program says so, and goes on.
//!
//! ```text
//! cargo build -p pmix-rm -p pmix-examples --bins --examples
//! target/debug/pmixrun -n 4 target/debug/examples/ring
//! mpirun -n 4 target/debug/examples/ring
//! srun --mpi=pmix -n 4 target/debug/examples/ring
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use pmix_client::types::{App, Persistence};
use pmix_client::{Client, ProcId, Rank, Scope, Status, keys};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// No step takes that long, unless a server does not answer at all.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let run = async {
        match std::env::args().nth(1) {
            Some(parent) => child(&parent).await,
            None => ring().await,
        }
    };
    let done = tokio::time::timeout(LIMIT, run).await;
    match done.unwrap_or_else(|_| Err(format!("no answer within {LIMIT:?}").into())) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ring: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn ring() -> Result<String> {
    let client = Client::from_env().init().await?;
    let me = client.proc_id().clone();
    let size = client.job(&me.nspace).get(keys::JOB_SIZE).await?;
    exchange(&client, size).await?;
    let published = publish(&client, size).await?;
    let mut line =
        format!("rank {} of {size} on {}: values right, publish {published}", me.rank, client.hostname());
    if me.rank == Rank::from_raw(0) {
        line.push_str(&format!(", spawn {}", spawn(&client, &published).await?));
    }
    // the child may still look at this job
    client.fence_all().await?;
    client.finalize().await?;
    Ok(line)
}

/// Every rank puts its successor and a text; walks around the ring, and looks at the value of each rank on the way.
async fn exchange(client: &Client, size: u32) -> Result<()> {
    let me = client.proc_id();
    client.put(Scope::GLOBAL, "ring.next", (me.rank.to_raw() + 1) % size)?;
    client.put(Scope::GLOBAL, "ring.text", text_of(me))?;
    client.commit().await?;
    client.fence_all().collect_data().await?;

    let mut at = me.clone();
    for step in 1..=size {
        check(&at, Some(client.get(&at, "ring.text").await?))?;
        let next: u32 = client.get(&at, "ring.next").await?;
        at = me.with_rank(Rank::new(next)?);
        if (at == *me) != (step == size) {
            return Err(format!("step {step} around {size} ranks leads to {at}").into());
        }
    }
    Ok(())
}

/// Every rank publishes a text, and looks up that of its successor.
async fn publish(client: &Client, size: u32) -> Result<Served> {
    let me = client.proc_id();
    let next = me.with_rank(Rank::new((me.rank.to_raw() + 1) % size)?);
    let served = Served::of(client.publish().data(key_of(me), text_of(me)).await)?;
    // whether it is served or not is the same for all, but each has to know that the others have published
    client.fence_all().await?;
    if matches!(served, Served::Right) {
        let found = client.lookup([key_of(&next)]).await?;
        check(&next, found.get(key_of(&next))?)?;
    }
    client.fence_all().await?;
    if matches!(served, Served::Right) {
        client.unpublish([key_of(me)]).await?;
    }
    Ok(served)
}

/// Starts this program once more, as a job of its own, which publishes that it runs.
async fn spawn(client: &Client, published: &Served) -> Result<Served> {
    let me = client.proc_id();
    let app = App::new(std::env::current_exe()?.display().to_string(), 1).arg(me.to_string());
    let child = match client.spawn([app]).await {
        Ok(nspace) => ProcId::new(nspace, Rank::from_raw(0)),
        Err(error) => return Served::of(Err(error)),
    };
    if matches!(published, Served::Right) {
        let found = client.lookup([key_of(&child)]).wait_all().timeout(LIMIT / 2).await?;
        check(&child, found.get(key_of(&child))?)?;
    }
    Ok(Served::Right)
}

/// What a spawned process does. Not every launcher tells it who has started it; if one does, that must be true.
async fn child(parent: &str) -> Result<String> {
    let client = Client::from_env().init().await?;
    let me = client.proc_id().clone();
    match client.get(&me, keys::PARENT_ID).await {
        Ok(told) if told.to_string() != parent => {
            return Err(format!("{parent} has started {me}, but it is told that {told} has").into());
        }
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => {}
    }
    // it stays when this process has ended
    let publish = client.publish().data(key_of(&me), text_of(&me)).persistence(Persistence::SESSION);
    let published = Served::of(publish.await)?;
    client.finalize().await?;
    Ok(format!("child {me} of {parent}: publish {published}"))
}

/// What a rank puts and publishes.
fn text_of(proc: &ProcId) -> String {
    format!("of {proc}")
}

/// Fails unless this is the text of that process.
fn check(proc: &ProcId, found: Option<String>) -> Result<()> {
    match found {
        Some(text) if text == text_of(proc) => Ok(()),
        found => Err(format!("found {found:?}, but {proc} has told {:?}", text_of(proc)).into()),
    }
}

fn key_of(proc: &ProcId) -> String {
    format!("ring.{proc}")
}

/// Whether a launcher serves an operation, and what it answered otherwise.
enum Served {
    Right,
    No(Status),
}

impl Served {
    /// An answer of the server, even one that is a refusal; without an answer nothing is right.
    fn of(answer: std::result::Result<(), pmix_client::Error>) -> Result<Self> {
        match answer {
            Ok(()) => Ok(Self::Right),
            Err(pmix_client::Error::Pmix(refused)) => Ok(Self::No(refused.failure.status)),
            Err(error) => Err(error.into()),
        }
    }
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right => f.write_str("right"),
            Self::No(status @ Status::ERR_NOT_SUPPORTED) => write!(f, "not supported ({status})"),
            Self::No(status) => write!(f, "refused ({status})"),
        }
    }
}
