//! Rule ids in the documentation, against `spec/rules.tsv`.

use std::collections::BTreeSet;
use std::fs;

use crate::{root, rust_files};

/// The ids of all rules, and the numbers of those that have parts: `GET-41` means all of GET-41a to GET-41c.
fn rules() -> BTreeSet<String> {
    let table = fs::read_to_string(root().join("spec/rules.tsv")).unwrap();
    let ids = table.lines().skip(1).filter_map(|row| row.split('\t').next());
    ids.flat_map(|id| [id, id.trim_end_matches(|part: char| part.is_ascii_lowercase())])
        .map(str::to_owned)
        .collect()
}

/// Words such as `FEN-01` in a line, without other words of that form.
fn ids(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').filter(|word| {
        let is_id = |(kind, number): (&str, &str)| {
            kind.len() == 3
                && kind.bytes().all(|letter| letter.is_ascii_uppercase())
                && number.len() >= 2
                && number.bytes().take(2).all(|digit| digit.is_ascii_digit())
                && number.bytes().skip(2).all(|part| part.is_ascii_lowercase())
        };
        word.split_once('-').is_some_and(is_id) && !word.starts_with("UTF-")
    })
}

#[test]
fn each_rule_in_the_documentation_is_one_of_the_standard_and_each_crate_says_where_to_find_it() {
    let rules = rules();
    assert!(rules.len() > 300, "only {} rules", rules.len());
    let mut wrong = Vec::new();
    let mut found = 0;
    for entry in fs::read_dir(root()).unwrap().flatten() {
        let src = entry.path().join("src");
        let name = entry.file_name().into_string().unwrap();
        if !name.starts_with("pmix-") || !src.join("lib.rs").exists() {
            continue;
        }
        let mut uses_rules = false;
        for file in rust_files(&src) {
            let text = fs::read_to_string(&file).unwrap();
            let docs = text
                .lines()
                .map(str::trim_start)
                .filter(|line| line.starts_with("///") || line.starts_with("//!"));
            for id in docs.flat_map(ids) {
                (uses_rules, found) = (true, found + 1);
                if !rules.contains(id) {
                    wrong.push(format!("{}: there is no rule {id}", file.display()));
                }
            }
        }
        let says_where = fs::read_to_string(src.join("lib.rs")).unwrap().contains("rules`]");
        if uses_rules && !says_where {
            wrong.push(format!("{name}/src/lib.rs does not say that ids are explained in pmix_types::rules"));
        }
    }
    assert!(found > 600, "only {found} ids");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn ids_are_told_from_other_words() {
    let line = "(FEN-01, GET-33) as RFC-2119 or UTF-16 of `PMIX_X-01` and fen-01; TOL-07b's";
    assert_eq!(ids(line).collect::<Vec<_>>(), ["FEN-01", "GET-33", "TOL-07b"]);
}
