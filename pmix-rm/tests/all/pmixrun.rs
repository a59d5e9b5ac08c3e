//! The command `pmixrun`, with scripts as ranks.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use pmix_test_wait::block_until;
use pmix_topology::Processors;
use pmix_types::BindEnvelope;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Done, Site, hard_limit, program, runs};

#[test]
fn several_applications_are_one_job() {
    let done = Site::new().run(&[
        "-n",
        "2",
        "--env",
        "ROLE=a",
        "sh",
        "-c",
        "echo $PMIX_NAMESPACE $PMIX_RANK $ROLE",
        ":", //
        "-n",
        "2",
        "sh",
        "-c",
        "echo $PMIX_NAMESPACE $PMIX_RANK $1",
        "sh",
        "b",
    ]);
    assert_eq!(done.code(), 0, "{done:?}");
    let nspace = done.lines()[0].split(' ').next().unwrap().to_owned();
    assert!(nspace.starts_with("run."), "{nspace}");
    let expected = ["0 a", "1 a", "2 b", "3 b"].map(|rest| format!("{nspace} {rest}"));
    assert_eq!(done.lines(), expected);
    assert_eq!(done.err(), "");
}

#[test]
fn directory_and_variables_are_those_of_the_application() {
    let site = Site::new();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let mut command = site.pmixrun(&[
        "--wdir",
        dir.to_str().unwrap(),
        "-x",
        "OMPI_SET=1",
        "-x",
        "OMPI_PASSED",
        "sh",
        "-c",
        "pwd; echo $OMPI_SET $OMPI_PASSED $OMPI_LEFT $KEPT",
    ]);
    command.env("OMPI_PASSED", "2").env("OMPI_LEFT", "3").env("KEPT", "4");
    let done = Done(command.output().unwrap());
    assert_eq!(done.out(), format!("{}\n1 2 4\n", dir.display()), "{done:?}");
}

#[test]
fn parameters_of_open_mpi_reach_the_ranks_and_win_over_ours() {
    let site = Site::new();
    let print = "env | grep ^OMPI_MCA_ | sort";
    let parameters = |command: &mut std::process::Command| {
        let done = Done(command.env_remove("OMPI_COMM_WORLD_RANK").output().unwrap());
        assert_eq!(done.code(), 0, "{done:?}");
        done.lines().join(" ")
    };
    // more than there can be processors for
    let processor = Processors::bound(BindEnvelope::THREAD).unwrap().first().unwrap().to_string();
    let crowded = |args: &[&str]| {
        site.pmixrun_below(&["taskset", "-c", &processor], &[args, &["sh", "-c", print]].concat())
    };
    let ours = "OMPI_MCA_mpi_oversubscribe=1";
    assert_eq!(parameters(&mut crowded(&["-n", "2"])), [ours, ours].join(" "));
    // not without need, and not of those that ask for it before them
    assert_eq!(parameters(crowded(&["-n", "1"]).env("OMPI_MCA_btl", "self")), "OMPI_MCA_btl=self");
    let theirs = "OMPI_MCA_mpi_oversubscribe=0";
    let set = [theirs, theirs].join(" ");
    assert_eq!(parameters(crowded(&["-n", "2"]).env("OMPI_MCA_mpi_oversubscribe", "0")), set);
    assert_eq!(parameters(&mut crowded(&["-n", "2", "-x", theirs])), set);
    // those of a launcher around ours are its own
    let mut below = crowded(&["-n", "1"]);
    below.env("OMPI_COMM_WORLD_RANK", "0").env("OMPI_MCA_ess", "^singleton");
    let done = Done(below.output().unwrap());
    assert_eq!(done.out(), "", "{done:?}");
}

#[test]
fn the_exit_code_is_that_of_the_first_rank_that_failed() {
    // rank 1 fails; rank 0 fails otherwise, but only when it is ended
    let text = "if [ $PMIX_RANK = 1 ]; then exit 9; fi; trap 'exit 7' TERM; sleep 1000";
    let done = Site::new().run(&["-n", "2", "--grace", "0.1", "sh", "-c", text]);
    assert_eq!(done.code(), 9, "{done:?}");
    let node = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    for part in ["pmixrun: ", "sh", "exit code 9", node.as_str()] {
        assert!(done.err().contains(part), "{part}: {done:?}");
    }
}

#[test]
fn a_signal_that_ends_a_rank_gives_128_and_its_number() {
    let done = Site::new().run(&["-n", "2", "--grace", "0.1", "sh", "-c", "kill -9 $$"]);
    assert_eq!(done.code(), 137, "{done:?}");
    let node = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let said = ["0", "1"].map(|rank| {
        format!("pmixrun: rank {rank} (sh) on {node} failed: signal 9 (SIGKILL); ending the job\n")
    });
    assert!(said.iter().any(|said| done.err() == *said), "{done:?}");
}

