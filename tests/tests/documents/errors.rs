//! Every public error has the Standard's status for its failure, as the documents promise.

use std::collections::BTreeSet;
use std::fs;

use crate::{root, rust_files};

/// Each crate that knows the Standard's words, with the text of its sources, up to their tests. The codec of PMI-1 does not.
fn crates() -> Vec<(String, String)> {
    let mut crates: Vec<_> = fs::read_dir(root()).unwrap().flatten().map(|entry| entry.path()).collect();
    let manifest = |path: &std::path::Path| fs::read_to_string(path.join("Cargo.toml")).unwrap_or_default();
    crates.retain(|path| path.join("src").is_dir() && manifest(path).contains("pmix-types"));
    crates.sort();
    let name = |path: &std::path::Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let text = |path: &std::path::Path| -> String {
        let files = rust_files(&path.join("src")).into_iter().map(|file| fs::read_to_string(file).unwrap());
        files.map(|text| text.split("#[cfg(test)]\n").next().unwrap().to_owned()).collect()
    };
    crates.iter().map(|path| (name(path), text(path))).collect()
}

/// The identifier at the start of a text.
fn identifier(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap()
}

/// Names of the public types that derive or implement `Error`.
fn errors(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut derives = false;
    let mut public = BTreeSet::new();
    for line in text.lines() {
        if line.starts_with("#[derive(") {
            derives = line.split(['(', ')', ',', ' ', ':']).any(|word| word == "Error");
        }
        for start in ["pub struct ", "pub enum "] {
            if let Some(rest) = line.strip_prefix(start) {
                public.insert(identifier(rest));
                if derives {
                    found.insert(identifier(rest));
                }
            }
        }
        if line.starts_with('}') || line.is_empty() {
            derives = false;
        }
    }
    let implements = text.split("Error for ").skip(1).map(identifier);
    found.extend(implements.filter(|name| public.contains(name)));
    found
}

/// Whether a type has the method, by the macro or written out.
fn has_status(text: &str, name: &str) -> bool {
    let by_macro = text.split("statuses! {\n").skip(1).any(|rest| {
        let rows = rest.split("\n}").next().unwrap();
        rows.lines()
            .any(|row| row.strip_prefix("    ").is_some_and(|row| row.starts_with(&format!("{name},"))))
    });
    let block = format!("\nimpl {name} {{");
    let mut blocks = text.split(&block).skip(1).map(|rest| rest.split("\n}").next().unwrap());
    by_macro || blocks.any(|block| block.contains("fn status(&self)"))
}

#[test]
fn every_public_error_has_a_status() {
    let mut count = 0;
    let mut missing = Vec::new();
    for (name, text) in crates() {
        let errors = errors(&text);
        count += errors.len();
        let without = errors.into_iter().filter(|error| !has_status(&text, error));
        missing.extend(without.map(|error| format!("{name}: {error}")));
    }
    assert!(count > 50, "only {count} errors found");
    assert!(missing.is_empty(), "without status(): {missing:?}; see `statuses!` of pmix-types");
}

#[test]
fn an_error_without_status_is_found() {
    let text = "#[derive(Clone, thiserror::Error)]\n#[error(\"no\")]\npub struct Bad;\n\npub struct Plain;\n\n\
                impl std::error::Error for Plain {}\n\npub struct Other;\n";
    assert_eq!(errors(text).into_iter().collect::<Vec<_>>(), ["Bad", "Plain"]);
    assert!(!has_status(text, "Bad"));
    assert!(has_status("\nimpl Bad {\n    pub fn status(&self) -> Status {}\n}\n", "Bad"));
    assert!(has_status("pmix_types::statuses! {\n    Bad, \"x\", |_this| Status::ERROR;\n}\n", "Bad"));
}

#[test]
fn a_heading_of_a_doc_comment_stands_alone() {
    const HEADINGS: [&str; 6] = ["Errors", "Panics", "Examples", "Cancel safety", "Safety", "Standard"];
    let is_broken = |line: &str| {
        let text =
            line.trim_start().strip_prefix("/// # ").or_else(|| line.trim_start().strip_prefix("//! # "));
        text.is_some_and(|text| HEADINGS.iter().any(|name| text.starts_with(&format!("{name} "))))
    };
    for (name, text) in crates() {
        let broken: Vec<_> = text.lines().filter(|line| is_broken(line)).collect();
        assert!(broken.is_empty(), "{name}: {broken:?}");
    }
}
