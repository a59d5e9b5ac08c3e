//! A job that starts another one and works with it: publish, spawn, lookup, connect, events.
//!
//! The only process of the job publishes a task, spawns two workers, which run the same program, and waits for an event
//! with the result of each. Needs a launcher that serves spawn:
//!
//! ```text
//! cargo build -p pmix-rm -p pmix-examples --bins --examples
//! target/debug/pmixrun -n 1 target/debug/examples/publish_spawn
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;

use pmix_client::types::{App, Status};
use pmix_client::{Client, ProcId, keys};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const WORKERS: u32 = 2;
/// What workers tell when they are done. Positive codes are free for programs.
const DONE: Status = Status::from_raw(1);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let client = Client::from_env().init().await?;
    match std::env::args().nth(1).as_deref() {
        Some("worker") => work(&client).await?,
        _ => lead(&client).await?,
    }
    Ok(client.finalize().await?)
}

async fn lead(client: &Client) -> Result<()> {
    let mut events = client.events([DONE]).await?;
    // for all processes of this session, until those of this job have ended
    client.publish().data("numbers.up.to", 100u64).await?;
    let worker = App::new(std::env::current_exe()?.display().to_string(), WORKERS).arg("worker");
    let workers = client.spawn([worker]).await?;
    println!("started {workers}");

    // from here on the workers are part of this application, and their loss would be told
    let both = both(client, &ProcId::wildcard(workers));
    client.connect(both.clone()).await?;
    let mut total = 0;
    for _ in 0..WORKERS {
        let event = events.recv().await.ok_or("the server is gone")??;
        let part = event.info.get(keys::EVENT_TEXT_MESSAGE)?.ok_or("an event without a sum")?;
        println!("worker {} has found {part}", event.source.rank);
        total += part.parse::<u64>()?;
    }
    client.disconnect(both).await?;
    client.unpublish(["numbers.up.to"]).await?;
    println!("all together {total}");
    Ok(())
}

async fn work(client: &Client) -> Result<()> {
    let me = client.proc_id();
    let parent = client.get(me, keys::PARENT_ID).await?;
    let both = both(client, &parent);
    client.connect(both.clone()).await?;
    let task = client.lookup(["numbers.up.to"]).wait_all().await?;
    let last: u64 = task.get("numbers.up.to")?.ok_or("there is no task")?;

    let mine = (1..=last).filter(|number| number % u64::from(WORKERS) == u64::from(me.rank.to_raw()));
    let sum: u64 = mine.sum();
    let done = client.notify(DONE).info(keys::EVENT_TEXT_MESSAGE, sum.to_string());
    done.custom_range([parent]).await?;
    client.disconnect(both).await?;
    Ok(())
}

/// All processes of the own job and of another one.
fn both(client: &Client, other: &ProcId) -> [ProcId; 2] {
    [client.proc_id(), other].map(|proc| ProcId::wildcard(proc.nspace.clone()))
}
