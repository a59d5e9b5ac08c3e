//! Tools in C choose between the servers of two launchers that run side by side: a system-level and a session-level one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_tests::{Peer, Running, on_path};
use rustix::process::Signal;
use tempfile::TempDir;

/// A launcher with its server and a job.
struct Launcher {
    run: Running,
    pid: String,
    job: String,
}

/// Both, and their directory.
struct Rig {
    dir: TempDir,
    system: Launcher,
    session: Launcher,
}

impl Rig {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let system = Launcher::start(dir.path(), &["--system-server"]).await;
        let session = Launcher::start(dir.path(), &[]).await;
        Self { dir, system, session }
    }

    /// A tool that has only the directories to go by.
    fn placed(&self, command: Command) -> Command {
        placed(self.dir.path(), command)
    }

    async fn end(self) {
        for launcher in [self.system, self.session] {
            launcher.run.signal(Signal::TERM);
            launcher.run.end().await;
        }
    }
}

impl Launcher {
    async fn start(dir: &Path, options: &[&str]) -> Self {
        let mut command = placed(dir, pmix_tests::plain_pmixrun());
        command
            .args(options)
            .args(["sh", "-c", "echo started; exec sleep 1000"])
            .env("PMIXRUN_RECORD", "none");
        let mut run = Running::start(command);
        run.line_with("started").await;
        let name = rustix::system::uname();
        let job = format!("run.{}.{}", name.nodename().to_str().unwrap(), run.pid());
        Self { pid: run.pid().to_string(), run, job }
    }

    /// Its rendezvous file with its process id.
    fn file(&self, dir: &Path) -> PathBuf {
        let ends = format!(".tool.{}", self.pid);
        files(dir).into_iter().find(|file| file.to_str().unwrap().ends_with(&ends)).unwrap()
    }
}

fn placed(dir: &Path, mut command: Command) -> Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PMIX_")) {
        command.env_remove(name);
    }
    command.env("PMIX_SERVER_TMPDIR", dir).env("PMIX_SYSTEM_TMPDIR", dir).env("TMPDIR", dir);
    command.env_remove("RUST_LOG");
    command
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

async fn chooses(library: Peer) {
    let Some(tool) = library.program("pmix_tool") else { return };
    let rig = Rig::start().await;
    for launcher in [&rig.system, &rig.session] {
        let file = launcher.file(rig.dir.path());
        let text = fs::read_to_string(&file).unwrap();
        let uri = text.lines().next().unwrap();
        let file = file.to_str().unwrap();
        for way in [["uri", uri], ["file", file], ["pid", &launcher.pid]] {
            let mut command = rig.placed(Command::new(&tool));
            command.arg("-").args(way);
            let (status, out, err) = Running::start(command).end().await;
            assert!(status.success(), "{way:?}: {status} {out}{err}");
            let jobs = out.lines().find_map(|line| line.strip_prefix("namespaces ")).unwrap();
            assert_eq!(jobs, launcher.job, "{way:?}: {out}{err}");
        }
    }
    rig.end().await;
}

#[tokio::test]
async fn tol_06a_tol_06b_tol_06c_a_c_tool_selects_each_of_two_servers() {
    chooses(Peer::Libpmix).await;
}

#[tokio::test]
async fn tol_06a_tol_06b_tol_06c_a_tool_of_libpmix_5_selects_each_of_two_servers() {
    chooses(Peer::Libpmix5).await;
}

/// The tool that comes with the library. In release 4.2.2, as Debian has it, it ignores what selects a server and takes the
/// system-level one if there is one; `pquery` and `plookup` of that release crash before they ask anybody.
#[tokio::test]
async fn tol_06e_tol_07a_pps_finds_the_system_server_beside_another_and_that_one_alone() {
    let Some(pps) = on_path("pps", "apt-get install libpmix-bin") else { return };
    let rig = Rig::start().await;
    let asked = async |args: &[&str]| {
        let mut command = rig.placed(Command::new(&pps));
        command.args(args);
        let (status, out, err) = Running::start(command).end().await;
        assert!(status.success(), "{status} {out}{err}");
        out + &err
    };
    for selection in [&["--system-server"][..], &["--system-server-first"], &[]] {
        let said = asked(selection).await;
        assert!(said.contains(&format!("nspaces: {}\n", rig.system.job)), "{selection:?}: {said}");
    }
    rig.system.run.signal(Signal::TERM);
    rig.system.run.end().await;
    let mut command = placed(rig.dir.path(), Command::new(&pps));
    command.args(["--pid", &rig.session.pid]);
    let (status, out, err) = Running::start(command).end().await;
    let said = out + &err;
    assert!(status.success() && said.contains(&format!("nspaces: {}\n", rig.session.job)), "{said}");
    rig.session.run.signal(Signal::TERM);
    rig.session.run.end().await;
}
