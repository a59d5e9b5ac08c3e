//! The words of tables and reports: one for each thing, as the glossary lists them.

use std::collections::BTreeSet;
use std::fs;

use crate::{names, root, sources};

/// Column and field of each row of the glossary's list.
fn listed() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let (_, section) = text.split_once("\n## Columns and fields\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(names).collect();
        (cells[0][0].to_owned(), cells[1][0].to_owned())
    })
    .collect()
}

#[test]
fn each_column_of_a_table_and_its_field_are_in_the_glossary() {
    let all = sources(&root().join("pmix-cli/src"));

    let lists = all.split("titles: &[").skip(1).chain(all.split("const PROC_HEADER: [&str; 7] = [").skip(1));
    let titles: BTreeSet<_> = lists
        .flat_map(|list| list.split(']').next().unwrap().split('"').skip(1).step_by(2))
        // those of a test
        .filter(|title| !["N", "NONE", "LONG", "B"].contains(title))
        .collect();
    let listed = listed();
    let columns: BTreeSet<_> = listed.iter().map(|(column, _)| column.as_str()).collect();
    assert!(titles.len() > 20, "{titles:?}");
    assert_eq!(titles, columns);
    for (column, field) in &listed {
        assert!(all.contains(&format!("\"{field}\"")), "{column}: no report has a field {field}");
    }
}

#[test]
fn no_report_has_another_word_for_a_node_or_a_namespace() {
    let all = sources(&root().join("pmix-cli/src")) + &sources(&root().join("pmix-rm/src"));
    for word in ["{\"hostname\"", ", \"hostname\",", "\"host\",", "\"job\":", "\"namespace\""] {
        let found = all.lines().find(|line| line.trim_start().starts_with("///") && line.contains(word));
        assert_eq!(found, None);
    }
}
