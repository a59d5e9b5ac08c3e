//! Tests that need a process of their own.

use std::any::type_name;
use std::env;
use std::process::Command;

/// Says to a process which test it is for.
const VARIABLE: &str = "PMIX_TEST_ALONE";

/// Runs a test again in a process of its own, and waits for its end; true in there. For tests that measure their process,
/// or limit what it may use.
///
/// ```no_run
/// # use pmix_test_wait::is_alone;
/// // #[test]
/// fn the_process_opens_no_file() {
///     if !is_alone(the_process_opens_no_file) {
///         return;
///     }
///     // measures
/// }
/// ```
///
/// # Panics
/// If the test fails in there.
#[track_caller]
pub fn is_alone<F: Fn()>(test: F) -> bool {
    is_alone_with(test, &[])
}

/// [`is_alone`], with these variables in the environment of that process.
///
/// # Panics
/// If the test fails in there.
#[track_caller]
pub fn is_alone_with<F: Fn()>(_test: F, variables: &[(&str, &str)]) -> bool {
    // the test runner leaves the name of the crate out
    let (_, test) = type_name::<F>().split_once("::").unwrap_or_default();
    if env::var_os(VARIABLE).is_some_and(|chosen| chosen == test) {
        return true;
    }
    let mut command = Command::new(env::current_exe().unwrap_or_default());
    command.args(["--exact", test, "--nocapture"]).env(VARIABLE, test).envs(variables.iter().copied());
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains("1 passed"), "{test}, alone: {}\n{said}", output.status);
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_alone_shares_its_process_with_no_other() {
        if !is_alone(a_test_that_is_alone_shares_its_process_with_no_other) {
            return;
        }
        // the one of the test runner, and ours
        assert!(std::fs::read_dir("/proc/self/task").unwrap().count() <= 2);
    }

    #[test]
    #[should_panic(expected = "0 passed")]
    fn what_is_no_test_does_not_pass() {
        is_alone(tests_alone_do_not_find_this);
    }

    fn tests_alone_do_not_find_this() {}
}
