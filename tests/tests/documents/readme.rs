//! The code that the documents show is that of the examples.

use crate::root;
use std::fs;

#[test]
fn the_resource_manager_of_the_documents_is_the_example() {
    let page = fs::read_to_string(root().join("docs/embed.md")).unwrap();
    let (_, code) = page.split_once("```rust,no_run\n").unwrap();
    let (code, _) = code.split_once("```").unwrap();
    assert_eq!(code, fs::read_to_string(root().join("examples/embed.rs")).unwrap());
}
