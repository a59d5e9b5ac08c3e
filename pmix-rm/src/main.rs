//! `pmixrun`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    pmix_rm::pmixrun(std::env::args_os())
}
