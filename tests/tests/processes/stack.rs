//! `pmix stack` without debuggers.

use pmix_tests::{pmix, run};

/// Without debuggers there is a line that says which to install.
#[test]
fn without_a_debugger_it_says_what_to_install() {
    let dir = tempfile::tempdir().unwrap();
    for (with, what) in [
        ("auto", "neither eu-stack nor gdb is installed: install elfutils or gdb; they have to be on PATH"),
        ("eu-stack", "eu-stack is not installed: install elfutils"),
        ("gdb", "gdb is not installed"),
        ("py-spy", "py-spy is not installed: pip install py-spy"),
    ] {
        let mut command = pmix(dir.path(), &["stack", "--with", with]);
        command.env("PATH", dir.path());
        assert_eq!(run(command), (Some(1), String::new(), format!("pmix: {what}\n")));
    }
}
