//! A server in a process of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pmix_client::{Client, Error, Nspace, ProcId, Rank};
use pmix_native::conn::ServerUri;
use pmix_test_wait::until;
use tempfile::TempDir;

use crate::programs::{Running, program};
use crate::wires::on_tested_wire;
use crate::within;

/// `pmix-test-server`, with a directory that all users may enter.
#[derive(Debug)]
pub struct TestServer {
    /// The process.
    pub process: Running,
    /// Where Rust programs find it.
    pub uri: String,
    /// Where C programs find it.
    pub native: SocketAddr,
    dir: TempDir,
    log: PathBuf,
}

impl TestServer {
    /// Starts it, with a job of so many ranks of our own user.
    pub async fn start(ranks: u32, other_users: bool) -> Self {
        Self::start_below(&[], ranks, other_users).await
    }

    /// Starts it by a command that takes it as its last arguments, such as one that limits what it may use.
    pub async fn start_below(launcher: &[&str], ranks: u32, other_users: bool) -> Self {
        let ranks = ranks.to_string();
        let options = ["--ranks", &ranks, "--other-users"];
        Self::start_with(launcher, &options[..if other_users { 3 } else { 2 }]).await
    }

    /// Starts it for a job of so many ranks, each of which may put so many bytes, and leave unread for so long what it is
    /// told.
    pub async fn start_limited(ranks: u32, put_limit: usize, patience: Duration) -> Self {
        let numbers = [ranks.to_string(), put_limit.to_string(), patience.as_millis().to_string()];
        let [ranks, put_limit, patience] = &numbers;
        Self::start_with(&[], &["--ranks", ranks, "--put-limit", put_limit, "--patience", patience]).await
    }

    async fn start_with(launcher: &[&str], options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let log = dir.path().join("log");
        // into a file: a pipe that is not read would stop it
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec "$@" 2>"$0""#]).arg(&log).args(launcher);
        command.arg(program("pmix-test-server")).arg("--root").arg(dir.path()).arg("--native").args(options);
        let mut process = Running::start_with_input(command);
        let uri = process.line_with("uri ").await[4..].to_owned();
        let native = process.line_with("native ").await[7..].parse::<ServerUri>().unwrap().address;
        process.line_with("started ").await;
        Self { process, uri, native, dir, log }
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        Path::new(self.uri.split_once(";unix:").unwrap().1).to_owned()
    }

    /// A process of its job.
    pub fn proc(rank: u32) -> ProcId {
        ProcId::new(Nspace::new("job").unwrap(), Rank::from_raw(rank))
    }

    /// Connects as a rank.
    ///
    /// # Errors
    /// Those of the client.
    pub async fn client(&self, rank: u32) -> Result<Client, Error> {
        within(Client::builder().uri(on_tested_wire(&self.uri)).proc(Self::proc(rank)).init()).await
    }

    /// The most bytes that it has ever had in memory.
    pub fn peak(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.pid())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until it has logged some words.
    pub async fn until_logged(&self, words: &str) {
        let look = || {
            let log = self.log();
            if log.contains(words) { Ok(()) } else { Err(log) }
        };
        until(format!("it logs {words:?}"), look).await;
    }

    /// Ends it; what it had logged.
    pub async fn end(self) -> String {
        let (status, _, _) = self.process.end().await;
        let log = std::fs::read_to_string(&self.log).unwrap();
        assert!(status.success(), "{log}");
        drop(self.dir);
        log
    }
}
