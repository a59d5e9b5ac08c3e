//! The examples, as a user would run them, and parts of them.
//!
//! `cargo test` builds the examples before the tests. With `--test` it does not: build them with
//! `cargo build --examples` then.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

mod debuggers;
// the files of this example name each other from the root
mod examples;
#[path = "../../tcp_exchange/exchange.rs"]
mod exchange;
#[path = "../../tcp_exchange/link.rs"]
mod link;
#[path = "../../tcp_exchange/meet.rs"]
mod meet;
#[path = "../../tcp_exchange/message.rs"]
mod message;
mod tcp_exchange;

use std::path::Path;
use std::process::Command;

/// An example, whose program lies beside the directory of the tests. It keeps its files in this directory, and has no variable
/// that would mean something to it.
fn example(name: &str, dir: &Path) -> Command {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let program = profile.join("examples").join(name);
    assert!(program.exists(), "{} is not built: cargo build --examples", program.display());
    let mut command = Command::new(program);
    for (variable, _) in std::env::vars_os() {
        if ["PMIX", "RUST_LOG"]
            .iter()
            .any(|prefix| variable.as_encoded_bytes().starts_with(prefix.as_bytes()))
        {
            command.env_remove(variable);
        }
    }
    command.env("TMPDIR", dir);
    command
}
