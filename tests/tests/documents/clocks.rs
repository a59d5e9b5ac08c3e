//! No test depends on the time that anything takes: only `tests/wait` reads a clock or gives up its turn.

use std::fs;
use std::path::Path;

use crate::{root, rust_files};

/// What reads a clock, or waits for other tasks without saying for what.
const WORDS: [&str; 4] = ["Instant::now", "SystemTime::now", ".elapsed()", "yield_now"];

/// Programs that tests start, how tests wait, and the two files that list such words.
const OTHERS: [&str; 4] =
    ["tests/src/bin", "tests/wait", "tests/tests/documents/clocks.rs", "pmix-engine/src/tests/purity.rs"];

/// Whether a file, by its path in the workspace, is test code from its first line to its last.
fn is_test(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    let is_below = |dir: &str| path.parent().unwrap().iter().any(|part| part == dir);
    let is_named = ["tests.rs", "fixture.rs"].contains(&name) || name.ends_with("_tests.rs");
    is_named || is_below("tests") && !is_below("benches")
}

/// The lines of test code with their numbers: all of them, or those of modules that only tests have.
fn lines(text: &str, is_test: bool) -> Vec<(usize, &str)> {
    let mut end = None;
    let mut is_next = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        if end.is_none() && is_next && code.starts_with("mod ") && code.ends_with('{') {
            end = Some(format!("{indent}}}"));
        }
        is_next = code.starts_with("#[cfg(test)]") || is_next && code.starts_with("#[");
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
fn no_test_reads_a_clock() {
    let mut found = Vec::new();
    let mut count = 0;
    for file in rust_files(root()) {
        let path = file.strip_prefix(root()).unwrap();
        if OTHERS.iter().any(|other| path.starts_with(other)) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        for (number, line) in lines(&text, is_test(path)) {
            count += 1;
            let words = WORDS.iter().filter(|word| line.contains(*word));
            found.extend(words.map(|word| format!("{}:{number}: {word}", path.display())));
        }
    }
    assert!(count > 50_000, "only {count} lines of tests");
    assert!(found.is_empty(), "tests wait as pmix-test-wait does:\n{}", found.join("\n"));
}

#[test]
fn the_tests_in_a_source_are_found() {
    let text = "one\n#[cfg(test)]\nmod other;\n\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    // two\n    mod a {\n    }\n}\nthree\n";
    assert_eq!(lines(text, false).into_iter().map(|(number, _)| number).collect::<Vec<_>>(), [7, 9, 10, 11]);
    assert_eq!(lines(text, true).len(), 11);
    for path in ["a/src/tests.rs", "a/src/b_tests.rs", "a/tests/b.rs", "tests/src/c.rs", "tests/peers/d/e.rs"]
    {
        assert!(is_test(Path::new(path)), "{path}");
    }
    for path in ["a/src/b.rs", "tests/benches/b.rs"] {
        assert!(!is_test(Path::new(path)), "{path}");
    }
}
