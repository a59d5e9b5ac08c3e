//! `targets`: which ratios are as low as they are meant to be.

use std::collections::BTreeMap;
use std::fmt;

use crate::record::Record;
use crate::table::{C_RANKS, HASH, RUST_RANKS, THEIRS, Table};

/// What a ratio is to be at most, at several numbers of ranks.
#[derive(Clone, Copy, Debug)]
struct Target {
    metric: &'static str,
    side: &'static str,
    /// Against the better of the C library's stores, or against this one.
    store: Option<&'static str>,
    at_most: f64,
    size: Size,
    ns: &'static [u64],
}

/// The `size` of the rows that are meant.
#[derive(Clone, Copy, Debug)]
enum Size {
    /// As many as there are ranks on the node.
    Ranks,
    Is(u64),
}

use Size::{Is, Ranks};

const LOCAL: &[u64] = &[2, 8, 32, 64];

/// Of ranks in Rust on our server.
const fn rust(metric: &'static str, at_most: f64, size: Size, ns: &'static [u64]) -> Target {
    Target { metric, side: RUST_RANKS, store: None, at_most, size, ns }
}

/// Of ranks in C on our server, which are to be no slower than on their own.
const fn c(metric: &'static str, size: Size) -> Target {
    Target { metric, side: C_RANKS, store: None, at_most: 1.0, size, ns: LOCAL }
}

const fn against_hash(target: Target) -> Target {
    Target { store: Some(HASH), ..target }
}

/// A rate's ratio is theirs by ours, so 0.5 is twice their rate.
const TARGETS: &[Target] = &[
    rust("get_job_level_1cpu", 0.05, Ranks, &[1]),
    rust("get_proc_level_1cpu", 0.05, Ranks, &[1]),
    rust("put_1cpu", 0.05, Is(8), &[1]),
    rust("commit_1_key_1cpu", 0.6, Is(64), &[1]),
    rust("commit_1_key", 0.6, Is(64), &[64]),
    rust("commit_500_keys_1cpu", 0.3, Is(8), &[1]),
    rust("commit_500_keys", 0.3, Is(8), &[64]),
    rust("client_init", 0.3, Ranks, &[1]),
    rust("client_init", 0.1, Ranks, &[64]),
    rust("client_init", 0.001, Is(100_000), &[2]),
    rust("client_init", 0.001, Is(1_000_000), &[2]),
    rust("launch_fork_to_last_init", 0.4, Ranks, &[64]),
    rust("register_nspace", 0.001, Is(100_000), &[64]),
    rust("register_nspace", 0.001, Is(1_000_000), &[64]),
    rust("register_nspace_rss_growth", 0.01, Is(1_000_000), &[64]),
    rust("fence", 0.6, Is(0), LOCAL),
    rust("fence_aligned_span", 0.7, Is(0), &[8, 64]),
    rust("fence_collect", 0.7, Is(64), &[8, 64]),
    rust("fence_collect", 0.7, Is(1024), &[8, 64]),
    rust("fence_collect", 0.7, Is(16_384), &[8, 64]),
    rust("fence_host_collect", 0.7, Is(64), &[8, 64]),
    rust("fence_host_collect", 0.7, Is(1024), &[8, 64]),
    rust("fence_host_collect", 0.7, Is(16_384), &[8, 64]),
    rust("peer_get_first", 0.1, Is(64), &[2, 8, 64]),
    rust("peer_get_first", 0.1, Is(1024), &[2, 8, 64]),
    rust("peer_get_second", 0.1, Is(64), &[2, 8, 64]),
    rust("peer_get_second", 0.1, Is(1024), &[2, 8, 64]),
    against_hash(rust("dmodex_get_local_peer", 0.6, Is(64), &[2])),
    rust("get_waiting_for_commit", 0.6, Is(64), &[2]),
    rust("publish_1cpu", 0.5, Is(64), &[1]),
    rust("publish_rate_1cpu", 0.5, Is(64), &[1]),
    rust("lookup_1cpu", 0.5, Is(64), &[1]),
    rust("lookup_rate_1cpu", 0.5, Is(64), &[1]),
    rust("unpublish_1cpu", 0.5, Is(64), &[1]),
    rust("unpublish_rate_1cpu", 0.5, Is(64), &[1]),
    rust("publish", 0.5, Is(64), &[64]),
    rust("publish_rate", 0.5, Is(64), &[64]),
    rust("lookup", 0.5, Is(64), &[64]),
    rust("lookup_rate", 0.5, Is(64), &[64]),
    rust("unpublish", 0.5, Is(64), &[64]),
    rust("unpublish_rate", 0.5, Is(64), &[64]),
    rust("query_proc_table", 0.2, Is(1_000), &[1]),
    rust("query_proc_table", 0.2, Is(10_000), &[1]),
    rust("query_proc_table", 0.2, Is(100_000), &[1]),
    rust("event_last_handler", 0.5, Is(0), &[8, 64]),
    rust("event_notify_call", 1.0, Is(0), &[8, 64]),
    rust("connect", 0.6, Is(0), &[8, 64]),
    rust("disconnect", 0.6, Is(0), &[8, 64]),
    rust("resolve_peers_1cpu", 1.2, Ranks, &[1]),
    rust("resolve_nodes_1cpu", 1.2, Ranks, &[1]),
    rust("generate_regex", 0.5, Is(100_000), &[0]),
    rust("generate_ppn", 0.01, Is(100_000), &[0]),
    rust("uss_client", 0.6, Ranks, &[64]),
    rust("uss_server", 0.6, Ranks, &[64]),
    against_hash(c("client_init", Ranks)),
    c("fence", Is(0)),
    c("fence_collect", Is(64)),
    c("fence_collect", Is(1024)),
    c("fence_collect", Is(16_384)),
    c("connect", Is(0)),
    c("disconnect", Is(0)),
    c("publish", Is(64)),
    c("lookup", Is(64)),
    c("unpublish", Is(64)),
    c("event_last_handler", Is(0)),
    against_hash(c("peer_get_first", Is(64))),
    against_hash(c("peer_get_first", Is(1024))),
    against_hash(c("dmodex_get_local_peer", Is(64))),
];

