//! A launch of two ranks with all phases prints every metric once, for ranks of both kinds.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// What a launch of two ranks with all phases measures.
const METRICS: &str = "server_init_in_launch client_init client_finalize fork_to_main launch_fork_to_last_init \
    register_nspace_in_launch register_client rss_client uss_client rss_server uss_server get_job_level get_proc_level \
    clock_read put commit_500_keys commit_1_key fence fence_span fence_aligned fence_aligned_span fence_collect \
    fence_collect_span modex_put_commit peer_get_first peer_get_second dmodex_get_local_peer get_waiting_for_commit \
    publish publish_rate lookup lookup_rate unpublish unpublish_rate query_namespaces query_namespaces_default \
    query_proc_table event_last_handler event_each_handler event_notify_call connect connect_span disconnect \
    disconnect_span resolve_peers resolve_nodes";
const PHASES: &str = "init get put commit fence collect:1024 dmodex getwait pub query event connect resolve";

/// The lines of a mode of `pmix-bench`.
fn lines(arguments: &[&str]) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmix-bench"));
    command.args(arguments).env("BENCH_LAUNCH_STATS", "1").stdin(Stdio::null()).stderr(Stdio::inherit());
    for variable in ["BENCH_IMPL", "BENCH_OUT", "BENCH_RUN", "BENCH_SUFFIX"] {
        command.env_remove(variable);
    }
    let output = command.env("BENCH_IMPL", "somebody").output().unwrap();
    assert!(output.status.success(), "{arguments:?} ended with {}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Names of the metrics with how often each was printed; every line must have all fields and make sense.
fn metrics(lines: &[Value]) -> BTreeMap<&str, usize> {
    let mut found = BTreeMap::new();
    for line in lines {
        let number = |name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{name} in {line}"));
        assert_eq!(line["impl"], "somebody", "{line}");
        assert!(number("min") <= number("median") && number("median") <= number("p99"), "{line}");
        assert!(number("count") >= 1.0 && number("mean") >= number("min"), "{line}");
        assert!(["ns", "us", "KiB", "ops/s", "bytes"].contains(&line["unit"].as_str().unwrap()), "{line}");
        assert!(number("n") + number("size") + number("run") >= 0.0, "{line}");
        *found.entry(line["metric"].as_str().unwrap()).or_insert(0) += 1;
    }
    found
}

fn expect_all(rank: &[&str]) {
    let launch = ["launch", "-n", "2", "-T", "50", "--"];
    let arguments: Vec<_> =
        launch.into_iter().chain(rank.iter().copied()).chain(PHASES.split_whitespace()).collect();
    let lines = lines(&arguments);
    let mut expected: BTreeMap<_, _> = METRICS.split_whitespace().map(|name| (name, 1)).collect();
    // for tables of three sizes
    expected.insert("query_proc_table", 3);
    assert_eq!(metrics(&lines), expected);
    for line in &lines {
        // nothing that was measured took no time, but a gauge of the clock
        let is_positive = line["median"].as_f64().unwrap() > 0.0;
        assert!(is_positive || line["metric"] == "clock_read", "{line}");
        assert_eq!(line["n"], 2, "{line}");
    }
}

#[test]
fn ranks_in_rust_measure_every_metric_once() {
    expect_all(&[env!("CARGO_BIN_EXE_pmix-bench"), "client"]);
}

#[test]
fn ranks_in_c_measure_every_metric_once() {
    let dir = tempfile::tempdir().unwrap();
    let Some(client) = build_client(dir.path()) else {
        return println!("skipped: there is no libpmix to build with");
    };
    expect_all(&[client.to_str().unwrap()]);
}

#[test]
fn with_remote_ranks_the_host_takes_part() {
    let own = env!("CARGO_BIN_EXE_pmix-bench");
    let lines = lines(&[
        "launch",
        "-n",
        "2",
        "-t",
        "70",
        "--",
        own,
        "client",
        "collect:64",
        "barrier",
        "frames",
        "fence",
    ]);
    let found = metrics(&lines);
    for name in [
        "barrier_futex",
        "fence_frames",
        "fence_host",
        "fence_host_aligned_span",
        "fence_host_collect",
        "peer_get_host_second",
    ] {
        assert_eq!(found.get(name), Some(&1), "{name}");
    }
    assert!(lines.iter().filter(|line| line["metric"] == "client_init").all(|line| line["size"] == 70));
    // a sample that was never taken would be none of any time
    assert!(lines.iter().all(|line| line["min"].as_f64().unwrap() > 0.0));
}

#[test]
fn what_needs_no_rank_is_measured() {
    let names =
        |arguments: &[&str]| metrics(&lines(arguments)).into_keys().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(names(&["init", "2"]), ["rss_server_idle", "server_finalize", "server_init"]);
    for jobdata in [&["jobdata", "1000"][..], &["jobdata", "1000", "--arrays"]] {
        let found = names(jobdata);
        let registered = ["register_nspace", "register_nspace_rss_growth"];
        assert_eq!(found, [["jobdata_host_build", "jobdata_host_build_rss"], registered].concat());
    }
    let maps = names(&["regex", "100"]);
    assert_eq!(maps.len(), 6);
    assert!(maps.iter().all(|name| name.starts_with("generate_ppn") || name.starts_with("generate_regex")));
}

#[test]
fn all_sides_are_compared() {
    let Some(_) = libpmix() else { return println!("skipped: there is no libpmix to build with") };
    let compared = lines(&["compare", "--quick", "--json", "--rounds", "2", "get_waiting"]);
    let sides: BTreeSet<_> = compared.iter().map(|line| line["impl"].as_str().unwrap()).collect();
    assert_eq!(sides.len(), 4, "{sides:?}");
    assert!(sides.contains("pmix-rs") && sides.contains("pmix-rs-native"), "{sides:?}");
    assert!(sides.iter().any(|side| side.starts_with("openpmix-") && side.ends_with("-hash")), "{sides:?}");
    // each in both rounds, on all processors and on one
    let text = |line: &Value| format!("{} {} {}", line["impl"], line["metric"], line["run"]);
    let different: BTreeSet<_> = compared.iter().map(text).collect();
    assert_eq!((different.len(), compared.len()), (16, 16), "{different:?}");
    let is_known = |line: &Value| {
        let metric = line["metric"].as_str().unwrap();
        ["get_waiting_for_commit", "get_waiting_for_commit_1cpu"].contains(&metric)
    };
    assert!(compared.iter().all(is_known), "{different:?}");
}

#[test]
fn without_the_c_library_it_is_said_how_to_get_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmix-bench"));
    command.args(["compare", "--quick"]).env("PATH", dir.path()).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("apt-get install gcc pkg-config libpmix-dev"), "{words}");
}

