//! From launch to exit of a small Open MPI program of four ranks, under `pmixrun` and under the `mpirun` of that Open
//! MPI, in turn. Prints a JSON line for each Open MPI that is there: medians in milliseconds, and their ratio.
//!
//! ```text
//! cargo bench -p pmix-tests --bench mpi_launch            # 15 turns
//! cargo bench -p pmix-tests --bench mpi_launch -- 40      # so many
//! ```
//! Every run is checked: all four ranks must have found each other.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use pmix_tests::{Peer, pmixrun};

const RANKS: &str = "4";

fn main() {
    let turns = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(15);
    for (peer, mpirun) in [(Peer::OpenMpi, Some("mpirun".into())), (Peer::OpenMpi5, mpirun_5())] {
        match (peer.program("mpi_acts"), mpirun) {
            (Some(hello), Some(mpirun)) => compare(peer, &mpirun, &hello, turns),
            _ => eprintln!("{peer:?} is not there"),
        }
    }
}

fn mpirun_5() -> Option<PathBuf> {
    Some(Path::new(&std::env::var_os("OMPI5_PREFIX")?).join("bin/mpirun"))
}

fn compare(peer: Peer, mpirun: &Path, hello: &Path, turns: usize) {
    let dir = tempfile::tempdir().unwrap();
    let ours = || pmixrun(dir.path(), &["-n", RANKS]);
    let theirs = || {
        let mut command = Command::new(mpirun);
        // as on a machine of fewer cores, and for root
        command.args(["--oversubscribe", "-n", RANKS]).env("TMPDIR", dir.path());
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.env("PRTE_ALLOW_RUN_AS_ROOT", "1").env("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
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
        r#"{{"metric":"mpi_launch","mpi":"{peer:?}","ranks":{RANKS},"turns":{turns},"pmixrun_ms":{us:.1},"mpirun_ms":{them:.1},"ratio":{:.2}}}"#,
        us / them
    );
}

fn time(mut command: Command, hello: &Path) -> Duration {
    command.arg(hello).arg("hello");
    let started = Instant::now();
    let output = command.output().unwrap();
    let took = started.elapsed();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let heard = said.matches(&format!("of {RANKS}\n")).count();
    assert!(output.status.success() && heard.to_string() == RANKS, "{command:?}: {said}{errors}");
    took
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times.get(times.len() / 2).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}
