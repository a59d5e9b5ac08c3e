//! `pmix stack`: what ranks notice of it, and what becomes of those that cannot be looked at.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pmix_test_wait::{until, within};
use pmix_tests::{
    OtherUser, Running, executable, on_path, pid_of, pmix, pmixrun, processes_of, program, rank_program, run,
    stop,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process;

/// eu-stack, or `None` and a line on standard error.
fn is_installed() -> bool {
    on_path("eu-stack", "apt-get install elfutils").is_some()
}

fn stack(dir: &Path, args: &[&str]) -> Command {
    pmix(dir, &[&["stack"], args].concat())
}

fn json(command: Command) -> (Option<i32>, Value) {
    let (code, out, err) = run(command);
    let report = serde_json::from_str::<Value>(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    (code, report)
}

/// State of a process, and by whom it is traced.
fn state(pid: i32) -> (String, String) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    (value("State:"), value("TracerPid:"))
}

/// The debugger works on a copy: however long it takes, the rank is not stopped meanwhile.
#[tokio::test]
async fn a_rank_is_stopped_for_less_than_100_ms() {
    let Some(eu_stack) = on_path("eu-stack", "apt-get install elfutils") else { return };
    let dir = tempfile::tempdir().unwrap();
    let [begun, answer, go] = ["begun", "answer", "go"].map(|name| dir.path().join(name));
    let computes =
        format!("echo here; while ! test -e {}; do :; done; echo went on; exec sleep 1000", answer.display());
    let mut job = Running::start(pmixrun(dir.path(), &["-n", "1", "sh", "-c", &computes]));
    job.line_with("here").await;
    // takes until it is let go
    let script = format!(
        "#!/bin/sh\necho > {}\nwhile ! test -e {}; do sleep 0.01; done\nexec {} \"$@\"\n",
        begun.display(),
        go.display(),
        eu_stack.display()
    );
    executable(&dir.path().join("bin/eu-stack"), &script);
    let mut command = stack(dir.path(), &["--json"]);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", dir.path().join("bin").display()));
    let tool = Running::start(command);
    until("the debugger has begun", || begun.exists()).await;
    fs::write(&answer, "").unwrap();
    job.line_with("went on").await;
    fs::write(&go, "").unwrap();
    let (status, out, err) = tool.end().await;
    let report = serde_json::from_str::<Value>(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!(
        (status.code(), &report["jobs"][0]["procs"][0]["outcome"]),
        (Some(0), &"stack".into()),
        "{out}"
    );
    job.signal(Signal::TERM);
    job.end().await;
}

#[tokio::test]
async fn ranks_go_on_whenever_the_tool_is_killed() {
    if !is_installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = pmixrun(dir.path(), &["-n", "2"]);
    command.arg(rank_program()).arg("block");
    let mut job = Running::start(command);
    for _ in 0..2 {
        job.line_with("connected to").await;
    }
    let pids = [pid_of(dir.path(), 0), pid_of(dir.path(), 1)];
    stop(pids[1]).await;
    // at moments that are spread over about as long as it takes
    let mut killed = 0;
    for turn in 0..60 {
        let mut tool = process::Command::from(stack(dir.path(), &["--json"]));
        tool.stdout(std::process::Stdio::null()).kill_on_drop(true);
        let mut tool = tool.spawn().unwrap();
        if tokio::time::timeout(Duration::from_micros(500 * turn), tool.wait()).await.is_err() {
            killed += 1;
            let signal = if turn % 2 == 0 { Signal::KILL } else { Signal::INT };
            kill_process(Pid::from_raw(tool.id().unwrap().cast_signed()).unwrap(), signal).unwrap();
            within(tool.wait()).await.unwrap();
        }
        // the kernel may not have let it go on yet
        let expected = ["S", "T"].map(|state| (state.to_owned(), "0".to_owned()));
        until("the ranks are as they were", || {
            let states = pids.map(state);
            if states == expected { Ok(()) } else { Err(states) }
        })
        .await;
    }
    assert!(killed > 0);
    let (code, report) = json(stack(dir.path(), &["--json"]));
    let procs = &report["jobs"][0]["procs"];
    assert_eq!(
        (code, &procs[0]["is_stopped"], &procs[1]["is_stopped"]),
        (Some(0), &false.into(), &true.into())
    );
    job.signal(Signal::TERM);
    job.end().await;
    assert_eq!(processes_of(dir.path()), []);
}

#[tokio::test]
async fn ranks_of_simulated_nodes_are_looked_at_and_others_are_counted() {
    if !is_installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = pmixrun(dir.path(), &["--vnodes", "2", "-n", "4"]);
    command.arg(rank_program()).args(["fence-without", "2"]);
    let mut job = Running::start(command);
    for _ in 0..4 {
        job.line_with("connected to").await;
    }
    let (code, out, err) = run(stack(dir.path(), &["--ranks", "1-3,9"]));
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("All 3 ranks are in ") && out.contains("\nrank 9: not in this job\n"), "{out}{err}");
    let (code, report) = json(stack(dir.path(), &["--json"]));
    assert_eq!(code, Some(0), "{report:#}");
    let outcomes: Vec<_> =
        report["jobs"][0]["procs"].as_array().unwrap().iter().map(|proc| &proc["outcome"]).collect();
    assert_eq!(outcomes, ["stack"; 4], "{report:#}");
    job.signal(Signal::TERM);
    job.end().await;

    let (code, out, err) = run(stack(dir.path(), &["nope", "--json"]));
    assert_eq!((code, out.contains("\"jobs\": []")), (Some(1), true), "{out}{err}");
    let (code, _, err) = run(stack(dir.path(), &["--ranks", "3-1"]));
    assert!(code == Some(2) && err.contains("runs backwards"), "{err}");
}

/// Programs that may be executed and not read are not traced. Root could, but would have debuggers of their user read what that may not.
#[tokio::test]
async fn one_that_may_not_be_traced_is_named_with_what_to_do() {
    let (true, Some(user)) = (is_installed(), OtherUser::second()) else { return };
    let rank = user.copy_of(&rank_program());
    fs::set_permissions(&rank, Permissions::from_mode(0o711)).unwrap();
    let mut command = user.command(user.copy_of(&program("pmixrun")));
    command.args(["-n", "2"]).arg(&rank).arg("block").env("PMIXRUN_RECORD", "none");
    let mut job = Running::start(command);
    for _ in 0..2 {
        job.line_with("connected to").await;
    }
    let as_user = |args: &[&str]| {
        let mut command = user.command(user.copy_of(&program("pmix")));
        command.args(args);
        command
    };
    let (code, out, err) = run(as_user(&["stack"]));
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.starts_with("There is no stack to show.\nrank 0: process "), "{out}{err}");
    assert_eq!(
        out.replace('\n', " ").matches("may not be traced; a container needs CAP_SYS_PTRACE").count(),
        2,
        "{out}"
    );
    let servers = json(as_user(&["ps", "--json"])).1;
    let uri = servers["servers"][0]["uri"].as_str().unwrap();
    let uid = user.uid.to_string();
    let (code, out, err) = run(stack(user.home(), &["--uri", uri, "--trust-uid", &uid]));
    assert_eq!(code, Some(1), "{out}{err}");
    assert_eq!(out.replace('\n', " ").matches("its user may not look at it").count(), 2, "{out}");
    job.signal(Signal::TERM);
    job.end().await;
}

