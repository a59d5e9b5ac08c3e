//! The layers: crates know only crates below them, files do not import each other in large circles, and no file is long.

mod circles;
mod imports;
mod uses;
mod workspace;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use self::circles::{Graph, circles};
use self::imports::Sources;
use self::workspace::{Package, packages};
use crate::{files, is_generated, names, root};

/// Files of a circle: more are no longer read together.
const MAX_CIRCLE: usize = 8;

/// Lines of a file that somebody has written.
const MAX_LINES: usize = 600;

/// Circles that are still to be untangled, with their sizes, largest first. None may grow, and none may be added.
const TO_BE_UNTANGLED: [(&str, &[usize]); 0] = [];

/// A row of the table in `ARCHITECTURE.md`, lowest layer first.
struct Layer {
    name: String,
    /// Crates of ours that it may depend on.
    may_know: BTreeSet<String>,
    /// Crates of others that it must not depend on.
    never: BTreeSet<String>,
}

fn layers() -> Vec<Layer> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, section) = text.split_once("\n## Layers\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let layer = |row: &str| {
        let cells: Vec<_> = row.trim_matches('|').split('|').collect();
        let [name, _, may_know, never] = cells.as_slice() else { panic!("{row}") };
        let all = |cell: &str| names(cell).into_iter().map(str::to_owned).collect();
        Layer { name: names(name).concat(), may_know: all(may_know), never: all(never) }
    };
    rows.map(layer).collect()
}

/// What is wrong with the dependencies of the crates, in words.
fn wrong_dependencies(layers: &[Layer], packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in packages.iter().filter(|package| package.is_published()) {
        let name = &package.name;
        let Some(layer) = layers.iter().find(|layer| layer.name == *name) else {
            wrong.push(format!("{name} has no row"));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.is_for_tests()) {
            let on = &dependency.name;
            let is_ours = packages.iter().any(|package| package.name == *on);
            if layer.never.contains(on) || (is_ours && !layer.may_know.contains(on)) {
                wrong.push(format!("{name} must not depend on {on}"));
            }
        }
    }
    wrong
}

#[test]
fn each_layer_knows_only_layers_below_it() {
    let layers = layers();
    assert!(layers.len() > 7, "the table has {} rows", layers.len());
    let mut below = BTreeSet::new();
    for layer in &layers {
        let unknown: Vec<_> = layer.may_know.difference(&below).collect();
        assert!(unknown.is_empty(), "{} may know {unknown:?}, which no row above it is", layer.name);
        assert!(below.insert(layer.name.clone()), "{} has two rows", layer.name);
    }
}

#[test]
fn no_crate_depends_on_a_higher_layer() {
    let wrong = wrong_dependencies(&layers(), &packages());
    assert!(wrong.is_empty(), "see \"Layers\" in ARCHITECTURE.md:\n{}", wrong.join("\n"));
}

#[test]
fn a_dependency_upwards_or_on_what_a_layer_never_needs_is_found() {
    let package = r#"{"name": "low", "manifest_path": "/low/Cargo.toml", "publish": null, "dependencies": [
        {"name": "high", "kind": null}, {"name": "tokio", "kind": "build"}, {"name": "bytes", "kind": null},
        {"name": "high", "kind": "dev"}]}"#;
    let high = r#"{"name": "high", "manifest_path": "/high/Cargo.toml", "publish": null, "dependencies": [
        {"name": "low", "kind": null}, {"name": "tokio", "kind": null}, {"name": "aside", "kind": null}]}"#;
    let aside =
        r#"{"name": "aside", "manifest_path": "/aside/Cargo.toml", "publish": [], "dependencies": []}"#;
    let packages = [package, high, aside].map(|text| serde_json::from_str(text).unwrap());
    let layer = |name: &str, may_know: &[&str], never: &[&str]| {
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Layer { name: name.to_owned(), may_know: all(may_know), never: all(never) }
    };
    let layers = [layer("low", &[], &["tokio"]), layer("high", &["low"], &[])];
    assert_eq!(
        wrong_dependencies(&layers, &packages),
        ["low must not depend on high", "low must not depend on tokio", "high must not depend on aside"]
    );
    assert_eq!(wrong_dependencies(&layers[1..], &packages)[0], "low has no row");
}

