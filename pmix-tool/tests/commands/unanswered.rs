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
    let expected = "pmix: job control failed: not today\\npmix: \\u{1b}[31mall is well (ERR_NO_PERMISSIONS)\n";
    assert_eq!(message, expected);
}
