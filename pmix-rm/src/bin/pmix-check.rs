//! `pmix-check`: see [`pmix_rm::check`].

use std::process::ExitCode;

fn main() -> ExitCode {
    pmix_rm::check(std::env::args_os())
}
