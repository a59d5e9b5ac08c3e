//! Jobs over several simulated nodes of `pmixrun`, each with a server of its own.

use std::path::Path;
use std::process::Command;

use pmix_tests::{Running, example, pid_of, pmix, pmixrun, processes_of, program, rank_program, run};
use rustix::process::{Pid, Signal, kill_process};

/// Ranks of our own over simulated nodes, each line of output with its rank.
fn ranks(dir: &Path, vnodes: &str, ranks: &str, act: &[&str]) -> Command {
    let rank = rank_program();
    let options = ["--tag-output", "--vnodes", vnodes, "-n", ranks, rank.to_str().unwrap()];
    pmixrun(dir, &[&options, act].concat())
}

fn nothing_is_left(dir: &Path) {
    assert_eq!(processes_of(dir), []);
    let left: Vec<_> = dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn reg_02_job_data_is_that_of_each_node() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(ranks(dir.path(), "3", "8", &["where"]));
    assert_eq!(code, Some(0), "{out}{err}");
    let system = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let nodes = [&[0, 1, 2][..], &[3, 4, 5], &[6, 7]];
    let host = |(node, ranks): (usize, &&[u32])| vec![format!("{system}-v{node}"); ranks.len()];
    let hosts: Vec<_> = nodes.iter().enumerate().flat_map(host).collect();
    let hosts = hosts.join(",");
    for (node, beside) in nodes.iter().enumerate() {
        let peers = beside.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        for (local, rank) in beside.iter().enumerate() {
            let line = format!(
                "[{rank}]<stdout>: node {node} of 3, local rank {local} of {}, peers {peers}, hosts {hosts}\n",
                beside.len()
            );
            assert!(out.contains(&line), "{line}is not in\n{out}");
            let connected = format!("on {system}-v{node}\n");
            let is_it = |line: &str| {
                line.starts_with(&format!("[{rank}]<stdout>: ")) && line.ends_with(connected.trim_end())
            };
            assert!(out.lines().any(is_it), "{out}");
        }
    }
    nothing_is_left(dir.path());
}

#[test]
fn fen_09_values_of_all_nodes_are_read_after_a_fence() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(ranks(dir.path(), "3", "8", &["put-commit-get", "5"]));
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(out.matches("read 40 values").count(), 8, "{out}");
    nothing_is_left(dir.path());
}

#[test]
fn fen_06_what_fences_of_growing_data_bring_adds_up_over_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(ranks(dir.path(), "3", "6", &["grow", "50"]));
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(out.matches("read 300 values").count(), 6, "{out}");
    nothing_is_left(dir.path());
}

#[test]
fn the_example_finds_its_peers_on_other_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let hello = example("hello");
    let (code, out, err) =
        run(pmixrun(dir.path(), &["--vnodes", "3", "-n", "4", "--native", "off", hello.to_str().unwrap()]));
    assert_eq!(code, Some(0), "{out}{err}");
    for (rank, node) in [0, 0, 1, 2].iter().enumerate() {
        let is_it = |line: &str| {
            line.starts_with(&format!("rank {rank} of 4 on ")) && line.contains(&format!("-v{node}: peers "))
        };
        assert!(out.lines().any(is_it), "{out}");
    }
    nothing_is_left(dir.path());
}

#[test]
fn a_job_smaller_than_the_nodes_leaves_some_empty() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(ranks(dir.path(), "4", "2", &["put-commit-get", "1"]));
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(out.matches("read 2 values").count(), 2, "{out}");
}

#[test]
fn the_record_of_each_node_stays_when_the_job_has_failed() {
    let dir = tempfile::tempdir().unwrap();
    let place = tempfile::tempdir().unwrap();
    let records = place.path().join("records");
    let command = ranks(dir.path(), "3", "6", &["abort", "9"]);
    let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let mut with = Command::new(command.get_program());
    with.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    with.arg("--record").arg(&records).args(args);
    let (code, out, err) = run(with);
    assert_eq!(code, Some(9), "{out}{err}");
    let system = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut files: Vec<_> = records.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 3, "{files:?}");
    let said: Vec<_> = err.lines().filter(|line| line.contains("flight record")).collect();
    let start = format!("{}/record.run.{system}.", records.display());
    let [said] = said[..] else { panic!("{err}") };
    let (before, names) = said.split_once(" and other nodes are in 3 files: ").unwrap();
    assert!(before.starts_with(&format!("pmixrun: the flight records of {system}-v")), "{err}");
    assert!(names.starts_with(&start) && names.ends_with(&format!(".{system}-v*")), "{err}");
    for (node, file) in files.iter().enumerate() {
        assert!(file.to_str().unwrap().starts_with(names.trim_end_matches('*')), "{err}");
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.lines().next().unwrap().ends_with(": abort was called"), "{text}");
        assert_eq!(text.contains(": abort for run."), node == 0, "{text}");
    }
    nothing_is_left(dir.path());
    // without records, and with a directory that cannot be made
    let (code, _, err) = run(command);
    assert!(code == Some(9) && !err.contains("flight record"), "{err}");
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    let (code, _, err) = run(pmixrun(dir.path(), &["--record", file.join("x").to_str().unwrap(), "true"]));
    assert_eq!(code, Some(1));
    assert!(err.contains("pmixrun: --record ") && err.contains("Not a directory"), "{err}");
}

