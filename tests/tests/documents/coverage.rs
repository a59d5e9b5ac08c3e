//! Each rule is tested or explained, and `COVERAGE.md` and `docs/attributes.md` are current.

use std::process::Command;

#[test]
fn every_rule_is_tested_or_explained_and_the_list_is_current() {
    let check = Command::new(env!("CARGO_BIN_EXE_pmix-coverage")).arg("--check").output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}
