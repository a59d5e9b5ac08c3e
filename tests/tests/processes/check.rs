//! `pmix-check` against resource managers that run: every check passes over both wires, and what is wrong is told.

use std::path::PathBuf;
use std::process::Command;

use pmix_conformance::{Report, Verdict, checks};
use pmix_tests::{example, on_path, program, run};

/// What a launcher is: a program and its options.
type Launcher<'a> = &'a [&'a str];

/// Runs it with a directory for all files, which is empty in the end.
fn check(args: &[&str], launcher: Launcher<'_>) -> (Option<i32>, String, String) {
    let (done, left) = check_and_look(args, launcher);
    assert!(left.is_empty(), "left behind: {left:?}");
    done
}

/// Runs it with a directory for all files, and tells which were left in it.
fn check_and_look(args: &[&str], launcher: Launcher<'_>) -> ((Option<i32>, String, String), Vec<PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(program("pmix-rm", "pmix-check"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PMIX_")) {
        command.env_remove(name);
    }
    command.env_remove("RUST_LOG").env("TMPDIR", dir.path()).args(args);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    if !launcher.is_empty() {
        command.arg("--").args(launcher);
    }
    let done = run(command);
    let left = dir.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    (done, left)
}

/// Runs all checks, none of which may fail; the names of those that were skipped.
fn skipped(wire: &str, launcher: Launcher<'_>) -> Vec<String> {
    let (code, json, errors) = check(&["--json", "--wire", wire], launcher);
    let report: Report =
        serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}{errors}"));
    assert!(report.passed() && code == Some(0), "{code:?} {report}\n{errors}");
    assert_eq!(report.outcomes.len(), checks().len());
    let skipped = report.outcomes.into_iter().filter(|outcome| outcome.verdict != Verdict::Passed);
    skipped.map(|outcome| outcome.check).collect()
}

/// What `StandardHost` does not serve, what a rank of `pmix-check` cannot do, and input, which the ranks do not take.
const OTHERS: [&str; 9] = [
    "a_lost_process_fails_what_waits_for_it",
    "data_goes_with_its_process",
    "a_tool_gets_an_identity",
    "a_system_event_can_be_registered_for",
    "a_monitor_with_an_unknown_directive_is_refused",
    "a_push_with_an_unknown_directive_is_refused",
    "a_fabric_with_an_unknown_directive_is_refused",
    "a_session_control_with_an_unknown_directive_is_refused",
    "a_resource_block_with_an_unknown_directive_is_refused",
];
/// What needs two nodes.
const TWO_NODES: [&str; 3] =
    ["scopes_hide_values", "local_data_stays_on_its_node", "a_local_event_stays_on_its_node"];
/// What a server of release 4.2, which ours claims to be on that wire, does not tell: whom others have added to a group.
const NOT_NATIVE: &str = "leaders_that_do_not_know_each_other_make_a_group";

#[test]
fn pmixrun_keeps_every_rule_on_simulated_nodes() {
    let pmixrun = program("pmix-rm", "pmixrun");
    let skipped = skipped("grpc", &[pmixrun.to_str().unwrap(), "-n", "4", "--vnodes", "2"]);
    assert_eq!(skipped, OTHERS);
}

#[test]
fn pmixrun_keeps_every_rule_in_the_native_protocol() {
    let pmixrun = program("pmix-rm", "pmixrun");
    let skipped = skipped("native", &[pmixrun.to_str().unwrap(), "-n", "4", "--vnodes", "2"]);
    assert_eq!(skipped, [&[NOT_NATIVE][..], &OTHERS].concat());
}

#[test]
fn a_resource_manager_on_launcher_alone_keeps_the_rules_over_both_wires() {
    let manager = example("launcher_rm");
    let launcher = [manager.to_str().unwrap(), "-n", "4"];
    // its launcher takes no input
    let (nodes, input, others) = (&TWO_NODES[..], &["input_is_pushed"], &OTHERS);
    assert_eq!(skipped("grpc", &launcher), [nodes, input, others].concat());
    let (before, after) = nodes.split_at(2);
    assert_eq!(skipped("native", &launcher), [before, &[NOT_NATIVE], after, input, others].concat());
}

#[test]
fn one_rank_is_enough_for_some() {
    let pmixrun = program("pmix-rm", "pmixrun");
    let skipped = skipped("grpc", &[pmixrun.to_str().unwrap(), "-n", "1"]);
    assert!(skipped.iter().any(|name| name == "fence_waits_for_all"), "{skipped:?}");
    assert!(!skipped.iter().any(|name| name == "namespaces_are_a_range"), "{skipped:?}");
}

#[test]
fn the_list_names_every_check_and_only_one_is_run() {
    let (code, list, _) = check(&["--list"], &[]);
    assert_eq!(code, Some(0));
    let names: Vec<_> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, checks().iter().map(|check| check.name).collect::<Vec<_>>());

    let (code, text, _) = check(&["--only", "fence_waits_for_all"], &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("pass  FEN-01"), "{text}");
    assert!(text.ends_with("\n1 passed, 0 failed, 0 skipped\n"), "{text}");
}

