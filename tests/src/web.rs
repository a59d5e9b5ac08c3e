use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::commands::pmix;
use crate::peers::pmixrun;
use crate::programs::{Running, rank_program};

/// `pmix web`, the address of its page, and a job of four ranks whose last one never enters the fence that the others wait in.
#[derive(Debug)]
pub struct Web {
    dir: TempDir,
    job: Running,
    web: Running,
    /// With its port.
    name: String,
    address: String,
    token: String,
}

impl Web {
    /// Starts both.
    pub async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let rank = rank_program();
        let job = pmixrun(dir.path(), &["-n", "4", rank.to_str().unwrap(), "fence-without", "3"]);
        let mut job = Running::start(job);
        // each says what it is about to do
        for _ in 0..4 {
            job.line().await.unwrap();
        }
        let mut web = Running::start(pmix(dir.path(), &["web"]));
        let url = web.line().await.unwrap();
        let (name, token) = url.strip_prefix("http://").and_then(|url| url.split_once("/#")).unwrap();
        let (_, port) = name.split_once(".localhost:").unwrap();
        let address = format!("127.0.0.1:{port}");
        Self { name: name.to_owned(), address, token: token.to_owned(), dir, job, web }
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The name and the port in the address of the page, for the header `Host`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What shows that a browser was given the address of the page.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The address of the page, with the token.
    pub fn url(&self) -> String {
        format!("http://{}/#{}", self.name, self.token)
    }

    /// The process id of `pmix web`.
    pub fn pid(&self) -> i32 {
        self.web.pid()
    }

    /// Another command of `pmix` for the same server.
    pub fn pmix(&self, args: &[&str]) -> Command {
        pmix(self.dir.path(), args)
    }

    /// Ends the job, with which the command ends; what that has written to standard error.
    ///
    /// # Panics
    /// If it fails.
    pub async fn end(self) -> String {
        self.job.signal(Signal::TERM);
        self.job.end().await;
        let (status, _, err) = self.web.end().await;
        assert!(status.success(), "it ends with its server: {err}");
        err
    }
}