/// Metric, ranks, size, side.
type Ratios = BTreeMap<(String, u64, u64, &'static str), f64>;

/// The targets beside what was measured.
#[derive(Debug)]
pub(crate) struct Targets {
    to_better: Ratios,
    to_hash: Ratios,
}

impl Targets {
    pub(crate) fn new(lines: &[Record]) -> Self {
        let is_not_other = |line: &&Record| {
            let name = line.implementation.as_str();
            !name.starts_with(THEIRS) || name.ends_with(HASH)
        };
        let without_other: Vec<_> = lines.iter().filter(is_not_other).cloned().collect();
        let [to_better, to_hash] = [lines, &without_other]
            .map(|lines| Table::new(lines).ratios().map(|(point, ratio)| (point.place(), ratio)).collect());
        Self { to_better, to_hash }
    }

    /// None if it was not measured.
    fn ratio(&self, target: &Target, n: u64) -> Option<f64> {
        let ratios = if target.store.is_some() { &self.to_hash } else { &self.to_better };
        let size = target.size.at(n);
        ratios.get(&(target.metric.to_owned(), n, size, target.side)).copied()
    }
}

impl Size {
    const fn at(self, n: u64) -> u64 {
        match self {
            Ranks => n,
            Is(size) => size,
        }
    }
}

/// A line for each target, in Markdown.
impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| metric | ranks | size | at most | at n | missed at n |\n|---|---|---|---|---|---|")?;
        let (mut met, mut missed, mut unknown) = (0, 0, 0);
        for target in TARGETS {
            let mut cells = [Vec::new(), Vec::new()];
            for &n in target.ns {
                let (column, text) = match self.ratio(target, n) {
                    None => {
                        unknown += 1;
                        (1, "not measured".to_owned())
                    }
                    Some(ratio) if ratio <= target.at_most => {
                        met += 1;
                        (0, figure(ratio))
                    }
                    Some(ratio) => {
                        missed += 1;
                        (1, figure(ratio))
                    }
                };
                cells[column].push(format!("{n}: {text}"));
            }
            let Target { metric, side, at_most, .. } = target;
            let side = if *side == C_RANKS { "C" } else { "Rust" };
            let against = target.store.map(|store| format!(" (to `{store}`)")).unwrap_or_default();
            let size = match target.size {
                Ranks => "n".to_owned(),
                Is(size) => size.to_string(),
            };
            let [within, beyond] = cells.map(|cells| cells.join(", "));
            writeln!(f, "| {metric}{against} | {side} | {size} | {at_most} | {within} | {beyond} |")?;
        }
        writeln!(f, "\n{met} met, {missed} missed, {unknown} not measured")
    }
}

/// As many digits as tell it from its target.
fn figure(ratio: f64) -> String {
    let digits = if ratio < 0.1 { 4 } else { 3 };
    format!("{ratio:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix;

    fn line(implementation: &str, metric: &str, n: u64, size: u64, value: f64) -> Record {
        Record { n, size, ..Record::of_one(implementation, metric, "us", 1, value) }
    }

    #[test]
    fn every_target_is_of_a_metric_that_is_measured() {
        let measured: Vec<_> = matrix::full(true).iter().flat_map(matrix::Step::metrics).collect();
        for target in TARGETS {
            assert!(measured.iter().any(|metric| metric == target.metric), "{target:?}");
        }
    }

    #[test]
    fn a_ratio_is_met_up_to_its_target_and_missed_beyond() {
        let text = Targets::new(&[
            line("openpmix-4.2.2", "fence", 2, 0, 10.0),
            line("pmix-rs", "fence", 2, 0, 6.0),
            line("openpmix-4.2.2", "fence", 8, 0, 10.0),
            line("pmix-rs", "fence", 8, 0, 7.0),
        ])
        .to_string();
        let row = "| fence | Rust | 0 | 0.6 | 2: 0.600 | 8: 0.700, 32: not measured, 64: not measured |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("\n1 met, 1 missed, "), "{text}");
    }

    #[test]
    fn a_target_to_one_store_does_not_look_at_the_other() {
        let text = Targets::new(&[
            line("openpmix-4.2.2", "client_init", 2, 2, 1.0),
            line("openpmix-4.2.2-hash", "client_init", 2, 2, 10.0),
            line("pmix-rs-native", "client_init", 2, 2, 5.0),
        ])
        .to_string();
        assert!(text.contains("| client_init (to `hash`) | C | n | 1 | 2: 0.500 | 8: not"), "{text}");
    }
}
