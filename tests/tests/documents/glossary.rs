//! `docs/glossary.md`: each term stands there once, and what it calls gone is gone.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::{files, names, root};

/// The list itself.
const LEFT_OUT: [&str; 1] = ["glossary.md"];

fn section(heading: &str) -> String {
    let text = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let (_, section) =
        text.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    section.split("\n## ").next().unwrap().to_owned()
}

/// Documents and sources that people read: no tests, nothing that a build has made.
fn readable() -> Vec<PathBuf> {
    let mut found = files(root());
    found.retain(|file| {
        let path = file.strip_prefix(root()).unwrap();
        let mut parts = path.iter().map(|part| part.to_str().unwrap());
        let is_left_out =
            path.file_name().is_some_and(|name| LEFT_OUT.iter().any(|left_out| name == *left_out));
        let is_test = parts.any(|part| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs"));
        let extension = path.extension().and_then(|extension| extension.to_str());
        !is_left_out && !is_test && matches!(extension, Some("rs" | "md" | "proto"))
    });
    found
}

#[test]
fn words_that_are_gone_do_not_come_back() {
    let section = section("Words that are gone");
    let (_, list) = section.split_once("mended.\n").unwrap();
    let gone: Vec<_> = names(list).into_iter().map(str::to_lowercase).collect();
    assert!(gone.len() > 10, "{gone:?}");
    let files = readable();
    assert!(files.len() > 300, "only {} files", files.len());
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap().to_lowercase();
        for (number, line) in text.lines().enumerate() {
            let words = gone.iter().filter(|words| line.contains(*words));
            found.extend(words.map(|words| format!("{}:{}: {words}", file.display(), number + 1)));
        }
    }
    assert!(found.is_empty(), "docs/glossary.md says what to write instead:\n{}", found.join("\n"));
}

#[test]
fn each_term_is_explained_once() {
    let mut terms = BTreeSet::new();
    for heading in ["Terms of the Standard", "Terms of this family"] {
        let section = section(heading);
        for row in section.lines().filter(|line| line.starts_with("| ")).skip(1) {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [term, meaning, _] = cells.as_slice() else { panic!("{row}") };
            assert!(meaning.ends_with('.'), "{row}");
            for word in term.split(", ") {
                assert!(terms.insert(word.to_owned()), "{word} is explained twice");
            }
        }
    }
    assert!(terms.len() > 50, "{terms:?}");
}
