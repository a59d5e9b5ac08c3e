//! Which code is for tests alone.

use std::path::{Path, PathBuf};

/// Whether a file, by its path in the workspace, is test code from its first line to its last.
pub(super) fn is_test(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    let is_below = |dir: &str| path.parent().unwrap().iter().any(|part| part == dir);
    let is_named = ["tests.rs", "fixture.rs"].contains(&name) || name.ends_with("_tests.rs");
    is_named || is_below("tests") && !is_below("benches")
}

/// Whether a line begins what only tests have, whatever else it needs.
pub(super) fn is_for_tests(code: &str) -> bool {
    let words = code.strip_prefix("#[cfg(").unwrap_or_default();
    let mut words = words.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '"');
    words.any(|word| word == "test") && !code.contains("not(test)") && !code.contains("any(")
}

/// The modules in files of their own that a source has for tests alone.
pub(super) fn test_files<'a>(path: &'a Path, text: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    let stem = path.file_stem().unwrap();
    let is_root = ["mod", "lib", "main"].iter().any(|name| *name == stem);
    let dir = if is_root { path.with_file_name("") } else { path.with_extension("") };
    let mut is_next = false;
    let names = text.lines().map(str::trim_start).filter_map(move |code| {
        let name = code.split_once("mod ").and_then(|(_, name)| name.strip_suffix(';'));
        let found = name.filter(|_| is_next);
        is_next = is_for_tests(code) || is_next && code.starts_with("#[");
        found
    });
    names.flat_map(move |name| [dir.join(format!("{name}.rs")), dir.join(name)])
}

/// The lines of test code with their numbers: all of them, or those of modules that only tests have.
pub(super) fn lines(text: &str, is_test: bool) -> Vec<(usize, &str)> {
    let mut end = None;
    let mut is_next = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        if end.is_none() && is_next && code.starts_with("mod ") && code.ends_with('{') {
            end = Some(format!("{indent}}}"));
        }
        is_next = is_for_tests(code) || is_next && code.starts_with("#[");
        if (is_test || end.is_some()) && !code.starts_with("//") {
            found.push((number, line));
        }
        if end.as_deref() == Some(line) {
            end = None;
        }
    }
    found
}

#[test]
fn the_tests_in_a_source_are_found() {
    let text = "one\n#[cfg(test)]\nmod other;\n\n#[cfg(all(test, feature = \"a\"))]\n#[allow(x)]\nmod tests {\n    // two\n    mod a {\n    }\n}\nthree\n";
    assert_eq!(lines(text, false).into_iter().map(|(number, _)| number).collect::<Vec<_>>(), [7, 9, 10, 11]);
    assert_eq!(lines(text, true).len(), 11);
    for (path, file) in [("a/src/lib.rs", "a/src/other.rs"), ("a/src/b.rs", "a/src/b/other.rs")] {
        let found: Vec<_> = test_files(Path::new(path), text).collect();
        assert_eq!(found, [PathBuf::from(file), Path::new(file).with_extension("")]);
    }
    assert!(!is_for_tests("#[cfg(not(test))]") && !is_for_tests("#[cfg(feature = \"test\")]"));
    for path in ["a/src/tests.rs", "a/src/b_tests.rs", "a/tests/b.rs", "tests/src/c.rs", "tests/peers/d/e.rs"]
    {
        assert!(is_test(Path::new(path)), "{path}");
    }
    for path in ["a/src/b.rs", "tests/benches/b.rs"] {
        assert!(!is_test(Path::new(path)), "{path}");
    }
}
