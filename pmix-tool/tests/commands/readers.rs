//! Readers of what is printed that have gone, or pause.

use crate::rig::{ENDED, Rig};

#[test]
fn what_became_of_a_job_is_in_the_exit_code_even_if_the_reader_of_the_report_has_gone() {
    let rig = Rig::start();
    let code = |args: &[&str]| rig.without_reader(args).unwrap();
    assert_eq!(code(&["submit", "--json", "early"]), 141);
    assert_eq!(code(&["submit", "--detach", "other"]), 141);
    assert_eq!(code(&["wait", "--json", ENDED.0]), ENDED.1);
    // it has seen enough
    assert_eq!(code(&["ps"]), 0);
}
