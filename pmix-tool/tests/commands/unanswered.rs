//! Servers that do not answer, or refuse.

use rustix::process::Signal;

use crate::rig::{JOB, Rig};

#[test]
fn what_a_server_says_is_one_line_and_controls_no_terminal() {
    let rig = Rig::start();
    let mut attach = rig.pmix(&["attach", JOB, "--signals"]);
    rig.until_asked("pull", 1);
    attach.signal(Signal::USR1);
    let message = attach.message();
    let expected =
        "pmix: job control failed: not today\\npmix: \\u{1b}[31mall is well (ERR_NO_PERMISSIONS)\n";
    assert_eq!(message, expected);
}

#[test]
fn pmix_why_goes_on_watching_a_server_that_was_slow_once() {
    let mut rig = Rig::start();
    let mut why = rig.pmix(&["why", "--watch", "--json", "--timeout", "1"]);
    assert!(why.line().contains(JOB));
    rig.hold(Some("query"));
    let message = why.message();
    assert!(message.contains("did not answer within 1s; pmix doctor says"), "{message}");
    rig.hold(None);
    // more than came before it was slow
    for _ in 0..3 {
        assert!(why.line().contains(JOB));
    }
    rig.stop();
    assert_eq!(why.end().0, Some(0));
}
