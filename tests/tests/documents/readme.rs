//! What README.md shows is what the examples do.

use crate::root;
use std::fs;

#[test]
fn the_resource_manager_of_the_readme_is_the_example() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, section) = readme.split_once("## Embed it").unwrap();
    let (_, code) = section.split_once("```rust,no_run\n").unwrap();
    let (code, _) = code.split_once("```").unwrap();
    assert_eq!(code, fs::read_to_string(root().join("examples/embed.rs")).unwrap());
}
