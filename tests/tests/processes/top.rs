//! `pmix top` without a terminal.

use pmix_tests::{pmix, run};

#[test]
fn without_a_terminal_another_command_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(pmix(dir.path(), &["top"]));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert_eq!(err, "pmix: top: standard output is no terminal; `pmix ps --watch` prints changes as lines\n");
}
