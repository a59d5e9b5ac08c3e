//! What root meets that another user has prepared: links where it writes, processes that it looks at, output that it is shown.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use pmix_tests::{
    OtherUser, Running, TestDvm, executable, on_path, plain_environment, pmixrun, program, run, started_by,
};
use rustix::process::Signal;

#[test]
fn no_user_keeps_published_data_in_a_file_of_another_user() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let (dir, store) = (tempfile::tempdir().unwrap(), bob.home().join("published"));
    fs::write(&store, "").unwrap();
    fs::set_permissions(&store, Permissions::from_mode(0o666)).unwrap();
    std::os::unix::fs::chown(&store, Some(bob.uid.as_raw()), None).unwrap();
    for mut command in [alice.command(alice.copy_of(&program("pmixrun"))), pmixrun(dir.path(), &[])] {
        command.arg("--store").arg(&store).arg("true");
        let (code, out, err) = run(command);
        assert!(code != Some(0) && err.contains("--store"), "{out}{err}");
        assert!(err.contains(&format!("it belongs to another user (uid {})", bob.uid)), "{out}{err}");
        assert_eq!(fs::read(&store).unwrap(), b"");
    }
}

#[test]
fn root_writes_nothing_by_way_of_links_that_another_user_has_planted() {
    let Some(bob) = OtherUser::third() else { return };
    let (dir, roots) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let victim = roots.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let planted = |name: &str, target: &Path| {
        let link = bob.home().join(name);
        symlink(target, &link).unwrap();
        link.to_str().unwrap().to_owned()
    };
    let (file, below) = (planted("file", &victim), planted("dir", roots.path()));
    for options in [
        &["--report-pid", &file][..],
        &["--record", &format!("{below}/new")],
        &["--store", &file],
        &["--metrics", &format!("{below}/metrics")],
        &["--trace-to", &format!("{below}/victim")],
        &["--trace-to", &file],
        &["--output", &format!("dir={below}/new")],
        &["--output", &format!("file={below}/new")],
        &["--await-daemons", &below, "--host", "a"],
        &["--await-daemons", &format!("{below}/new"), "--host", "a"],
    ] {
        let (code, out, err) = run(pmixrun(dir.path(), &[options, &["true"]].concat()));
        assert!(code != Some(0) && err.contains("link"), "{options:?}: {out}{err}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{options:?}");
        assert_eq!(fs::read_dir(roots.path()).unwrap().count(), 1, "{options:?}");
    }
    let mut head = Command::new(program("pmixd"));
    plain_environment(&mut head);
    head.args(["--head", "--report-uri", &file]).env("PMIX_SERVER_TMPDIR", dir.path());
    let (code, out, err) = run(head);
    assert!(code != Some(0) && err.contains("link"), "{out}{err}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");

    for pages in [bob.home(), Path::new(&below)] {
        symlink(&victim, bob.home().join("pmix.1")).unwrap_or_default();
        let mut man = Command::new(program("pmix"));
        plain_environment(&mut man);
        man.arg("man").arg(pages);
        let (code, out, err) = run(man);
        assert!(code != Some(0) && err.contains("link"), "{out}{err}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::read_dir(roots.path()).unwrap().count(), 1);
    }
    // files for daemons are removed at the end: nobody may put other ones in their place
    let others = bob.home().to_str().unwrap();
    let (code, out, err) = run(pmixrun(dir.path(), &["--await-daemons", others, "--host", "a", "true"]));
    assert!(code != Some(0) && err.contains("may replace what lies in"), "{out}{err}");

    // root may write where others may
    fs::create_dir(bob.home().join("new")).unwrap();
    let home = bob.home().display();
    let (pid, output) = (format!("{home}/new/../pid"), format!("dir={home}/new/out"));
    let (code, out, err) =
        run(pmixrun(dir.path(), &["--report-pid", &pid, "--output", &output, "cat", &pid]));
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "", ""));
    let mut files = Command::new("find");
    files.args([bob.home().to_str().unwrap(), "-name", "stdout", "-size", "+0", "-uid", "0"]);
    assert_eq!(run(files).1.lines().count(), 1);
}

