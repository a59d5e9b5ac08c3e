//! `pmixrun`: see [`pmix_rm::pmixrun`].

use std::process::ExitCode;

fn main() -> ExitCode {
    pmix_rm::pmixrun(std::env::args_os())
}
