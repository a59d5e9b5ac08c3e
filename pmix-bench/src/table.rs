//! The table: for each metric our figure divided by theirs, where theirs is that of the better of the C library's
//! stores.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use crate::record::{Record, median};

/// The C library's lines have names that begin so.
pub(crate) const THEIRS: &str = "openpmix";
/// How the names of those lines end that are of its store `hash`; of its store `ds21`, they end with the version.
pub(crate) const HASH: &str = "hash";
/// Our server with our ranks.
pub(crate) const RUST_RANKS: &str = "pmix-rs";
/// Our server, used as the C library is: by ranks in C, and by a host that spells job data out.
pub(crate) const C_RANKS: &str = "pmix-rs-native";
const OURS: [&str; 2] = [RUST_RANKS, C_RANKS];
/// A rate is better the higher it is; everything else the lower.
const RATE: &str = "ops/s";
/// What is no metric but says what others did on the machine.
const LOAD: &str = "load";

/// Rows in the order in which their metrics were measured first.
#[derive(Debug)]
pub(crate) struct Table(Vec<Row>);

/// One metric at one size.
#[derive(Debug)]
struct Row {
    metric: String,
    n: u64,
    size: u64,
    unit: String,
    theirs: Option<Side>,
    ours: [Option<(Side, Option<Ratio>)>; 2],
}

/// Where a ratio stands in the table.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) metric: String,
    pub(crate) n: u64,
    pub(crate) size: u64,
    /// Which of ours.
    pub(crate) side: &'static str,
    /// The C library's time; none if it is no time.
    pub(crate) micros: Option<f64>,
}

impl Point {
    /// What makes it this one.
    pub(crate) fn place(&self) -> (String, u64, u64, &'static str) {
        (self.metric.clone(), self.n, self.size, self.side)
    }
}

/// The medians of the rounds.
#[derive(Clone, Debug, PartialEq)]
struct Side {
    name: String,
    rounds: BTreeMap<u64, f64>,
}

/// Ours by theirs in the same round: the median, and with several rounds how far they lie apart in per cent of it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ratio {
    median: f64,
    spread: Option<f64>,
}

impl Side {
    fn median(&self) -> f64 {
        middle(self.rounds.values().copied())
    }

    /// Whether it does better than another.
    fn beats(&self, other: &Self, unit: &str) -> bool {
        if unit == RATE { self.median() > other.median() } else { self.median() < other.median() }
    }
}

impl Ratio {
    /// None without a round in common, and where there is nothing to divide by.
    fn of(ours: &Side, theirs: &Side, unit: &str) -> Option<Self> {
        let pairs = ours.rounds.iter().filter_map(|(round, ours)| Some((*ours, *theirs.rounds.get(round)?)));
        let pairs = pairs.map(|(ours, theirs)| if unit == RATE { (theirs, ours) } else { (ours, theirs) });
        let ratios: Vec<_> =
            pairs.filter(|(_, below)| *below > 0.0).map(|(above, below)| above / below).collect();
        let lowest = ratios.iter().copied().reduce(f64::min)?;
        let highest = ratios.iter().copied().reduce(f64::max)?;
        let is_one = ratios.len() == 1;
        let median = middle(ratios.into_iter());
        let spread = (!is_one && median > 0.0).then(|| 100.0 * (highest - lowest) / median);
        Some(Self { median, spread })
    }
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<_> = values.collect();
    sorted.sort_by(f64::total_cmp);
    median(&sorted)
}

impl Table {
    pub(crate) fn new(lines: &[Record]) -> Self {
        let mut order = Vec::new();
        let mut cells: BTreeMap<_, BTreeMap<&str, BTreeMap<u64, f64>>> = BTreeMap::new();
        for line in lines.iter().filter(|line| line.unit != LOAD) {
            let key = (line.metric.as_str(), line.n, line.size, line.unit.as_str());
            if !cells.contains_key(&key) {
                order.push(key);
            }
            let side = cells.entry(key).or_default().entry(line.implementation.as_str()).or_default();
            side.insert(line.run, line.median);
        }
        let rows = order.into_iter().map(|key| {
            let (metric, n, size, unit) = key;
            Row::new(metric, n, size, unit, cells.remove(&key).unwrap_or_default())
        });
        Self(rows.collect())
    }

