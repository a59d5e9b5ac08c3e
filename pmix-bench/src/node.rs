//! A server with its host, and the metrics that need no ranks: its start, job data, maps.

use std::hint::black_box;

use pmix_server::types::Nspace;
use pmix_server::types::map::{MapForm, NodeMap, ProcMap};
use pmix_server::{NativeWire, Server, ServerHandle};
use tempfile::TempDir;
use tokio::process::Command;

use crate::host::Host;
use crate::job::{HERE, Shape};
use crate::memory::Memory;
use crate::record::Printer;
use crate::{Result, clock};

/// A running server for clients of both kinds.
pub(crate) struct Node {
    server: Server,
    /// Microseconds that its start has taken.
    pub(crate) init: f64,
    // removed after the server has stopped
    _directory: TempDir,
}

impl Node {
    pub(crate) async fn start() -> Result<Self> {
        let directory = TempDir::new()?;
        let host = Host::default();
        let begin = clock::now();
        let server = Server::builder()
            .raise_nofile(true)
            .host(host)
            .hostname(HERE)
            .session_root(directory.path())
            .native_wire(NativeWire::On)
            .start()
            .await?;
        let init = clock::since(begin);
        Ok(Self { server, init, _directory: directory })
    }

    pub(crate) const fn handle(&self) -> &ServerHandle {
        self.server.handle()
    }

    /// Microseconds that its end takes.
    pub(crate) async fn stop(self) -> f64 {
        let begin = clock::now();
        self.server.stop().await;
        clock::since(begin)
    }
}

/// `jobdata`: what a job of so many ranks costs its host and its server, described by its maps or with all arrays.
pub(crate) async fn job_data(total: u32, has_arrays: bool) -> Result<()> {
    let node = Node::start().await?;
    let shape = Shape { total, local: 64.min(total) };
    let size = total.into();
    let idle = Memory::own().rss as f64;
    let begin = clock::now();
    let infos = if has_arrays { shape.spell_out()? } else { shape.describe("bench-0")?.into_infos() };
    let built = clock::since(begin);
    Printer.print_one("jobdata_host_build", 64, size, "us", built)?;
    let held = Memory::own().rss as f64;
    let nspace = Nspace::new("bench-0")?;
    let begin = clock::now();
    node.handle().register_nspace_infos(nspace, Some(shape.local), infos).await?;
    Printer.print_one("register_nspace", 64, size, "us", clock::since(begin))?;
    let registered = Memory::own().rss as f64;
    Printer.print_one("register_nspace_rss_growth", 64, size, "KiB", registered - idle)?;
    Printer.print_one("jobdata_host_build_rss", 64, size, "KiB", held - idle)?;
    node.stop().await;
    Ok(())
}

/// `regex`: from the lists of a host to the maps that are sent.
pub(crate) fn maps(nodes: u32) -> Result<()> {
    let shape = Shape::of_nodes(nodes);
    let (names, listed) = (shape.names(), shape.listed());
    let repeats = match nodes {
        0..=1_000 => 15,
        1_001..=10_000 => 7,
        _ => 3,
    };
    let encode_names = || NodeMap::from_raw(&names).map(|map| map.encode(MapForm::Pmix));
    let encode_ranks = || ProcMap::from_raw(&listed).map(|map| map.encode(MapForm::Pmix));
    measure_map("generate_regex", nodes, repeats, &names, encode_names)?;
    let repeats = if nodes > 10_000 { 1 } else { repeats };
    measure_map("generate_ppn", nodes, repeats, &listed, encode_ranks)
}

fn measure_map<E: std::error::Error + 'static>(
    metric: &str,
    nodes: u32,
    repeats: u32,
    list: &str,
    encode: impl Fn() -> std::result::Result<Vec<u8>, E>,
) -> Result<()> {
    let size = nodes.into();
    let mut times = Vec::new();
    for round in 0..repeats {
        let begin = clock::now();
        let map = black_box(encode()?);
        times.push(clock::since(begin));
        if round == 0 {
            Printer.print_one(&format!("{metric}_in_len"), 0, size, "bytes", list.len() as f64)?;
            Printer.print_one(&format!("{metric}_out_len"), 0, size, "bytes", map.len() as f64)?;
        }
    }
    Ok(Printer.print(metric, 0, size, "us", &times)?)
}

/// `init`: start and end of the server, each in a process that has never had one.
pub(crate) async fn inits(count: u32) -> Result<()> {
    let (mut starts, mut resident, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count.clamp(1, 64) {
        let mut command = Command::new(std::env::current_exe()?);
        let output = command.arg("init-once").kill_on_drop(true).output().await?;
        let text = String::from_utf8(output.stdout)?;
        let figures =
            text.split_whitespace().map(str::parse).collect::<std::result::Result<Vec<f64>, _>>()?;
        let [start, rss, end] = figures[..] else {
            return Err(format!("a server ended with {}", output.status).into());
        };
        starts.push(start);
        resident.push(rss);
        ends.push(end);
    }
    Printer.print("server_init", 0, 0, "us", &starts)?;
    Printer.print("rss_server_idle", 0, 0, "KiB", &resident)?;
    Ok(Printer.print("server_finalize", 0, 0, "us", &ends)?)
}

/// One of them, in this process.
pub(crate) async fn init_once() -> Result<()> {
    let node = Node::start().await?;
    let (start, rss) = (node.init, Memory::own().rss);
    println!("{start} {rss} {}", node.stop().await);
    Ok(())
}
