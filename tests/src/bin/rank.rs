//! A process of a job under test, driven by its arguments: see [`Act`].
//!
//! Says on standard output what it is about to do, one line a step; errors go to standard error with exit code 3.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is how it talks to the test")]

#[path = "rank/users.rs"]
mod users;

use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use pmix_client::otel::{Destination, Exporter, export};
use pmix_client::types::{App, DataArray, DataRange, Persistence, Query, Status, Value};
use pmix_client::{Client, Error, Nspace, ProcId, Procs, Rank, Scope, keys};
use rustix::process::{Signal, getpid, kill_process};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// What to do after connecting.
#[derive(Debug)]
enum Act {
    /// `fence`: fence of all, finalize.
    Fence,
    /// `fence-then-exit CODE`: fence of all, finalize, exit with this code.
    FenceThenExit(u8),
    /// `fence-without RANK`: this rank blocks, the others enter a fence of all.
    FenceWithout(u32),
    /// `fence-without-spinner RANK`: this rank uses a processor all the time, the others enter a fence of all.
    FenceWithoutSpinner(u32),
    /// `die-before-fence RANK`: this rank kills itself, the others enter a fence of all.
    DieBeforeFence(u32),
    /// `listen-without RANK`: this rank blocks, the others wait for the event that one of them has died.
    ListenWithout(u32),
    /// `put-commit-get N`: puts so many keys, fence with data, reads those of all ranks, finalize.
    PutCommitGet(u32),
    /// `grow N`: so many times puts a kilobyte more, changes another key, fences with data, and reads both of all ranks; at
    /// last reads all keys, says how long the first and the last fences took, finalize.
    Grow(u32),
    /// `fences N`: so many fences of all, each with one before it that is not counted; rank 0 says how long they took, finalize.
    Fences(u32),
    /// `spawn-from RANK`: this rank starts three more that put, commit and get; all finalize.
    SpawnFrom(u32),
    /// `spawn-and CHILD END`: starts `sleep 1000`, `independent` or `connected`, says its job, then `finalize`, `leave` or `block`.
    SpawnAnd(String, String),
    /// `parent`: says who has started it and how large the job of that one is, finalize.
    Parent,
    /// `where`: says where it is and who is beside it, finalize.
    Where,
    /// `debug`: says which ranks of the job that it is to look at are here; then all fence, rank 0 releases that job, finalize.
    Debug,
    /// `debug-own`: the same, but each releases the ranks that are here.
    DebugOwn,
    /// `abort CODE [MESSAGE [RANK]]`: rank 0 aborts the job with this status, or this rank and finalizes; the others block.
    Abort(i32, String, Option<u32>),
    /// `kill-peer RANK`: all fence, then rank 0 has this rank killed, which blocks.
    KillPeer(u32),
    /// `publish KEY VALUE`: publishes it for good, then blocks.
    Publish(String, String),
    /// `look-up KEY`: says what is published and by whom, finalize.
    LookUp(String),
    /// `attack NAMESPACE`: tries on another user's job what can be done to one, finalize.
    Attack(Nspace),
    /// `attack-group NAMESPACE UID`: tries the same by the name of the group that the `keep-secret` of that job has made, finalize.
    AttackGroup(Nspace, String),
    /// `slander NAMESPACE`: says that a process of another user's job is lost, finalize.
    Slander(Nspace),
    /// `keep-secret`: puts a secret, makes a group, then waits for the event that a process has died, and says of which.
    KeepSecret,
    /// `spawn-with WHAT FILE COMMAND`: starts it with a directive for this file, uid or job, none if that is `-`, waits for its end,
    /// finalize.
    SpawnWith(String, String, Vec<String>),
    /// `rule`: starts a job, reads what it says, ends it, finalize.
    Rule,
    /// `furnish`: puts a file into the directory of its job, then blocks.
    Furnish,
    /// `clean-up FILES`: has these files removed when it has ended, leaves without finalize.
    CleanUp(Vec<String>),
    /// `credential TYPES`: requests one, says what it got and whom it names, finalize.
    Credential(String),
    /// `validate CREDENTIAL`: says whom it names, finalize.
    Validate(String),
    /// `mail ADDRESS`: logs a mail to this address, says how that went, finalize.
    Mail(String),
    /// `look-up-many COUNT`: looks up so many keys that nobody publishes, at the same time, says that, block.
    LookUpMany(usize),
    /// `control-many COUNT`: requests so many signals for its own job at the same time, says that, and does it again for ever.
    ControlMany(usize),
    /// `debug-own-many COUNT`: starts so many daemons of a debugger beside itself, says how that went, finalize.
    DebugOwnMany(u32),
    /// `log TEXT`: logs this text to its standard output and standard error, finalize.
    Log(String),
    /// `ask KEY`: queries a key, says how that went, finalize.
    Ask(String),
    /// `tool URI [NSPACE]`: connects to this server as a tool and not as a process of a job, by a name in this namespace if it is
    /// given.
    Tool(String, Option<Nspace>),
    /// `maybe-alone`: connects, or runs alone where no launcher is to be seen, says which of the two, finalize.
    MaybeAlone,
    /// `block`: nothing more, for ever.
    Block,
    /// `spin-until FILE`: computes until this file is there, says for how long it was stopped at most, finalize.
    SpinUntil(String),
    /// `stop-in-app`: waits for a debugger after init, if its job data says so, then a fence of all, finalize.
    StopInApp,
    /// `leave`: exits with 0 and without finalize.
    Leave,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(act) = Act::parse(&args) else {
        eprintln!("what is {args:?}?");
        return ExitCode::from(2);
    };
    let _exporter = trace();
    match run(act).await {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let procs: Vec<_> = error.procs().iter().map(ToString::to_string).collect();
            eprintln!("{:?}: {error} [{}]", error.status(), procs.join(" "));
            ExitCode::from(3)
        }
    }
}

