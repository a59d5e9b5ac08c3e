//! What pages are told, as JSON. Ranks with the same state, or on the same node, are told as runs: of many ranks, few are special.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use pmix_tool::types::{ProcState, escaped};
use pmix_tool::watch::{JobProcs, Jobs};
use pmix_tool::{Event, Info, Nspace, keys};
use serde::Serialize;

/// Sentences about waits that are told.
const MAX_SENTENCES: usize = 100;
/// Characters of an event.
const MAX_TEXT: usize = 400;

/// Jobs and processes.
#[derive(Debug, Serialize)]
struct State<'a> {
    server: &'a Nspace,
    host: &'a str,
    problem: Option<&'a str>,
    states: Vec<StateName>,
    jobs: Vec<Job<'a>>,
}

/// A state, and the group that has its colour.
#[derive(Debug, Serialize)]
struct StateName {
    name: String,
    group: &'static str,
}

#[derive(Debug, Serialize)]
struct Job<'a> {
    nspace: &'a Nspace,
    /// First rank and number of each run of them.
    ranks: Vec<(u32, u32)>,
    /// In the order of the ranks: place in `states`, and how many.
    states: Vec<(usize, u32)>,
    /// The same with names of nodes.
    nodes: Vec<(&'a str, u32)>,
}

#[derive(Debug, Serialize)]
struct Waits {
    sentences: Vec<String>,
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct EventEntry {
    /// Milliseconds since 1970.
    at: u64,
    name: String,
    source: Option<String>,
    info: String,
}

#[derive(Debug, Serialize)]
struct Missed {
    at: u64,
    missed: u64,
}

/// Jobs and processes of a server; `problem` says why they may be old.
pub(super) fn state(server: &Nspace, host: &str, jobs: &Jobs, problem: Option<&str>) -> String {
    let mut places = BTreeMap::<ProcState, usize>::new();
    let mut states = Vec::new();
    let mut place_of = |state: ProcState| {
        *places.entry(state).or_insert_with(|| {
            states.push(StateName { name: state.to_string(), group: group(state) });
            states.len() - 1
        })
    };
    let jobs = jobs.iter().map(|(nspace, procs)| job(nspace, procs, &mut place_of)).collect();
    json(&State { server, host, problem, states, jobs })
}

fn job<'a>(
    nspace: &'a Nspace,
    procs: &'a JobProcs,
    place_of: &mut impl FnMut(ProcState) -> usize,
) -> Job<'a> {
    let mut ranks = Vec::<(u32, u32)>::new();
    for rank in procs.keys().map(|rank| rank.to_raw()) {
        match ranks.last_mut() {
            Some((first, count)) if first.checked_add(*count) == Some(rank) => *count += 1,
            _ => ranks.push((rank, 1)),
        }
    }
    Job {
        nspace,
        ranks,
        states: runs(procs.values().map(|row| place_of(row.state))),
        nodes: runs(procs.values().map(|row| row.hostname.as_deref().unwrap_or("?"))),
    }
}

fn runs<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<(T, u32)> {
    let mut runs = Vec::<(T, u32)>::new();
    for value in values {
        match runs.last_mut() {
            Some((last, count)) if *last == value => *count += 1,
            _ => runs.push((value, 1)),
        }
    }
    runs
}

/// The group of a state that has its own colour on the page.
fn group(state: ProcState) -> &'static str {
    match state {
        ProcState::UNDEF | ProcState::PREPPED | ProcState::LAUNCH_UNDERWAY | ProcState::RESTART => "starting",
        ProcState::RUNNING => "running",
        ProcState::CONNECTED => "connected",
        state if state.is_abnormal() => "failed",
        state if state.is_terminated() => "done",
        _ => "other",
    }
}

