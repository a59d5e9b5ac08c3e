//! A measured metric: one line of JSON, the same for both sides.

use std::fs::File;
use std::io::{self, Write as _};

use serde::{Deserialize, Serialize};

/// The figures of one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The implementation measured.
    #[serde(rename = "impl")]
    pub(crate) implementation: String,
    pub(crate) metric: String,
    /// Local ranks of the launch.
    pub(crate) n: u64,
    /// Bytes of a value, ranks of the job, or entries of a table.
    pub(crate) size: u64,
    pub(crate) min: f64,
    pub(crate) median: f64,
    /// By nearest rank.
    pub(crate) p99: f64,
    pub(crate) mean: f64,
    /// Samples.
    pub(crate) count: u64,
    pub(crate) unit: String,
    /// The round.
    pub(crate) run: u64,
}

/// Prints lines as the C programs do, by the same variables: `BENCH_IMPL`, `BENCH_RUN`, `BENCH_SUFFIX`, and `BENCH_OUT`
/// for a file to append them to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer;

impl Printer {
    /// Nothing without samples.
    pub(crate) fn print(
        self,
        metric: &str,
        n: u32,
        size: u64,
        unit: &str,
        samples: &[f64],
    ) -> io::Result<()> {
        let name = format!("{metric}{}", variable("BENCH_SUFFIX", ""));
        let Some(line) = Record::of(&name, n, size, unit, samples) else { return Ok(()) };
        // in one piece, as others may be writing
        let text = serde_json::to_string(&line)? + "\n";
        match std::env::var_os("BENCH_OUT") {
            Some(path) => File::options().create(true).append(true).open(path)?.write_all(text.as_bytes()),
            None => io::stdout().lock().write_all(text.as_bytes()),
        }
    }

    /// One figure.
    pub(crate) fn print_one(self, metric: &str, n: u32, size: u64, unit: &str, value: f64) -> io::Result<()> {
        self.print(metric, n, size, unit, &[value])
    }
}

impl Record {
    /// What samples come to.
    fn of(metric: &str, n: u32, size: u64, unit: &str, samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (first, count) = (*sorted.first()?, sorted.len());
        let thousandths = |value: f64| (value * 1e3).round() / 1e3;
        Some(Self {
            implementation: variable("BENCH_IMPL", "pmix-rs"),
            metric: metric.to_owned(),
            n: n.into(),
            size,
            min: thousandths(first),
            median: thousandths(median(&sorted)),
            p99: thousandths(sorted[(count * 99).div_ceil(100) - 1]),
            mean: thousandths(sorted.iter().sum::<f64>() / count as f64),
            count: count as u64,
            unit: unit.to_owned(),
            run: variable("BENCH_RUN", "0").parse().unwrap_or(0),
        })
    }
}

/// The middle one of sorted values, or the mean of the middle two; not a number without any.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

fn variable(name: &str, otherwise: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}

#[cfg(test)]
impl Record {
    /// A record of 2 ranks and 64 bytes whose figures are all the same.
    pub(crate) fn of_one(implementation: &str, metric: &str, unit: &str, run: u64, value: f64) -> Self {
        Self {
            implementation: implementation.to_owned(),
            metric: metric.to_owned(),
            n: 2,
            size: 64,
            min: value,
            median: value,
            p99: value,
            mean: value,
            count: 1,
            unit: unit.to_owned(),
            run,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_figures_of_its_samples() {
        let samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let line = Record::of("get", 2, 64, "us", &samples).unwrap();
        assert_eq!((line.min, line.median, line.p99, line.mean), (1.0, 100.5, 198.0, 100.5));
        assert_eq!((line.n, line.size, line.count), (2, 64, 200));
        assert_eq!(Record::of("get", 2, 64, "us", &[]), None);
        assert_eq!(Record::of("get", 1, 1, "us", &[3.0, 1.0, 2.0]).unwrap().p99, 3.0);
    }

    #[test]
    fn lines_of_the_c_programs_are_read() {
        let text = r#"{"impl":"openpmix-4.2.2","metric":"put","n":1,"size":8,"min":210.000,"median":262.500,"p99":2270.000,"mean":315.102,"count":500,"unit":"ns","run":1}"#;
        let line: Record = serde_json::from_str(text).unwrap();
        assert_eq!((line.metric.as_str(), line.median, line.run), ("put", 262.5, 1));
    }
}