#[test]
fn abt_01_abort_on_one_node_ends_the_job_on_all() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(ranks(dir.path(), "3", "6", &["abort", "9"]));
    assert_eq!(code, Some(9), "{out}{err}");
    assert!(err.contains("rank 0 called abort with status 9: told to"), "{err}");
    nothing_is_left(dir.path());
}

#[tokio::test]
async fn evt_20_a_death_is_heard_of_on_all_nodes() {
    let dir = tempfile::tempdir().unwrap();
    // the victim is the only one on its node
    let rank = rank_program();
    let options = ["--tag-output", "--reaction", "600", "--vnodes", "3", "-n", "3", rank.to_str().unwrap()];
    let mut job = Running::start(pmixrun(dir.path(), &[&options, &["listen-without", "2"][..]].concat()));
    for _ in 0..2 {
        job.line_with("listening").await;
    }
    kill_process(Pid::from_raw(pid_of(dir.path(), 2)).unwrap(), Signal::KILL).unwrap();
    let (status, out, err) = job.end().await;
    assert_eq!(status.code(), Some(137), "{out}{err}");
    for rank in 0..2 {
        let heard =
            |line: &str| line.starts_with(&format!("[{rank}]<stdout>: heard ")) && line.ends_with(":2");
        assert!(out.lines().any(heard), "{out}");
    }
    nothing_is_left(dir.path());
}

#[test]
fn a_death_ends_the_fence_of_all_nodes() {
    for (vnodes, why) in [("2", "one of two on its node"), ("4", "the only one on its node")] {
        let dir = tempfile::tempdir().unwrap();
        let (code, out, err) = run(ranks(dir.path(), vnodes, "4", &["die-before-fence", "3"]));
        assert_eq!(code, Some(137), "{why}: {out}{err}");
        assert!(err.contains("rank 3 (") && err.contains("-v"), "{why}: {err}");
        nothing_is_left(dir.path());
    }
}

#[tokio::test]
async fn tools_find_one_server_that_knows_the_processes_of_all_nodes() {
    let dir = tempfile::tempdir().unwrap();
    // built first: that may take longer than the job may
    program("pmix");
    let mut job = Running::start(ranks(dir.path(), "2", "4", &["block"]));
    for _ in 0..4 {
        job.line_with("blocked").await;
    }
    let (status, table, err) = Running::start(pmix(dir.path(), &["ps", "--ranks"])).end().await;
    assert!(status.success(), "{err}");
    for (rank, node) in [(0, "-v0"), (1, "-v0"), (2, "-v1"), (3, "-v1")] {
        let pid = pid_of(dir.path(), rank).to_string();
        let is_row = |line: &str| line.split_whitespace().any(|word| word == pid) && line.contains(node);
        assert!(table.lines().any(is_row), "rank {rank} with pid {pid} is not in\n{table}");
    }
    job.signal(Signal::TERM);
    let (status, _, err) = job.end().await;
    assert_eq!(status.code(), Some(143), "{err}");
    nothing_is_left(dir.path());
}

#[test]
fn a_launcher_without_the_native_wire_opens_no_port() {
    let dir = tempfile::tempdir().unwrap();
    for (native, has_native, has_marker) in
        [("off", false, false), ("without-open-mpi-4", true, false), ("on", true, true)]
    {
        let (code, out, err) = run(pmixrun(dir.path(), &["--native", native, "env"]));
        assert_eq!(code, Some(0), "{err}");
        assert_eq!(out.contains("PMIX_SERVER_URI"), has_native, "{native}: {out}");
        assert_eq!(out.contains("JSM_JSRUN_PORT=0"), has_marker, "{native}: {out}");
    }
}

#[test]
fn hst_04_a_job_that_a_process_of_any_node_starts_runs_on_all() {
    for parent in ["0", "1"] {
        let dir = tempfile::tempdir().unwrap();
        let (code, out, err) = run(ranks(dir.path(), "3", "2", &["spawn-from", parent]));
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(out.contains(&format!("[{parent}]<stdout>: started ")), "{out}");
        for rank in 0..3 {
            let of_child = |line: &str| {
                line.contains(&format!(".1:{rank} connected to ")) && line.ends_with(&format!("-v{rank}"))
            };
            assert!(out.lines().any(of_child), "child {rank}: {out}{err}");
        }
        assert_eq!(out.matches("read 6 values").count(), 3, "{out}");
        nothing_is_left(dir.path());
    }
}
