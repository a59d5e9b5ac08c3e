use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use pmix_client::{Client, Nspace, ProcId, Rank};
use pmix_native::conn::ServerUri;
use tempfile::TempDir;

use crate::programs::built;
use crate::{Running, within};

/// A server in a process of its own, with a job of local processes: its memory is its own, too.
#[derive(Debug)]
pub struct Served {
    running: Running,
    uri: String,
    /// Where C clients connect.
    pub native: SocketAddr,
    _dir: TempDir,
}

impl Served {
    /// Starts one for a job of so many ranks, each of which may put so many bytes, and leave unread for so long what it is
    /// told.
    pub async fn start(ranks: u32, put_limit: usize, patience: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(built("pmix-test-server"));
        command.arg(dir.path()).arg(ranks.to_string());
        command.arg(put_limit.to_string()).arg(patience.as_millis().to_string());
        let mut running = Running::start(command);
        let uri = running.line().await.expect("it says where it is");
        let native = running.line().await.unwrap().parse::<ServerUri>().unwrap().address;
        Self { running, uri, native, _dir: dir }
    }

    /// A process of the job.
    pub fn proc(&self, rank: u32) -> ProcId {
        ProcId::new(Nspace::new("job").unwrap(), Rank::from_raw(rank))
    }

    /// Connects as a rank.
    pub async fn client(&self, rank: u32) -> Client {
        within(Client::builder().uri(&self.uri).proc(self.proc(rank)).connect()).await.unwrap()
    }

    /// The server's socket.
    pub fn socket(&self) -> PathBuf {
        self.uri.split_once(";unix:").unwrap().1.into()
    }

    /// The most bytes that it has ever had in memory.
    pub fn peak(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.running.pid())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
    }
}
