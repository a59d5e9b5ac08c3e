//! `pmix`: asks the PMIx servers of this node what runs.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(std::env::args_os())
}
