//! Runs `pmix`.

use std::path::Path;
use std::process::{Command, Output};

use pmix_test_wait::default_signals;

/// Beginnings of the names of variables that mean something to `pmix`: who runs the tests may have some.
const MEANT: [&str; 5] = ["PMIX", "PRTE_", "RUST_LOG", "CLICOLOR", "NO_COLOR"];

/// The command `pmix` for servers below `root`.
pub(crate) fn command(root: &Path, args: &[&str]) -> Command {
    default_signals();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmix"));
    for (name, _) in std::env::vars_os() {
        if MEANT.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes())) {
            command.env_remove(name);
        }
    }
    command.args(args).env("PMIX_SERVER_TMPDIR", root).env("PMIX_SYSTEM_TMPDIR", root);
    command
}

/// Runs it to its end.
pub(crate) async fn pmix(root: &Path, args: &[&str]) -> Output {
    let mut command = command(root, args);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
