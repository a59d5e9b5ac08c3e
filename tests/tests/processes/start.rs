//! Servers that start where descriptors run out, and in relative places.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pmix_tests::{Running, plain_environment, program};

fn server_program() -> PathBuf {
    program("pmix-test-server")
}

/// Whether a server started; else why not, which must be an error and no panic.
fn outcome(output: &Output) -> Result<(), String> {
    if output.status.success() {
        return Ok(());
    }
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(output.status.code() == Some(1) && !error.contains("panicked"), "{error}");
    Err(error.trim_end().to_owned())
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

/// Why a server did not start with no descriptor left to open, with one, and so on, until it starts.
fn start_with_few_descriptors(options: &[&str]) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    let mut errors = Vec::new();
    for descriptors in 0..200 {
        let mut command = Command::new(server_program());
        plain_environment(&mut command);
        command.arg("--root").arg(root.path()).args(options);
        command.args(["--descriptors", &descriptors.to_string()]).stdin(Stdio::null());
        let outcome = outcome(&command.output().unwrap());
        assert!(is_empty(root.path()), "{descriptors} descriptors leave something behind: {outcome:?}");
        match outcome {
            Ok(()) => return errors,
            Err(error) => {
                assert!(error.contains("Too many open files"), "{error}");
                let is_of_directory = error.starts_with("session directory");
                assert!(!is_of_directory || error.contains(root.path().to_str().unwrap()), "{error}");
                errors.push(error);
            }
        }
    }
    panic!("it does not start: {errors:#?}");
}

#[test]
fn a_start_without_descriptors_fails_at_each_step_with_an_error_and_leaves_nothing() {
    // root looks at the place first, which takes more than the locks
    let looks = "cannot be examined";
    let steps = [
        ["/.lock: cannot", looks],
        ["/lock: cannot", looks],
        ["server's thread"; 2],
        ["server@sock: cannot"; 2],
    ];
    for (option, last) in [("--tools", "/pmix.here.tool"), ("--native", "native wire")] {
        let errors = start_with_few_descriptors(&[option]);
        for step in steps.iter().chain([&[last; 2]]) {
            let is_of_step = |error: &String| step.iter().any(|words| error.contains(words));
            assert!(errors.iter().any(is_of_step), "{step:?}: {errors:#?}");
        }
    }
}

#[tokio::test]
async fn a_relative_place_is_absolute_from_the_start_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    for place in ["sub", "../here"] {
        std::fs::create_dir_all(dir.join("here/sub")).unwrap();
        for by_environment in [true, false] {
            let mut start = Command::new(server_program());
            plain_environment(&mut start);
            start.current_dir(dir.join("here"));
            if by_environment {
                start.env("PMIX_SERVER_TMPDIR", place);
            } else {
                start.args(["--root", place]);
            }
            let mut server = Running::start_with_input(start);
            let said = server.line_with("started ").await;
            let place = Path::new(said.strip_prefix("started ").unwrap());
            assert!(place.is_absolute() && place.is_dir(), "{said}");
            let (status, _, err) = server.end().await;
            assert!(status.success(), "{err}");
            assert!(is_empty(&dir.join("here/sub")));
        }
    }
}
