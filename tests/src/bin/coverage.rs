//! Writes `COVERAGE.md` and `docs/attributes.md`, and the tables that they sum up into `target/`; with `--check` says whether the
//! two are as they should be.

#![allow(clippy::print_stderr, reason = "a program")]

use std::path::Path;
use std::process::ExitCode;
use std::{env, io};

use pmix_tests::coverage::Coverage;

fn main() -> io::Result<ExitCode> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let coverage = Coverage::read(root)?;
    for problem in coverage.problems().iter().chain(coverage.done()) {
        eprintln!("{problem}");
    }
    let only_checks = env::args().nth(1).as_deref() == Some("--check");
    let mut is_good = coverage.problems().is_empty();
    for page in coverage.pages() {
        if !only_checks {
            page.write(root)?;
        } else if !page.is_current(root) {
            eprintln!("{} is out of date: cargo run -p pmix-tests --bin pmix-coverage", page.file);
            is_good = false;
        }
    }
    Ok(if is_good || !only_checks { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
