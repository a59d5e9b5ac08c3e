//! Writes `COVERAGE.md`, or with `--check` says whether it is as it should be.

#![allow(clippy::print_stderr, reason = "a program")]

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use pmix_tests::coverage::{Coverage, FILE};

fn main() -> io::Result<ExitCode> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let coverage = Coverage::read(root)?;
    for problem in coverage.problems() {
        eprintln!("{problem}");
    }
    let (path, text) = (root.join(FILE), coverage.to_markdown());
    if env::args().nth(1).as_deref() != Some("--check") {
        fs::write(path, text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_current = fs::read_to_string(path).is_ok_and(|held| held == text);
    if !is_current {
        eprintln!("{FILE} is out of date: cargo run -p pmix-tests --bin pmix-coverage");
    }
    let is_good = is_current && coverage.problems().is_empty();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
