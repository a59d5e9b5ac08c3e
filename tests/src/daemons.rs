//! `pmixrun` over several nodes, each with a real daemon, all on this host: a script in place of ssh starts the daemons.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_test_wait::block_until;
use rustix::process::{Pid, Signal, kill_process};

use crate::commands::executable;
use crate::dvm::TestDvm;
use crate::peers::pmixrun;
use crate::programs::processes_of;

/// Writes a script in place of ssh: its variable `host` is the host, its arguments are the command.
pub fn agent(dir: &Path, script: &str) -> PathBuf {
    let path = dir.join("agent");
    executable(&path, &format!("#!/bin/sh\nhost=$1\nshift\n{script}\n"));
    path
}

/// `pmixrun` on these hosts, all of them this one.
pub fn here(dir: &Path, hosts: &str, args: &[&str]) -> Command {
    with_agent(dir, hosts, "exec \"$@\"", args)
}

/// The same with a script that starts the daemons.
pub fn with_agent(dir: &Path, hosts: &str, script: &str, args: &[&str]) -> Command {
    let mut command = pmixrun(dir, &["--host", hosts, "--launch-agent"]);
    command.arg(agent(dir, script)).args(args);
    command
}

/// Returns when nothing is left of a run: no process, no session directory. The guardian of a daemon that was killed needs a
/// moment.
///
/// # Panics
/// If something stays.
pub fn nothing_is_left(dir: &Path) {
    block_until("nothing is left of the run", || {
        let files = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
        let dirs = files.filter(|path| path.is_dir());
        // a session directory may go at this moment
        let sessions = dirs.filter_map(|path| fs::read_dir(path).ok()).flatten().flatten();
        let sessions: Vec<_> = sessions.map(|entry| entry.path()).collect();
        let left = (processes_of(dir), sessions);
        if left == (Vec::new(), Vec::new()) { Ok(()) } else { Err(left) }
    });
}

/// A script for [`TestDvm::here`] that keeps the process ids of daemons, for [`kill_daemon`].
pub const NUMBERS: &str = "echo $$ > \"$TMPDIR/daemon.$host\"; exec \"$@\"";

/// Kills the daemon of a node that [`NUMBERS`] has started.
///
/// # Panics
/// If it has not.
pub fn kill_daemon(dvm: &TestDvm, node: &str) {
    let pid = fs::read_to_string(dvm.dir().join(format!("daemon.{node}"))).unwrap();
    kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}
