//! Servers that do not answer, or refuse.

use pmix_test_wait::block_until;
use rustix::process::Signal;

use super::rig::{JOB, Rig};

#[test]
fn what_a_server_says_is_one_line_and_controls_no_terminal() {
    let rig = Rig::start();
    let mut attach = rig.pmix(&["attach", JOB, "--signals"]);
    rig.write("a line\n");
    assert_eq!(attach.line(), "a line\n");
    attach.signal(Signal::USR1);
    let message = attach.message();
    let expected =
        "pmix: job control failed: not today\\npmix: \\u{1b}[31mall is well (ERR_NO_PERMISSIONS)\n";
    assert_eq!(message, expected);
}

#[test]
fn pmix_ps_asks_all_servers_at_the_same_time() {
    let first = Rig::start();
    let rigs = [first.beside("srv.b"), first];
    rigs.iter().for_each(|rig| rig.hold(Some("query")));
    let ps = rigs[0].pmix(&["ps", "--timeout", "0"]);
    rigs.iter().for_each(|rig| rig.until_asked("query", 1));
    rigs.iter().for_each(|rig| rig.hold(None));
    let (code, out, err) = ps.end();
    assert_eq!((code, &*err), (Some(0), ""));
    let titles: Vec<_> = out.lines().filter(|line| line.starts_with("server ")).collect();
    assert!(titles.len() == 2 && titles[0].contains("srv,") && titles[1].contains("srv.b,"), "{out}");
}

#[test]
fn pmix_why_goes_on_watching_a_server_that_was_slow_once() {
    let mut rig = Rig::start();
    // its second may be over before it has begun, on a machine with much else to do
    let mut why = block_until("it asks in time", || {
        let mut why = rig.pmix(&["why", "--watch", "--json", "--timeout", "1"]);
        why.line().contains(JOB).then_some(why)
    });
    rig.hold(Some("query"));
    let message = why.message();
    assert!(
        message.contains("did not answer within 1s") && message.contains("; pmix doctor says"),
        "{message}"
    );
    rig.hold(None);
    // more than came before it was slow
    for _ in 0..3 {
        assert!(why.line().contains(JOB));
    }
    rig.stop();
    assert_eq!(why.end().0, Some(0));
}

#[test]
fn pmix_attach_ends_when_it_is_told_to_whatever_its_server_has_not_answered() {
    for (held, signal) in [("query", Signal::INT), ("pull", Signal::TERM)] {
        let rig = Rig::start();
        rig.hold(Some(held));
        let attach = rig.pmix(&["attach", JOB, "--timeout", "0"]);
        rig.until_asked(held, 1);
        attach.signal(signal);
        assert_eq!(attach.end(), (Some(0), String::new(), String::new()), "{held}");
    }
}

#[test]
fn pmix_submit_does_not_wait_for_ever_for_a_server_that_does_not_end_the_job() {
    let message = "pmix: the server does not answer; job job may still be running\n";
    let submitted = |options: &[&str]| {
        // its time may be over before it has begun, on a machine with much else to do
        block_until("it submits in time", || {
            let rig = Rig::start();
            rig.hold(Some("control"));
            let mut submit = rig.pmix(&[&["submit"], options, &[JOB]].concat());
            rig.write("a line\n");
            (submit.line() == "a line\n").then_some((rig, submit))
        })
    };
    let (rig, submit) = submitted(&["--timeout", "0"]);
    submit.signal(Signal::INT);
    rig.until_asked("control", 1);
    submit.signal(Signal::INT);
    rig.until_asked("control", 2);
    submit.signal(Signal::INT);
    assert_eq!(submit.end(), (Some(130), String::new(), message.into()));

    // it has been asked to kill the job, in vain
    let (_rig, submit) = submitted(&["--timeout", "1", "--grace", "0"]);
    submit.signal(Signal::TERM);
    let (code, _, err) = submit.end();
    assert!(code == Some(143) && err.ends_with(message), "{code:?}: {err}");
}

#[test]
fn a_stage_needs_a_limit_if_the_server_knows_none() {
    let rig = Rig::start();
    let stage = rig.root.path().join("stage");
    std::fs::write(&stage, JOB).unwrap();
    let expected = "pmix: the server does not say how many jobs fit: use --jobs\n".to_owned();
    let submit = rig.pmix(&["submit", "--stage", stage.to_str().unwrap()]);
    assert_eq!(submit.end(), (Some(1), String::new(), expected));
}

#[test]
fn the_report_on_a_job_of_a_stage_that_is_lost_with_its_server_names_it() {
    let mut rig = Rig::start();
    let (stage, output) = (rig.root.path().join("stage"), rig.root.path().join("output"));
    std::fs::write(&stage, JOB).unwrap();
    let (stage, output) = (stage.to_str().unwrap(), output.to_str().unwrap());
    let submit = rig.pmix(&["submit", "--jobs", "1", "--stage", stage, "--output", output]);
    let begun = std::path::Path::new(output).join("1.out");
    block_until("the job", || begun.exists());
    rig.stop();
    let (code, out, err) = submit.end();
    assert_eq!(code, Some(1), "{err}");
    assert!(out.contains("\"line\":1,\"nspace\":\"job\",") && out.contains("ERR_LOST_CONNECTION"), "{out}");
}
