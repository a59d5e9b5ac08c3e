//! A job of PBS, in which a script takes the part of its task manager.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_test_wait::block_until;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::commands::executable;
use crate::daemons::nothing_is_left;
use crate::peers::pmixrun;
use crate::programs::{processes_of, program};

/// What PBS has in place of ssh: it reads no input and passes none on, its tasks write to the output of the job, and it knows no
/// hosts but those of the job. On a host that `hangs` names it starts nothing and does not end, and for one that `fails` names
/// it starts nothing and says so.
const PBS_TMRSH: &str = r#"#!/bin/sh
host=$1 dir=${PBS_NODEFILE%/*}
shift
grep -qx -- "$host" "$PBS_NODEFILE" || { echo "pbs_tmrsh: host \"$host\" is not a node in job" >&2; exit 255; }
echo "$@" >>"$PBS_JOB_OUTPUT"
if test "$(cat "$dir/hangs")" = "$host"; then
    echo waits
    trap "" TERM
    sleep 600
fi
if test "$(cat "$dir/fails")" = "$host"; then
    until test "$(grep -c . "$PBS_JOB_OUTPUT")" = 2; do sleep 0.01; done
    echo "no task can be started" >&2
    exit 1
fi
"$@" </dev/null >>"$PBS_JOB_OUTPUT" 2>&1
"#;

/// A job of PBS with a slot on `a`, and two on `b`.
#[derive(Debug)]
pub struct PbsJob(TempDir);

impl PbsJob {
    /// Makes its files.
    pub fn start() -> Self {
        let job = Self(tempfile::tempdir().unwrap());
        for name in ["bin", "shared"] {
            fs::create_dir(job.at(name)).unwrap();
        }
        for (name, text) in [("nodes", "a\nb\nb\n"), ("hangs", ""), ("fails", "")] {
            fs::write(job.at(name), text).unwrap();
        }
        executable(&job.at("bin/pbs_tmrsh"), PBS_TMRSH);
        program("pmixd");
        job
    }

    /// Where it has its files.
    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    /// One of its files: `nodes`, the host that `hangs`, the one that `fails`, and the `output` of its tasks.
    pub fn at(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// `pmixrun` in the job, with the agent of the examples.
    pub fn pmixrun(&self, args: &[&str]) -> Command {
        let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/pbs/by-tm");
        let mut command = pmixrun(self.dir(), &["--launch-agent", agent]);
        command.args(args).env("PBS_NODEFILE", self.at("nodes")).env("PBS_JOBID", "12.server");
        command.env("PATH", format!("{}:{}", self.at("bin").display(), std::env::var("PATH").unwrap()));
        command.env("PBS_JOB_OUTPUT", self.at("output")).env("PMIXRUN_SHARED", self.at("shared"));
        command
    }

    /// How many files with start lines there are.
    pub fn files(&self) -> usize {
        fs::read_dir(self.at("shared")).unwrap().count()
    }

    fn process(&self, words: &str) -> i32 {
        block_until(words, || {
            let processes = processes_of(self.dir());
            let found = processes.iter().find(|(_, line)| line.starts_with(words)).map(|(pid, _)| *pid);
            found.ok_or(processes)
        })
    }

    /// The process of one of our programs in the job.
    pub fn process_of(&self, name: &str) -> i32 {
        self.process(&format!("{} ", program(name).display()))
    }

    /// Ends what still waits for the host that hangs, as PBS does when its job ends.
    pub fn end_waiting(&self) {
        send(self.process(&format!("/bin/sh {} b", self.at("bin/pbs_tmrsh").display())), Signal::KILL);
        send(self.process("sleep 600"), Signal::KILL);
    }

    /// Removes it, when nothing is left.
    pub fn end(self) {
        for name in ["bin", "shared"] {
            fs::remove_dir_all(self.at(name)).unwrap();
        }
        nothing_is_left(self.dir());
    }
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}