/// Sends spans where the launcher says.
fn trace() -> Option<Exporter> {
    let to = Destination::from_env()?;
    let (layer, exporter) = export(&to.ok()?, "pmix-test-rank").ok()?;
    tracing_subscriber::registry().with(layer).init();
    Some(exporter)
}

async fn run(act: Act) -> Result<u8, Error> {
    if let Act::Tool(uri, nspace) = act {
        users::tool(&uri, nspace).await;
        return Ok(0);
    }
    if matches!(act, Act::MaybeAlone) {
        let client = Client::from_env().allow_singleton().init().await?;
        println!("{}", if client.is_singleton() { "alone" } else { "launched" });
        return client.finalize().await.map(|()| 0);
    }
    let client = Client::from_env().init().await?;
    let me = client.proc_id().clone();
    let rank = me.rank.to_raw();
    println!(
        "{me} connected to {} on {}",
        client.server_id().map_or_else(String::new, ToString::to_string),
        client.hostname()
    );
    match act {
        Act::Block => block().await,
        Act::SpinUntil(ref file) => spin_until(file),
        Act::Leave => return Ok(0),
        Act::StopInApp => {
            stop_in_app(&client).await?;
            client.fence_all().await?;
        }
        Act::FenceWithout(absent) | Act::ListenWithout(absent) if rank == absent => block().await,
        // no file has this name
        Act::FenceWithoutSpinner(absent) if rank == absent => spin_until(""),
        Act::ListenWithout(_) => listen(&client).await?,
        Act::DieBeforeFence(victim) if rank == victim => {
            println!("dying");
            let _ = kill_process(getpid(), Signal::KILL);
            block().await
        }
        Act::Abort(status, ref message, victim) if rank == 0 => {
            println!("aborting");
            let named = victim.map(|rank| client.proc_id().with_rank(Rank::from_raw(rank)));
            client.abort(status, message).procs(Vec::from_iter(named)).await?;
            if victim.is_none() {
                block().await;
            }
        }
        Act::Abort(..) => block().await,
        Act::KillPeer(victim) => {
            client.fence_all().await?;
            if rank == victim {
                block().await;
            }
            if rank == 0 {
                client.job_control([client.proc_id().with_rank(Rank::from_raw(victim))]).kill().await?;
                println!("killed");
            }
        }
        Act::Publish(ref key, ref value) => {
            client.publish().data(key, value.as_str()).persistence(Persistence::INDEF).await?;
            println!("published");
            block().await
        }
        Act::Mail(ref address) => match client.log().mail(address, "of a test", "text").await {
            Ok(logged) => println!("mailed {logged:?}"),
            Err(error) => println!("not mailed: {error}"),
        },
        Act::LookUpMany(count) => {
            for number in 0..count {
                tokio::spawn(client.lookup([format!("absent {number}")]).wait_all().into_future());
            }
            // all of them are begun before what follows
            tokio::task::yield_now().await;
            client.put(Scope::LOCAL, "asked", 1u32)?;
            // answered by the server after it has read all that was sent before
            client.commit().await?;
            println!("asked for {count}");
            block().await
        }
        Act::Log(ref text) => {
            client.log().stdout(text).stderr(text).await?;
        }
        Act::LookUp(ref key) => {
            let found = client.lookup([key]).await?;
            let publisher = found.publisher(key).map(ToString::to_string).unwrap_or_default();
            println!("found {} of {publisher}", found.get::<String>(key)?.unwrap_or_default());
        }
        Act::Attack(ref victim) => users::attack(&client, victim.clone()).await?,
        Act::AttackGroup(ref victim, ref uid) => users::attack_group(&client, victim, uid).await?,
        Act::Slander(ref victim) => users::slander(&client, victim.clone()).await,
        Act::KeepSecret => {
            client.put(Scope::GLOBAL, "secret", "the secret")?;
            client.commit().await?;
            let own = &client.proc_id().nspace;
            client.group_construct(users::group_of(own), [ProcId::wildcard(own.clone())]).await?;
            listen(&client).await?;
        }
        Act::SpawnWith(ref what, ref file, ref command) => {
            users::spawn(&client, (what != "-").then_some((what, file)), command).await?;
        }
        Act::ControlMany(count) => users::control_many(&client, count).await,
        Act::DebugOwnMany(count) => users::debug_own_many(&client, count).await,
        Act::Credential(ref types) => users::credential(&client, types).await?,
        Act::Validate(ref credential) => users::validate(&client, credential).await,
        Act::Ask(ref key) => users::ask(&client, key).await,
        Act::Rule => users::rule(&client).await?,
        Act::Furnish => {
            users::furnish(&client).await?;
            block().await
        }
        Act::CleanUp(ref files) => {
            client.job_control(Procs::own_nspace()).register_cleanup(files).await?;
            return Ok(0);
        }
        Act::PutCommitGet(keys) => put_commit_get(&client, keys).await?,
        Act::Grow(rounds) => grow(&client, rounds).await?,
        Act::Fences(rounds) => fences(&client, rounds).await?,
        Act::SpawnFrom(parent) => {
            if rank == parent {
                spawn(&client).await?;
            }
        }
        Act::SpawnAnd(ref child, ref end) => {
            let spawn = client.spawn([App::new("sleep", 1).arg("1000")]);
            let spawn = if child == "independent" { spawn.independent() } else { spawn };
            println!("started {}", spawn.await?);
            match &**end {
                "leave" => return Ok(0),
                "block" => block().await,
                _ => {}
            }
        }
        Act::Parent => tell_parent(&client).await?,
        Act::Where => tell_where(&client).await?,
        Act::Debug => debug(&client, false).await?,
        Act::DebugOwn => debug(&client, true).await?,
        Act::Tool(..)
        | Act::MaybeAlone
        | Act::Fence
        | Act::FenceThenExit(_)
        | Act::FenceWithout(_)
        | Act::FenceWithoutSpinner(_)
        | Act::DieBeforeFence(_) => {
            println!("fencing");
            client.fence_all().await?;
        }
    }
    client.finalize().await?;
    println!("finalized");
    Ok(if let Act::FenceThenExit(code) = act { code } else { 0 })
}

