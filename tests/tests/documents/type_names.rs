//! No two types of a crate have the same name, so that nobody needs the path of a type to know which one is meant.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use crate::test_code::{is_for_tests, is_test, lines, test_files};
use crate::{is_generated, root, rust_files};

/// A build has one of these types.
const OF_TWO_BUILDS: &str = "builds with a feature have one, builds without it the other";
/// No name may be added to these.
const TO_BE_RENAMED: &str = "to be renamed";

/// Names that several types of a crate have, and why.
const SHARED: [(&str, &[&str], &str); 11] = [
    ("pmix-cli", &["Args", "Report"], "each command has one, in a module named as the command is"),
    ("pmix-host", &["Syslog"], OF_TWO_BUILDS),
    ("pmix-rm", &["Log"], OF_TWO_BUILDS),
    ("pmix-server", &["Front", "Pmi1Socket"], OF_TWO_BUILDS),
    ("pmix-bench", &["Side"], TO_BE_RENAMED),
    (
        "pmix-cli",
        &[
            "Attached",
            "Command",
            "Datum",
            "Happened",
            "JobReport",
            "Kind",
            "Line",
            "Lines",
            "Named",
            "News",
            "Range",
            "Reader",
            "Seen",
            "ServerReport",
        ],
        TO_BE_RENAMED,
    ),
    ("pmix-host", &["Named", "Order", "Part", "Requester", "State"], TO_BE_RENAMED),
    ("pmix-launch", &["Leader", "Started", "State"], TO_BE_RENAMED),
    (
        "pmix-rm",
        &[
            "Changes", "Daemon", "End", "Ended", "Head", "Inner", "Line", "Native", "Said", "Server",
            "Stream", "Way",
        ],
        TO_BE_RENAMED,
    ),
    (
        "pmix-server",
        &[
            "Connection",
            "Counted",
            "Files",
            "Open",
            "Place",
            "Port",
            "Reading",
            "Services",
            "Shared",
            "State",
            "Unread",
        ],
        TO_BE_RENAMED,
    ),
    ("pmix-tool", &["Shared", "State"], TO_BE_RENAMED),
];

/// The structs, enums, unions and traits that a source has for more than tests.
fn types(text: &str) -> Vec<&str> {
    let of_tests: BTreeSet<_> = lines(text, false).into_iter().map(|(number, _)| number).collect();
    let mut is_next = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.trim_start();
        let name = declared(code).filter(|_| !is_next && !of_tests.contains(&number));
        found.extend(name);
        is_next = is_for_tests(code) || is_next && code.starts_with("#[");
    }
    found
}

/// The name of the type that a line declares. That of a macro's template is not known here.
fn declared(code: &str) -> Option<&str> {
    let code = match code.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => code.strip_prefix("pub ").unwrap_or(code),
    };
    let code = code.strip_prefix("unsafe ").unwrap_or(code);
    let (kind, rest) = code.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (["struct", "enum", "union", "trait"].contains(&kind) && !name.is_empty()).then_some(name)
}

/// The names that several types of a crate have, with the files of these; of sources by their paths in the workspace.
fn repeats(sources: &[(PathBuf, String)]) -> BTreeMap<(&str, &str), Vec<&str>> {
    let of_tests: BTreeSet<_> = sources.iter().flat_map(|(path, text)| test_files(path, text)).collect();
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (path, text) in sources {
        let is_test = is_test(path) || path.ancestors().any(|dir| of_tests.contains(dir));
        let Some((package, file)) = path.to_str().unwrap().split_once("/src/") else { continue };
        if !is_test && !is_generated(text) {
            types(text).into_iter().for_each(|name| found.entry((package, name)).or_default().push(file));
        }
    }
    found.retain(|_, files| files.len() > 1);
    found
}

#[test]
fn type_names_are_unique_in_a_crate() {
    let path = |file: &PathBuf| file.strip_prefix(root()).unwrap().to_owned();
    let sources = rust_files(root()).into_iter();
    let sources: Vec<_> = sources.map(|file| (path(&file), fs::read_to_string(&file).unwrap())).collect();
    let mut repeats = repeats(&sources);
    let mut stale = Vec::new();
    for (package, names, why) in SHARED {
        let gone = names.iter().filter(|name| repeats.remove(&(package, **name)).is_none());
        stale.extend(gone.map(|name| format!("{package}: {name} ({why})")));
    }
    let repeated = repeats.iter();
    let repeated =
        repeated.map(|((package, name), files)| format!("{package}: {name}: {}", files.join(", ")));
    let repeated: Vec<_> = repeated.collect();
    assert!(repeated.is_empty(), "types of a crate with the same name:\n{}", repeated.join("\n"));
    assert!(stale.is_empty(), "one type has this name; take it out of SHARED:\n{}", stale.join("\n"));
}

#[test]
fn types_are_found_but_for_those_of_tests_and_templates() {
    let text = "pub struct A<T>(T);\n// struct No;\n    pub(in crate::x) enum B {\n    struct: u32,\n    }\npub unsafe trait C: D {}\n\
                pub struct $name {\n#[cfg(test)]\n#[derive(Debug)]\nstruct E;\nunion F {}\nimpl G for A {}\ntype H = A;\n\
                #[cfg(test)]\nmod tests {\n    struct I;\n}\nstruct J;\n";
    assert_eq!(types(text), ["A", "B", "C", "F", "J"]);
}

#[test]
fn a_name_is_repeated_within_a_crate_only() {
    let sources = [
        ("a/src/lib.rs", "struct One;\n#[cfg(test)]\nmod made;\n"),
        ("a/src/b/c.rs", "enum One {}\nstruct Two;\n"),
        ("a/src/b_tests.rs", "struct Two;\n"),
        ("a/src/made/d.rs", "struct Two;\n"),
        ("a/src/gen/e.rs", "// This file is @generated by a program.\nstruct Two;\n"),
        ("a/examples/f.rs", "struct Two;\n"),
        ("b/src/lib.rs", "struct One;\nstruct Two;\n"),
    ];
    let sources = sources.map(|(path, text)| (PathBuf::from(path), text.to_owned()));
    assert_eq!(repeats(&sources), BTreeMap::from([(("a", "One"), vec!["lib.rs", "b/c.rs"])]));
}
