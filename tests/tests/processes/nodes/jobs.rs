//! What jobs do over several daemons.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use pmix_tests::{
    agent, example, here, nothing_is_left, plain_environment, pmixrun, processes_of, program, rank_program,
    run, with_agent,
};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity};

#[test]
fn the_ring_closes_over_daemons_that_are_not_on_the_host_of_the_head() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = here(dir.path(), "a:2,b:2,c:2,d:2", &[]);
    command.arg(example("ring"));
    let (code, out, err) = run(command);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}{err}");
    for (rank, node) in (0..8).zip(["a", "a", "b", "b", "c", "c", "d", "d"]) {
        let line = format!("rank {rank} of 8 on {node}: values right, publish right");
        assert!(out.contains(&line), "{line}\n{out}");
    }
    assert!(out.contains("spawn right"), "{out}");
    nothing_is_left(dir.path());
}

#[test]
fn dbg_01_ini_09_debugger_and_daemons_start_when_the_ranks_of_all_hosts_wait() {
    let dir = tempfile::tempdir().unwrap();
    let rank = rank_program();
    let daemon = format!("{} debug", rank.display());
    let released = ["--debug-daemons", &daemon, rank.to_str().unwrap(), "fence"];
    let (code, out, err) = run(here(dir.path(), "a:2,b:2", &released));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    for looks in ["daemon 0 looks at 0 1 of run.", "daemon 1 looks at 2 3 of run."] {
        assert!(out.contains(looks), "{out}");
    }
    assert!(out.find("looks at") < out.find("fencing") && out.matches("fencing").count() == 4, "{out}");

    // each daemon releases the ranks beside it
    let daemon = format!("{} debug-own", rank.display());
    let released = ["--debug-daemons", &daemon, rank.to_str().unwrap(), "fence"];
    let (code, out, err) = run(here(dir.path(), "a:2,b:2", &released));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");

    let (code, out, err) =
        run(here(dir.path(), "a:2,b:2", &["--debug", "echo looks", rank.to_str().unwrap(), "fence"]));
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.starts_with("looks\n") && out.matches("fencing").count() == 4, "{out}");
    assert!(err.contains("the debugger ended without releasing the job, which goes on now"), "{err}");
    nothing_is_left(dir.path());
}

#[test]
fn fen_06_what_fences_of_growing_data_bring_adds_up_over_daemons() {
    let dir = tempfile::tempdir().unwrap();
    let rank = rank_program();
    let (code, out, err) = run(here(dir.path(), "a:2,b:2,c:2", &[rank.to_str().unwrap(), "grow", "50"]));
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(out.matches("read 300 values").count(), 6, "{out}");
    nothing_is_left(dir.path());
}

#[test]
fn hosts_are_filled_in_their_order_up_to_their_slots() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.hosts");
    std::fs::write(&file, "b slots=2\na slots=1 # one\nc\n").unwrap();
    let tell = ["sh", "-c", "echo $PMIX_RANK $PMIX_HOSTNAME"];
    let sorted = |out: &str| {
        let mut lines: Vec<_> = out.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let by = |args: &[&str]| {
        let mut command = pmixrun(dir.path(), &["--hostfile", file.to_str().unwrap(), "--launch-agent"]);
        command.arg(agent(dir.path(), "exec \"$@\"")).args(args).args(tell);
        run(command)
    };
    let (code, out, err) = by(&[]);
    assert_eq!((code, sorted(&out)), (Some(0), ["0 b", "1 b", "2 a", "3 c"].map(Into::into).into()), "{err}");
    let (code, out, err) = by(&["--map-by", "node", "-n", "3"]);
    assert_eq!((code, sorted(&out)), (Some(0), ["0 b", "1 a", "2 c"].map(Into::into).into()), "{err}");
    let (code, out, err) = by(&["-n", "5"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("5 ranks do not fit in the 4 slots of the hosts"), "{err}");
}

#[test]
fn in_a_job_of_pbs_ranks_run_on_its_nodes_with_a_slot_for_each_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.nodes");
    std::fs::write(&file, "b\nb\na\n").unwrap();
    let in_job = |args: &[&str]| {
        let mut command = pmixrun(dir.path(), &["--launch-agent"]);
        command.arg(agent(dir.path(), "exec \"$@\"")).args(args);
        command.args(["sh", "-c", "echo $PMIX_RANK $PMIX_HOSTNAME"]);
        command.env("PBS_NODEFILE", &file).env("PBS_JOBID", "12.server");
        run(command)
    };
    let (code, out, err) = in_job(&["--tag-output"]);
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        (code, lines),
        (Some(0), ["[0]<stdout>: 0 b", "[1]<stdout>: 1 b", "[2]<stdout>: 2 a"].into()),
        "{err}"
    );
    let (code, out, err) = in_job(&["--host", "c"]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("error: c is not in the allocation of PBS job 12.server"), "{err}");
    nothing_is_left(dir.path());
}

