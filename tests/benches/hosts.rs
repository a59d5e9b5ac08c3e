//! Fences and launches over four hosts: `pmixrun`, and the `mpirun` of Open MPI 4 and of Open MPI 5, in turn. Prints a JSON line for
//! each figure: medians of what takes turns, and ratios to the better peer. Needs root and sshd.
//!
//! ```text
//! cargo bench -p pmix-tests --bench hosts                 # 3 turns of everything
//! cargo bench -p pmix-tests --bench hosts -- 5 fence      # so many, of what has this in its name
//! ```
//! The hosts are on this machine and share its processors. Fences are timed by rank 0, and each has one before it that is not
//! timed. Everything that ranks say is checked.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use pmix_tests::{Hosts, Peer, allow_root, program, rank_program, run};

const HOSTS: &str = "n0:8,n1:8,n2:8,n3:8";
const ROUNDS: &str = "200";
/// What each rank puts in a round.
const BYTES: &str = "1024";

/// Who starts ranks, and of which program.
#[derive(Clone)]
struct Side {
    name: &'static str,
    launcher: PathBuf,
    program: PathBuf,
    args: Vec<&'static str>,
}

fn main() {
    let words: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let turns = words.iter().find_map(|word| word.parse().ok()).unwrap_or(3);
    let is_wanted = |name: &str| {
        let mut names = words.iter().filter(|word| word.parse::<usize>().is_err()).peekable();
        names.peek().is_none() || names.any(|word| name.contains(word.as_str()))
    };
    let Some(hosts) = Hosts::with_ssh(4) else { return eprintln!("there are no hosts") };
    program("pmix-rm", "pmixd");
    let pmixrun = program("pmix-rm", "pmixrun");
    let (Some(mpirun), Some(mpirun_5)) = (Peer::OpenMpi.mpirun(), Peer::OpenMpi5.mpirun()) else {
        return eprintln!("there is no Open MPI");
    };
    let side = |name, launcher: &Path, program: &Path, args: &[&'static str]| Side {
        name,
        launcher: launcher.to_owned(),
        program: program.to_owned(),
        args: args.to_vec(),
    };
    let c = Peer::Libpmix.program("pmix_fences").unwrap();
    let timed = |metric, args: &[&'static str], rust: &[&'static str], place: usize| {
        for ranks in [4, 8, 32] {
            let sides = [
                side("pmixrun_rust", &pmixrun, &rank_program(), rust),
                side("pmixrun_c", &pmixrun, &c, args),
                side("mpirun_4", &mpirun, &c, args),
                side("mpirun_5", &mpirun_5, &c, args),
            ];
            compare(metric, ranks, turns, &sides, |side| said(run(side.command(&hosts, ranks)), place));
        }
    };
    if is_wanted("fence") {
        timed("fence_us", &[ROUNDS], &["fences", ROUNDS], 2);
    }
    if is_wanted("collect") {
        timed("collect_us", &[ROUNDS, BYTES], &["grow", ROUNDS], 2);
        timed("collect_last_us", &[ROUNDS, BYTES], &["grow", ROUNDS], 1);
    }
    if is_wanted("launch") {
        let launched = |side: &Side, ranks, is_right: &dyn Fn(&str) -> bool| {
            let begun = Instant::now();
            let (code, out, err) = run(side.command(&hosts, ranks));
            let took = begun.elapsed().as_secs_f64() * 1e3;
            assert!(code == Some(0) && is_right(&out), "{}: {out}{err}", side.name);
            took
        };
        let of = |program: &Path, args: &[&'static str]| {
            let launchers = [("pmixrun", &pmixrun), ("mpirun_4", &mpirun), ("mpirun_5", &mpirun_5)];
            launchers.map(|(name, launcher)| side(name, launcher, program, args))
        };
        compare("launch_true_ms", 8, turns, &of(Path::new("true"), &[]), |side| {
            launched(side, 8, &str::is_empty)
        });
        for (metric, peer, theirs) in
            [("launch_mpi_4_ms", Peer::OpenMpi, "mpirun_4"), ("launch_mpi_5_ms", Peer::OpenMpi5, "mpirun_5")]
        {
            let hello = peer.program("mpi_acts").unwrap();
            let sides = of(&hello, &["hello"]);
            let sides: Vec<_> =
                sides.into_iter().filter(|side| ["pmixrun", theirs].contains(&side.name)).collect();
            compare(metric, 8, turns, &sides, |side| {
                launched(side, 8, &|out| out.matches("of 8\n").count() == 8)
            });
        }
    }
}

impl Side {
    fn command(&self, hosts: &Hosts, ranks: usize) -> Command {
        let mut command = hosts.command(0, &self.launcher);
        command.args(["--host", HOSTS, "--map-by", "node", "-n", &ranks.to_string()]);
        if self.launcher.ends_with("mpirun") || self.launcher.ends_with("mpirun.openmpi") {
            command.arg("--oversubscribe");
        }
        allow_root(&mut command);
        command.env("PMIXRUN_RECORD", "none").arg(&self.program).args(&self.args);
        command
    }
}

/// One of the three numbers of what rank 0 says of its fences.
fn said((code, out, err): (Option<i32>, String, String), place: usize) -> f64 {
    assert_eq!(code, Some(0), "{out}{err}");
    let line = out.lines().find(|line| line.starts_with("fences took ")).unwrap();
    let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
    numbers.nth(place).unwrap()
}

/// Prints the median of each side, and the ratio of ours to the better one of the others.
fn compare(metric: &str, ranks: usize, turns: usize, sides: &[Side], figure: impl Fn(&Side) -> f64) {
    let mut figures = vec![Vec::new(); sides.len()];
    for _ in 0..turns {
        for (side, figures) in sides.iter().zip(&mut figures) {
            figures.push(figure(side));
        }
    }
    let medians = figures.iter_mut().map(|of_side| {
        of_side.sort_by(f64::total_cmp);
        of_side[of_side.len() / 2]
    });
    let medians: Vec<_> = sides.iter().map(|side| side.name).zip(medians).collect();
    let (ours, theirs): (Vec<_>, Vec<_>) = medians.iter().partition(|(name, _)| name.starts_with("pmixrun"));
    let best = theirs.iter().map(|(_, median)| *median).fold(f64::INFINITY, f64::min);
    let shown: String = medians.iter().map(|(name, median)| format!(r#","{name}":{median:.0}"#)).collect();
    let ratios: String = ours
        .iter()
        .map(|(name, median)| format!(r#","{}":{:.2}"#, name.replace("pmixrun", "ratio"), median / best))
        .collect();
    println!(r#"{{"metric":"{metric}","hosts":4,"ranks":{ranks},"turns":{turns}{shown}{ratios}}}"#);
}