/// Looks at the clock all the time, and at the directory. It was stopped when it neither ran nor waited for a processor.
fn spin_until(file: &str) {
    let started = Instant::now();
    let stopped = || started.elapsed().saturating_sub(busy());
    let (mut last, mut longest) = (stopped(), Duration::ZERO);
    while !Path::new(file).exists() {
        let now = stopped();
        longest = longest.max(now.saturating_sub(last));
        last = now;
    }
    println!("stopped for {} us", longest.as_micros());
}

/// How long this thread has run and waited for a processor; 0 where the kernel does not count that.
fn busy() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().take(2).filter_map(|word| word.parse::<u64>().ok());
    Duration::from_nanos(nanoseconds.sum())
}

/// As the Standard has it: tells that it waits, and where, until it is released.
async fn stop_in_app(client: &Client) -> Result<(), Error> {
    let me = client.proc_id();
    match client.get(me.clone(), keys::DEBUG_STOP_IN_APP).optional().await {
        Err(error) if error.is_not_found() => return Ok(()),
        Ok(Value::Rank(rank)) if !rank.matches(me.rank) => return Ok(()),
        stop => stop?,
    };
    let mut releases = client.events([Status::DEBUGGER_RELEASE]).await?;
    let ready = client.notify(Status::READY_FOR_DEBUG).range(DataRange::RM).non_default();
    ready.info(keys::BREAKPOINT, "after init").await?;
    let _ = releases.recv().await;
    println!("released");
    Ok(())
}