    /// All ratios above 0, medians of those of the rounds.
    pub(crate) fn ratios(&self) -> impl Iterator<Item = (Point, f64)> + '_ {
        self.0.iter().flat_map(|row| {
            let sides = OURS.into_iter().zip(&row.ours);
            sides.filter_map(|(side, ours)| {
                let ratio = ours.as_ref()?.1?.median;
                (ratio > 0.0).then(|| (row.point(side), ratio))
            })
        })
    }

    /// How a metric grows: theirs, and ours of both kinds, at each place that a row's `n` and `size` have on the way.
    pub(crate) fn lines(
        &self,
        metric: &str,
        place: impl Fn(u64, u64) -> Option<u64>,
    ) -> [Vec<(f64, f64)>; 3] {
        let mut lines = [const { Vec::new() }; 3];
        for row in self.0.iter().filter(|row| row.metric == metric) {
            let Some(at) = place(row.n, row.size) else { continue };
            let ours = row.ours.iter().map(|side| side.as_ref().map(|(side, _)| side));
            for (line, side) in lines.iter_mut().zip(std::iter::once(row.theirs.as_ref()).chain(ours)) {
                line.extend(side.map(|side| (at as f64, side.median())).filter(|point| point.1 > 0.0));
            }
        }
        lines.iter_mut().for_each(|line| line.sort_by(|a, b| a.0.total_cmp(&b.0)));
        lines
    }
}

impl Row {
    fn new(
        metric: &str,
        n: u64,
        size: u64,
        unit: &str,
        mut sides: BTreeMap<&str, BTreeMap<u64, f64>>,
    ) -> Self {
        let ours = OURS.map(|name| sides.remove(name).map(|rounds| Side { name: name.to_owned(), rounds }));
        let stores = sides.into_iter().filter(|(name, _)| name.starts_with(THEIRS));
        let stores = stores.map(|(name, rounds)| Side { name: name.to_owned(), rounds });
        let theirs = stores.reduce(|best, store| if store.beats(&best, unit) { store } else { best });
        let with_ratio = |side: Side| {
            let ratio = theirs.as_ref().and_then(|theirs| Ratio::of(&side, theirs, unit));
            (side, ratio)
        };
        let ours = ours.map(|side| side.map(with_ratio));
        Self { metric: metric.to_owned(), n, size, unit: unit.to_owned(), theirs, ours }
    }

    fn point(&self, side: &'static str) -> Point {
        let theirs = self.theirs.as_ref().map(Side::median);
        let micros = match self.unit.as_str() {
            "us" => theirs,
            "ns" => theirs.map(|nanos| nanos / 1e3),
            _ => None,
        };
        Point { metric: self.metric.clone(), n: self.n, size: self.size, side, micros }
    }

    fn cells(&self) -> Vec<String> {
        let mut cells =
            vec![self.metric.clone(), self.n.to_string(), self.size.to_string(), self.unit.clone()];
        match &self.theirs {
            Some(side) => {
                let store = if side.name.ends_with(HASH) { HASH } else { "ds21" };
                cells.push(format!("{} {store}", figure(side.median())));
            }
            None => cells.push(String::new()),
        }
        for side in &self.ours {
            let (value, ratio) = match side {
                Some((side, ratio)) => (figure(side.median()), ratio.map(|ratio| ratio.to_string())),
                None => (String::new(), None),
            };
            cells.extend([value, ratio.unwrap_or_default()]);
        }
        cells
    }
}

/// Three digits, or all before the point.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        ..0.0005 => 0,
        ..1.0 => 3,
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.median < 0.01 { 4 } else { 2 };
        write!(f, "{:.digits$}", self.median)?;
        self.spread.map_or(Ok(()), |spread| write!(f, " ({spread:.0}%)"))
    }
}

