//! `pmix top` in a pseudo terminal.

use std::path::Path;
use std::process::Command;

use pmix_test_wait::until;
use pmix_tests::{
    Running, Terminal, on_path, plain_environment, pmix, pmixrun, processes_of, program, run, stop,
};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{tcgetwinsize, tcsetwinsize};

/// What a terminal is told when a program has given it back.
const GIVEN_BACK: &str = "\u{1b}[?1049l\u{1b}[?25h";

async fn started(dir: &Path) -> Running {
    program("pmix");
    let mut run = Running::start(pmixrun(dir, &["-n", "2", "sh", "-c", "echo ready; exec sleep 1000"]));
    run.line_with("ready").await;
    run.line_with("ready").await;
    run
}

/// `script` for the servers below a directory; `None`, with a line on standard error, if it is not installed.
fn script(dir: &Path) -> Option<Command> {
    let mut script = Command::new(on_path("script", "apt-get install bsdutils")?);
    plain_environment(&mut script);
    script.env("PMIX_SERVER_TMPDIR", dir).env("PMIX_SYSTEM_TMPDIR", dir).env("SHELL", "/bin/sh");
    Some(script)
}

/// `pmix top` in a terminal of 80 columns and 24 lines.
fn open(dir: &Path) -> Option<Terminal> {
    open_with(dir, "", 80)
}

fn open_with(dir: &Path, options: &str, columns: u16) -> Option<Terminal> {
    let line = format!("{} top{options}", program("pmix").display());
    Some(Terminal::open(script(dir)?, &line, (columns, 24)))
}

#[tokio::test]
async fn jobs_and_ranks_are_shown_and_the_terminal_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let job = started(dir.path()).await;
    let Some(mut top) = open(dir.path()) else { return };
    top.until("SLOWEST").await;
    // it does not wait for a server
    top.until(&format!(".{}", job.pid())).await;
    top.press("\r");
    top.until("RUNNING").await;
    let shown = |args: &[&str]| run(pmix(dir.path(), args)).1;
    let table = shown(&["ps"]);
    let name = table.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    assert_eq!(shown(&["ctrl", "pause", &format!("{name}:1")]), "");
    top.until("paused").await;
    top.press("?");
    top.until("PgUp").await;
    top.press("xq");
    let (code, rest) = top.end().await;
    assert_eq!(code, Some(0), "{rest:?}");
    assert!(rest.contains(GIVEN_BACK), "{rest:?}");
}

#[tokio::test]
async fn a_signal_ends_it_and_gives_the_terminal_back() {
    for (signal, expected) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let dir = tempfile::tempdir().unwrap();
        let Some(mut top) = open(dir.path()) else { return };
        top.until("SLOWEST").await;
        kill_process(pid_of_top(dir.path()), signal).unwrap();
        let (code, rest) = top.end().await;
        assert_eq!(code, Some(expected), "{rest:?}");
        assert!(rest.contains(GIVEN_BACK), "{rest:?}");
    }
}

#[tokio::test]
async fn a_server_that_did_not_answer_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let job = started(dir.path()).await;
    stop(job.pid()).await;
    // which has room for the whole message
    let Some(mut top) = open_with(dir.path(), " --timeout 1", 200) else { return };
    top.until("has not answered within").await;
    kill_process(Pid::from_raw(job.pid()).unwrap(), Signal::CONT).unwrap();
    top.until(&format!(".{}", job.pid())).await;
    // and the line of the message is written again: as a blank one
    top.until("\u{1b}[23;1H").await;
    top.press("q");
    let (code, rest) = top.end().await;
    assert_eq!(code, Some(0), "{rest:?}");
}

#[tokio::test]
async fn it_ends_when_its_terminal_goes_away() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut top) = open(dir.path()) else { return };
    top.until("SLOWEST").await;
    let pid = pid_of_top(dir.path());
    top.go_away().await;
    until_gone(pid).await;
}

#[tokio::test]
async fn a_terminal_that_takes_nothing_holds_back_no_signal() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut top) = open(dir.path()) else { return };
    top.until("SLOWEST").await;
    let pid = pid_of_top(dir.path());
    stop(top.pid()).await;
    // each size has a picture drawn as a whole, until the terminal has no room
    let terminal = format!("/proc/{}/fd/1", pid.as_raw_pid());
    let terminal = rustix::fs::open(terminal, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let mut size = tcgetwinsize(&terminal).unwrap();
    let mut writes_since = 0;
    until("it is stuck in a write", || {
        size.ws_col = if size.ws_col == 80 { 200 } else { 80 };
        tcsetwinsize(&terminal, size).unwrap();
        writes_since = if is_writing(pid) { writes_since + 1 } else { 0 };
        writes_since == 50
    })
    .await;
    kill_process(pid, Signal::TERM).unwrap();
    until_gone(pid).await;
    top.go_away().await;
}

/// Whether the thread that writes pictures is in a call of `write`.
fn is_writing(pid: Pid) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_pid())).unwrap();
    tasks.flatten().any(|task| {
        let read = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        read("comm").trim() == "picture" && read("syscall").starts_with(WRITE)
    })
}

/// The number of the call, and a blank.
const WRITE: &str = if cfg!(target_arch = "x86_64") { "1 " } else { "64 " };

fn pid_of_top(dir: &Path) -> Pid {
    let line = format!("{} top", program("pmix").display());
    let mut found = processes_of(dir).into_iter();
    // it has shown something, so it is there
    let (pid, _) = found.find(|(_, words)| words.trim_end() == line).unwrap();
    Pid::from_raw(pid).unwrap()
}

async fn until_gone(pid: Pid) {
    until("it ends", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
        // a zombie, if its parent does not wait for it
        let has_ended =
            matches!(stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next()), None | Some('Z'));
        if has_ended { Ok(()) } else { Err(stat) }
    })
    .await;
}

#[tokio::test]
async fn a_terminal_that_does_not_control_it_is_not_called_standard_output() {
    let dir = tempfile::tempdir().unwrap();
    let Some(script) = script(dir.path()) else { return };
    // in a session of its own, no terminal is its
    let line = format!("setsid -w {} top </dev/null", program("pmix").display());
    let (code, shown) = Terminal::open(script, &line, (80, 24)).end().await;
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.starts_with("pmix: top: cannot use the terminal: "), "{shown}");
}