async fn put_commit_get(client: &Client, keys: u32) -> Result<(), Error> {
    let me = client.proc_id().clone();
    for number in 0..keys {
        client.put(Scope::GLOBAL, format!("key-{number}"), format!("{me} {number}"))?;
    }
    client.commit().await?;
    client.fence_all().collect_data().await?;
    let size = client.job(&me.nspace).get(keys::JOB_SIZE).await?;
    for peer in (0..size).map(|rank| me.with_rank(Rank::from_raw(rank))) {
        for number in 0..keys {
            let value: Value = client.get(&peer, format!("key-{number}")).await?;
            assert_eq!(value.as_str(), Some(format!("{peer} {number}").as_str()));
        }
    }
    println!("read {} values", size * keys);
    Ok(())
}

async fn grow(client: &Client, rounds: u32) -> Result<(), Error> {
    let me = client.proc_id().clone();
    let size = client.job(&me.nspace).get(keys::JOB_SIZE).await?;
    let peers: Vec<_> = (0..size).map(|rank| me.with_rank(Rank::from_raw(rank))).collect();
    let value = |of: &ProcId, round| format!("{:.>1024}", format!("{of} {round}"));
    // only what a fence has brought: the server is not asked
    let read = async |peer: &ProcId, round: u32| {
        let found: Value = client.get(peer, format!("key-{round}")).optional().await?;
        assert_eq!(found.as_str(), Some(value(peer, round).as_str()), "{peer} {round}");
        Ok::<_, Error>(())
    };
    let mut took = Vec::new();
    for round in 0..rounds {
        client.put(Scope::GLOBAL, format!("key-{round}"), value(&me, round))?;
        client.put(Scope::GLOBAL, "latest", round)?;
        client.commit().await?;
        client.fence_all().await?;
        let begin = Instant::now();
        client.fence_all().collect_data().await?;
        took.push(begin.elapsed().as_micros());
        for peer in peers.iter().filter(|_| me.rank.to_raw() > 0) {
            read(peer, round).await?;
            assert_eq!(client.get::<u32>(peer, "latest").optional().await?, round, "{peer}");
        }
    }
    for peer in &peers {
        for round in 0..rounds {
            read(peer, round).await?;
        }
    }
    println!("read {} values", size * rounds);
    say_times(&mut took);
    Ok(())
}

