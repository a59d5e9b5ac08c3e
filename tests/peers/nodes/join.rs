//! Daemons that others than `pmixrun` start, and another user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use pmix_test_wait::until;
use pmix_tests::{OtherUser, Running, nothing_is_left, pmixrun, program, run};

#[tokio::test]
async fn another_user_can_neither_read_the_file_of_a_daemon_nor_put_one_in_its_place() {
    let Some(other) = OtherUser::second() else { return };
    let dir = tempfile::tempdir().unwrap();
    let lines = dir.path().join("lines");
    fs::create_dir(&lines).unwrap();
    // only the file itself keeps others out
    for open in [dir.path(), &lines] {
        fs::set_permissions(open, Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = pmixrun(dir.path(), &["--host", "a,b", "--await-daemons"]);
    command.arg(&lines).arg("true");
    let waiting = Running::start(command);
    let file = lines.join("a.join");
    until("it waits for the daemons", || file.exists() && lines.join("b.join").exists()).await;
    let joins = |mut daemon: Command, from: &Path| {
        daemon.arg("--join").arg(from).env_remove("RUST_LOG").stdin(Stdio::null());
        let (code, _, err) = run(daemon);
        (code, err)
    };
    let pmixd = program("pmixd");
    for words in ["cat", "touch", "rm -f", "ln -f -s /dev/null"] {
        let (code, out, err) = run(other.command_line(&format!("{words} {}", file.display())));
        assert!(
            code != Some(0) && out.is_empty() && err.contains("Permission denied"),
            "{words}: {out}{err}"
        );
    }
    let (code, err) = joins(other.command(other.copy_of(&pmixd)), &file);
    assert!(code == Some(1) && err.contains("a.join: Permission denied"), "{err}");

    // theirs, under its own name and by a link in the place of ours
    let theirs = other.home().join("a.join");
    let words = format!("umask 077; echo '{{}}' >{}", theirs.display());
    assert!(other.command_line(&words).status().unwrap().success());
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&theirs, &link).unwrap();
    for path in [&theirs, &link] {
        let (code, err) = joins(Command::new(&pmixd), path);
        let owner = format!("it belongs to user {}", other.uid);
        assert!(code == Some(1) && err.contains(&owner), "{err}");
    }
    // a file of a gigabyte is read no further than a line may be long
    let huge = dir.path().join("huge");
    let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&huge).unwrap();
    made.set_len(1 << 30).unwrap();
    let (code, err) = joins(Command::new(&pmixd), &huge);
    assert!(code == Some(1) && err.contains("it is not from pmixrun"), "{err}");

    let daemons = ["a", "b"].map(|host| {
        let mut command = Command::new(&pmixd);
        command.arg("--join").arg(lines.join(format!("{host}.join"))).env_remove("RUST_LOG");
        command.env("PMIX_SERVER_TMPDIR", dir.path()).env("TMPDIR", dir.path());
        Running::start(command)
    });
    let (status, _, err) = waiting.end().await;
    assert!(status.success(), "{err}");
    for daemon in daemons {
        assert!(daemon.end().await.0.success());
    }
    nothing_is_left(dir.path());
}
