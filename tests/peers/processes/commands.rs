//! Commands of `pmix` in shells and terminals, and their manual pages.

use std::fs;
use std::process::{Command, Stdio};

use pmix_test_wait::until;
use pmix_tests::{Running, mention, on_path, plain_environment, pmixrun, program, run};
use rustix::process::Signal;

#[tokio::test]
async fn a_shell_completes_commands_options_and_names_of_jobs() {
    let Some(bash) = on_path("bash", "apt-get install bash") else { return };
    let pmix = program("pmix");
    program("pmixd");
    let dir = tempfile::tempdir().unwrap();
    let job = Running::start(pmixrun(dir.path(), &["sleep", "600"]));
    let completed = |words: &str| {
        let last = words.split(' ').count() - 1;
        let mut bash = Command::new(&bash);
        let script = "PATH=${0%/*}:$PATH; eval \"$(pmix completions bash)\"; COMP_WORDS=($1) COMP_CWORD=$2; \
                      _clap_complete_${1%% *} \"${1%% *}\" \"${COMP_WORDS[$2]}\" \"${COMP_WORDS[$2-1]}\"; echo \"${COMPREPLY[@]}\"";
        bash.args(["-c", script]).arg(&pmix).arg(words).arg(last.to_string());
        bash.env("PMIX_SERVER_TMPDIR", dir.path()).env("PMIX_SYSTEM_TMPDIR", dir.path());
        let (code, out, err) = run(bash);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{words}");
        out.trim_end().to_owned()
    };
    for (words, expected) in [
        ("pmix look", "lookup"),
        ("pmix lookup --wa", "--wait"),
        ("pmixrun --oversub", "--oversubscribe"),
        ("pmixd --multi", "--multi-user"),
    ] {
        assert_eq!(completed(words), expected, "{words}");
    }
    until("the job is completed", || {
        let job = completed("pmix why run.");
        if job.starts_with("run.") && !job.contains(' ') { Ok(()) } else { Err(job) }
    })
    .await;
    drop(job);
    let mut command = Command::new(pmix);
    command.args(["completions", "sushi"]);
    assert_eq!(run(command).0, Some(2));
}

#[test]
fn groff_finds_nothing_wrong_in_the_manual_pages() {
    let Some(groff) = on_path("groff", "apt-get install groff-base") else { return };
    let pages = tempfile::tempdir().unwrap();
    let mut command = Command::new(program("pmix"));
    command.arg("man").arg(pages.path());
    assert_eq!(run(command), (Some(0), String::new(), String::new()));
    for launcher in ["pmixrun", "pmixd"] {
        let mut command = Command::new(program(launcher));
        command.arg("--man").stdout(fs::File::create(pages.path().join(format!("{launcher}.1"))).unwrap());
        assert!(command.status().unwrap().success(), "{launcher}");
    }
    let mut count = 0;
    for page in fs::read_dir(&pages).unwrap() {
        let page = page.unwrap().path();
        let mut command = Command::new(&groff);
        command.args(["-man", "-ww", "-Tutf8"]).arg(&page);
        let (code, out, err) = run(command);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{}", page.display());
        assert!(out.contains("SYNOPSIS") || out.contains("S\u{8}SY"), "{out}");
        count += 1;
    }
    assert!(count > 20, "{count}");
}

#[tokio::test]
async fn states_are_coloured_on_a_terminal_unless_its_user_wants_none() {
    let Some(script) = on_path("script", "apt-get install bsdutils") else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut job = Running::start(pmixrun(dir.path(), &["sh", "-c", "echo started; exec sleep 1000"]));
    job.line_with("started").await;
    let green = "\u{1b}[32mRUNNING\u{1b}[0m";
    for (variable, is_coloured) in [("OTHER=1", true), ("NO_COLOR=1", false), ("CLICOLOR=0", false)] {
        let words = format!("env TERM=xterm {variable} {} ps", program("pmix").display());
        let mut command = Command::new(&script);
        plain_environment(&mut command);
        command.args(["-qec", &words, "/dev/null"]).stdin(Stdio::null()).env("SHELL", "/bin/sh");
        command.env("PMIX_SERVER_TMPDIR", dir.path()).env("PMIX_SYSTEM_TMPDIR", dir.path());
        let (code, out, err) = run(command);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        assert_eq!(out.contains(green), is_coloured, "{variable}: {out}");
    }
    job.signal(Signal::TERM);
    job.end().await;
}

/// As in containers that only unshare: process group and session were made outside of the namespace, which numbers them 0.
#[tokio::test]
async fn a_terminal_reaches_a_rank_in_a_pid_namespace_whose_session_is_outside() {
    let Some(script) = on_path("script", "apt-get install bsdutils") else { return };
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc", "true"]);
    if run(unshare).0 != Some(0) {
        return mention("way to make a PID namespace");
    }
    let dir = tempfile::tempdir().unwrap();
    let words = format!("unshare --pid --fork --mount-proc {} -n 1 head -n1", program("pmixrun").display());
    let mut command = Command::new(script);
    plain_environment(&mut command);
    command.args(["-qec", &words, "/dev/null"]).env("SHELL", "/bin/sh");
    command.env("PMIX_SERVER_TMPDIR", dir.path()).env("PMIX_SYSTEM_TMPDIR", dir.path());
    let mut job = Running::start_with_input(command);
    job.write("typed\n").await;
    job.line_with("typed").await;
    assert_eq!(job.line().await.as_deref(), Some("typed"), "after the echo of the terminal");
    assert_eq!(job.end().await.0.code(), Some(0));
}