async fn fences(client: &Client, rounds: u32) -> Result<(), Error> {
    let mut took = Vec::new();
    for _ in 0..rounds {
        client.fence_all().await?;
        let begin = Instant::now();
        client.fence_all().await?;
        took.push(begin.elapsed().as_micros());
    }
    if client.proc_id().rank == Rank::from_raw(0) {
        say_times(&mut took);
    }
    Ok(())
}

/// How long the fences of the first and of the last quarter took, and how long all of them.
fn say_times(took: &mut [u128]) {
    let median = |took: &mut [u128]| {
        took.sort_unstable();
        took.get(took.len() / 2).copied().unwrap_or_default()
    };
    let quarter = took.len() / 4;
    let (first, rest) = took.split_at_mut(quarter);
    let last = rest.len() - quarter;
    let (first, last) = (median(first), median(&mut rest[last..]));
    println!("fences took {first} us at first, {last} us at last, {} us in all", median(took));
}

async fn spawn(client: &Client) -> Result<(), Error> {
    let own = std::env::current_exe().unwrap_or_default();
    let child = App::new(own, 3).args(["put-commit-get", "2"]);
    println!("started {}", client.spawn([child]).await?);
    Ok(())
}

async fn tell_parent(client: &Client) -> Result<(), Error> {
    let spawned = client.get(client.proc_id(), keys::SPAWNED).await?;
    let parent = client.get(client.proc_id(), keys::PARENT_ID).await?;
    let size = client.job(&parent.nspace).get(keys::JOB_SIZE).await?;
    println!("spawned {spawned} by {parent}, one of {size}");
    Ok(())
}

async fn debug(client: &Client, releases_own: bool) -> Result<(), Error> {
    let me = client.proc_id();
    let target = client.get(ProcId::wildcard(me.nspace.clone()), keys::DEBUG_TARGET).await?;
    let key = &keys::QUERY_LOCAL_PROC_TABLE;
    let query = Query::new(key).qualifier(&keys::NSPACE, &target.nspace);
    let mut here = Vec::new();
    if let Some(DataArray::ProcInfo(table)) = client.query([query]).await?.get(key)? {
        let ranks: Vec<_> = table.iter().map(|row| row.proc.rank.to_string()).collect();
        println!("daemon {} looks at {} of {}", me.rank, ranks.join(" "), target.nspace);
        here.extend(table.into_iter().map(|row| row.proc));
    }
    client.fence_all().await?;
    if releases_own {
        client.notify(Status::DEBUGGER_RELEASE).custom_range(here).non_default().await?;
    } else if me.rank == Rank::from_raw(0) {
        client.notify(Status::DEBUGGER_RELEASE).custom_range([target]).non_default().await?;
    }
    Ok(())
}

async fn tell_where(client: &Client) -> Result<(), Error> {
    let me = client.proc_id();
    let job = client.job(&me.nspace);
    let (nodes, ranks) = (job.get(keys::NUM_NODES).await?, job.get(keys::LOCAL_SIZE).await?);
    let peers: String = job.get(keys::LOCAL_PEERS).await?;
    let node = client.get(me, keys::NODEID).await?;
    let local_rank = client.get(me, keys::LOCAL_RANK).await?;
    let mut hosts = Vec::new();
    for rank in (0..job.get(keys::JOB_SIZE).await?).map(Rank::from_raw) {
        hosts.push(client.get(me.with_rank(rank), keys::HOSTNAME).await?);
    }
    println!(
        "node {node} of {nodes}, local rank {local_rank} of {ranks}, peers {peers}, hosts {}",
        hosts.join(",")
    );
    Ok(())
}