/// In Markdown, with how many ratios are below 1.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["metric", "n", "size", "unit", "libpmix", "pmix-rs", "ratio", "pmix-rs-native", "ratio"];
        let rows: Vec<Vec<String>> =
            std::iter::once(heads.map(str::to_owned).to_vec()).chain(self.0.iter().map(Row::cells)).collect();
        let widths: Vec<_> = (0..heads.len())
            .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
            .collect();
        for (number, row) in rows.iter().enumerate() {
            let mut text = String::from("|");
            for (cell, width) in row.iter().zip(&widths) {
                write!(text, " {cell:width$} |")?;
            }
            writeln!(f, "{text}")?;
            if number == 0 {
                let rules: Vec<_> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
                writeln!(f, "|{}|", rules.join("|"))?;
            }
        }
        for (side, name) in OURS.iter().enumerate() {
            let ratios: Vec<_> = self
                .0
                .iter()
                .filter_map(|row| row.ours[side].as_ref()?.1.map(|ratio| ratio.median))
                .collect();
            let better = ratios.iter().filter(|ratio| **ratio < 1.0).count();
            writeln!(
                f,
                "\n{name}: below 1 in {better} of {} ratios, median {:.2}",
                ratios.len(),
                middle(ratios.iter().copied())
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(table: &Table, row: usize, side: usize) -> Option<Ratio> {
        table.0[row].ours[side].as_ref().and_then(|(_, ratio)| *ratio)
    }

    #[test]
    fn ours_is_divided_by_the_better_store() {
        let table = Table::new(&[
            Record::of_one("openpmix-4.2.2", "get", "us", 1, 30.0),
            Record::of_one("openpmix-4.2.2-hash", "get", "us", 1, 10.0),
            Record::of_one("pmix-rs", "get", "us", 1, 5.0),
        ]);
        assert_eq!(table.0[0].theirs.as_ref().unwrap().name, "openpmix-4.2.2-hash");
        assert_eq!(ratio(&table, 0, 0), Some(Ratio { median: 0.5, spread: None }));
        assert_eq!(ratio(&table, 0, 1), None);
    }

    #[test]
    fn of_rates_the_higher_is_better_and_the_ratio_is_inverted() {
        let table = Table::new(&[
            Record::of_one("openpmix-4.2.2", "rate", "ops/s", 1, 1000.0),
            Record::of_one("openpmix-4.2.2-hash", "rate", "ops/s", 1, 800.0),
            Record::of_one("pmix-rs-native", "rate", "ops/s", 1, 4000.0),
        ]);
        assert_eq!(table.0[0].theirs.as_ref().unwrap().name, "openpmix-4.2.2");
        assert_eq!(ratio(&table, 0, 1), Some(Ratio { median: 0.25, spread: None }));
    }

    #[test]
    fn the_store_is_chosen_over_all_rounds_and_ratios_are_of_the_same_round() {
        let mut lines = Vec::new();
        for (run, ds21, hash, ours) in [(1, 10.0, 12.0, 20.0), (2, 20.0, 10.0, 20.0), (3, 40.0, 50.0, 40.0)] {
            lines.push(Record::of_one("openpmix-4.2.2", "fence", "us", run, ds21));
            lines.push(Record::of_one("openpmix-4.2.2-hash", "fence", "us", run, hash));
            lines.push(Record::of_one("pmix-rs", "fence", "us", run, ours));
        }
        let table = Table::new(&lines);
        assert_eq!(table.0[0].theirs.as_ref().unwrap().name, "openpmix-4.2.2-hash");
        let ratio = ratio(&table, 0, 0).unwrap();
        // 20 by 12, 20 by 10, 40 by 50
        assert!((ratio.median - 20.0 / 12.0).abs() < 1e-9);
        assert!((ratio.spread.unwrap() - 100.0 * (2.0 - 0.8) / (20.0 / 12.0)).abs() < 1e-9);
    }

    #[test]
    fn there_is_no_ratio_to_nothing() {
        let mut lines = vec![
            Record::of_one("openpmix-4.2.2", "growth", "KiB", 1, 0.0),
            Record::of_one("pmix-rs", "growth", "KiB", 1, 4.0),
        ];
        lines.push(Record::of_one("pmix-rs", "alone", "us", 1, 4.0));
        lines.push(Record::of_one("pmix-rs", "busy_percent_begin", "load", 1, 4.0));
        let table = Table::new(&lines);
        assert_eq!((ratio(&table, 0, 0), ratio(&table, 1, 0), table.0.len()), (None, None, 2));
    }

    #[test]
    fn a_metric_grows_along_the_places_of_its_rows() {
        let mut small = Record::of_one("openpmix-4.2.2", "fence", "us", 1, 60.0);
        small.n = 1;
        let lines = [
            Record::of_one("openpmix-4.2.2", "fence", "us", 1, 70.0),
            Record::of_one("pmix-rs", "fence", "us", 1, 50.0),
            small,
        ];
        let [theirs, ours, native] = Table::new(&lines).lines("fence", |n, _| Some(n));
        assert_eq!((theirs, ours, native), (vec![(1.0, 60.0), (2.0, 70.0)], vec![(2.0, 50.0)], vec![]));
    }

    #[test]
    fn it_is_printed_in_markdown() {
        let table = Table::new(&[
            Record::of_one("openpmix-4.2.2", "get", "us", 1, 1234.5),
            Record::of_one("pmix-rs", "get", "us", 1, 2.5),
            Record::of_one("pmix-rs-native", "get", "us", 1, 2469.0),
        ]);
        let text = table.to_string();
        assert!(
            text.contains(
                "| get    | 2 | 64   | us   | 1234 ds21 | 2.50    | 0.0020 | 2469           | 2.00  |"
            ),
            "{text}"
        );
        assert!(text.contains("pmix-rs: below 1 in 1 of 1 ratios, median 0.00"), "{text}");
    }
}
