//! The table of limits in `docs/limits.md` against the sources: what it names is there, and no limit is missing.

use crate::{names, root, sources};

/// Limits that are of no queue or table: how many are named in a message, how deep directories are cleared, how much of a
/// file is read.
const OF_NOTHING_HELD: [&str; 3] = ["MAX_NAMED", "MAX_DEPTH", "MAX_FILE"];

/// The cells of each row.
fn rows() -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join("docs/limits.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn each_limit_of_the_table_is_set_and_tested() {
    let all = sources(root());
    let rows = rows();
    assert!(rows.len() > 30, "{rows:?}");
    for row in &rows {
        let [what, bound, full, set_by, test] = row.as_slice() else { panic!("{row:?}") };
        assert!([what, bound, full].iter().all(|cell| !cell.is_empty()), "{row:?}");
        assert!(!names(set_by).is_empty() && !names(test).is_empty(), "{row:?}");
        for name in names(set_by) {
            let places = [
                format!("const {name}:"),
                format!("pub {name}:"),
                format!("fn {name}("),
                format!("struct {name} "),
            ];
            assert!(places.iter().any(|place| all.contains(place)), "{what}: nothing is called {name}");
        }
        for test in names(test) {
            assert!(all.contains(&format!("fn {test}()")), "{what}: there is no test {test}");
        }
    }
}

#[test]
fn each_limit_of_the_server_is_in_the_table() {
    let rows = rows();
    let listed: Vec<_> = rows.iter().flat_map(|row| names(&row[3])).collect();
    let parts = ["pmix-engine/src", "pmix-server/src", "pmix-host/src"];
    let all: String = parts.iter().map(|part| sources(&root().join(part))).collect();
    let named = all.split("const MAX_").skip(1).filter_map(|rest| rest.split_once(':'));
    let limits = named.filter(|(_, rest)| rest.trim_start().starts_with("usize"));
    let mut missing: Vec<_> = limits.map(|(name, _)| format!("MAX_{name}")).collect();
    missing.retain(|name| !listed.contains(&name.as_str()) && !OF_NOTHING_HELD.contains(&name.as_str()));
    assert!(missing.is_empty(), "not in the table of docs/limits.md: {missing:?}");
}