async fn listen(client: &Client) -> Result<(), Error> {
    let mut events = client.events([Status::ERR_PROC_TERM_WO_SYNC]).await?;
    println!("listening");
    match events.recv().await {
        Some(Ok(event)) => {
            let affected = event.info.get(&keys::EVENT_AFFECTED_PROC).ok().flatten();
            println!(
                "heard {} about {}",
                event.code,
                affected.map_or_else(String::new, |proc| proc.to_string())
            );
        }
        other => println!("heard {other:?}"),
    }
    Ok(())
}

async fn block() -> ! {
    println!("blocked");
    std::future::pending().await
}

impl Act {
    fn parse(args: &[String]) -> Option<Self> {
        fn number<T: FromStr>(args: &[String]) -> Option<T> {
            args.get(1)?.parse().ok()
        }
        Some(match args.first()?.as_str() {
            "fence" => Self::Fence,
            "fence-then-exit" => Self::FenceThenExit(number(args)?),
            "fence-without" => Self::FenceWithout(number(args)?),
            "fence-without-spinner" => Self::FenceWithoutSpinner(number(args)?),
            "die-before-fence" => Self::DieBeforeFence(number(args)?),
            "listen-without" => Self::ListenWithout(number(args)?),
            "put-commit-get" => Self::PutCommitGet(number(args)?),
            "grow" => Self::Grow(number(args)?),
            "fences" => Self::Fences(number(args)?),
            "kill-peer" => Self::KillPeer(number(args)?),
            "spawn-from" => Self::SpawnFrom(number(args)?),
            "spawn-and" => Self::SpawnAnd(args.get(1)?.clone(), args.get(2)?.clone()),
            "parent" => Self::Parent,
            "where" => Self::Where,
            "debug" => Self::Debug,
            "debug-own" => Self::DebugOwn,
            "abort" => Self::Abort(
                number(args)?,
                args.get(2).map_or("told to", |text| text).to_owned(),
                args.get(3).and_then(|rank| rank.parse().ok()),
            ),
            "publish" => Self::Publish(args.get(1)?.clone(), args.get(2)?.clone()),
            "look-up" => Self::LookUp(args.get(1)?.clone()),
            "attack" => Self::Attack(args.get(1)?.parse().ok()?),
            "validate" => Self::Validate(args.get(1)?.clone()),
            "attack-group" => Self::AttackGroup(args.get(1)?.parse().ok()?, args.get(2)?.clone()),
            "slander" => Self::Slander(args.get(1)?.parse().ok()?),
            "keep-secret" => Self::KeepSecret,
            "spawn-with" => {
                Self::SpawnWith(args.get(1)?.clone(), args.get(2)?.clone(), args.get(3..)?.to_vec())
            }
            "rule" => Self::Rule,
            "furnish" => Self::Furnish,
            "clean-up" => Self::CleanUp(args.get(1..)?.to_vec()),
            "credential" => Self::Credential(args.get(1)?.clone()),
            "look-up-many" => Self::LookUpMany(args.get(1)?.parse().ok()?),
            "control-many" => Self::ControlMany(args.get(1)?.parse().ok()?),
            "debug-own-many" => Self::DebugOwnMany(args.get(1)?.parse().ok()?),
            "log" => Self::Log(args.get(1)?.clone()),
            "mail" => Self::Mail(args.get(1)?.clone()),
            "ask" => Self::Ask(args.get(1)?.clone()),
            "tool" => Self::Tool(args.get(1)?.clone(), args.get(2).and_then(|nspace| nspace.parse().ok())),
            "maybe-alone" => Self::MaybeAlone,
            "block" => Self::Block,
            "spin-until" => Self::SpinUntil(args.get(1)?.clone()),
            "stop-in-app" => Self::StopInApp,
            "leave" => Self::Leave,
            _ => return None,
        })
    }
}