/// Cargo allows this, but such a crate cannot be published.
#[test]
fn no_crate_needs_itself_for_its_tests() {
    let packages = packages();
    let ours: BTreeSet<_> = packages.iter().map(|package| package.name.as_str()).collect();
    let of = |package: &Package| {
        let on = package.dependencies.iter().map(|dependency| dependency.name.clone());
        on.filter(|on| ours.contains(on.as_str()) && *on != package.name).collect()
    };
    let graph: Graph<String> = packages.iter().map(|package| (package.name.clone(), of(package))).collect();
    let found = circles(&graph);
    assert!(found.is_empty(), "{found:?}");
}

/// What is wrong with circles of these sizes, where these are known; both largest first.
fn wrong_circles(found: &[usize], known: &[usize]) -> Option<&'static str> {
    if found.len() < known.len() {
        Some("a circle that is listed is gone; take it out of TO_BE_UNTANGLED")
    } else if found.len() > known.len() {
        Some("there is a new circle")
    } else if found.iter().zip(known).any(|(found, known)| found > known) {
        Some("a circle has grown")
    } else {
        None
    }
}

#[test]
fn no_new_large_circle_of_files() {
    let mut known: BTreeMap<&str, &[usize]> = TO_BE_UNTANGLED.into();
    let packages = packages();
    let mut files = 0;
    let mut wrong = Vec::new();
    for package in &packages {
        let src = package.folder().join("src");
        if !src.is_dir() {
            continue;
        }
        let graph = Sources::read(&src).imports();
        files += graph.len();
        let mut large = circles(&graph);
        large.retain(|circle| circle.len() > MAX_CIRCLE);
        let sizes: Vec<_> = large.iter().map(Vec::len).collect();
        if let Some(why) = wrong_circles(&sizes, known.remove(package.name.as_str()).unwrap_or_default()) {
            let modules = large
                .iter()
                .map(|circle| circle.iter().map(|module| module.join("::")).collect::<Vec<_>>().join(", "));
            wrong.push(format!(
                "{}: {why}, {sizes:?}:\n  {}",
                package.name,
                modules.collect::<Vec<_>>().join("\n  ")
            ));
        }
    }
    assert!(files > 300, "only {files} files");
    wrong.extend(
        known.into_keys().map(|name| format!("there is no crate {name}; take it out of TO_BE_UNTANGLED")),
    );
    assert!(
        wrong.is_empty(),
        "files may import each other in circles of {MAX_CIRCLE} at most:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn circles_that_are_known_may_shrink_but_not_grow_or_stay_listed() {
    assert_eq!(wrong_circles(&[20, 9], &[20, 10]), None);
    assert!(wrong_circles(&[20, 11], &[20, 10]).unwrap().contains("grown"));
    assert!(wrong_circles(&[20, 9], &[20]).unwrap().contains("new"));
    assert!(wrong_circles(&[], &[20]).unwrap().contains("gone"));
}

/// Whether the limit of lines applies: somebody wrote the file, and it is no test.
///
/// A file is generated if its first line says so; tests are in a folder `tests`, or in a file named `tests` or `..._tests`.
fn is_limited(path: &Path, text: &str) -> bool {
    let is_code = path
        .extension()
        .is_some_and(|extension| ["rs", "c", "h", "py", "proto"].iter().any(|code| extension == *code));
    let is_test =
        path.with_extension("").iter().any(|part| part.to_str().is_some_and(|part| part.ends_with("tests")));
    is_code && !is_test && !is_generated(text)
}

#[test]
fn no_file_that_somebody_wrote_is_long() {
    let mut long = Vec::new();
    let mut limited = 0;
    for file in files(root()) {
        let path = file.strip_prefix(root()).unwrap();
        let Ok(text) = fs::read_to_string(&file) else { continue };
        if !is_limited(path, &text) {
            continue;
        }
        limited += 1;
        let lines = text.lines().count();
        if lines > MAX_LINES {
            long.push(format!("{}: {lines}", path.display()));
        }
    }
    assert!(limited > 400, "only {limited} files");
    assert!(long.is_empty(), "more than {MAX_LINES} lines:\n{}", long.join("\n"));
}

#[test]
fn tests_and_generated_files_may_be_long() {
    let limited = |path: &str, text: &str| is_limited(Path::new(path), text);
    assert!(limited("a/src/b.rs", "//! Words.\n// Generated words"));
    assert!(limited("a/c/b.c", ""));
    assert!(!limited("a/src/keys.rs", "// Generated from tables"));
    assert!(!limited("a/src/gen/p.rs", "// This file is @generated by prost-build."));
    assert!(
        !limited("a/tests/b.rs", "") && !limited("a/src/b_tests.rs", "") && !limited("a/src/b/tests.rs", "")
    );
    assert!(!limited("a/README.md", ""));
}
