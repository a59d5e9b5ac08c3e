//! `pmix`: queries the PMIx servers of this node.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    match args.nth(1) {
        Some(first) if first == cli::AS => cli::as_another_user(args),
        _ => cli::main(std::env::args_os()),
    }
}
