//! `pmix-mpir` without a debugger.

use std::process::Command;

use pmix_tests::{pmixrun, program, rank_program, run};

#[test]
fn without_a_debugger_the_launcher_just_runs() {
    let dir = tempfile::tempdir().unwrap();
    let rank = rank_program();
    let job = ["--reaction", "600", "-n", "3", rank.to_str().unwrap(), "fence-then-exit", "3"];
    let launcher = pmixrun(dir.path(), &job);
    let mut command = Command::new(program("pmix-mpir"));
    command.arg(launcher.get_program()).args(launcher.get_args());
    command.env("PMIX_SERVER_TMPDIR", dir.path()).env("PMIXRUN_RECORD", "none");
    let (code, out, err) = run(command);
    assert_eq!((code, out.matches("fencing").count()), (Some(3), 3), "{out}{err}");
    assert!(!err.contains("waiting in init"), "{err}");

    let mut command = Command::new(program("pmix-mpir"));
    command.arg("no-such-launcher");
    let (code, _, err) = run(command);
    assert_eq!(
        (code, &*err),
        (Some(127), "pmix-mpir: cannot start no-such-launcher: No such file or directory\n")
    );
}
