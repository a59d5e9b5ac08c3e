//! Crates have the same features whichever members are tested or built, so that cargo builds each of them once; small crates stay small.

use std::collections::BTreeSet;
use std::process::Command;

use crate::root;

/// The crates that these members are built with, each with its features.
fn crates(edges: &str, members: &[&str]) -> BTreeSet<(String, String)> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--quiet", "--locked", "--no-dedupe", "--prefix", "none", "--format", "{p}|{f}"]);
    cargo.args(["--edges", edges]).args(members.iter().flat_map(|member| ["--package", member]));
    let output = cargo.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = String::from_utf8(output.stdout).unwrap();
    let rows = rows.lines().filter_map(|row| row.trim_end_matches(" (*)").split_once('|'));
    rows.map(|(name, features)| (name.to_owned(), features.to_owned())).collect()
}

#[test]
fn each_crate_is_built_once_for_all_tests() {
    let default = crates("normal,build,dev", &[]);
    assert!(default.len() > 100, "{default:?}");
    let names: BTreeSet<_> = default.iter().map(|(name, _)| name).collect();
    let programs = ["pmix-tests", "pmix-rm", "pmix-cli", "pmix-mpir", "pmix-examples"];
    for (what, some) in [
        ("tests", crates("normal,build,dev", &["pmix-tests"])),
        ("tests with peers", crates("normal,build,dev", &["pmix-peers"])),
        ("programs", crates("normal,build", &programs)),
    ] {
        let differ: Vec<_> = some.difference(&default).filter(|(name, _)| names.contains(name)).collect();
        assert!(differ.is_empty(), "{what} alone: tests/Cargo.toml lacks a feature: {differ:#?}");
    }
}

#[test]
fn the_tool_library_needs_at_most_five_crates_more_than_the_client() {
    let client = crates("normal", &["pmix-client"]);
    let of_client: BTreeSet<_> = client.iter().map(|(name, _)| name).collect();
    let tool = crates("normal", &["pmix-tool"]);
    let of_tool: BTreeSet<_> = tool.iter().map(|(name, _)| name).collect();
    let more: Vec<_> =
        of_tool.difference(&of_client).filter(|name| !name.starts_with("pmix-tool ")).collect();
    assert!(of_client.len() > 50 && of_tool.is_superset(&of_client), "{of_client:?}");
    assert!(more.len() <= 5, "{more:?}");
}
