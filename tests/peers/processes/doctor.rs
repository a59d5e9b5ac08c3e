//! `pmix doctor` among other users and file systems.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use pmix_tests::{OtherUser, Running, on_path, plain_environment, pmix, program, skipped};
use rustix::process::geteuid;

/// Exit code and lines.
async fn lines(command: Command) -> (Option<i32>, Vec<String>) {
    let (status, out, err) = Running::start(command).end().await;
    assert_eq!(err, "", "{out}");
    (status.code(), out.lines().map(str::to_owned).collect())
}

/// The only line with all of these words.
fn line<'a>(lines: &'a [String], words: &[&str]) -> &'a str {
    let mut found = lines.iter().filter(|line| words.iter().all(|word| line.contains(word)));
    let (Some(one), None) = (found.next(), found.next()) else {
        panic!("one line with {words:?}: {lines:#?}")
    };
    one
}

#[tokio::test]
async fn doctor_names_the_other_user_that_owns_the_directory_and_reads_nothing_there() {
    let Some(other) = OtherUser::second() else { return };
    let tmp = tempfile::Builder::new().prefix("pmix-test-").tempdir().unwrap();
    fs::set_permissions(tmp.path(), Permissions::from_mode(0o1777)).unwrap();
    let taken = tmp.path().join(format!("pmix-{}", geteuid().as_raw()));
    assert!(other.command("mkdir").arg(&taken).status().unwrap().success());
    let garbage = taken.join("here.1.0");
    assert!(other.command("mkdir").arg(&garbage).status().unwrap().success());
    let owner = format!("{} belongs to uid {}", taken.display(), other.uid);

    let mut command = pmix(tmp.path(), &["doctor"]);
    command.env_remove("PMIX_SERVER_TMPDIR").env("TMPDIR", tmp.path());
    let (_, usual) = lines(command).await;
    let found = line(&usual, &[&owner]);
    assert!(found.starts_with("WARN") && found.contains("servers use other directories"), "{found}");
    assert!(!usual.iter().any(|line| line.contains("here.1.0")), "{usual:#?}");

    let (code, given) = lines(pmix(tmp.path(), &["doctor"])).await;
    let found = line(&given, &[&owner]);
    assert!(
        code == Some(1) && found.starts_with("FAIL") && found.contains("set PMIX_SERVER_TMPDIR"),
        "{found}"
    );

    fs::remove_dir_all(&taken).unwrap();
    fs::create_dir(&taken).unwrap();
    fs::set_permissions(&taken, Permissions::from_mode(0o777)).unwrap();
    let (_, wide) = lines(pmix(tmp.path(), &["doctor"])).await;
    assert!(line(&wide, &["has mode 0777"]).contains("chmod 700"), "{wide:#?}");
    fs::remove_dir(&taken).unwrap();
    std::os::unix::fs::symlink(tmp.path(), &taken).unwrap();
    line(&lines(pmix(tmp.path(), &["doctor"])).await.1, &["FAIL", "is not a directory but a link"]);
}

/// Lines with a file system of these options over /dev/shm, which this command has filled; `None` if none can be mounted.
async fn over_shm(options: &str, fill: &str) -> Option<Vec<String>> {
    if !geteuid().is_root() {
        skipped("root to mount a file system");
        return None;
    }
    on_path("unshare", "util-linux")?;
    let script = "mount --make-rprivate / && mount -t tmpfs -o \"$1\" none /dev/shm || exit 77; eval \"$2\"; exec \"$0\" doctor";
    let mut command = Command::new("unshare");
    plain_environment(&mut command);
    command.args(["--mount", "sh", "-c", script]).arg(program("pmix")).args([options, fill]);
    let (status, out, _) = Running::start(command).end().await;
    if !matches!(status.code(), Some(0 | 1)) || out.is_empty() {
        skipped("way to mount a tmpfs over /dev/shm");
        return None;
    }
    Some(out.lines().map(str::to_owned).collect())
}

#[tokio::test]
async fn doctor_finds_a_full_or_read_only_shared_memory_file_system() {
    let fill = "head -c 100000000 /dev/zero > /dev/shm/filler 2> /dev/null";
    let Some(full) = over_shm("size=8m", fill).await else { return };
    let found = line(&full, &["/dev/shm is full, 0 bytes of 8 MiB free"]);
    assert!(found.starts_with("FAIL") && found.contains("mount -o remount,size="), "{found}");
    let some = over_shm("size=100m", "true").await.unwrap();
    assert!(line(&some, &["/dev/shm is nearly full, 100 MiB of 100 MiB"]).starts_with("WARN"));
    let inodes = over_shm("size=1g,nr_inodes=9", "true").await.unwrap();
    line(&inodes, &["FAIL", "/dev/shm has 8 of 9 inodes left"]);
    let fixed = over_shm("size=1g,ro", "true").await.unwrap();
    line(&fixed, &["FAIL", "/dev/shm is on a read-only file system", "remount,rw"]);
}
