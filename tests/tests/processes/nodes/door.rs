//! Daemons that must not be let in.

use pmix_tests::{nothing_is_left, run, with_agent};

#[test]
fn a_daemon_with_a_wrong_token_is_refused_with_the_reason_on_both_sides() {
    let dir = tempfile::tempdir().unwrap();
    let agent = r#"test $host = a && exec "$@"; sed 's/"token":"[0-9a-f]*"/"token":"00"/' | "$@""#;
    let (code, out, err) = run(with_agent(dir.path(), "a,b", agent, &["true"]));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    let reason = "the token is not that of daemon number 1 of node b";
    assert!(err.contains(&format!("refused a connection of a daemon: node b: {reason}")), "{err}");
    assert!(err.contains(&format!("refuses: {reason}")), "{err}");
    nothing_is_left(dir.path());
}

#[test]
fn a_token_that_has_been_used_is_refused_with_the_reason_on_both_sides() {
    let dir = tempfile::tempdir().unwrap();
    // the daemon of the node has been let in when its rank shows the same line
    let agent = r#"read -r line; echo "$line" >"${0%/*}/agent.line"; echo "$@" >"${0%/*}/agent.daemon"; echo "$line" | exec "$@""#;
    let script = "$(cat $0/agent.daemon) <$0/agent.line 2>&1; echo code $?";
    let mut command = with_agent(dir.path(), "b", agent, &["sh", "-c", script]);
    command.arg(dir.path());
    let (code, out, err) = run(command);
    let reason = "the token of daemon number 1 of node b has been used";
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(err.contains(&format!("refused a connection of a daemon: node b: {reason}")), "{err}");
    assert!(out.contains(&format!("refuses: {reason}")) && out.ends_with("code 1\n"), "{out}");
    nothing_is_left(dir.path());
}

#[test]
fn a_daemon_cannot_pass_for_another_node() {
    let dir = tempfile::tempdir().unwrap();
    let agent = r#"test $host = a && exec "$@"; sed 's/"node":"b"/"node":"a"/' | "$@""#;
    let (code, out, err) = run(with_agent(dir.path(), "a,b", agent, &["true"]));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("refuses: the token "), "{err}");
    nothing_is_left(dir.path());
}

#[test]
fn a_daemon_refuses_a_head_of_another_session() {
    let dir = tempfile::tempdir().unwrap();
    let keep = r#"read -r line; echo "$line" >"${0%/*}/agent.line"; echo "$line" | exec "$@""#;
    let (code, _, err) = run(with_agent(dir.path(), "b", keep, &["true"]));
    assert_eq!(code, Some(0), "{err}");
    // the head that this line was meant for has ended, and another one is found in its place
    let mix = r#"read -r line; old=$(sed 's/.*"authority":"\([^"]*\)".*/\1/' "${0%/*}/agent.line")
echo "$line" | sed "s|\"authority\":\"[^\"]*\"|\"authority\":\"$old\"|" | "$@""#;
    let (code, out, err) = run(with_agent(dir.path(), "b", mix, &["true"]));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("node b: cannot connect to the head: ") && err.contains("certificate"), "{err}");
    assert!(err.contains("refused a connection of a daemon: no TLS of this session: "), "{err}");
    nothing_is_left(dir.path());
}

#[test]
fn the_line_of_a_daemon_is_in_no_argument_and_no_environment() {
    let dir = tempfile::tempdir().unwrap();
    let agent = r#"read -r line; echo "$line" | sed 's/.*"token":"\([0-9a-f]*\)".*/\1/' >"${0%/*}/agent.token"; echo "$line" | exec "$@""#;
    let script = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ >$0/agent.seen 2>/dev/null; true";
    let mut command = with_agent(dir.path(), "b", agent, &["sh", "-c", script]);
    command.arg(dir.path());
    let (code, _, err) = run(command);
    assert_eq!(code, Some(0), "{err}");
    let token = std::fs::read_to_string(dir.path().join("agent.token")).unwrap();
    let seen = std::fs::read(dir.path().join("agent.seen")).unwrap();
    let seen = String::from_utf8_lossy(&seen);
    assert!(token.trim().len() == 64 && seen.contains("/pmixd"));
    assert!(!seen.contains(token.trim()));
}
