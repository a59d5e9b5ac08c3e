//! From launch to exit of a small MPICH program of eight ranks, under `pmixrun` and under MPICH's own launcher, in turn. Prints a
//! JSON line for each MPICH that is there: medians in milliseconds, and their ratio.
//!
//! ```text
//! cargo bench -p pmix-tests --bench mpich_launch            # 15 turns
//! cargo bench -p pmix-tests --bench mpich_launch -- 40      # so many
//! ```
//! Every run is checked: a rank fails unless it has found all others. (What they say cannot be counted: the launcher of MPICH
//! breaks lines.) Measure on an idle machine: that launcher gives each rank a session of its own, and with it, where the kernel
//! schedules sessions as groups (`sched_autogroup_enabled`), a larger share of processors on which others work.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, missing_docs)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use pmix_tests::{Peer, pmixrun};

const RANKS: &str = "8";

fn main() {
    let turns = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(15);
    for peer in [Peer::Mpich, Peer::Mpich5] {
        match (peer.program("mpi_acts"), peer.mpirun()) {
            (Some(hello), Some(hydra)) => compare(peer, &hydra, &hello, turns),
            _ => eprintln!("{peer:?} is not there"),
        }
    }
}

fn compare(peer: Peer, hydra: &Path, hello: &Path, turns: usize) {
    let dir = tempfile::tempdir().unwrap();
    let ours = || pmixrun(dir.path(), &["-n", RANKS]);
    let theirs = || {
        let mut command = Command::new(hydra);
        command.args(["-n", RANKS]).env("TMPDIR", dir.path());
        command
    };
    // the first ones bring programs and libraries into memory
    let (_, _) = (time(ours(), hello), time(theirs(), hello));
    let (mut with_us, mut with_them) = (Vec::new(), Vec::new());
    for _ in 0..turns {
        with_us.push(time(ours(), hello));
        with_them.push(time(theirs(), hello));
    }
    let (us, them) = (median(with_us), median(with_them));
    println!(
        r#"{{"metric":"mpich_launch","mpi":"{peer:?}","ranks":{RANKS},"turns":{turns},"pmixrun_ms":{us:.1},"hydra_ms":{them:.1},"ratio":{:.2}}}"#,
        us / them
    );
}

fn time(mut command: Command, hello: &Path) -> Duration {
    command.arg(hello).args(["hello", RANKS]);
    let started = Instant::now();
    let output = command.output().unwrap();
    let took = started.elapsed();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {said}{errors}");
    took
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times.get(times.len() / 2).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}
