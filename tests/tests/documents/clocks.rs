//! No test depends on the time that anything takes: only `tests/wait` reads a clock or gives up its turn.

use std::fs;

use crate::test_code::{is_test, lines, test_files};
use crate::{root, rust_files};

/// What reads a clock, or waits for other tasks without saying for what.
const WORDS: [&str; 5] = ["Instant::now", "SystemTime::now", ".elapsed()", "clock_gettime", "yield_now"];

/// Programs that tests start, how tests wait, and the two files that list such words.
const OTHERS: [&str; 4] =
    ["tests/src/bin", "tests/wait", "tests/tests/documents/clocks.rs", "pmix-engine/src/tests/purity.rs"];

#[test]
fn no_test_reads_a_clock() {
    let sources: Vec<_> = rust_files(root())
        .into_iter()
        .map(|file| (file.strip_prefix(root()).unwrap().to_owned(), fs::read_to_string(&file).unwrap()))
        .collect();
    let for_tests: Vec<_> = sources.iter().flat_map(|(path, text)| test_files(path, text)).collect();
    let mut found = Vec::new();
    let mut count = 0;
    for (path, text) in &sources {
        if OTHERS.iter().any(|other| path.starts_with(other)) {
            continue;
        }
        let is_test = is_test(path) || for_tests.iter().any(|dir| path.starts_with(dir));
        for (number, line) in lines(text, is_test) {
            count += 1;
            let words = WORDS.iter().filter(|word| line.contains(*word));
            found.extend(words.map(|word| format!("{}:{number}: {word}", path.display())));
        }
    }
    assert!(count > 50_000, "only {count} lines of tests");
    assert!(found.is_empty(), "tests wait as pmix-test-wait does:\n{}", found.join("\n"));
}
