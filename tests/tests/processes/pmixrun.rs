//! Real processes: of a server in this process, and of `pmixrun`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use pmix_test_wait::until;
use pmix_tests::{Running, TestNode, pid_of, pmix, processes_of, rank_program, run};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

#[tokio::test]
async fn processes_exchange_data_through_a_fence() {
    let node = TestNode::start(4).await;
    let mut ranks = Vec::new();
    for rank in node.local() {
        ranks.push(Running::rank(&node, &node.proc(rank.to_raw()), &["put-commit-get", "3"]).await);
    }
    for rank in ranks {
        let (status, out, err) = rank.end().await;
        assert!(status.success(), "{err}");
        assert!(out.contains("read 12 values") && out.ends_with("finalized\n"), "{out}");
    }
    let stats = node.stats().await;
    assert_eq!((stats.fences, stats.connections, stats.waiting), (1, 4, 0));
}

#[tokio::test]
async fn fen_13_seven_of_eight_hear_within_a_second_that_one_was_killed() {
    let node = TestNode::start(8).await;
    let mut ranks = Vec::new();
    for rank in node.local() {
        ranks.push(Running::rank(&node, &node.proc(rank.to_raw()), &["fence-without", "3"]).await);
    }
    let mut victim = ranks.remove(3);
    victim.line_with("blocked").await;
    node.until_waiting(7).await;
    victim.kill();
    // the fence has no limit: nothing else ends it
    for rank in ranks {
        let (status, _, err) = rank.end().await;
        assert_eq!(status.code(), Some(3), "{err}");
        assert!(err.contains("[job:3]") && err.contains("ERR_PROC_TERM_WO_SYNC"), "{err}");
    }
    node.until_waiting(0).await;
}

#[tokio::test]
async fn ini_02_a_program_that_was_not_launched_says_what_to_do() {
    let mut command = Command::new(rank_program());
    command.env_clear().arg("fence");
    let (status, _, err) = Running::start(command).end().await;
    assert_eq!(status.code(), Some(3));
    assert!(err.contains("PMIX_GRPC_URI") && err.contains("pmixrun"), "{err}");
}

/// `pmixrun` with a session directory of its own.
fn pmixrun(dir: &TempDir, args: &[&str]) -> Running {
    let mut command = pmix_tests::plain_pmixrun();
    command.env("PMIXRUN_RECORD", "none");
    command.args(args).env("PMIX_SERVER_TMPDIR", dir.path()).env_remove("RUST_LOG");
    Running::start(command)
}

/// `pmixrun` with so many ranks of the rank program.
fn run_ranks(dir: &TempDir, count: &str, act: &[&str]) -> Running {
    let rank = rank_program();
    let args = [&["--tag-output", "-n", count, rank.to_str().unwrap()], act].concat();
    pmixrun(dir, &args)
}

/// The same, but it ends no rank when another one has failed: those that are left end by themselves.
fn run_ranks_that_react(dir: &TempDir, count: &str, act: &[&str]) -> Running {
    let rank = rank_program();
    let options = ["--reaction", "100000", "--tag-output", "-n", count, rank.to_str().unwrap()];
    pmixrun(dir, &[&options, act].concat())
}

/// Waits for the ranks to connect.
async fn until_connected(run: &mut Running, ranks: usize) {
    for _ in 0..ranks {
        run.line_with("connected to").await;
    }
}

/// Whether `pmixrun` tells that this rank was killed.
fn named(err: &str, rank: u32) -> bool {
    let words = [format!("rank {rank} ("), "failed: signal 9 (SIGKILL)".to_owned()];
    err.lines().any(|line| line.starts_with("pmixrun:") && words.iter().all(|word| line.contains(word)))
}

