//! Numbers for Prometheus, and another user.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

use pmix_tests::{OtherUser, Scrape, metered_run, program, run};
use rustix::process::Signal;

#[tokio::test]
async fn sec_01_another_user_does_not_reach_the_socket() {
    let Some(alice) = OtherUser::second() else { return };
    let dir = tempfile::tempdir().unwrap();
    // the mode of the socket alone is in the way
    set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let place = dir.path().join("metrics").to_str().unwrap().to_owned();
    // first, because it may have to be built
    let stranger = alice.copy_of(&program("pmix-test-stranger"));
    let (job, _) = metered_run(dir.path(), &place).await;
    let mut command = alice.command(stranger);
    command.args(["is-refused", &place]);
    let (_, out, err) = run(command);
    assert!(err.contains("Permission denied"), "{out}{err}");
    assert_eq!(Scrape::of(&place).value("pmix_jobs_running"), 1.0, "its own user does");
    job.signal(Signal::TERM);
    job.end().await;
}
