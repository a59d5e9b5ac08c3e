//! The threat model: each sentence has a test.

use crate::{names, root, sources};

/// Sections whose sentences say what holds. The others say how to report, and what does not.
const HOLDING: [&str; 5] = [
    "Another user gets nothing but a refusal",
    "Several users on one server",
    "Several users in one DVM",
    "Several nodes",
    "No peer can",
];

/// The items of a section, each in one line.
fn items(section: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in section.lines() {
        match (line.strip_prefix("- "), items.last_mut()) {
            (Some(begin), _) => items.push(begin.to_owned()),
            (None, Some(item)) if line.starts_with("  ") => {
                item.push(' ');
                item.push_str(line.trim_start());
            }
            _ => {}
        }
    }
    items
}

#[test]
fn each_sentence_of_the_threat_model_has_its_tests() {
    let text = std::fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let all = sources(root());
    for heading in HOLDING {
        let (_, section) = text.split_once(&format!("\n## {heading}\n")).expect(heading);
        let items = items(section.split("\n## ").next().unwrap());
        assert!(items.len() > 4, "{heading}: {items:?}");
        for item in &items {
            let tests: Vec<&str> =
                names(item).into_iter().filter(|name| name.contains('_') && !name.contains("::")).collect();
            assert!(!tests.is_empty(), "no test holds: {item}");
            for test in tests {
                assert!(all.contains(&format!("fn {test}()")), "{item}: there is no test {test}");
            }
        }
    }
}