/// Directories of servers.
fn servers_in(dir: &TempDir) -> Vec<PathBuf> {
    let users = dir.path().read_dir().unwrap().flatten();
    let inside = users.filter_map(|user| user.path().read_dir().ok()).flatten().flatten();
    inside.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// What must hold as soon as `pmixrun` has ended.
fn nothing_is_left(dir: &TempDir) {
    assert_eq!(processes_of(dir.path()), []);
    let files: Vec<_> = dir.path().read_dir().unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(files.is_empty(), "{files:?}");
}

#[tokio::test]
async fn pmixrun_runs_a_fence_of_four() {
    let dir = tempfile::tempdir().unwrap();
    let (status, out, err) = run_ranks(&dir, "4", &["fence"]).end().await;
    assert_eq!(status.code(), Some(0), "{err}");
    for rank in 0..4 {
        assert!(out.contains(&format!("[{rank}]<stdout>: finalized\n")), "{out}");
    }
    nothing_is_left(&dir);
}

#[tokio::test]
async fn pmixrun_runs_an_exchange_of_data_between_two_applications() {
    let dir = tempfile::tempdir().unwrap();
    let rank = rank_program();
    let rank = rank.to_str().unwrap();
    let args = ["-n", "3", rank, "put-commit-get", "2", ":", "-n", "1", rank, "put-commit-get", "2"];
    let (status, out, err) = pmixrun(&dir, &args).end().await;
    assert_eq!(status.code(), Some(0), "{err}");
    assert_eq!(out.matches("read 8 values").count(), 4, "{out}");
    nothing_is_left(&dir);
}

#[tokio::test]
async fn pmixrun_gives_the_exit_code_of_the_rank_that_failed() {
    let dir = tempfile::tempdir().unwrap();
    let (status, _, err) = run_ranks(&dir, "2", &["fence-then-exit", "5"]).end().await;
    assert_eq!(status.code(), Some(5), "{err}");
    nothing_is_left(&dir);
}

#[tokio::test]
async fn fen_13_pmixrun_names_the_rank_that_was_killed_inside_a_fence() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = run_ranks_that_react(&dir, "8", &["fence-without", "3"]);
    let mut fencing = 0;
    let mut blocked = false;
    while fencing < 7 || !blocked {
        let line = run.line().await.unwrap();
        fencing += usize::from(line.contains("fencing"));
        blocked |= line.contains("[3]<stdout>: blocked");
    }
    kill(pid_of(dir.path(), 3));
    let (status, _, err) = run.end().await;
    assert_eq!(status.code(), Some(137), "{err}");
    assert!(named(&err, 3), "pmixrun names it: {err}");
    for rank in (0..8).filter(|rank| *rank != 3) {
        let told = err.lines().any(|line| line.starts_with(&format!("[{rank}]")) && line.contains(":3]"));
        assert!(told, "rank {rank} was not told: {err}");
    }
    nothing_is_left(&dir);
}

#[tokio::test]
async fn pmixrun_reports_a_rank_that_dies_before_the_fence() {
    let dir = tempfile::tempdir().unwrap();
    let (status, _, err) = run_ranks(&dir, "4", &["die-before-fence", "1"]).end().await;
    assert_eq!(status.code(), Some(137), "{err}");
    assert!(named(&err, 1), "{err}");
    nothing_is_left(&dir);
}

#[tokio::test]
async fn evt_20_the_others_hear_of_a_death_as_an_event() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = run_ranks_that_react(&dir, "4", &["listen-without", "2"]);
    for _ in 0..3 {
        run.line_with("listening").await;
    }
    kill(pid_of(dir.path(), 2));
    let (status, out, err) = run.end().await;
    assert_eq!(status.code(), Some(137), "{err}");
    for rank in [0, 1, 3] {
        let heard = format!("[{rank}]<stdout>: heard ERR_PROC_TERM_WO_SYNC about run.");
        let told = out.lines().any(|line| line.starts_with(&heard) && line.ends_with(":2"));
        assert!(told, "rank {rank}: {out}");
    }
    nothing_is_left(&dir);
}

#[tokio::test]
async fn abt_01_pmixrun_gives_the_status_of_an_abort() {
    let dir = tempfile::tempdir().unwrap();
    let (status, _, err) = run_ranks(&dir, "4", &["abort", "7"]).end().await;
    assert_eq!(status.code(), Some(7), "{err}");
    assert!(err.contains("told to"), "its message reaches the user: {err}");
    nothing_is_left(&dir);
}

#[tokio::test]
async fn what_ranks_tell_of_an_abort_is_one_line_and_cannot_act_on_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let message = "bad\u{1b}[2J\r\npmixrun: forged\u{9b}1m\u{202e}";
    let (status, _, err) = run_ranks(&dir, "2", &["abort", "7", message]).end().await;
    assert_eq!(status.code(), Some(7), "{err}");
    let shown = r"called abort with status 7: bad\u{1b}[2J\r\npmixrun: forged\u{9b}1m\u{202e}";
    assert!(err.lines().any(|line| line.starts_with("pmixrun: ") && line.ends_with(shown)), "{err}");
    assert!(is_clean(&err), "{err:?}");
    nothing_is_left(&dir);
}