/// `pmixrun` of root, with variables that name a place, as far as another user has prepared it.
fn with(dir: &Path, args: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program("pmixrun"));
    plain_environment(&mut command);
    command.args(args).current_dir(dir).env("PMIXRUN_RECORD", "none");
    for name in ["PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR", "TMPDIR"] {
        command.env(name, dir);
    }
    command.envs(variables.iter().copied());
    for (name, _) in variables.iter().filter(|(_, value)| value.is_empty()) {
        command.env_remove(name);
    }
    command
}

#[test]
fn root_has_no_server_where_another_user_has_planted_a_link() {
    let Some(bob) = OtherUser::third() else { return };
    let (dir, roots) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let system = format!("pmix.sys.{}", rustix::system::uname().nodename().to_string_lossy());
    for name in ["victim", &system] {
        fs::write(roots.path().join(name), "precious").unwrap();
    }
    let link = bob.home().join("dir");
    symlink(roots.path(), &link).unwrap();
    let (below, others) = (link.to_str().unwrap(), bob.home().to_str().unwrap());
    let (run_true, contact) = (&["true"][..], format!("{below}/victim"));
    for (args, variables, said) in [
        (run_true, &[("PMIX_LAUNCHER_RNDZ_FILE", &*contact)][..], "link"),
        (&["--system-server", "true"], &[("PMIX_SYSTEM_TMPDIR", below)], "link"),
        (run_true, &[("PMIX_SERVER_TMPDIR", below)], "link"),
        (run_true, &[("PMIX_SERVER_TMPDIR", ""), ("TMPDIR", below)], "link"),
        (run_true, &[("PMIX_SERVER_TMPDIR", others)], "other users could replace"),
    ] {
        let (code, out, err) = run(with(dir.path(), args, variables));
        assert!(code != Some(0) && err.contains(said), "{variables:?}: {out}{err}");
        let there = || fs::read_dir(roots.path()).unwrap().map(|entry| entry.unwrap().path());
        assert_eq!(there().count(), 2, "{variables:?}: {:?}", there().collect::<Vec<_>>());
        assert!(there().all(|file| fs::read_to_string(file).unwrap() == "precious"), "{variables:?}");
    }
}

/// The rank does what the owner of the directory may do.
#[test]
fn root_removes_what_it_has_made_from_a_directory_that_another_user_has_moved() {
    let Some(bob) = OtherUser::third() else { return };
    let (dir, roots) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (place, moved) = (bob.home().join("place"), bob.home().join("moved"));
    fs::create_dir(&place).unwrap();
    std::os::unix::fs::chown(&place, Some(bob.uid.as_raw()), None).unwrap();
    let contact = place.join("contact");
    let variables = [
        ("PMIX_LAUNCHER_RNDZ_FILE", contact.to_str().unwrap()),
        ("PMIX_SYSTEM_TMPDIR", place.to_str().unwrap()),
    ];
    let exchange = format!(
        "ls {0}; cp {0}/* {2}; mv {0} {1}; ln -s {2} {0}",
        place.display(),
        moved.display(),
        roots.path().display()
    );
    let args = ["--system-server", "sh", "-c", &exchange];
    let (code, out, err) = run(with(dir.path(), &args, &variables));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.starts_with("contact\npmix.sys."), "{out}");
    assert_eq!(fs::read_dir(&moved).unwrap().count(), 0);
    assert_eq!(fs::read_dir(roots.path()).unwrap().count(), 2);
}

