//! `pmix-mpir`, under a gdb that takes the part of a debugger which knows only MPIR.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use pmix_test_wait::until;
use pmix_tests::{
    OtherUser, Peer, Running, on_path, plain_environment, pmixrun, processes_of, program, rank_program, run,
};

/// `pmix-mpir` under gdb, which reads the table and then does this. `None` without gdb.
fn debugger(dir: &Path, then: &[&str], args: &[&str]) -> Option<Command> {
    let gdb = on_path("gdb", "apt-get install gdb")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("processes/mpir.gdb");
    let mut command = Command::new(gdb);
    command.args(["-nx", "-q", "-batch", "-x"]).arg(script);
    then.iter().for_each(|then| {
        command.args(["-ex", then]);
    });
    command.arg("--args").arg(program("pmix-mpir")).args(args);
    plain_environment(&mut command);
    command.env("PMIX_SERVER_TMPDIR", dir).env("PMIX_SYSTEM_TMPDIR", dir).env("TMPDIR", dir);
    command.env("PMIXRUN_RECORD", "none");
    Some(command)
}

const GO_ON: [&str; 2] = ["continue", "quit $_exitcode"];

/// A launcher with a job of three ranks that end with code 3, and may fail without being called off.
fn launcher() -> Vec<String> {
    let words = ["--timeout", "600", "--reaction", "600", "-n", "3"];
    let program = program("pmixrun").display().to_string();
    let job = [rank_program().display().to_string(), "fence-then-exit".into(), "3".into()];
    std::iter::once(program).chain(words.map(Into::into)).chain(job).collect()
}

fn words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Host, executable and process id of each rank, as the debugger has read them; it has found each alive, with this rank.
fn table(out: &str) -> Vec<(String, String, i32)> {
    let rows = out.lines().filter(|line| line.starts_with("rank ") && line.contains(": "));
    let rows: Vec<_> = rows
        .enumerate()
        .map(|(rank, line)| {
            let line = line.strip_prefix(&format!("rank {rank}: ")).unwrap_or_else(|| panic!("{out}"));
            let [host, program, pid] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            (host.to_owned(), program.to_owned(), pid.parse().unwrap())
        })
        .collect();
    let found: Vec<_> = out.lines().filter(|line| line.starts_with("PMIX_RANK=")).collect();
    assert_eq!(found, (0..rows.len()).map(|rank| format!("PMIX_RANK={rank}")).collect::<Vec<_>>(), "{out}");
    rows
}

#[test]
fn a_debugger_that_knows_only_mpir_finds_all_ranks_in_init() {
    let dir = tempfile::tempdir().unwrap();
    let Some(debugger) = debugger(dir.path(), &GO_ON, &words(&launcher())) else { return };
    let (code, out, err) = run(debugger);
    // the code of the job
    assert_eq!(code, Some(3), "{out}{err}");
    let (before, after) = out.split_once("connected to").unwrap_or_else(|| panic!("{out}{err}"));
    assert!(before.contains("state 1, ranks 3\n") && after.contains("fencing"), "{out}{err}");
    let host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let table = table(before);
    assert_eq!(table.len(), 3, "{out}{err}");
    for (on, program, _) in table {
        assert_eq!((on, program), (host.clone(), rank_program().display().to_string()));
    }
    assert_eq!(processes_of(dir.path()), []);
}

#[test]
fn the_debugger_hears_why_there_is_no_job() {
    let dir = tempfile::tempdir().unwrap();
    let pmixrun = program("pmixrun").display().to_string();
    for (launcher, expected, why) in [
        (
            vec![&*pmixrun, "-n", "2", "no-such-program"],
            1,
            "pmixrun has ended before all of its ranks were in init: exit status: 1",
        ),
        // ranks that never are
        (
            vec![&*pmixrun, "-n", "2", "true"],
            0,
            "pmixrun has ended before all of its ranks were in init: exit status: 0",
        ),
        (
            vec!["no-such-launcher"],
            127,
            "no-such-launcher has ended before all of its ranks were in init: exit status: 127",
        ),
    ] {
        let Some(debugger) = debugger(dir.path(), &GO_ON, &launcher) else { return };
        let (code, out, err) = run(debugger);
        assert_eq!(code, Some(expected), "{out}{err}");
        assert!(out.contains("state 2, ranks 0\naborted: ") && out.contains(why), "{out}{err}");
    }
    assert_eq!(processes_of(dir.path()), []);
}

