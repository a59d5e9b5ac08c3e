//! `pmixd`: see [`pmix_rm::pmixd`].

use std::process::ExitCode;

fn main() -> ExitCode {
    pmix_rm::pmixd(std::env::args_os())
}
