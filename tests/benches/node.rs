//! What one node costs: start of clients, fences, collected data, job data. Prints a JSON line per metric with the
//! same names and shapes as a C reference measured with the same rules: times around one call by the monotonic clock,
//! ranks are processes of their own, samples of all ranks are pooled, contents are verified.
//!
//! ```text
//! cargo bench -p pmix-tests --bench node              # everything, about half a minute
//! cargo bench -p pmix-tests --bench node -- fence     # metrics whose name contains a word
//! ```
//! `BENCH_OUT` names a file to append the lines to; `BENCH_RUN` labels the round.

#![allow(clippy::print_stdout, clippy::print_stderr, missing_docs)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Instant;

use bytes::Bytes;
use pmix_client::Client;
use pmix_server::types::job::JobSpec;
use pmix_server::types::{Nspace, ProcId, Rank, Scope, keys};
use pmix_server::{NoHost, Server};
use tokio::process::Command;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const RANKS: [u32; 3] = [2, 8, 64];

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if std::env::var_os("BENCH_RANK").is_some() {
        return runtime.block_on(rank());
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    runtime
        .block_on(measure(|name| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()))))
}

async fn measure(wants: impl Fn(&str) -> bool) -> Result<()> {
    if wants("client_init") {
        for (ranks, repeats) in [(1, 20), (2, 15), (8, 8), (64, 5)] {
            start_up(ranks, ranks, repeats).await?;
        }
        for size in [1_000, 100_000] {
            start_up(2, size, 10).await?;
        }
    }
    if wants("fence") {
        for ranks in RANKS {
            let rounds = if ranks > 32 { 200 } else { 500 };
            let samples = launch(ranks, ranks, &format!("fence {rounds}")).await?;
            report("fence", ranks, 0, samples.pooled("fence"));
            for bytes in [64, 1024] {
                let samples = launch(ranks, ranks, &format!("collect {bytes} 50")).await?;
                report("fence_collect", ranks, bytes, samples.pooled("collect"));
                report("peer_get_first", ranks, bytes, samples.pooled("get"));
            }
        }
    }
    if wants("register_nspace") {
        for size in [1_000, 100_000, 1_000_000] {
            register(size).await?;
        }
    }
    Ok(())
}

/// Start and end of all ranks at once, several times.
async fn start_up(ranks: u32, size: u32, repeats: u32) -> Result<()> {
    let mut all = Samples::default();
    for _ in 0..repeats {
        all.merge(launch(ranks, size, "init").await?);
    }
    report("client_init", ranks, size, all.pooled("init"));
    report("client_finalize", ranks, size, all.pooled("finalize"));
    report("get_proc_level", ranks, size, all.pooled("hostname"));
    Ok(())
}

/// A job of so many ranks in blocks of 64, registered with maps in a fresh server.
async fn register(size: u32) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let server =
        Server::builder().host(NoHost).hostname("node00000").session_root(dir.path()).start().await?;
    // the first call pays for what the allocator takes once
    server.handle().register_nspace(job("warm", 64, 64)?).await?;
    let before = resident_kib();
    let spec = job("job", size, 64)?;
    let infos = spec.into_infos();
    let begin = Instant::now();
    server.handle().register_nspace_infos(Nspace::new("job")?, None, infos).await?;
    let took = begin.elapsed().as_nanos() as f64 / 1e3;
    report("register_nspace", 64, size, vec![took]);
    print_line(
        "register_nspace_rss_growth",
        64,
        size,
        &mut [resident_kib().saturating_sub(before) as f64],
        "KiB",
    );
    server.stop().await;
    Ok(())
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Ranks 0 to `local` on this node, the others in blocks of 64 on further nodes.
fn job(name: &str, size: u32, local: u32) -> Result<JobSpec> {
    let nodes = 1 + (size.saturating_sub(local)).div_ceil(64);
    let names = (0..nodes).map(|node| format!("node{node:05}"));
    let mut map = format!("0-{}", local.min(size) - 1);
    let mut first = local;
    while first < size {
        let last = (first + 63).min(size - 1);
        write!(map, ";{first}-{last}")?;
        first = last + 1;
    }
    let spec = JobSpec::new(Nspace::new(name)?).node_map(names)?.proc_map(&map)?;
    Ok(spec.info(&keys::JOB_SIZE, size).info(&keys::MAX_PROCS, size).session_info(&keys::UNIV_SIZE, size))
}

/// Starts `ranks` processes of a job of `size`, lets them do `work`, and collects what they have measured.
async fn launch(ranks: u32, size: u32, work: &str) -> Result<Samples> {
    let dir = tempfile::tempdir()?;
    let server =
        Server::builder().host(NoHost).hostname("node00000").session_root(dir.path()).start().await?;
    let nspace = Nspace::new("bench")?;
    server.handle().register_nspace(job("bench", size, ranks)?).await?;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut children = Vec::new();
    for rank in 0..ranks {
        let proc = ProcId::new(nspace.clone(), Rank::new(rank)?);
        server.handle().register_client(&proc, uid, gid, None).await?;
        let mut command = Command::new(std::env::current_exe()?);
        server.handle().setup_fork(&proc).await?.apply(command.as_std_mut());
        command.env("BENCH_RANK", work).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        children.push(command);
    }
    // all of them at once, as a launcher does
    let children = children.iter_mut().map(Command::spawn).collect::<std::io::Result<Vec<_>>>()?;
    let outputs =
        futures::future::try_join_all(children.into_iter().map(tokio::process::Child::wait_with_output))
            .await?;
    server.stop().await;
    let mut samples = Samples::default();
    for output in outputs {
        if !output.status.success() {
            return Err(format!("a rank ended with {}", output.status).into());
        }
        samples.read(&String::from_utf8(output.stdout)?)?;
    }
    Ok(samples)
}