/// What waits, or why that is not known.
pub(super) fn waits(told: Result<Vec<String>, String>) -> String {
    let (mut sentences, problem) = match told {
        Ok(sentences) => (sentences, None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    let more = sentences.len().saturating_sub(MAX_SENTENCES);
    sentences.truncate(MAX_SENTENCES);
    if more > 0 {
        sentences.push(format!("and {more} more: `pmix why` tells them"));
    }
    json(&Waits { sentences, problem })
}

/// An event.
pub(super) fn event(event: &Event) -> String {
    let mut info = String::new();
    // the page shows the time, and to whom it is told is no news to a person
    let is_news = |one: &&Info| !one.is(&keys::EVENT_TIMESTAMP) && !one.is(&keys::EVENT_CUSTOM_RANGE);
    for one in event.info.as_slice().iter().filter(is_news) {
        if info.len() > MAX_TEXT {
            break;
        }
        info.push_str(&format!("{}={} ", one.key, one.value));
    }
    let mut text: String = info.trim_end().chars().take(MAX_TEXT).collect();
    if text.len() < info.trim_end().len() {
        text.push_str("...");
    }
    let source = Some(&event.source).filter(|source| source.is_valid()).map(ToString::to_string);
    json(&EventEntry { at: now(), name: event.code.to_string(), source, info: escaped(&text).to_string() })
}

/// So many events are missing.
pub(super) fn missed(missed: u64) -> String {
    json(&Missed { at: now(), missed })
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// One line: it cannot end the message that it is in.
fn json(told: &impl Serialize) -> String {
    serde_json::to_string(told).unwrap_or_else(|error| {
        tracing::error!(%error, "news for a page");
        String::new()
    })
}

#[cfg(test)]
mod tests {
    use pmix_tool::types::Status;
    use pmix_tool::{ProcId, ProcInfo, Rank};

    use super::*;

    fn row(rank: u32, state: ProcState, node: &str) -> ProcInfo {
        let mut row = ProcInfo::new(ProcId::new("job".parse().unwrap(), Rank::new(rank).unwrap()));
        (row.state, row.hostname) = (state, Some(node.to_owned()));
        row
    }

    fn told(rows: Vec<ProcInfo>) -> (String, serde_json::Value) {
        let mut jobs = Jobs::new();
        jobs.insert("job".parse().unwrap(), rows);
        let text = state(&"srv".parse().unwrap(), "here", &jobs, None);
        let json = serde_json::from_str(&text).unwrap();
        (text, json)
    }

    #[test]
    fn ranks_are_told_in_runs() {
        let (_, json) = told(vec![
            row(0, ProcState::CONNECTED, "a"),
            row(1, ProcState::CONNECTED, "a"),
            row(2, ProcState::TERM_NON_ZERO, "b"),
            row(7, ProcState::CONNECTED, "b"),
        ]);
        assert_eq!(json["jobs"][0]["ranks"], serde_json::json!([[0, 3], [7, 1]]));
        assert_eq!(json["jobs"][0]["states"], serde_json::json!([[0, 2], [1, 1], [0, 1]]));
        assert_eq!(json["jobs"][0]["nodes"], serde_json::json!([["a", 2], ["b", 2]]));
        assert_eq!(json["states"][0], serde_json::json!({"name": "CONNECTED", "group": "connected"}));
        assert_eq!(json["states"][1]["group"], "failed");
    }

    #[test]
    fn ten_thousand_ranks_are_few_bytes() {
        let (text, _) = told((0..10_000).map(|rank| row(rank, ProcState::CONNECTED, "node")).collect());
        assert!(text.len() < 300, "{text}");
        let states = [ProcState::CONNECTED, ProcState::RUNNING];
        let names: Vec<_> = (0..10).map(|node| format!("node-{node}")).collect();
        let each = |rank: usize| row(rank as u32, states[rank % 2], &names[rank % 10]);
        let (text, _) = told((0..10_000).map(each).collect());
        assert!(text.len() < 250_000, "{}", text.len());
    }

    #[test]
    fn what_processes_say_is_cut_short_and_ends_no_message() {
        let long = "x\n\n\u{7}data: y".repeat(1000);
        let one =
            Event::new(Status::EVENT_JOB_END, ProcId::new("job".parse().unwrap(), Rank::new(0).unwrap()))
                .with_info(Info::new(&keys::EVENT_TEXT_MESSAGE, long));
        let text = event(&one);
        assert!(!text.contains('\n') && text.len() < 4 * MAX_TEXT, "{text}");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["name"], &json["source"]), (&"EVENT_JOB_END".into(), &"job:0".into()));
        assert!(json["info"].as_str().unwrap().ends_with("..."), "{text}");
        let many = waits(Ok(vec!["one waits".to_owned(); 250]));
        assert!(many.contains("and 150 more"), "{many}");
        assert!(waits(Err("no".to_owned())).contains("\"problem\":\"no\""));
    }
}
