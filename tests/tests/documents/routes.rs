//! The routes of requests through the sources, as `docs/howto/follow.md` describes them.

use std::collections::BTreeSet;
use std::fs;

use crate::{names, root};

const PAGE: &str = "docs/howto/follow.md";

/// Routes that are part of others.
const PARTS: [&str; 2] = ["To the engine", "To the process"];

/// Each route, and the most files that it may have.
const ROUTES: [(&str, usize); 3] =
    [("A fence that collects data", 17), ("A get from another node", 16), ("A publish of a C program", 12)];

#[derive(Debug)]
struct Step {
    file: String,
    function: String,
    /// The word that leads to the next step; empty at the end.
    leads_on: String,
}

fn text_of(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{PAGE} names {file}: {error}"))
}

fn section<'a>(page: &'a str, title: &str) -> &'a str {
    let (_, section) = page.split_once(&format!("\n## {title}\n")).unwrap();
    section.split("\n## ").next().unwrap()
}

/// The steps under a heading, with those of the parts to which it refers.
fn steps(page: &str, title: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for row in section(page, title).lines().filter(|row| row.starts_with("| `") || row.starts_with("| [")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [place, _, leads_on] = cells[..] else { panic!("{row}") };
        let leads_on = names(leads_on).first().copied().unwrap_or_default().to_owned();
        if let Some(part) = PARTS.iter().find(|part| place.starts_with(&format!("[{}]", part.to_lowercase())))
        {
            steps.extend(self::steps(page, part));
            steps.last_mut().unwrap().leads_on = leads_on;
        } else {
            let [file, function] = names(place)[..] else { panic!("{row}") };
            steps.push(Step { file: file.to_owned(), function: function.to_owned(), leads_on });
        }
    }
    steps
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|found| found == word)
}

#[test]
fn each_step_of_a_route_leads_to_the_next() {
    let page = text_of(PAGE);
    for (route, _) in ROUTES {
        let steps = steps(&page, route);
        for step in &steps {
            let text = text_of(&step.file);
            let mut functions = text.split("fn ").skip(1).map(|rest| rest.split(['(', '<']).next().unwrap());
            let has_function = functions.any(|function| function == step.function);
            assert!(has_function, "{route}: {} has no function {}", step.file, step.function);
        }
        for [step, next] in steps.array_windows() {
            assert!(!step.leads_on.is_empty(), "{route}: nothing leads on from {step:?}");
            for file in [&step.file, &next.file] {
                assert!(has_word(&text_of(file), &step.leads_on), "{route}: {file} has no {}", step.leads_on);
            }
        }
        assert_eq!(steps.last().unwrap().leads_on, "", "{route}: its last step leads nowhere");
    }
}

#[test]
fn a_route_has_as_many_files_as_the_page_says_and_no_more_than_that() {
    let page = text_of(PAGE);
    for (route, most) in ROUTES {
        let files: BTreeSet<_> = steps(&page, route).into_iter().map(|step| step.file).collect();
        let said = format!(": {} files.", files.len());
        assert!(files.len() <= most, "{route}: {files:?}");
        assert!(section(&page, route).contains(&said), "{route}: the page does not say{said}");
    }
}