#[tokio::test]
async fn the_name_of_a_program_cannot_act_on_the_terminal_of_who_looks_at_it() {
    let dir = tempfile::tempdir().unwrap();
    let place = tempfile::tempdir().unwrap();
    let evil = place.path().join("x\u{1b}[2J\nforged\u{9b}1m\u{202e}");
    std::os::unix::fs::symlink(rank_program(), &evil).unwrap();
    let mut run = pmixrun(&dir, &[evil.to_str().unwrap(), "block"]);
    until_connected(&mut run, 1).await;
    let shows = async |args: &[&str]| {
        let (status, shown, err) = Running::start(pmix(dir.path(), args)).end().await;
        assert!(status.success() && is_clean(&shown) && is_clean(&err), "{args:?}: {shown:?} {err:?}");
        shown
    };
    let table = shows(&["ps"]).await;
    assert!(table.lines().nth(1).unwrap().ends_with(r"x\u{1b}[2J\nforged\u{9b}1m\u{202e}"), "{table}");
    let json = shows(&["ps", "--json"]).await;
    assert!(json.contains(r"x\u001b[2J\nforged\u009b1m\u202e"), "{json}");
    let nspace = table.lines().nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    let of_job = format!("pmix.nspace={nspace}");
    let told = shows(&["query", "pmix.qry.ptable", "-q", &of_job]).await;
    assert!(told.contains(r"x\u{1b}[2J\nforged"), "{told}");
    // and when it is killed, and when there is no such program
    kill(pid_of(dir.path(), 0));
    let (_, _, err) = run.end().await;
    assert!(named(&err, 0) && is_clean(&err), "{err:?}");
    let (status, _, err) = pmixrun(&dir, &["./no\u{1b}[2J\nsuch"]).end().await;
    assert_eq!((status.code(), is_clean(&err)), (Some(1), true), "{err:?}");
    assert!(err.contains(r"no\u{1b}[2J\nsuch"), "{err}");
    nothing_is_left(&dir);
}

/// Whether nothing in it acts on a terminal but the ends of lines.
fn is_clean(text: &str) -> bool {
    !text.contains(|c: char| c != '\n' && (c.is_control() || c == '\u{202e}'))
}

#[tokio::test]
async fn abt_01_an_abort_of_one_rank_ends_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let (status, _, err) = run_ranks(&dir, "3", &["abort", "9", "you go", "2"]).end().await;
    assert_eq!(status.code(), Some(9), "{err}");
    assert!(err.contains("rank 0 called abort for rank 2 with status 9: you go"), "{err}");
    nothing_is_left(&dir);
}

#[tokio::test]
async fn abt_01_an_abort_with_status_0_is_no_success() {
    let dir = tempfile::tempdir().unwrap();
    let (status, _, err) = run_ranks(&dir, "4", &["abort", "0"]).end().await;
    assert_eq!(status.code(), Some(1), "{err}");
    nothing_is_left(&dir);
}

#[tokio::test]
async fn a_rank_that_leaves_without_finalize_has_failed() {
    let dir = tempfile::tempdir().unwrap();
    let (status, _, err) = run_ranks(&dir, "2", &["leave"]).end().await;
    assert_eq!(status.code(), Some(1), "{err}");
    let said = |line: &str| {
        line.starts_with("pmixrun: rank ")
            && line.contains(" ended with code 0 but without finalize; ending the job")
    };
    assert!(err.lines().any(said), "{err}");
    nothing_is_left(&dir);
}

#[tokio::test]
async fn pmix_ps_shows_the_ranks_and_their_process_ids_while_they_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = run_ranks(&dir, "3", &["block"]);
    until_connected(&mut run, 3).await;
    let (status, table, err) = Running::start(pmix(dir.path(), &["ps", "--ranks"])).end().await;
    assert!(status.success(), "{err}");
    for rank in 0..3 {
        let pid = pid_of(dir.path(), rank).to_string();
        let has = |line: &str| {
            let words: Vec<_> = line.split(|c: char| !c.is_ascii_alphanumeric()).collect();
            words.contains(&rank.to_string().as_str()) && words.contains(&pid.as_str())
        };
        assert!(table.lines().any(has), "rank {rank} with pid {pid} is not in\n{table}");
    }
    run.signal(Signal::TERM);
    run.end().await;
    nothing_is_left(&dir);
}