/// Debuggers open what a process says it has loaded: they must not do that as root.
#[tokio::test]
async fn root_has_debuggers_run_as_the_user_whose_process_they_look_at() {
    let Some(bob) = OtherUser::third() else { return };
    let dvm = TestDvm::shared().await;
    let mut job = Running::start(dvm.pmix_of(&bob, &["submit"], &["sh", "-c", "echo runs; exec sleep 1000"]));
    assert_eq!(job.line().await.as_deref(), Some("runs"));
    let seen = bob.home().join("seen");
    let script = format!(
        "#!/bin/sh
exec > {} 2>&1
id -u; id -G
grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status | tr -d '\\n\\t'; echo
cut -d' ' -f6,7 /proc/self/stat
env | cut -d= -f1 | sort | tr '\\n' ' '; echo
head -c4 /proc/self/fd/0 | tail -c3; echo
if [ -e /proc/$$/fd/7 ]; then echo more is open; else echo nothing more is open; fi
",
        seen.display()
    );
    let tools = tempfile::tempdir().unwrap();
    fs::set_permissions(tools.path(), Permissions::from_mode(0o755)).unwrap();
    executable(&tools.path().join("eu-stack"), &script);
    let mut stack = dvm.pmix(&["stack", "--with", "eu-stack"], &[]);
    let path = std::env::var("PATH").unwrap();
    stack.env("PATH", format!("{}:{path}", tools.path().display())).env("SECRET", "of root");
    let (_, _, err) = run(with_open_file(&stack));
    let said = fs::read_to_string(&seen).unwrap_or_else(|error| panic!("{error}: {err}"));
    assert_eq!(seen.metadata().unwrap().uid(), bob.uid.as_raw());
    let lines: Vec<_> = said.lines().collect();
    let none = "0000000000000000";
    let uid = bob.uid.to_string();
    assert_eq!(lines[..2], [&*uid, &*uid], "{said}");
    assert_eq!(lines[2], format!("CapInh:{none}CapPrm:{none}CapEff:{none}CapAmb:{none}"), "{said}");
    // a session of its own, without a terminal
    let (session, terminal) = lines[3].split_once(' ').unwrap();
    assert_eq!(terminal, "0", "{said}");
    assert_ne!(session, own_session(), "{said}");
    let is_roots = |name: &str| ["SECRET", "HOME"].contains(&name) || name.starts_with("PMIX");
    assert!(!lines[4].split(' ').any(is_roots), "{said}");
    assert_eq!(lines[5..], ["ELF", "nothing more is open"], "{said}");
    if on_path("eu-stack", "apt-get install elfutils").is_some() {
        let (code, out, err) = run(dvm.pmix(&["stack", "--with", "eu-stack"], &[]));
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        assert!(out.contains("sleep"), "{out}");
    }
}

/// The same command, started by a shell that has a file open.
fn with_open_file(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 7</etc/passwd; exec \"$@\"", "sh"]);
    started_by(shell, command)
}

fn own_session() -> String {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().to_owned()
}

#[tokio::test]
async fn output_of_another_user_does_not_control_the_terminal_of_root() {
    let Some(script) = on_path("script", "apt-get install bsdutils") else { return };
    let Some(bob) = OtherUser::third() else { return };
    let dvm = TestDvm::shared().await;
    let rank =
        ["sh", "-c", "echo $PMIX_NAMESPACE; while sleep 0.1; do printf 'a\\033]0;title\\007b\\n'; done"];
    let (raw, harmless) = ("a\u{1b}]0;title\u{7}b", r"a\u{1b}]0;title\u{7}b");
    for (is_theirs, option, expected) in [(true, "", harmless), (true, "--raw", raw), (false, "", raw)] {
        let submit = if is_theirs { dvm.pmix_of(&bob, &["submit"], &rank) } else { dvm.submit(&rank) };
        let mut job = Running::start(submit);
        let nspace = job.line().await.unwrap();
        let pmix = program("pmix");
        let words = format!("{} output --uri '{}' {option} {nspace}", pmix.display(), dvm.uri());
        let mut command = dvm.command(&script);
        command.args(["-qec", &words, "/dev/null"]).env("SHELL", "/bin/sh");
        let mut shown = Running::start(command);
        assert_eq!(shown.line_with("title").await.trim_end(), expected, "{is_theirs} {option}");
        job.signal(Signal::TERM);
        job.end().await;
        shown.end().await;
    }
}
