//! Readers of the output of `pmix submit` that pause.

use std::process::Stdio;

use pmix_test_wait::{until, within};
use rustix::process::{Pid, Signal, kill_process};

use super::Rig;

#[tokio::test]
async fn a_signal_ends_pmix_submit_whose_reader_pauses() {
    let rig = Rig::start().await;
    for options in [&["--grace", "1"][..], &["--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = rig.pmix(&[&["submit"], options, &["yes"]].concat());
        rustix::pipe::fcntl_setpipe_size(&reader, 4096).unwrap();
        let child = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let (mut last, mut looks) = (0, 0);
        until("the pipe takes no more", || {
            let count = rustix::io::ioctl_fionread(&reader).unwrap();
            looks = if count > 0 && count == last { looks + 1 } else { 0 };
            last = count;
            looks == 20
        })
        .await;
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let ended = tokio::task::spawn_blocking(move || child.wait_with_output());
        let ended = within(ended).await.unwrap().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(143), "{err}");
        assert!(err.contains("the rest of the output is missing"), "{err}");
    }
    rig.end().await;
}