#[test]
fn what_does_not_keep_the_rules_fails() {
    let pmixrun = program("pmix-rm", "pmixrun");
    let launcher = [pmixrun.to_str().unwrap(), "-n", "2", "--native", "off"];
    let args = ["--wire", "native", "--only", "fence_waits_for_all", "--only", "rounds_do_not_mix"];
    let (code, text, _) = check(&args, &launcher);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("a rank cannot connect: PMIX_SERVER_URI41 is not set"), "{text}");
    assert!(text.ends_with("\n0 passed, 2 failed, 0 skipped\n"), "{text}");
}

/// Some launchers hang when a rank of theirs fails.
#[test]
fn a_verdict_does_not_wait_for_the_launcher_to_end() {
    let pmixrun = program("pmix-rm", "pmixrun");
    let script = format!("{} --native off -n 1 \"$@\"; exec sleep 600", pmixrun.display());
    let args = ["--wire", "native", "--patience", "2", "--only", "fence_waits_for_all"];
    let (code, text, errors) = check(&args, &["sh", "-c", &script, "sh"]);
    assert_eq!(code, Some(1), "{text}{errors}");
    assert!(text.contains("a rank cannot connect"), "{text}");
}

/// What is killed cannot, whether it has closed its output or writes more than fits into a pipe.
#[test]
fn a_launcher_that_hangs_may_clean_up() {
    let pmixrun = program("pmix-rm", "pmixrun");
    let rank = format!("{} --native off -n 1 \"$@\"", pmixrun.display());
    let file = tempfile::NamedTempFile::new().unwrap();
    let done = format!("echo cleaned up > {}", file.path().display());
    for (last_words, then) in [("", ""), ("", "exec >&-;"), ("seq 100000;", "")] {
        let script =
            format!("trap '{last_words} {done}; kill $!; exit' TERM; {rank}; {then} sleep 600 & wait");
        let args = ["--wire", "native", "--patience", "2", "--only", "fence_waits_for_all"];
        let (code, text, errors) = check(&args, &["sh", "-c", &script, "sh"]);
        assert_eq!(code, Some(1), "{text}{errors}");
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "cleaned up\n", "{then}{last_words}");
        std::fs::write(file.path(), "").unwrap();
    }
}

#[test]
fn what_a_launcher_prints_need_not_be_text() {
    let pmixrun = program("pmix-rm", "pmixrun");
    let noise = "printf 'caf\\351\\n'; head -c 200000 /dev/zero; echo";
    let script = format!("{noise}; exec {} -n 2 \"$@\"", pmixrun.display());
    let (code, text, errors) = check(&["--only", "fence_waits_for_all"], &["sh", "-c", &script, "sh"]);
    assert_eq!(code, Some(0), "{text}{errors}");
}

#[test]
fn the_other_implementation_is_checked_too() {
    let Some(mpirun) = on_path("mpirun", "apt-get install openmpi-bin") else { return };
    let version = Command::new(&mpirun).arg("--version").output().unwrap();
    if !String::from_utf8_lossy(&version.stdout).contains("(Open MPI) 4.") {
        return eprintln!("skipped: {} is not of Open MPI 4", mpirun.display());
    }
    let launcher = [mpirun.to_str().unwrap(), "--oversubscribe", "-n", "4"];
    // what that launcher leaves when a job of its fails is its own affair
    let only = |name| check_and_look(&["--wire", "native", "--only", name], &launcher).0;
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
    let ((code, json, errors), _) = check_and_look(&args, &launcher);
    let report: Report =
        serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}{errors}"));
    assert_eq!(report.outcomes.len(), known.len(), "{json}");
    let verdict =
        |name: &str| report.outcomes.iter().find(|outcome| outcome.check == name).map(|one| &one.verdict);
    assert_eq!(verdict("fence_waits_for_all"), Some(&Verdict::Passed), "{json}{errors}");
    assert_eq!(code == Some(0), report.passed(), "{json}{errors}");
}

#[test]
fn a_launcher_that_starts_nothing_is_told_from_one_that_is_wrong() {
    for (launcher, word) in
        [("/nowhere/launcher", "/nowhere/launcher: No such file"), ("false", "exit status: 1")]
    {
        let (code, text, errors) = check(&[], &[launcher]);
        assert_eq!((code, text.as_str()), (Some(2), ""), "{errors}");
        assert!(errors.starts_with("pmix-check: nothing was checked: ") && errors.contains(word), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn a_wrong_command_line_is_told() {
    for (args, word) in [
        (&["--only", "nonsense"][..], "pmix-check: unknown check nonsense"),
        (&["--wire", "carrier-pigeon"], "carrier-pigeon"),
        (&["--patience", "1"], "--patience"),
        (&["pmixrun"], "pmixrun"),
    ] {
        let (code, text, errors) = check(args, &[]);
        assert_eq!((code, text.as_str()), (Some(2), ""), "{args:?}: {errors}");
        assert!(errors.contains(word), "{args:?}: {errors}");
    }
}
