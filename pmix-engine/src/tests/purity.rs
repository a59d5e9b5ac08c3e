//! The engine's sources hold what its module promises: no I/O, no clock, no lock, no order by hash.

/// Code of a file, without comments.
fn code(text: &str) -> String {
    let code_of = |line: &str| line.split_once("//").map_or(line, |(code, _)| code).to_owned();
    text.lines().map(code_of).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_engine_is_pure() {
    const FORBIDDEN: [&str; 15] = [
        "tokio",
        "async",
        "Instant::now",
        "SystemTime",
        "HashMap",
        "HashSet",
        "pmix_proto",
        "crate::host",
        "crate::handle",
        "tonic",
        "rustix",
        "std::thread",
        "std::fs",
        "Mutex",
        "Atomic",
    ];
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let mut files = 0;
    let mut paths = vec![std::path::PathBuf::from(directory)];
    while let Some(path) = paths.pop() {
        if path.is_dir() && !path.ends_with("tests") {
            paths.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        files += 1;
        let code = code(&std::fs::read_to_string(&path).unwrap());
        for word in FORBIDDEN {
            assert!(!code.contains(word), "{} mentions {word}", path.display());
        }
    }
    assert!(files > 10, "the sources are elsewhere: only {files} files in {directory}");
}

#[test]
fn comments_are_no_code() {
    assert_eq!(code("let a = 1; // tokio\n/// Mutex\n//! async\nb()"), "let a = 1; \n\n\nb()");
}
