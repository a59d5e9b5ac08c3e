//! Shows whether the tests of the rules would notice if the code were different.
//!
//! It draws rules of `spec/rules.tsv`, and of the code that the tests of such a rule run a place where it can be changed: a
//! condition negated, a comparison with the other edge, a number plus one, a statement deleted, a default returned at once.
//! A mutant dies if a test fails with this change, or does not come to its end; one that survives shows an assertion that is
//! missing.
//!
//! A copy of the workspace in `target/mutants` holds all changes at once, each behind a switch that the environment sets, so
//! that one build serves for all mutants. Seed, commit and count determine which are drawn. Verdicts are appended to a file,
//! so that a run that was interrupted goes on where it was.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

mod build;
mod results;
mod run;
mod sites;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{fs, io};

use clap::Parser;

use build::{Build, Mutant};
use results::{Results, Row, Verdict};
use run::{Outcome, Runner};

/// Changes lines that the tests of rules run, and says whether a test notices.
#[derive(Debug, Parser)]
struct Options {
    /// How many mutants to draw.
    #[arg(long, default_value_t = 100)]
    count: usize,
    /// What determines the draw.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Packages whose code is changed, and whose unit tests are run.
    #[arg(long, value_delimiter = ',', default_value = "pmix-types,pmix-engine")]
    packages: Vec<String>,
    /// Test targets of pmix-tests and pmix-peers to be run beside them: `node`, `processes`, `peers`.
    #[arg(long, value_delimiter = ',')]
    targets: Vec<String>,
    /// Draw no mutant after this many seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// The least percentage that must die; otherwise the exit code is 1.
    #[arg(long, default_value_t = 0)]
    percent: usize,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("pmix-mutants: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> io::Result<bool> {
    let began = Instant::now();
    let root = root();
    let build = Build::new(&root, &options.packages, &options.targets)?;
    let mut results = Results::open(&root.join("target/mutants/results.tsv"), build.commit(), options.seed)?;
    let runner = Runner::new(build.executables(), &root.join("target/mutants"))?;
    let rules = rules_with_tests(&root, &runner)?;
    println!("{} mutants, {} rules with tests, seed {}", build.mutants().len(), rules.len(), options.seed);

    let mut draw = Draw(options.seed);
    let mut drawn = BTreeSet::new();
    let mut reached: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut idle = 0;
    while drawn.len() < options.count && idle < 1000 {
        let rule = &rules[draw.below(rules.len())];
        let sites = match reached.entry(rule.clone()) {
            std::collections::btree_map::Entry::Occupied(held) => held.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => free.insert(runner.reached_by(rule)?),
        };
        let of_use: Vec<u32> = sites
            .iter()
            .copied()
            .filter(|number| build.mutants().contains_key(number) && !drawn.contains(number))
            .collect();
        if of_use.is_empty() {
            idle += 1;
            continue;
        }
        let number = of_use[draw.below(of_use.len())];
        drawn.insert(number);
        let mutant = &build.mutants()[&number];
        if results.has(mutant) {
            continue;
        }
        if options.seconds.is_some_and(|limit| began.elapsed() > Duration::from_secs(limit)) {
            println!("time is over");
            break;
        }
        let row = judge(rule, number, mutant, &runner)?;
        println!("{row}");
        results.add(row)?;
    }
    let drawn: Vec<&Mutant> = drawn.iter().map(|number| &build.mutants()[number]).collect();
    Ok(results.summary(&drawn, options.percent))
}

/// Runs the tests of the rule, then all others, until one fails.
fn judge(rule: &str, number: u32, mutant: &Mutant, runner: &Runner) -> io::Result<Row> {
    let row = |verdict, by: &str| Row::new(rule, mutant, verdict, by);
    Ok(match runner.with(number, Some(rule))? {
        Outcome::Failed(test) => row(Verdict::Died, &test),
        Outcome::Overdue => row(Verdict::Overdue, "its own tests"),
        Outcome::Passed => match runner.with(number, None)? {
            Outcome::Failed(test) => row(Verdict::DiedElsewhere, &test),
            Outcome::Overdue => row(Verdict::Overdue, "other tests"),
            Outcome::Passed => row(Verdict::Survived, "-"),
        },
    })
}

/// Ids of the rules that have a test in one of the programs, as names of tests have them.
fn rules_with_tests(root: &Path, runner: &Runner) -> io::Result<Vec<String>> {
    let table = fs::read_to_string(root.join("spec/rules.tsv"))?;
    let ids = table.lines().skip(1).filter_map(|row| row.split('\t').next());
    let ids: Vec<String> = ids.map(|id| id.to_lowercase().replace('-', "_") + "_").collect();
    let rules: Vec<String> = ids.into_iter().filter(|id| runner.has_tests_of(id)).collect();
    if rules.is_empty() {
        return Err(io::Error::other("no test of these packages carries the id of a rule"));
    }
    Ok(rules)
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Numbers that the seed determines (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}