#[test]
fn a_rank_killed_from_outside_ends_the_others_and_leaves_nothing() {
    let site = Site::new();
    let mut run = site.start(&["-n", "3", "--grace", "0.1", "sh", "-c", "sleep 1000 & echo $$ $!; wait"]);
    let lines = run.lines(3);
    let pids: Vec<Pid> = lines
        .iter()
        .flat_map(|line| line.split(' '))
        .map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap())
        .collect();
    assert_eq!(pids.len(), 6);
    kill_process(pids[2], Signal::KILL).unwrap();
    let done = run.finish();
    assert_eq!(done.code(), 137, "{done:?}");
    for pid in pids {
        assert!(!runs(pid), "{pid:?} is left");
    }
    assert_eq!(site.left(), Vec::<PathBuf>::new());
}

#[test]
fn descendants_of_a_job_that_ended_well_are_gone_too() {
    let site = Site::new();
    let text = "setsid sh -c 'exec sleep 1000' < /dev/null > /dev/null 2>&1 & echo $!; exec sleep 0";
    let script = format!("sleep 1000 > /dev/null 2>&1 & echo $!; {text}");
    let done = site.run(&["--linger", "0", "sh", "-c", &script]);
    assert_eq!(done.code(), 0, "{done:?}");
    let pids: Vec<i32> = done.out().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(pids.len(), 2);
    for pid in pids {
        assert!(!runs(Pid::from_raw(pid).unwrap()), "{pid} is left");
    }
}

#[test]
fn errors_of_a_start_name_program_rank_node_and_cause() {
    let site = Site::new();
    let node = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let nothing = tempfile::tempdir().unwrap();
    let path = format!("PATH={}", nothing.path().display());
    let done = site.run(&["-n", "2", "true", ":", "--env", &path, "no-such-program"]);
    assert_eq!((done.code(), done.out()), (1, ""), "{done:?}");
    for part in ["pmixrun: ", "no-such-program", "2", node.as_str(), "PATH"] {
        assert!(done.err().contains(part), "{part}: {done:?}");
    }
    let missing = site.root.path().join("missing").display().to_string();
    let done = site.run(&["--wdir", &missing, "true"]);
    assert_eq!(done.code(), 1, "{done:?}");
    let why = format!("working directory {missing}: No such file or directory\n");
    assert_eq!(done.err(), format!("pmixrun: rank 0 (true) on {node}: {why}"), "{done:?}");
    let done = site.run(&["/bin"]);
    assert_eq!(done.err(), format!("pmixrun: rank 0 (/bin) on {node}: /bin is a directory\n"), "{done:?}");
    assert_eq!(site.run(&["-n", "0", "true"]).code(), 2);
    assert_eq!(site.run(&[]).code(), 2);
    let done = site.run(&["--help"]);
    assert_eq!(done.code(), 0);
    assert!(done.out().contains("--timeout"));
}

#[test]
fn output_is_whole_and_lines_are_not_torn() {
    // each write is less than a line, so that lines would be torn by whoever passes them on as they come
    let text = "i=0; while [ $i -lt 300 ]; do printf 'rank '; printf '%s line ' $PMIX_RANK; echo $i; i=$((i+1)); done";
    let done = Site::new().run(&["-n", "4", "sh", "-c", text]);
    assert_eq!(done.code(), 0);
    let mut expected: Vec<String> =
        (0..4).flat_map(|rank| (0..300).map(move |line| format!("rank {rank} line {line}"))).collect();
    expected.sort_unstable();
    assert_eq!(done.lines(), expected);
}

/// A pipe holds 64 KiB, and less of small pieces.
const FULL: u64 = 60 << 10;

#[test]
fn much_output_is_not_lost_when_its_reader_is_slow() {
    let site = Site::new();
    // neither fails before both have written everything
    let done = tempfile::tempdir().unwrap();
    let text = format!(
        "dd if=/dev/zero bs=1048576 count=8 2>/dev/null; cd {}; echo > $PMIX_RANK
        while ! [ -e 0 -a -e 1 ]; do sleep 0.01; done; exit 3",
        done.path().display()
    );
    let mut run = site.start(&["-n", "2", "sh", "-c", &text]);
    let mut out = run.child.stdout.take().unwrap();
    let mut first = [0; 1000];
    out.read_exact(&mut first).unwrap();
    // more has no room, so that all that write wait
    block_until("the pipe is full", || {
        Some(rustix::io::ioctl_fionread(&out).unwrap()).filter(|held| *held > FULL)
    });
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    assert_eq!(first.len() + rest.len(), 16 * 1024 * 1024);
    assert_eq!(run.finish().code(), 3);
}

