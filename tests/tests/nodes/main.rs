//! `pmixrun` over several nodes, each with a real daemon: on hosts that are reached by ssh, and on this host alone, where a
//! program in place of ssh starts all daemons.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

mod attach;
mod direct;
mod door;
mod dvm;
mod etcd;
mod faults;
mod hosts;
mod jobs;
mod join;
mod kubernetes;
mod loss;
mod pbs;
mod slurm;
mod spread;
mod starting;
mod strangers;
mod successor;
mod traces;
mod view;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// A script in place of ssh: it is given the host and the command.
fn agent(dir: &Path, script: &str) -> PathBuf {
    let path = dir.join("agent");
    fs::write(&path, format!("#!/bin/sh\nhost=$1\nshift\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// `pmixrun` on these hosts, all of them this one.
fn here(dir: &Path, hosts: &str, args: &[&str]) -> Command {
    with_agent(dir, hosts, "exec \"$@\"", args)
}

/// The same with a script that starts the daemons.
fn with_agent(dir: &Path, hosts: &str, script: &str, args: &[&str]) -> Command {
    let mut command = pmix_tests::pmixrun(dir, &["--host", hosts, "--launch-agent"]);
    command.arg(agent(dir, script)).args(args);
    command
}

/// Returns when nothing is left of a run: no process, no session directory. The guardian of a daemon that was killed needs a
/// moment.
fn nothing_is_left(dir: &Path) {
    let left = || {
        let files = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
        let sessions =
            files.filter(|path| path.is_dir()).flat_map(|path| fs::read_dir(path).unwrap().flatten());
        let sessions: Vec<_> = sessions.map(|entry| entry.path()).collect();
        (pmix_tests::processes_of(dir), sessions)
    };
    let began = Instant::now();
    while left() != (Vec::new(), Vec::new()) {
        assert!(began.elapsed() < pmix_tests::DEADLINE, "{:?}", left());
        std::thread::yield_now();
    }
}
