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
    program("pmixd");
    let pmixrun = program("pmixrun");
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
    let timed = |metric: &str, args: &[&'static str], rust: &[&'static str]| {
        for ranks in [4, 8, 32] {
            let sides = [
                side("pmixrun_rust", &pmixrun, &rank_program(), rust),
                side("pmixrun_c", &pmixrun, &c, args),
                side("mpirun_4", &mpirun, &c, args),
                side("mpirun_5", &mpirun_5, &c, args),
            ];
            let medians = medians(turns, &sides, |side| said(&side.run(&hosts, ranks)));
            for (number, part) in ["_first_us", "_last_us", "_us"].into_iter().enumerate() {
                print(&format!("{metric}{part}"), (ranks, turns), &sides, &medians[number]);
            }
        }
    };
    if is_wanted("fence") {
        timed("fence", &[ROUNDS], &["fences", ROUNDS]);
    }
    if is_wanted("collect") {
        timed("collect", &[ROUNDS, BYTES], &["grow", ROUNDS]);
    }
    if is_wanted("launch") {
        let launched = |metric, sides: &[Side], is_right: &dyn Fn(&str) -> bool| {
            let medians = medians(turns, sides, |side| {
                let begun = Instant::now();
                let out = side.run(&hosts, 8);
                let took = begun.elapsed().as_secs_f64() * 1e3;
                assert!(is_right(&out), "{}: {out}", side.name);
                [took]
            });
            print(metric, (8, turns), sides, &medians[0]);
        };
        let of = |program: &Path, args: &[&'static str]| {
            let launchers = [("pmixrun", &pmixrun), ("mpirun_4", &mpirun), ("mpirun_5", &mpirun_5)];
            launchers.map(|(name, launcher)| side(name, launcher, program, args))
        };
        let [ours, theirs, _] = of(Path::new("true"), &[]);
        // Open MPI 5 hangs with it in many turns
        launched("launch_true_ms", &[ours, theirs], &str::is_empty);
        for (metric, peer, theirs) in
            [("launch_mpi_4_ms", Peer::OpenMpi, "mpirun_4"), ("launch_mpi_5_ms", Peer::OpenMpi5, "mpirun_5")]
        {
            let hello = peer.program("mpi_acts").unwrap();
            let sides = of(&hello, &["hello"]);
            let sides: Vec<_> =
                sides.into_iter().filter(|side| ["pmixrun", theirs].contains(&side.name)).collect();
            launched(metric, &sides, &|out| out.matches("of 8\n").count() == 8);
        }
    }
}

impl Side {
    /// What ranks say. A launcher that hangs, as Open MPI 5 does now and then, is run again.
    fn run(&self, hosts: &Hosts, ranks: usize) -> String {
        loop {
            let (code, out, err) = run(self.command(hosts, ranks));
            match code {
                Some(0) => return out,
                Some(124) => {
                    eprintln!("{} hangs with {ranks} ranks of {}", self.name, self.program.display())
                }
                _ => panic!("{}: {code:?} {out}{err}", self.name),
            }
        }
    }

    fn command(&self, hosts: &Hosts, ranks: usize) -> Command {
        let mut command = hosts.command(0, "timeout");
        command.args(["-k", "5", "60"]).arg(&self.launcher);
        command.args(["--host", HOSTS, "--map-by", "node", "-n", &ranks.to_string()]);
        if self.launcher.ends_with("mpirun") || self.launcher.ends_with("mpirun.openmpi") {
            command.arg("--oversubscribe");
        }
        allow_root(&mut command);
        command.env("PMIXRUN_RECORD", "none").arg(&self.program).args(&self.args);
        command
    }
}

/// The three numbers of what rank 0 says of its fences.
fn said(out: &str) -> [f64; 3] {
    let line = out.lines().find(|line| line.starts_with("fences took ")).unwrap();
    let numbers: Vec<_> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap()
}

/// Each figure of each side, which take turns.
fn medians<const N: usize>(
    turns: usize,
    sides: &[Side],
    figures: impl Fn(&Side) -> [f64; N],
) -> [Vec<f64>; N] {
    let mut taken = vec![Vec::new(); sides.len()];
    for _ in 0..turns {
        for (side, taken) in sides.iter().zip(&mut taken) {
            taken.push(figures(side));
        }
    }
    std::array::from_fn(|number| {
        let of_side = |taken: &Vec<[f64; N]>| {
            let mut sorted: Vec<_> = taken.iter().map(|figures| figures[number]).collect();
            sorted.sort_by(f64::total_cmp);
            sorted[sorted.len() / 2]
        };
        taken.iter().map(of_side).collect()
    })
}

/// Prints the median of each side, and the ratio of ours to the better one of the others.
fn print(metric: &str, (ranks, turns): (usize, usize), sides: &[Side], medians: &[f64]) {
    let medians: Vec<_> = sides.iter().map(|side| side.name).zip(medians).collect();
    let (ours, theirs): (Vec<_>, Vec<_>) = medians.iter().partition(|(name, _)| name.starts_with("pmixrun"));
    let best = theirs.iter().map(|(_, median)| **median).fold(f64::INFINITY, f64::min);
    let shown: String = medians.iter().map(|(name, median)| format!(r#","{name}":{median:.0}"#)).collect();
    let ratio = |(name, median): &(&str, &f64)| {
        format!(r#","{}":{:.2}"#, name.replace("pmixrun", "ratio"), **median / best)
    };
    let ratios: String = ours.iter().map(ratio).collect();
    println!(r#"{{"metric":"{metric}","hosts":4,"ranks":{ranks},"turns":{turns}{shown}{ratios}}}"#);
}