#[test]
fn tags_name_rank_and_channel() {
    let text = "printf 'one\\nlast'; echo oops >&2";
    let done = Site::new().run(&["-n", "2", "--tag-output", "sh", "-c", text]);
    assert_eq!(
        done.lines(),
        ["[0]<stdout>: last", "[0]<stdout>: one", "[1]<stdout>: last", "[1]<stdout>: one"]
    );
    let mut errors: Vec<_> = done.err().lines().collect();
    errors.sort_unstable();
    assert_eq!(errors, ["[0]<stderr>: oops", "[1]<stderr>: oops"]);
}

#[test]
fn a_single_process_may_prompt() {
    let site = Site::new();
    let mut run = site.start(&["sh", "-c", "printf 'name? '; read name; echo hello $name"]);
    let mut prompt = [0; 6];
    run.child.stdout.as_mut().unwrap().read_exact(&mut prompt).unwrap();
    assert_eq!(&prompt, b"name? ");
    run.child.stdin.take().unwrap().write_all(b"you\n").unwrap();
    assert_eq!(run.lines(1), ["hello you"]);
    assert_eq!(run.finish().code(), 0);
}

#[test]
fn rank_zero_reads_standard_input_to_its_end() {
    let site = Site::new();
    let mut run = site.start(&["-n", "3", "--tag-output", "cat"]);
    run.child.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    let done = run.finish();
    assert_eq!((done.code(), done.out()), (0, "[0]<stdout>: one\n[0]<stdout>: two\n"), "{done:?}");
}

#[test]
fn open_standard_input_does_not_keep_pmixrun() {
    let site = Site::new();
    let mut run = site.start(&["-n", "2", "true"]);
    let stdin = run.child.stdin.take();
    assert_eq!(run.finish().code(), 0);
    drop(stdin);
}

#[test]
fn json_is_the_last_line_and_one_object() {
    let done = Site::new().run(&["-n", "2", "--json", "sh", "-c", "printf unfinished; exit $PMIX_RANK"]);
    assert_eq!(done.code(), 1, "{done:?}");
    let (output, line) = done.out().trim_end().rsplit_once('\n').unwrap();
    assert_eq!(output, "unfinishedunfinished");
    let report: serde_json::Value = serde_json::from_str(line).unwrap();
    assert!(report["nspace"].as_str().unwrap().starts_with("run."));
    assert_eq!((&report["ranks"], &report["exit_code"]), (&2.into(), &1.into()));
    assert_eq!(report["ok"], false);
    assert_eq!(report["first_failure"], serde_json::json!({"rank": 1, "exit": {"code": 1}}));
    assert!(report["seconds"].as_f64().unwrap() > 0.0 && report["schema"] == 1);
    assert_eq!(report["server"]["connections"], 0);
    let procs = report["procs"].as_array().unwrap();
    assert_eq!(procs.len(), 2);
    assert!(procs[1]["executable"].as_str().unwrap().ends_with("/sh"));
    assert!(procs[1]["pid"].as_i64().unwrap() > 0);
    assert_eq!(procs[1]["exit_code"], 1);

    let done = Site::new().run(&["--json", "no-such-program"]);
    let report: serde_json::Value = serde_json::from_str(done.out()).unwrap();
    assert_eq!(report["ok"], false);
    assert!(report["error"].as_str().unwrap().contains("no-such-program"));
}

#[test]
fn a_job_that_takes_too_long_ends_with_124() {
    let text = "trap '' TERM; sleep 1000";
    let done = Site::new().run(&["-n", "2", "--timeout", "0.2", "--grace", "0.2", "sh", "-c", text]);
    assert_eq!(done.code(), 124, "{done:?}");
    assert!(done.err().contains("--timeout"), "{done:?}");
}

#[test]
fn sigterm_reaches_the_ranks() {
    let site = Site::new();
    let mut run = site.start(&[
        "-n",
        "2",
        "--grace",
        "1000",
        "sh",
        "-c",
        "trap 'echo bye; exit 5' TERM; echo $$; sleep 1000 & wait",
    ]);
    run.pids(2);
    run.signal(Signal::TERM);
    let done = run.finish();
    assert_eq!((done.code(), done.out()), (5, "bye\nbye\n"), "{done:?}");
    assert!(!done.err().contains("failed"), "what was asked for is no failure: {done:?}");
}

#[test]
fn ranks_that_end_by_the_signal_give_its_code() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 143)] {
        // under nohup, this test and what it starts outlive a terminal
        let status = procfs::process::Process::myself().and_then(|process| process.status()).unwrap();
        if signal == Signal::HUP && status.sigign >> (signal.as_raw() - 1) & 1 == 1 {
            continue;
        }
        let site = Site::new();
        // the shell waits for its child, which must get the signal too
        let text = "sh -c 'echo $$; exec sleep 1000'; echo not reached";
        let mut run = site.start(&["-n", "2", "--grace", "1000", "sh", "-c", text]);
        let pids = run.pids(2);
        // a shell that is about to become another program may miss a signal
        block_until("the children sleep", || pids.iter().all(|&pid| program(pid) == "sleep"));
        run.signal(signal);
        let done = run.finish();
        assert_eq!((done.code(), done.out()), (code, ""), "{signal:?}: {done:?}");
        assert!(pids.into_iter().all(|pid| !runs(pid)));
        assert_eq!(site.left(), Vec::<PathBuf>::new());
    }
}

