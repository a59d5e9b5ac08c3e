//! `compare`: measures both sides in turn, and prints the table of their ratios.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io};

use clap::Args;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;

use crate::c::Programs;
use crate::matrix::{self, Step, Work};
use crate::record::Record;
use crate::table::{C_RANKS, RUST_RANKS, Table};
use crate::{Result, machine};

/// Measures both sides in turn, and prints the table of ratios (our figure divided by theirs: below 1 we are better)
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Measure every metric once, with fewer ranks and sizes, in less than two minutes
    #[arg(long)]
    quick: bool,
    /// Print a line of JSON for each metric of each side instead of the table; see `table`
    #[arg(long)]
    json: bool,
    /// Number of rounds; 3 by default, 1 with --quick
    #[arg(long)]
    rounds: Option<u64>,
    /// Also register a job of a million ranks, for which the C library takes 7 GB of memory
    #[arg(long)]
    million: bool,
    /// Only metrics whose names contain one of these words
    words: Vec<String>,
}

/// Whom a step is run by.
#[derive(Debug)]
struct Contender {
    name: String,
    host: Vec<String>,
    rank: Vec<String>,
    /// A variable for the library.
    variable: Option<(&'static str, &'static str)>,
    /// How often a step is run before it has failed.
    tries: u32,
}

/// How often a step of the C library alone is run: on a busy machine one `PMIx_Get` in 6,000 of those that wait for a
/// commit ends with NOT-FOUND there, and with it the step (libpmix 4.2.2: 6 of 1,302 runs of `getwait`).
/// A step in which we take part has failed when it fails once.
const TRIES_OF_THE_C_LIBRARY: u32 = 3;

impl Compare {
    pub(crate) fn run(self) -> Result<()> {
        let programs = Programs::build()?;
        let sides = sides(&programs)?;
        let steps = if self.quick { matrix::quick() } else { matrix::full(self.million) };
        let wanted: Vec<_> =
            steps.into_iter().filter(|step| step.metrics().iter().any(|name| self.wants(name))).collect();
        if wanted.is_empty() {
            return Err(format!("there is no metric with {:?} in its name", self.words).into());
        }
        eprintln!("{}; libpmix {}", machine::describe(), programs.version);
        let mut lines = Vec::new();
        let mut failed = 0;
        for round in 1..=self.rounds.unwrap_or(if self.quick { 1 } else { 3 }) {
            let begin = Instant::now();
            let busy = machine::busy_percent(Duration::from_secs(1));
            for step in &wanted {
                // whoever comes first in one round comes later in the next
                let first = usize::try_from(round - 1)? % sides.len();
                for side in sides.iter().cycle().skip(first).take(sides.len()) {
                    match side.run_or_try_again(step, round) {
                        Some(measured) => lines.extend(self.keep(measured)?),
                        None => failed += 1,
                    }
                }
            }
            let after = machine::busy_percent(Duration::from_secs(1));
            eprintln!(
                "round {round}: {:.0} s; others kept the processors busy to {busy:.0} % before and {after:.0} % after",
                begin.elapsed().as_secs_f64()
            );
        }
        if !self.json {
            print!("{}", Table::new(&lines));
        }
        if failed > 0 { Err(format!("{failed} steps have failed").into()) } else { Ok(()) }
    }

    /// What is wanted of the lines of a step; as JSON it is printed at once, so that whoever ends us keeps it.
    fn keep(&self, mut measured: Vec<Record>) -> Result<Vec<Record>> {
        measured.retain(|line| self.wants(&line.metric));
        if self.json {
            measured
                .iter()
                .try_for_each(|line| serde_json::to_string(line).map(|text| println!("{text}")))?;
        }
        Ok(measured)
    }

    fn wants(&self, metric: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| metric.contains(word.as_str()))
    }
}

/// The table of lines that were measured before.
pub(crate) fn table_of(files: &[String]) -> Result<Table> {
    Ok(Table::new(&lines_of(files)?))
}

/// Lines that were measured before.
pub(crate) fn lines_of(files: &[String]) -> Result<Vec<Record>> {
    let mut lines: Vec<Record> = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        lines.extend(parse(&text).map_err(|error| format!("{file}: {error}"))?);
    }
    Ok(lines)
}

