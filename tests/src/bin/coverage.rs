//! Writes `COVERAGE.md` and `docs/attributes.md`, or with `--check` says whether they are as they should be.

#![allow(clippy::print_stderr, reason = "a program")]

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use pmix_tests::coverage::Coverage;

fn main() -> io::Result<ExitCode> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let coverage = Coverage::read(root)?;
    for problem in coverage.problems().iter().chain(coverage.done()) {
        eprintln!("{problem}");
    }
    let only_checks = env::args().nth(1).as_deref() == Some("--check");
    let mut is_good = coverage.problems().is_empty();
    for (file, text) in coverage.files() {
        let path = root.join(file);
        if !only_checks {
            fs::write(path, text)?;
        } else if !fs::read_to_string(path).is_ok_and(|held| held == text) {
            eprintln!("{file} is out of date: cargo run -p pmix-tests --bin pmix-coverage");
            is_good = false;
        }
    }
    Ok(if is_good || !only_checks { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
