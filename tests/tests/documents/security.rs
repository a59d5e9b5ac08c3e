//! The threat model: each promise has its tests.

use std::collections::BTreeSet;
use std::fs;

use crate::{files, root, sources};

/// Sections whose items promise nothing. All others of these pages say what holds.
const NO_PROMISES: [&str; 4] =
    ["Reporting a vulnerability", "Who is trusted", "What does not hold", "What an administrator does"];

/// `SECURITY.md` and `docs/security-*.md`.
fn pages() -> Vec<String> {
    let mut pages = files(&root().join("docs"));
    pages.retain(|page| page.file_name().is_some_and(|name| name.to_str().unwrap().starts_with("security-")));
    assert!(pages.len() > 1, "{pages:?}");
    pages.insert(0, root().join("SECURITY.md"));
    pages.iter().map(|page| fs::read_to_string(page).unwrap()).collect()
}

/// The names of the promises of a page: the bold phrases with which their items begin.
fn promises(page: &str) -> Vec<&str> {
    let sections = page.split("\n## ").skip(1).map(|section| section.split_once('\n').unwrap());
    let holding = sections.filter(|(heading, _)| !NO_PROMISES.contains(heading));
    let items = holding.flat_map(|(_, text)| text.lines().filter_map(|line| line.strip_prefix("- ")));
    let names = items.map(|item| {
        let name = item.strip_prefix("**").and_then(|item| item.split_once(".** "));
        name.unwrap_or_else(|| panic!("no name in bold at the beginning of: {item}")).0
    });
    names.collect()
}

#[test]
fn each_promise_of_the_threat_model_has_its_tests() {
    let pages = pages();
    let mut promised = BTreeSet::new();
    for name in pages.iter().flat_map(|page| promises(page)) {
        assert!(promised.insert(name), "two promises have the name {name}");
    }
    assert!(promised.len() > 70, "{promised:?}");

    let table = fs::read_to_string(root().join("spec/security.tsv")).unwrap();
    let all = sources(root());
    let mut rows = BTreeSet::new();
    for row in table.lines().skip(1) {
        let (name, tests) = row.split_once('\t').expect(row);
        assert!(!tests.is_empty(), "no test holds: {name}");
        for test in tests.split(' ') {
            assert!(all.contains(&format!("fn {test}()")), "{name}: there is no test {test}");
        }
        assert!(rows.insert(name), "{name} has two rows");
    }
    let differ: Vec<_> = promised.symmetric_difference(&rows).collect();
    assert!(differ.is_empty(), "either no promise or no row in spec/security.tsv: {differ:?}");
}
