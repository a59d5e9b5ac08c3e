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

/// The crates that a package of ours needs, itself included.
fn needed(package: &str, features: &[&str]) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--quiet", "--locked", "--no-dedupe", "--prefix", "none", "--format", "{p}"]);
    cargo.args(["--edges", "normal", "--package", package]).args(features);
    let output = cargo.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_tool_library_needs_at_most_five_crates_more_than_the_client() {
    let client = needed("pmix-client", &["--no-default-features", "--features", "native-wire"]);
    let tool = needed("pmix-tool", &[]);
    let more: Vec<_> = tool.difference(&client).filter(|name| !name.starts_with("pmix-tool ")).collect();
    assert!(client.len() > 40 && tool.is_superset(&client), "{client:?}");
    assert!(more.len() <= 5, "{more:?}");
}

#[test]
fn small_crates_stay_small() {
    let text = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| `pmix-"))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    assert!(rows.len() > 8, "{rows:?}");
    for row in rows {
        let [package, most, with_defaults] = row.as_slice() else { panic!("{row:?}") };
        for (features, most) in [(&["--no-default-features"][..], most), (&[][..], with_defaults)] {
            let (count, most) = (needed(package, features).len(), most.parse().unwrap());
            assert!(count <= most, "{package} {features:?} needs {count} crates, {most} at most");
        }
    }
}