/// Functions of Python with those that they have called, or a line on standard error.
#[tokio::test]
async fn processes_of_python_show_its_functions() {
    let python = std::env::var_os("PMIX_PYTHON").unwrap_or_else(|| "python3".into());
    let beside = Path::new(&python).with_file_name("py-spy");
    let found = Some(beside).filter(|file| file.is_absolute() && file.is_file());
    let Some(py_spy) = found.or_else(|| on_path("py-spy", "pip install py-spy")) else { return };
    if !is_installed() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("late.py");
    fs::write(
        &program,
        "import time\ndef late():\n    print('here', flush=True)\n    time.sleep(1000)\nlate()\n",
    )
    .unwrap();
    let mut command = pmixrun(dir.path(), &["-n", "2"]);
    command.arg(python).arg(program);
    let mut job = Running::start(command);
    for _ in 0..2 {
        job.line_with("here").await;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = std::iter::once(py_spy.parent().unwrap().to_owned());
    let path = std::env::join_paths(beside.chain(std::env::split_paths(&path))).unwrap();
    for (with, by) in [("auto", "py-spy and eu-stack"), ("py-spy", "py-spy")] {
        // it may look just before they sleep
        let report = until("both ranks sleep", || {
            let mut command = stack(dir.path(), &["--json", "--with", with]);
            command.env("PATH", &path);
            let (code, report) = json(command);
            assert_eq!(code, Some(0), "{report:#}");
            if report["jobs"][0]["places"][0]["count"] == 2 { Ok(report) } else { Err(report) }
        })
        .await;
        let job = &report["jobs"][0];
        assert_eq!(job["procs"][1]["by"], by, "{report:#}");
        assert_eq!(job["answer"], "All 2 ranks are in late, called from <module>.", "{report:#}");
        let (outer, inner) = (&job["tree"][0], &job["tree"][0]["children"][0]);
        assert_eq!(
            (&outer["sources"][0], &outer["ranks"]),
            (&"late.py:5".into(), &"0-1".into()),
            "{report:#}"
        );
        assert_eq!(
            (&inner["function"], &inner["children"]),
            (&"late".into(), &Value::Array(vec![])),
            "{report:#}"
        );
    }
    job.signal(Signal::TERM);
    job.end().await;
}