#[test]
fn signals_that_do_not_end_a_job_are_passed_on() {
    let site = Site::new();
    let numbers = [
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::VTALARM,
        Signal::PROF,
        Signal::IO,
        Signal::POWER,
        Signal::SYS,
        Signal::ABORT,
        Signal::XCPU,
        Signal::URG,
        Signal::CONT,
    ];
    let numbers = numbers.map(|signal| (signal, signal.as_raw().to_string()));
    let named: Vec<_> = numbers.iter().map(|(_, number)| number.as_str()).collect();
    let script = format!(
        "for n in {}; do trap \"echo $n\" $n; done; trap 'exit 6' TERM; echo $$; while :; do sleep 0.02; done",
        named.join(" ")
    );
    let mut run = site.start(&["sh", "-c", &script]);
    run.pids(1);
    // what it writes to a full file is its own concern
    run.signal(Signal::XFSZ);
    for (signal, number) in numbers {
        run.signal(signal);
        assert_eq!(run.lines(1), [number]);
    }
    run.signal(Signal::TERM);
    assert_eq!(run.finish().code(), 6);
}

#[test]
fn a_second_sigint_ends_at_once() {
    let site = Site::new();
    let mut run = site.start(&[
        "-n",
        "2",
        "--grace",
        "1000",
        "sh",
        "-c",
        "trap 'echo no' INT; echo $$; while :; do sleep 1000 & wait; done",
    ]);
    let pids = run.pids(2);
    run.signal(Signal::INT);
    assert_eq!(run.lines(2), ["no", "no"]);
    run.signal(Signal::INT);
    let done = run.finish();
    assert_eq!(done.code(), 130, "{done:?}");
    assert!(pids.into_iter().all(|pid| !runs(pid)));
    assert_eq!(site.left(), Vec::<PathBuf>::new());
}

#[test]
fn a_second_sigint_ends_also_when_nobody_reads_the_output() {
    let site = Site::new();
    let mut run = site.start(&["-n", "2", "--grace", "1000", "sh", "-c", "trap '' INT; echo $$; yes"]);
    run.lines(1);
    let mut err = BufReader::new(run.child.stderr.take().unwrap());
    run.signal(Signal::INT);
    let mut message = String::new();
    err.read_line(&mut message).unwrap();
    assert!(message.contains("interrupted"), "{message}");
    run.signal(Signal::INT);
    assert_eq!(run.child.wait().unwrap().code(), Some(130));
    assert_eq!(site.left(), Vec::<PathBuf>::new());
}

#[test]
fn a_reader_that_leaves_ends_the_job() {
    let site = Site::new();
    let mut run = site.start(&["-n", "2", "sh", "-c", "while echo $$; do :; done"]);
    run.lines(1);
    drop(run.child.stdout.take());
    let done = run.finish();
    assert_eq!(done.code(), 141, "{done:?}");
    assert!(!done.err().contains("panic"), "{done:?}");
    assert_eq!(site.left(), Vec::<PathBuf>::new());
}

#[test]
fn sessions_side_by_side_do_not_disturb_each_other() {
    let site = Site::new();
    let mut first = site.start(&["sh", "-c", "echo $$; read line; echo $line"]);
    first.pids(1);
    let second = Done(site.pmixrun(&["-n", "2", "echo", "hello"]).output().unwrap());
    assert_eq!((second.code(), second.out()), (0, "hello\nhello\n"), "{second:?}");
    assert_eq!(site.left().len(), 1);
    first.child.stdin.take().unwrap().write_all(b"done\n").unwrap();
    assert_eq!(first.lines(1), ["done"]);
    assert_eq!(first.finish().code(), 0);
    assert!(site.left().is_empty());
    assert!(Path::new(site.root.path()).exists());
}

/// A server takes what files it may; its ranks may close as many as they were to have, one by one.
#[test]
fn ranks_have_the_limit_of_open_files_that_their_launcher_was_given() {
    let hard = hard_limit().to_string();
    let limits = format!("--nofile=256:{hard}");
    let done =
        Site::new().run_below(&["prlimit", &limits], &["-n", "2", "sh", "-c", "ulimit -Sn; ulimit -Hn"]);
    assert_eq!(done.code(), 0, "{done:?}");
    let mut both = ["256", "256", &hard, &hard];
    both.sort_unstable();
    assert_eq!(done.lines(), both);
}