#[test]
fn root_makes_no_directory_for_a_debugger_where_another_user_has_planted_a_link() {
    let Some(bob) = OtherUser::third() else { return };
    let (dir, roots) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let link = bob.home().join("dir");
    symlink(roots.path(), &link).unwrap();
    for (place, why) in [(&*link, "is a link"), (bob.home(), "other users may replace")] {
        let Some(mut debugger) = debugger(dir.path(), &GO_ON, &words(&launcher())) else { return };
        debugger.env("TMPDIR", place);
        let (code, out, err) = run(debugger);
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(out.contains("state 2, ranks 0\naborted: ") && out.contains(why), "{out}{err}");
    }
}

#[tokio::test]
async fn the_launcher_and_its_job_end_with_a_debugger_that_ends_what_it_debugs() {
    let dir = tempfile::tempdir().unwrap();
    let Some(debugger) = debugger(dir.path(), &["kill"], &words(&launcher())) else { return };
    let (code, out, err) = run(debugger);
    assert!(code == Some(0) && table(&out).len() == 3 && !out.contains("connected to"), "{out}{err}");
    // not only at last
    assert!(!err.contains("--timeout"), "{err}");
    until("all processes end", || {
        let left = processes_of(dir.path());
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

#[tokio::test]
async fn a_debugger_attaches_to_a_job_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo here; read line; exit 5";
    let words = ["--reaction", "600", "--stdin", "all", "-n", "2", "sh", "-c", script];
    let mut job = Running::start_with_input(pmixrun(dir.path(), &words));
    for _ in 0..2 {
        job.line_with("here").await;
    }
    let pid = job.pid().to_string();
    let Some(command) = debugger(dir.path(), &GO_ON, &["--pid", &pid]) else { return };
    let mut gdb = Running::start(command);
    let mut read = String::new();
    while read.matches("PMIX_RANK=").count() < 2 {
        read.push_str(&gdb.line().await.unwrap_or_else(|| panic!("{read}")));
        read.push('\n');
    }
    assert!(read.contains("state 1, ranks 2\n") && table(&read)[1].1.ends_with("sh"), "{read}");
    assert!(gdb.is_running());
    assert_eq!(job.end().await.0.code(), Some(5));
    let (status, out, err) = gdb.end().await;
    assert_eq!(status.code(), Some(5), "{out}{err}");

    for (job, why) in
        [("1", "no PMIx server of this user with pid 1"), (&*pid, "no PMIx server of this user with pid")]
    {
        let Some(command) = debugger(dir.path(), &GO_ON, &["--pid", job]) else { return };
        let (code, out, err) = run(command);
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(out.contains("state 2, ranks 0\naborted: ") && out.contains(why), "{out}{err}");
    }
}

#[test]
fn ranks_of_open_mpi_5_wait_for_a_debugger_that_knows_only_mpir() {
    let Some(program) = Peer::OpenMpi5.program("mpi_suite") else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut words = launcher();
    words.truncate(words.len() - 3);
    words.extend([program.display().to_string(), "3".into()]);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let Some(debugger) = debugger(dir.path(), &GO_ON, &words) else { return };
    let (code, out, err) = run(debugger);
    assert_eq!((code, table(&out).len()), (Some(0), 3), "{out}{err}");
}

#[test]
fn all_symbols_are_there() {
    let Some(nm) = on_path("nm", "apt-get install binutils") else { return };
    let mut command = Command::new(nm);
    command.arg(program("pmix-mpir"));
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{err}");
    for name in [
        "MPIR_Breakpoint",
        "MPIR_being_debugged",
        "MPIR_debug_abort_string",
        "MPIR_debug_state",
        "MPIR_i_am_starter",
        "MPIR_partial_attach_ok",
        "MPIR_proctable",
        "MPIR_proctable_size",
    ] {
        // global, as those of a program in C
        let is_it = |line: &str| matches!(line.split(' ').collect::<Vec<_>>()[..], [_, "T" | "B" | "D", found] if found == name);
        assert!(out.lines().any(is_it), "{name} is not there");
    }
}
