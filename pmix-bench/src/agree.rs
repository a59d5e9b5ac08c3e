//! `agree`: whether two runs have the same ratios.

use std::collections::HashMap;
use std::fmt;

use crate::table::{Point, Table};

/// Metrics whose time in the C library is less are not looked at, in microseconds.
const LEAST: f64 = 50.0;
/// How far ratios may lie apart, in per cent of the lower one.
const WITHIN: f64 = 15.0;

/// What two runs agree on.
#[derive(Debug)]
pub(crate) struct Agreement {
    /// The farthest first.
    apart: Vec<Apart>,
    compared: usize,
}

/// A ratio that differs between the runs.
#[derive(Debug)]
struct Apart {
    point: Point,
    ratios: [f64; 2],
    percent: f64,
}

impl Agreement {
    /// Of all ratios that both have of times over 50 µs.
    pub(crate) fn of(first: &Table, second: &Table) -> Self {
        let others: HashMap<_, _> =
            second.ratios().map(|(point, ratio)| (point.place(), (ratio, point.micros))).collect();
        let mut found = Self { apart: Vec::new(), compared: 0 };
        for (point, ratio) in first.ratios() {
            let Some((other, micros)) = others.get(&point.place()) else { continue };
            if [point.micros, *micros].iter().any(|micros| micros.is_none_or(|micros| micros <= LEAST)) {
                continue;
            }
            found.compared += 1;
            let percent = 100.0 * (ratio.max(*other) / ratio.min(*other) - 1.0);
            if percent > WITHIN {
                found.apart.push(Apart { point, ratios: [ratio, *other], percent });
            }
        }
        found.apart.sort_by(|a, b| b.percent.total_cmp(&a.percent));
        found
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Apart { point, ratios: [first, second], percent } in &self.apart {
            let Point { metric, n, size, side, .. } = point;
            writeln!(
                f,
                "{metric} n={n} size={size} {side}: {first:.3} and {second:.3}, {percent:.0} % apart"
            )?;
        }
        writeln!(
            f,
            "{} of {} ratios of times over {LEAST} µs agree within {WITHIN} %",
            self.compared - self.apart.len(),
            self.compared
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    /// A run of metrics with a time of the C library and one of ours.
    fn sitting(metrics: &[(&str, f64, f64)], unit: &str) -> Table {
        let records = metrics.iter().flat_map(|(metric, theirs, ours)| {
            [
                Record::of_one("openpmix-4.2.2", metric, unit, 1, *theirs),
                Record::of_one("pmix-rs", metric, unit, 1, *ours),
            ]
        });
        Table::new(&records.collect::<Vec<_>>())
    }

    #[test]
    fn ratios_that_lie_apart_are_named() {
        let first = sitting(&[("fence", 100.0, 100.0), ("near", 100.0, 100.0), ("far", 60.0, 60.0)], "us");
        let second = sitting(&[("fence", 100.0, 116.0), ("near", 100.0, 114.0), ("far", 60.0, 30.0)], "us");
        let expected = "far n=2 size=64 pmix-rs: 1.000 and 0.500, 100 % apart\n\
                        fence n=2 size=64 pmix-rs: 1.000 and 1.160, 16 % apart\n\
                        1 of 3 ratios of times over 50 µs agree within 15 %\n";
        assert_eq!(Agreement::of(&first, &second).to_string(), expected);
        // from the other side they lie as far apart
        assert_eq!(Agreement::of(&second, &first).apart.len(), 2);
    }

    #[test]
    fn short_times_and_what_is_no_time_and_what_one_sitting_lacks_are_left_out() {
        let nothing = "0 of 0 ratios of times over 50 µs agree within 15 %\n";
        let agreement = |first, second| Agreement::of(&first, &second).to_string();
        let of = |theirs, ours, unit| sitting(&[("get", theirs, ours)], unit);
        assert_eq!(agreement(of(50.0, 10.0, "us"), of(60.0, 60.0, "us")), nothing);
        assert_eq!(agreement(of(60.0, 60.0, "us"), of(50.0, 10.0, "us")), nothing);
        assert_eq!(agreement(of(60.0, 60.0, "ns"), of(60.0, 10.0, "ns")), nothing);
        assert_eq!(agreement(of(60.0, 60.0, "KiB"), of(60.0, 10.0, "KiB")), nothing);
        assert_eq!(agreement(of(60.0, 60.0, "us"), sitting(&[("put", 60.0, 60.0)], "us")), nothing);
        let nanos = agreement(of(60_000.0, 60.0, "ns"), of(60_000.0, 10.0, "ns"));
        assert!(nanos.ends_with("0 of 1 ratios of times over 50 µs agree within 15 %\n"), "{nanos}");
    }
}
