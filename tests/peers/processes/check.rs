//! `pmix-check` against launchers of others.

use std::path::PathBuf;
use std::process::Command;

use pmix_conformance::{Report, Verdict, checks};
use pmix_tests::{allow_root, on_path, pmix_check, run};

/// Runs it with a directory for all files. What the launcher leaves in it when a job of its own fails is its own affair.
fn check(args: &[&str], launcher: &[&str]) -> (Option<i32>, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = pmix_check(dir.path(), &[args, &["--patience", "600"]].concat(), launcher);
    allow_root(&mut command);
    run(command)
}

#[test]
fn the_other_implementation_is_checked_too() {
    let Some(mpirun) = on_path("mpirun", "apt-get install openmpi-bin") else { return };
    let version = Command::new(&mpirun).arg("--version").output().unwrap();
    if !String::from_utf8_lossy(&version.stdout).contains("(Open MPI) 4.") {
        return eprintln!("skipped: {} is not of Open MPI 4", mpirun.display());
    }
    let launcher = [mpirun.to_str().unwrap(), "--oversubscribe", "-n", "4"];
    let only = |name| check(&["--wire", "native", "--only", name], &launcher);
    let (code, text, errors) = only("fence_waits_for_all");
    assert_eq!(code, Some(0), "{text}{errors}");
    // the server of Open MPI 4 takes a key twice
    let (code, text, errors) = only("a_duplicate_is_refused");
    assert_eq!(code, Some(1), "{text}{errors}");
    assert!(
        text.contains("PUB-04") && text.contains("expected [Status::ERR_DUPLICATE_KEY], got success"),
        "{text}"
    );
    let (_, differences) = text.split_once("\nIt differs from the texts:\n").unwrap();
    let row = differences.lines().next().unwrap();
    assert!(row.starts_with("PUB-04 "), "{text}");
    let why = differences.lines().nth(1).unwrap().trim_start();
    assert!(why.starts_with("but: ") && why.contains("got success"), "{text}");
    assert!(differences.ends_with("\n\n0 passed, 1 failed, 0 skipped\n"), "{text}");
}

#[test]
fn the_launcher_of_open_mpi_5_is_checked_too() {
    let Some(prefix) = std::env::var_os("OMPI5_PREFIX") else {
        assert!(std::env::var_os("PMIX_REQUIRE_PEERS").is_none(), "OMPI5_PREFIX is not set");
        return eprintln!("skipped: OMPI5_PREFIX is not set");
    };
    let prterun = PathBuf::from(prefix).join("bin/prterun");
    let launcher = [prterun.to_str().unwrap(), "--map-by", ":oversubscribe", "-n", "4"];
    let only = ["fence_waits_for_all", "values_are_found_in_time", "a_duplicate_is_refused"];
    let known: Vec<_> = checks().iter().map(|check| check.name).filter(|name| only.contains(name)).collect();
    let args: Vec<_> = known.iter().flat_map(|name| ["--only", name]).collect();
    let args = [&["--json", "--wire", "native"], &args[..]].concat();
    let (code, json, errors) = check(&args, &launcher);
    let report: Report =
        serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}{errors}"));
    assert_eq!(report.outcomes.len(), known.len(), "{json}");
    let verdict =
        |name: &str| report.outcomes.iter().find(|outcome| outcome.check == name).map(|one| &one.verdict);
    assert_eq!(verdict("fence_waits_for_all"), Some(&Verdict::Passed), "{json}{errors}");
    assert_eq!(code == Some(0), report.passed(), "{json}{errors}");
}