/// Times in nanoseconds by what was timed.
#[derive(Default)]
struct Samples(BTreeMap<String, Vec<f64>>);

impl Samples {
    fn add(&mut self, name: &str, begin: Instant) {
        self.0.entry(name.to_owned()).or_default().push(begin.elapsed().as_nanos() as f64);
    }

    /// A line a name: the name, then its times.
    fn write(&self) -> String {
        let line = |(name, times): (&String, &Vec<f64>)| {
            std::iter::once(name.clone())
                .chain(times.iter().map(f64::to_string))
                .collect::<Vec<_>>()
                .join(" ")
        };
        self.0.iter().map(line).collect::<Vec<_>>().join("\n") + "\n"
    }

    fn read(&mut self, text: &str) -> Result<()> {
        for line in text.lines() {
            let mut words = line.split(' ');
            let times = self.0.entry(words.next().unwrap_or_default().to_owned()).or_default();
            for word in words {
                times.push(word.parse()?);
            }
        }
        Ok(())
    }

    fn merge(&mut self, other: Self) {
        for (name, mut times) in other.0 {
            self.0.entry(name).or_default().append(&mut times);
        }
    }

    /// In microseconds.
    fn pooled(&self, name: &str) -> Vec<f64> {
        self.0.get(name).into_iter().flatten().map(|time| time / 1e3).collect()
    }
}

fn report(metric: &str, ranks: u32, size: u32, samples: Vec<f64>) {
    print_line(metric, ranks, size, &mut { samples }, "us");
}

fn print_line(metric: &str, ranks: u32, size: u32, samples: &mut [f64], unit: &str) {
    if samples.is_empty() {
        return;
    }
    samples.sort_by(f64::total_cmp);
    let count = samples.len();
    let at = |share: f64| samples[((share * count as f64).ceil() as usize).clamp(1, count) - 1];
    let mean = samples.iter().sum::<f64>() / count as f64;
    let line = serde_json::json!({
        "impl": "pmix-rs", "metric": metric, "n": ranks, "size": size, "min": samples[0], "median": at(0.5),
        "p99": at(0.99), "mean": mean, "count": count, "unit": unit,
        "run": std::env::var("BENCH_RUN").ok().and_then(|run| run.parse::<u32>().ok()).unwrap_or(1),
    });
    println!("{line}");
    if let Some(path) = std::env::var_os("BENCH_OUT") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        if let Err(error) = file.and_then(|mut file| writeln!(file, "{line}")) {
            eprintln!("BENCH_OUT: {error}");
        }
    }
}

/// One rank: connects, does its work, prints its times.
async fn rank() -> Result<()> {
    let work = std::env::var("BENCH_RANK")?;
    let mut words = work.split(' ');
    let mut samples = Samples::default();
    let begin = Instant::now();
    let client = Client::from_env().connect().await?;
    samples.add("init", begin);
    let me = client.proc_id().clone();
    match words.next() {
        Some("fence") => {
            let rounds: u32 = words.next().ok_or("rounds")?.parse()?;
            for _ in 0..5 {
                client.fence_all().await?;
            }
            for _ in 0..rounds {
                let begin = Instant::now();
                client.fence_all().await?;
                samples.add("fence", begin);
            }
        }
        Some("collect") => {
            let bytes: usize = words.next().ok_or("bytes")?.parse()?;
            let rounds: u32 = words.next().ok_or("rounds")?.parse()?;
            collect(&client, bytes, rounds, &mut samples).await?;
        }
        _ => {
            // ranks spread over the job, each asked once
            let size: u32 = client.job(&me.nspace).get(keys::JOB_SIZE).await?;
            let count = size.min(1000);
            for index in 0..count {
                let rank = Rank::new(index * (size / count))?;
                let begin = Instant::now();
                let name: String = client.get(me.with_rank(rank), keys::HOSTNAME).await?;
                samples.add("hostname", begin);
                if !name.starts_with("node") {
                    return Err(format!("rank {rank} is on {name}").into());
                }
            }
        }
    }
    let begin = Instant::now();
    client.finalize().await?;
    samples.add("finalize", begin);
    print!("{}", samples.write());
    Ok(())
}

/// Exchanges one key of every rank, overwritten each round, and checks what the peers have put in the first.
async fn collect(client: &Client, bytes: usize, rounds: u32, samples: &mut Samples) -> Result<()> {
    let me = client.proc_id().clone();
    let size: u32 = client.job(&me.nspace).get(keys::JOB_SIZE).await?;
    for round in 0..rounds {
        client.put(Scope::GLOBAL, "bench.modex", content(me.rank.to_raw(), round, bytes))?;
        client.commit().await?;
        // all meet before the fence that is timed
        client.fence_all().await?;
        let begin = Instant::now();
        client.fence_all().collect_data().await?;
        samples.add("collect", begin);
        for peer in (0..size).filter(|peer| round == 0 && *peer != me.rank.to_raw()) {
            let begin = Instant::now();
            let found: Bytes = client.get(me.with_rank(Rank::new(peer)?), "bench.modex").await?;
            samples.add("get", begin);
            if found != content(peer, 0, bytes) {
                return Err(format!("wrong data of rank {peer}").into());
            }
        }
        client.fence_all().await?;
    }
    Ok(())
}

fn content(rank: u32, round: u32, bytes: usize) -> Bytes {
    (0..bytes).map(|at| (at as u32 * 31 + rank * 7 + round) as u8).collect::<Vec<_>>().into()
}
