//! `pmix-check` against resource managers that run: every check passes over both wires, and what is wrong is told.

use std::fs;
use std::path::Path;

use pmix_conformance::{Report, Verdict, checks};
use pmix_tests::{Running, example, long_enough, pmix_check, program, run};

/// What a launcher is: a program and its options.
type Launcher<'a> = &'a [&'a str];

/// Runs it, however long that takes, with a directory for all files, which is empty in the end.
fn check(args: &[&str], launcher: Launcher<'_>) -> (Option<i32>, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let done = run(pmix_check(dir.path(), args, launcher));
    is_empty(dir.path());
    done
}

/// Runs it under a shell script that hangs, which must not keep it from ending.
async fn check_under(args: &[&str], script: &str) -> (Option<i32>, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let command = pmix_check(dir.path(), args, &["sh", "-c", script, "sh"]);
    let (status, out, err) = Running::start(command).end().await;
    is_empty(dir.path());
    (status.code(), out, err)
}

fn is_empty(dir: &Path) {
    let left: Vec<_> = dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Runs all checks, none of which may fail; the names of those that were skipped.
fn skipped(wire: &str, launcher: Launcher<'_>) -> Vec<String> {
    let (code, json, errors) = check(&["--json", "--wire", wire, "--patience", "600"], launcher);
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
    let pmixrun = program("pmixrun");
    let skipped = skipped("grpc", &[pmixrun.to_str().unwrap(), "-n", "4", "--vnodes", "2"]);
    assert_eq!(skipped, OTHERS);
}

#[test]
fn pmixrun_keeps_every_rule_in_the_native_protocol() {
    let pmixrun = program("pmixrun");
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
fn a_resource_manager_on_the_host_module_alone_keeps_the_rules_that_it_serves() {
    let manager = example("mini_rm");
    let skipped = skipped("grpc", &[manager.to_str().unwrap(), "4"]);
    assert!(skipped.iter().any(|name| name == "a_spawned_job_is_a_new_namespace"), "{skipped:?}");
    assert!(
        !skipped.iter().any(|name| name == "a_query_with_an_unknown_qualifier_is_refused"),
        "{skipped:?}"
    );
}

#[test]
fn one_rank_is_enough_for_some() {
    let pmixrun = program("pmixrun");
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

    let (code, text, _) = check(&["--only", "fence_waits_for_all", "--patience", "600"], &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("pass  FEN-01"), "{text}");
    assert!(text.ends_with("\n1 passed, 0 failed, 0 skipped\n"), "{text}");
}

#[test]
fn what_does_not_keep_the_rules_fails() {
    let pmixrun = program("pmixrun");
    let launcher = [pmixrun.to_str().unwrap(), "-n", "2", "--native", "off"];
    let args = ["--wire", "native", "--only", "fence_waits_for_all", "--only", "rounds_do_not_mix"];
    let args = [&args[..], &["--patience", "100"]].concat();
    let (code, text, _) = check(&args, &launcher);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("a rank cannot connect: PMIX_SERVER_URI41 is not set"), "{text}");
    assert!(text.ends_with("\n0 passed, 2 failed, 0 skipped\n"), "{text}");
}

/// Some launchers hang when a rank of theirs fails.
#[tokio::test]
async fn a_verdict_does_not_wait_for_the_launcher_to_end() {
    let script = format!("{} --native off -n 1 \"$@\"; exec sleep 600", program("pmixrun").display());
    let args = ["--wire", "native", "--patience", "2", "--only", "fence_waits_for_all"];
    let (code, text, errors) = check_under(&args, &script).await;
    assert_eq!(code, Some(1), "{text}{errors}");
    assert!(text.contains("a rank cannot connect"), "{text}");
}

/// What is killed cannot, whether it has closed its output or writes more than fits into a pipe.
#[tokio::test]
async fn a_launcher_that_hangs_may_clean_up() {
    let rank = format!("{} --native off -n 1 \"$@\"", program("pmixrun").display());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("done");
    let done = format!("echo cleaned up > {}", file.display());
    for (last_words, then) in [("", ""), ("", "exec >&-;"), ("seq 100000;", "")] {
        let script =
            format!("trap '{last_words} {done}; kill $!; exit' TERM; {rank}; {then} sleep 600 & wait");
        long_enough(async |seconds| {
            let patience = seconds.max(2).to_string();
            let args = ["--wire", "native", "--patience", &patience, "--only", "fence_waits_for_all"];
            let (code, text, errors) = check_under(&args, &script).await;
            assert_eq!(code, Some(1), "{text}{errors}");
            let written = fs::read_to_string(&file).unwrap_or_default();
            let _ = fs::remove_file(&file);
            if written == "cleaned up\n" { Ok(()) } else { Err(format!("{then}{last_words}: {written}")) }
        })
        .await;
    }
}

#[test]
fn what_a_launcher_prints_need_not_be_text() {
    let pmixrun = program("pmixrun");
    let noise = "printf 'caf\\351\\n'; head -c 200000 /dev/zero; echo";
    let script = format!("{noise}; exec {} -n 2 \"$@\"", pmixrun.display());
    let args = ["--only", "fence_waits_for_all", "--patience", "600"];
    let (code, text, errors) = check(&args, &["sh", "-c", &script, "sh"]);
    assert_eq!(code, Some(0), "{text}{errors}");
}

/// Other ranks fail because one skips the check and leaves it; what they say may come first.
#[test]
fn a_check_that_one_rank_skips_is_skipped() {
    let verdicts = [Verdict::Failed("alone".to_owned()), Verdict::Skipped("cannot die".to_owned())];
    let [failed, skipped] = verdicts.map(|verdict| serde_json::to_string(&verdict).unwrap());
    for (first, second) in [(&failed, &skipped), (&skipped, &failed)] {
        let script = format!("echo 'pmix-check-verdict {first}'; echo 'pmix-check-verdict {second}'");
        let (code, text, errors) = check(&["--only", "fence_waits_for_all"], &["sh", "-c", &script, "sh"]);
        assert_eq!(code, Some(0), "{text}{errors}");
        assert!(text.ends_with("\n0 passed, 0 failed, 1 skipped\n"), "{text}");
    }
}

#[test]
fn a_launcher_that_starts_nothing_is_told_from_one_that_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("launcher").display().to_string();
    let told = format!("{missing}: No such file");
    for (launcher, word) in [(&*missing, &*told), ("false", "exit status: 1")] {
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
