//! Documents stay small enough to be read, and their links lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{files, root};

/// The most bytes of a document at the top, and of a page in `docs/`.
const SIZES: [(&str, usize); 9] = [
    ("README.md", 7 << 10),
    ("ARCHITECTURE.md", 15 << 10),
    ("SECURITY.md", 8 << 10),
    ("CONTRIBUTING.md", 6 << 10),
    ("CHANGELOG.md", 4 << 10),
    ("COVERAGE.md", 2 << 10),
    ("docs/performance.md", 6 << 10),
    // tables in which a reader looks up one row
    ("docs/glossary.md", 11 << 10),
    ("docs/limits.md", 28 << 10),
];
const PAGE: usize = 8 << 10;

fn documents() -> Vec<PathBuf> {
    let mut found = files(root());
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    found
}

#[test]
fn each_document_is_short() {
    let mut long = Vec::new();
    let mut pages = 0;
    for path in documents() {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
        let of_name = SIZES.iter().find(|(document, _)| *document == name).map(|(_, size)| *size);
        let Some(most) = of_name.or_else(|| name.starts_with("docs/").then_some(PAGE)) else { continue };
        let size = fs::metadata(&path).unwrap().len();
        pages += 1;
        if size > u64::try_from(most).unwrap() {
            long.push(format!("{name} has {size} bytes, {most} at most"));
        }
    }
    assert!(pages > 60, "only {pages} documents");
    assert!(long.is_empty(), "{long:?}");
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = kept.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.map(|char| if char == ' ' { '-' } else { char }).collect()
}

/// The text outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Links of a document to others of this repository: path, empty for the document itself, and anchor.
fn links(text: &str) -> Vec<(String, Option<String>)> {
    let text: String = prose(text).map(|line| format!("{line}\n")).collect();
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    let ours = targets.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace));
    ours.map(|target| match target.split_once('#') {
        Some((path, anchor)) => (path.to_owned(), Some(anchor.to_owned())),
        None => (target.to_owned(), None),
    })
    .collect()
}

fn is_there(document: &Path, (path, wanted): &(String, Option<String>)) -> bool {
    let target = if path.is_empty() { document.to_owned() } else { document.parent().unwrap().join(path) };
    let Some(wanted) = wanted else { return target.exists() };
    let Ok(text) = fs::read_to_string(target) else { return false };
    prose(&text).any(|line| line.starts_with('#') && anchor(line) == *wanted)
}

#[test]
fn each_link_leads_somewhere() {
    let mut dead = Vec::new();
    let mut count = 0;
    for document in documents() {
        let found = links(&fs::read_to_string(&document).unwrap());
        count += found.len();
        let missing = found.into_iter().filter(|link| !is_there(&document, link));
        dead.extend(missing.map(|link| format!("{}: {link:?}", document.display())));
    }
    assert!(count > 100, "only {count} links");
    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn anchors_and_links_are_read_as_a_browser_does() {
    assert_eq!(anchor("## `HostModule` has entries, too"), "hostmodule-has-entries-too");
    let text = "[a](b.md#c) [d](#e)\n```\n[f](g)\n```\n[h](https://i) [j](k)";
    let link = |path: &str, anchor: Option<&str>| (path.to_owned(), anchor.map(str::to_owned));
    assert_eq!(links(text), [link("b.md", Some("c")), link("", Some("e")), link("k", None)]);
}