#[test]
fn the_exit_code_is_that_of_the_rank_that_failed_wherever_it_ran() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) =
        run(here(dir.path(), "a,b,c", &["sh", "-c", "test $PMIX_RANK != 2 || exit 7; exec sleep 600"]));
    assert_eq!(code, Some(7), "{err}");
    assert!(err.contains("rank 2 (sh) on c failed: exit code 7"), "{err}");
    nothing_is_left(dir.path());
}

#[test]
fn a_program_that_is_missing_is_named_with_its_node_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(here(dir.path(), "a,b", &["./no-such-program"]));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("(./no-such-program) on ") && err.contains("rank "), "{err}");
    nothing_is_left(dir.path());
}

#[test]
fn input_goes_to_the_rank_that_reads_it_on_another_node() {
    let dir = tempfile::tempdir().unwrap();
    for (stdin, expected) in
        [("0", "0.line\n1.\n"), ("1", "0.\n1.line\n"), ("all", "0.line\n1.line\n"), ("none", "0.\n1.\n")]
    {
        let mut command =
            here(dir.path(), "a,b", &["--stdin", stdin, "sh", "-c", "read it; echo $PMIX_RANK.$it"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"line\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let mut lines: Vec<_> = std::str::from_utf8(&output.stdout).unwrap().split_inclusive('\n').collect();
        lines.sort_unstable();
        assert_eq!(lines.concat(), expected, "--stdin {stdin}");
    }
}

/// The most memory that a process has had, in KiB.
fn peak(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_reader_that_is_slow_slows_the_writer_and_costs_head_and_daemon_little_memory() {
    const WRITTEN: usize = 256 << 20;
    let dir = tempfile::tempdir().unwrap();
    let script = "test $PMIX_RANK = 0 || exit 0; dd if=/dev/zero bs=1M count=256 2>/dev/null; exec sleep 600";
    let mut command = here(dir.path(), "a,b", &["sh", "-c", script]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut buffer = vec![0; 1 << 20];
    // all but what lies between the writer and here
    for _ in 0..WRITTEN / buffer.len() / 2 {
        stdout.read_exact(&mut buffer).unwrap();
    }
    let mine = processes_of(dir.path())
        .into_iter()
        .filter(|(_, line)| line.contains("/pmixd") || line.contains("/pmixrun --timeout"));
    let peaks: Vec<_> = mine.map(|(pid, line)| (peak(pid), line)).collect();
    assert!(peaks.len() >= 3, "{peaks:?}");
    assert!(peaks.iter().all(|(kib, _)| *kib < 100 << 10), "{peaks:?}");
    for _ in 0..WRITTEN / buffer.len() / 2 {
        stdout.read_exact(&mut buffer).unwrap();
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    child.wait().unwrap();
    nothing_is_left(dir.path());
}

#[test]
fn programs_of_the_conformance_kit_find_over_daemons_what_they_find_on_one_node() {
    let dir = tempfile::tempdir().unwrap();
    for wire in ["grpc", "native"] {
        let launcher = here(dir.path(), "a:2,b,c", &["-n", "4", "--tree-degree", "1"]);
        let mut command = Command::new(program("pmix-check"));
        plain_environment(&mut command);
        command
            .args(["--wire", wire, "--patience", "600", "--"])
            .arg(launcher.get_program())
            .args(launcher.get_args());
        command.envs(launcher.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let (code, out, err) = run(command);
        let told: Vec<_> = out.lines().filter(|line| !line.starts_with("pass ")).collect();
        assert_eq!(code, Some(0), "{wire}: {told:#?}{err}");
        let last = out.lines().last().unwrap_or_default();
        assert!(last.contains(" passed, 0 failed, "), "{wire}: {told:#?}");
        // each in processes of several nodes
        for rules in [
            "FEN-06", "GRP-01", "PUB-03", "SPN-01", "JCT-01", "ABT-01", "IOF-04", "EVT-11", "DMX-01",
            "LOG-01",
        ] {
            let is_passed = |line: &str| line.starts_with("pass ") && line.contains(rules);
            assert!(out.lines().any(is_passed), "{wire}: {rules}: {told:#?}");
        }
    }
    nothing_is_left(dir.path());
}

/// The rank, its host, and where it may run as the kernel has it.
const PLACE: [&str; 3] = [
    "sh",
    "-c",
    "echo $PMIX_RANK $PMIX_HOSTNAME $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)",
];

/// The processors that this process may use.
fn processors() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect()
}

/// How many cores these are, as far as the system says which of them share one.
fn cores() -> usize {
    let siblings = |processor: usize| {
        let file = format!("/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list");
        std::fs::read_to_string(file).ok()
    };
    processors().into_iter().filter_map(siblings).collect::<BTreeSet<_>>().len()
}

#[test]
fn ranks_are_bound_on_each_host_by_its_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let places = |args: &[&str]| {
        let (code, out, err) = run(here(dir.path(), "a,b", &[args, &PLACE].concat()));
        assert_eq!(code, Some(0), "{err}");
        let mut lines: Vec<_> = out.lines().map(str::to_owned).collect();
        lines.sort();
        (lines, err)
    };
    let (bound, report) = places(&["--bind-to", "core", "--report-bindings"]);
    let (free, nothing) = places(&["--bind-to", "none"]);
    let (default, _) = places(&[]);
    assert_eq!(nothing, "");
    assert_eq!(bound, default, "two ranks are bound to cores, as on one host");
    for (rank, node) in [(0, "a"), (1, "b")] {
        let processors = bound[rank].strip_prefix(&format!("{rank} {node} ")).unwrap();
        assert!(!processors.is_empty() && free[rank].starts_with(&format!("{rank} {node} ")));
        let (start, end) =
            (format!("rank {rank} on {node} is bound to core "), format!(" (processors {processors})"));
        assert!(report.lines().any(|line| line.contains(&start) && line.ends_with(&end)), "{end}: {report}");
    }
    if cores() > 1 {
        assert_ne!(bound, free);
    }
    nothing_is_left(dir.path());
}

#[test]
fn a_host_that_cannot_bind_its_ranks_is_named_and_none_starts() {
    let dir = tempfile::tempdir().unwrap();
    let crowded = format!("a,b:{}", processors().len() + 1);
    let (code, out, err) = run(here(dir.path(), &crowded, &[&["--bind-to", "core"], &PLACE[..]].concat()));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("node b") && err.contains("not enough processors to bind"), "{err}");
    nothing_is_left(dir.path());
}

/// Variables of `pmixrun` and of the hosts, which the script that starts daemons gives them as `ssh` does.
#[test]
fn ranks_have_the_environment_of_pmixrun_on_every_host_but_for_what_describes_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let agent = "unset GIVEN SSH_AUTH_SOCK; PATH=/usr/bin:/bin SSH_CONNECTION=$host HOSTNAME=$host \
                 exec env OF_LOGIN=$host \"$@\"";
    let tell =
        "echo $PMIX_RANK,$GIVEN,$PASSED,$PATH,$SSH_CONNECTION,$HOSTNAME,$SSH_AUTH_SOCK,$OF_LOGIN,$PMIX_MINE";
    let args = ["-x", "PASSED=x y", "sh", "-c", tell];
    let mut command = with_agent(dir.path(), "a,b", agent, &args);
    command.env("GIVEN", "a=\"b\"").env("PATH", "/usr/bin:/bin:/given").env("PMIX_MINE", "1");
    for name in ["SSH_CONNECTION", "HOSTNAME", "SSH_AUTH_SOCK"] {
        command.env(name, "of pmixrun");
    }
    let (code, out, err) = run(command);
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    let expected = ["0,a=\"b\",x y,/usr/bin:/bin:/given,a,a,,,", "1,a=\"b\",x y,/usr/bin:/bin:/given,b,b,,,"];
    assert_eq!((code, lines), (Some(0), expected.to_vec()), "{err}");
    nothing_is_left(dir.path());
}

#[test]
fn ranks_have_an_empty_environment_on_every_host_if_pmixrun_has_one() {
    let dir = tempfile::tempdir().unwrap();
    let agent = "exec env OF_LOGIN=1 HOME=/of/$host \"$@\"";
    let tell = "echo $PMIX_RANK,$OF_LOGIN,$HOME,${GIVEN-none}";
    let mut command = with_agent(dir.path(), "a,b", agent, &["/bin/sh", "-c", tell]);
    // programs that are run by their paths need nothing but the directory of servers
    command.env_clear().env("PMIX_SERVER_TMPDIR", dir.path());
    let (code, out, err) = run(command);
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((code, lines), (Some(0), vec!["0,,/of/a,none", "1,,/of/b,none"]), "{err}");
    nothing_is_left(dir.path());
}

#[test]
fn what_keeps_a_program_from_starting_on_one_host_is_told_with_that_host() {
    let dir = tempfile::tempdir().unwrap();
    let on_host = |file: &str| dir.path().join(file);
    std::fs::write(on_host("text"), "no program").unwrap();
    let missing = on_host("missing");
    let missing = missing.to_str().unwrap();
    let text = on_host("text");
    let text = text.to_str().unwrap();
    for (args, words) in [
        (&[missing][..], format!("rank 1 ({missing}) on b: {missing} does not exist")),
        (&[text], format!("rank 1 ({text}) on b: {text} is not executable")),
        (&["--wdir", missing, "sleep"], format!("rank 1 (sleep) on b: working directory {missing}")),
    ] {
        // only the second application cannot start
        let mut all = vec!["-n", "1", "sleep", "600", ":", "-n", "1"];
        all.extend(args);
        let (code, out, err) = run(here(dir.path(), "a,b", &all));
        assert_eq!((code, out.as_str()), (Some(1), ""), "{args:?}: {err}");
        assert!(err.contains(&words), "{words}: {err}");
        nothing_is_left(dir.path());
    }
}
