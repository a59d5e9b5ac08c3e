//! What users of PMIx have reported, tried with C programs on one node and on two.

use pmix_tests::{Peer, here, nothing_is_left, pmixrun, run};

/// Runs a case of `pmix_reports` with both libraries, on one node and with a rank on each of two, and says how it ended and on how
/// many nodes it was.
fn each(ranks: usize, case: &[&str], check: impl Fn(Option<i32>, &str, usize)) {
    for library in [Peer::Libpmix, Peer::Libpmix5] {
        let Some(program) = library.program("pmix_reports") else { continue };
        for nodes in [1, 2] {
            let dir = tempfile::tempdir().unwrap();
            // on how many ranks of its node each rank is
            let here_are = (ranks / nodes).to_string();
            let case = case.iter().map(|word| if *word == "HERE" { &here_are } else { *word });
            let count = ranks.to_string();
            let words = ["-n", &count, program.to_str().unwrap()].into_iter().chain(case);
            let words: Vec<_> = words.collect();
            let hosts = format!("a:{here_are},b:{ranks}");
            let (code, out, err) = run(match nodes {
                1 => pmixrun(dir.path(), &words),
                _ => here(dir.path(), &hosts, &words),
            });
            check(code, &format!("{library:?} on {nodes}: {out}{err}"), nodes);
            nothing_is_left(dir.path());
        }
    }
}

fn succeeds(case: &[&str]) {
    each(2, case, |code, said, _| assert_eq!(code, Some(0), "{said}"));
}

#[test]
fn put_06_what_is_not_valid_in_a_commit_of_a_c_program_is_left_out_alone() {
    succeeds(&["odd-values"]);
}

#[test]
fn put_02_values_with_qualifiers_and_reserved_keys_of_c_programs_are_found() {
    for case in ["qualified", "qualified-direct"] {
        each(2, &[case], |code, said, _| {
            if said.starts_with("Libpmix5") {
                assert_eq!(code, Some(0), "{said}");
            } else {
                // libpmix 4.2.2 writes qualifiers that no server can read, and finds no reserved keys of other ranks
                assert!(said.contains("id of one: status -46") && !said.contains(" id of none"), "{said}");
            }
        });
    }
}

#[test]
fn abt_01_an_abort_of_one_rank_ends_the_job_and_is_told() {
    each(3, &["abort-one"], |code, said, _| {
        assert_eq!(code, Some(9), "{said}");
        assert!(said.contains("rank 0 called abort for rank 2 with status 9: you go"), "{said}");
    });
}

#[test]
fn evt_13_evt_14_a_handler_that_comes_later_gets_what_was_kept() {
    succeeds(&["late-handler"]);
    succeeds(&["late-handler-alone"]);
}

#[test]
fn get_49_res_01_each_node_has_aliases_and_localhost_is_the_own_one() {
    succeeds(&["aliases", "HERE"]);
}

#[test]
fn grp_11_a_group_may_be_called_after_its_job() {
    succeeds(&["group-id"]);
}

#[test]
fn spn_01_grp_11_a_child_gets_a_name_that_no_group_of_any_node_has() {
    succeeds(&["child-name"]);
}

#[test]
fn spn_05_con_18_a_parent_that_is_told_of_its_child_outlives_its_failure() {
    each(2, &["child-fails"], |code, said, _| {
        assert_eq!((code, said.matches("alive").count()), (Some(3), 2), "{said}");
    });
}