fn parse(text: &str) -> serde_json::Result<Vec<Record>> {
    text.lines().map(serde_json::from_str).collect()
}

fn sides(programs: &Programs) -> Result<[Contender; 4]> {
    let text = |path: &std::path::Path| path.display().to_string();
    let own = text(&env::current_exe()?);
    let theirs = |name: &str, variable| Contender {
        name: format!("openpmix-{}{name}", programs.version),
        host: vec![text(&programs.server())],
        rank: vec![text(&programs.client())],
        variable,
        tries: TRIES_OF_THE_C_LIBRARY,
    };
    let ours = |name: &str, rank| Contender {
        name: name.to_owned(),
        host: vec![own.clone()],
        rank,
        variable: None,
        tries: 1,
    };
    Ok([
        theirs("", None),
        ours(RUST_RANKS, vec![own.clone(), "client".to_owned()]),
        theirs("-hash", Some(("PMIX_MCA_gds", "hash"))),
        ours(C_RANKS, vec![text(&programs.client())]),
    ])
}

impl Contender {
    /// What a step has measured, with every failure told; `None` if all tries have failed.
    fn run_or_try_again(&self, step: &Step, round: u64) -> Option<Vec<Record>> {
        (1..=self.tries).find_map(|number| {
            let measured = self.run(step, round);
            measured
                .inspect_err(|error| {
                    let step = step.arguments().join(" ");
                    eprintln!("{} {step}: try {number} of {}: {error}", self.name, self.tries);
                })
                .ok()
        })
    }

    /// What a step has measured; nothing if it would measure what another side does.
    fn run(&self, step: &Step, round: u64) -> Result<Vec<Record>> {
        let is_job_data = matches!(step.work, Work::JobData(_));
        let would_repeat = self.name == C_RANKS && !step.has_ranks() && !is_job_data;
        if would_repeat || step.is_floor() && self.name != RUST_RANKS {
            return Ok(Vec::new());
        }
        let directory = TempDir::new()?;
        // the hosts have limits of their own; this one is for those that do not keep them
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "90"]).args(&self.host).args(step.arguments());
        command
            .env("TMPDIR", directory.path())
            .env("BENCH_IMPL", &self.name)
            .env("BENCH_RUN", round.to_string());
        command.env("BENCH_SUFFIX", step.suffix()).env_remove("BENCH_OUT").env_remove("PMIX_MCA_gds");
        command.envs(self.variable).stdin(Stdio::null()).stderr(Stdio::inherit());
        if let Work::Launch { has_stats, phases, .. } = &step.work {
            command.args(&self.rank).args(phases);
            if *has_stats {
                command.env("BENCH_LAUNCH_STATS", "1");
            }
        }
        if self.name == C_RANKS && is_job_data {
            command.arg("--arrays");
        }
        let output = if step.one_cpu { on_one_cpu(|| command.output())? } else { command.output()? };
        if !output.status.success() {
            return Err(output.status.to_string().into());
        }
        Ok(parse(&String::from_utf8(output.stdout)?)?)
    }
}

/// What is started meanwhile stays on the first processor that we may use.
fn on_one_cpu<T>(run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let all = sched_getaffinity(None)?;
    let mut one = CpuSet::new();
    if let Some(first) = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)) {
        one.set(first);
    }
    sched_setaffinity(None, &one)?;
    let done = run();
    sched_setaffinity(None, &all)?;
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_may_be_tried_again_counts_when_it_succeeds() {
        let directory = TempDir::new().unwrap();
        let mark = directory.path().join("was here");
        // fails at first, and measures nothing the next time
        let host = directory.path().join("host");
        fs::write(&host, format!("mkdir '{0}' 2>/dev/null && exit 1\nexit 0\n", mark.display())).unwrap();
        let measured_with = |tries| {
            let side = Contender {
                name: "somebody".to_owned(),
                host: vec!["sh".to_owned(), host.display().to_string()],
                rank: Vec::new(),
                variable: None,
                tries,
            };
            let _ = fs::remove_dir(&mark);
            side.run_or_try_again(&matrix::quick()[0], 1).map(|lines| lines.len())
        };
        assert_eq!(measured_with(1), None);
        assert_eq!(measured_with(TRIES_OF_THE_C_LIBRARY), Some(0));
    }
}