#[test]
fn a_rank_that_fails_ends_the_launch() {
    let own = env!("CARGO_BIN_EXE_pmix-bench");
    let launch = ["launch", "-n", "2", "--", own, "client", "fence", "nonsense"];
    let output = Command::new(own).args(launch).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("there is no phase nonsense") && words.contains("ended with"), "{words}");
}

/// The C rank; none where the C library is missing.
fn build_client(dir: &Path) -> Option<PathBuf> {
    let flags = libpmix()?;
    let program = dir.join("client_bench");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/c/client_bench.c");
    let mut cc = Command::new("cc");
    cc.arg("-o").arg(&program).arg(source).args(flags.split_whitespace());
    assert!(cc.status().unwrap().success());
    Some(program)
}

/// What builds with the C library; none if it is missing, unless `PMIX_REQUIRE_PEERS` says that it must be there.
fn libpmix() -> Option<String> {
    let output = Command::new("pkg-config").args(["--cflags", "--libs", "pmix"]).output();
    let flags = output.ok().filter(|output| output.status.success());
    let is_required = std::env::var_os("PMIX_REQUIRE_PEERS").is_some();
    assert!(
        flags.is_some() || !is_required,
        "PMIX_REQUIRE_PEERS is set, and there is no libpmix to build with"
    );
    Some(String::from_utf8(flags?.stdout).unwrap())
}
