//! What a second user who floods a server costs its owner: a loop of fences beside the flood, beside as many
//! processes of that user that only burn processor time, and beside the same flood of sockets that nobody serves, which
//! is what the kernel's part of it costs. Needs root, to be that user.
//!
//! `FLOOD_SECONDS` says how long the floods last in all (20 if not set), `FLOOD_RANKS` how many processes fence (16). The
//! server lets other users in, so that both of its sockets can be reached; with `FLOOD_OWN_USER=1` it serves its own user
//! only, and both floods go to the loopback port, as a stranger cannot reach the other socket.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use pmix_client::Client;
use pmix_tests::{OtherUser, Running, TestServer};
use tempfile::TempDir;

/// Fences of one measurement.
const FENCES: u32 = 3000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if let [word, uri, rank, fences] = &args[..]
        && word == "rank"
    {
        return runtime.block_on(rank_loop(uri, rank.parse().unwrap(), fences.parse().unwrap()));
    }
    runtime.block_on(compare());
}

fn setting(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// One process: fences, and says how long that took.
async fn rank_loop(uri: &str, rank: u32, fences: u32) {
    let begin = Instant::now();
    let client = Client::builder().uri(uri).proc(TestServer::proc(rank)).init().await.unwrap();
    println!("connected {}", begin.elapsed().as_micros());
    client.fence_all().await.unwrap();
    let begin = Instant::now();
    for _ in 0..fences {
        client.fence_all().await.unwrap();
    }
    println!("took {}", begin.elapsed().as_micros());
    client.finalize().await.unwrap();
}

async fn compare() {
    let Some(stranger) = OtherUser::second() else { return };
    let (seconds, ranks) = (setting("FLOOD_SECONDS", 20), setting("FLOOD_RANKS", 16));
    let is_open = setting("FLOOD_OWN_USER", 0) == 0;
    let server = TestServer::start(ranks, is_open).await;
    let endpoints = within_reach(server.native, &server.socket(), is_open);
    let nobody = Nobody::listen();
    let in_vain_at = within_reach(nobody.native.local_addr().unwrap(), &nobody.path, is_open);
    let (mut burned, mut flooded, mut in_vain) = (Vec::new(), Vec::new(), Vec::new());
    let mut in_all = Duration::ZERO;
    let (mut quiet, mut connected) = (Vec::new(), Vec::new());
    let memory = server.peak() >> 10;
    while in_all < Duration::from_secs(seconds.into()) {
        if flooded.len() >= 8 * burned.len() || burned.len() < 5 {
            endpoints.iter().for_each(|endpoint| wait_for_turn(endpoint));
            let burners = endpoints.each_ref().map(|_| stranger.command_line("while :; do :; done"));
            burned.push(beside(burners, &server, ranks, &mut quiet).await);
            let floods =
                in_vain_at.each_ref().map(|endpoint| stranger.stranger(&["flood", endpoint, "86400"]));
            in_vain.push(beside(floods, &server, ranks, &mut Vec::new()).await);
        }
        let floods = endpoints.each_ref().map(|endpoint| stranger.stranger(&["flood", endpoint, "86400"]));
        let took = beside(floods, &server, ranks, &mut connected).await;
        in_all += took;
        flooded.push(took);
    }
    let (burned, flooded, in_vain) = (median(burned), median(flooded), median(in_vain));
    let micros = |time: Duration| time.as_micros() as f64 / f64::from(FENCES);
    println!("fence of {ranks} beside two processes of another user that burn: {:.0} us", micros(burned));
    println!("fence of {ranks} beside two that flood: {:.0} us", micros(flooded));
    println!("fence of {ranks} beside two that flood sockets nobody serves: {:.0} us", micros(in_vain));
    quiet.sort_unstable();
    connected.sort_unstable();
    let of = |times: &[u64]| format!("{} us, at most {} us", times[times.len() / 2], times[times.len() - 1]);
    println!("connecting: {} beside those that burn, {} beside those that flood", of(&quiet), of(&connected));
    println!(
        "ratio {:.2}, of sockets nobody serves {:.2}, flooded for {:.0} s",
        flooded.as_secs_f64() / burned.as_secs_f64(),
        in_vain.as_secs_f64() / burned.as_secs_f64(),
        in_all.as_secs_f64()
    );
    println!(
        "server: {memory} KiB before, {} KiB at its peak, {} bytes of log",
        server.peak() >> 10,
        server.log().len()
    );
}

/// Returns when the server has got rid of those whom the last flood has left waiting: what that costs is not to count as
/// something else. Who says nothing that it understands is sent away when it is his turn.
fn wait_for_turn(endpoint: &str) {
    let garbage = [0xa5; 64];
    let mut heard = Vec::new();
    // whatever way it is closed in
    let _ = match endpoint.parse::<SocketAddr>() {
        Ok(address) => {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&garbage).and_then(|()| stream.read_to_end(&mut heard))
        }
        Err(_) => {
            let mut stream = UnixStream::connect(endpoint).unwrap();
            stream.write_all(&garbage).and_then(|()| stream.read_to_end(&mut heard))
        }
    };
}

/// Where each of the two floods goes.
fn within_reach(native: SocketAddr, grpc: &Path, is_open: bool) -> [String; 2] {
    let native = native.to_string();
    [native.clone(), if is_open { grpc.display().to_string() } else { native }]
}

/// Listens on both kinds of sockets and accepts nobody.
struct Nobody {
    _dir: TempDir,
    path: PathBuf,
    native: TcpListener,
    _grpc: UnixListener,
}

impl Nobody {
    fn listen() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let path = dir.path().join("socket");
        let (native, grpc) = (TcpListener::bind("127.0.0.1:0").unwrap(), UnixListener::bind(&path).unwrap());
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        // as deep a queue as a server's
        rustix::net::listen(&native, 2048).unwrap();
        rustix::net::listen(&grpc, 2048).unwrap();
        Self { _dir: dir, path, native, _grpc: grpc }
    }
}

/// How long the loop takes beside these processes.
async fn beside(others: [Command; 2], server: &TestServer, ranks: u32, connected: &mut Vec<u64>) -> Duration {
    let others: Vec<_> = others
        .into_iter()
        .map(|mut command| {
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    let own = std::env::current_exe().unwrap();
    let mut processes: Vec<_> = (0..ranks)
        .map(|rank| {
            let mut command = Command::new(&own);
            command.args(["rank", &server.uri, &rank.to_string(), &FENCES.to_string()]);
            Running::start(command)
        })
        .collect();
    let took = loop {
        // as long as it takes: no deadline of a test
        match processes[0].line_at_last().await {
            Some(line) if line.starts_with("took ") => break line[5..].parse().unwrap(),
            Some(line) => {
                connected.extend(line.strip_prefix("connected ").map(|time| time.parse::<u64>().unwrap()))
            }
            None => panic!("a rank has failed"),
        }
    };
    for process in processes {
        process.end().await;
    }
    for mut other in others {
        other.kill().unwrap();
        other.wait().unwrap();
    }
    Duration::from_micros(took)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