#[tokio::test]
async fn the_ranks_end_when_pmixrun_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = run_ranks(&dir, "3", &["block"]);
    until_connected(&mut run, 3).await;
    let ranks: Vec<_> = (0..3).map(|rank| pid_of(dir.path(), rank)).collect();
    assert!(ranks.iter().all(|pid| test_kill_process(Pid::from_raw(*pid).unwrap()).is_ok()));
    run.kill();
    until("nothing is left", || {
        let left = (processes_of(dir.path()), servers_in(&dir));
        if left == (Vec::new(), Vec::new()) { Ok(()) } else { Err(left) }
    })
    .await;
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_job_for_which_the_launcher_has_too_few_files_is_refused_before_any_process_starts() {
    let dir = tempfile::tempdir().unwrap();
    let of = |ranks: &str| {
        let job = pmix_tests::pmixrun(dir.path(), &["-n", ranks, "echo", "started"]);
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 500; exec \"$@\"", "sh"]).arg(job.get_program()).args(job.get_args());
        command.envs(job.get_envs().filter_map(|(name, value)| Some((name, value?))));
        run(command)
    };
    let (code, out, err) = of("200");
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(
        err.contains("for 200 processes the launcher needs 600 open files, but may have only 4"),
        "{err}"
    );
    let (code, out, err) = of("70");
    assert_eq!((code, out.lines().count()), (Some(0), 70), "{err}");
}

/// A shell that runs a script, for which `$0` is `pmixrun`.
fn shell(dir: &TempDir, script: &str) -> Command {
    let pmixrun = pmix_tests::plain_pmixrun();
    let mut command = Command::new("sh");
    pmix_tests::outside_allocations(&mut command);
    command.args(["-c", script]).arg(pmixrun.get_program());
    command.env("PMIX_SERVER_TMPDIR", dir.path()).env("PMIXRUN_RECORD", "none").env_remove("RUST_LOG");
    command
}

#[tokio::test]
async fn pmixrun_outlives_a_terminal_if_it_is_started_so() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"trap "" HUP; exec "$0" -n 1 sh -c "echo here; exec cat""#;
    let mut run = Running::start_with_input(shell(&dir, script));
    run.line_with("here").await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", run.pid())).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    let ignores = |signal: Signal| ignored >> (signal.as_raw() - 1) & 1 == 1;
    assert!(ignores(Signal::HUP) && !ignores(Signal::TERM), "{status}");
    run.signal(Signal::HUP);
    run.write("still here\n").await;
    run.line_with("still here").await;
    let (status, _, err) = run.end().await;
    assert_eq!(status.code(), Some(0), "{err}");
    nothing_is_left(&dir);
}

#[tokio::test]
async fn pmixrun_says_that_the_last_output_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let (status, _, err) = Running::start(shell(&dir, r#"exec "$0" -n 1 echo hi > /dev/full"#)).end().await;
    assert_eq!(status.code(), Some(1), "{err}");
    assert!(err.contains("pmixrun: cannot write to standard output: No space left on device"), "{err}");
    assert!(!err.contains("signals"), "{err}");
    nothing_is_left(&dir);
}

#[tokio::test]
async fn pmixrun_forwards_input_that_is_not_there_yet_from_a_pipe_that_does_not_block() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&reader, true).unwrap();
    let mut command = pmix_tests::plain_pmixrun();
    command.args(["--stdin", "all", "sh", "-c", "echo here; exec cat"]);
    command.env("PMIX_SERVER_TMPDIR", dir.path()).env("PMIXRUN_RECORD", "none");
    let mut run = Running::start_with(command, reader.into());
    run.line_with("here").await;
    for text in ["one\n", "two\n"] {
        writer.write_all(text.as_bytes()).unwrap();
        run.line_with(text.trim_end()).await;
    }
    drop(writer);
    let (status, _, err) = run.end().await;
    assert_eq!(status.code(), Some(0), "{err}");
    nothing_is_left(&dir);
}
