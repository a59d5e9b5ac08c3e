//! `tests/native-wire.tsv` names existing tests.

use std::fs;

use crate::{root, rust_files};

#[test]
fn each_test_that_the_native_wire_cannot_pass_exists() {
    let dir = root().join("tests/tests/node");
    let sources = rust_files(&dir).into_iter().map(|file| {
        let module = file.strip_prefix(&dir).unwrap().with_extension("");
        let module = module.iter().map(|part| part.to_str().unwrap()).collect::<Vec<_>>().join("::");
        (module, fs::read_to_string(file).unwrap())
    });
    let sources: Vec<_> = sources.collect();
    let rows = fs::read_to_string(root().join("tests/native-wire.tsv")).unwrap();
    let names: Vec<_> = rows.lines().skip(1).filter_map(|row| row.split('\t').next()).collect();
    assert!(!names.is_empty());
    for name in names {
        let (module, test) = name.rsplit_once("::").unwrap();
        let is_there = |(known, text): &(String, String)| {
            known == module
                && [format!("fn {test}("), format!("{test}:")].iter().any(|word| text.contains(word))
        };
        assert!(sources.iter().any(is_there), "tests/native-wire.tsv: there is no {name}");
    }
}
