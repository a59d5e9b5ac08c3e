//! `plot`: draws the figures that grow with the job.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use crate::table::Table;

/// Of the drawing, in its own units.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
/// Around the axes; on the right stand the names of the lines.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Of the lines, in this order; told apart by those who see few colours too.
const COLOURS: [&str; 5] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#888888"];

/// A drawing: what grows, over what.
struct Chart<'a> {
    file: &'a str,
    title: &'a str,
    x: &'a str,
    y: &'a str,
    lines: Vec<(&'a str, Vec<Point>)>,
}

type Point = (f64, f64);

/// Where a value stands on an axis of powers of ten.
#[derive(Clone, Copy, Debug)]
struct Axis {
    lowest: f64,
    highest: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Of whole powers of ten that hold all values.
    fn of(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let lowest = values.clone().fold(f64::INFINITY, f64::min).log10().floor();
        let highest = values.fold(0.0, f64::max).log10().ceil();
        Self { lowest, highest: highest.max(lowest + 1.0), from, to }
    }

    fn place(self, value: f64) -> f64 {
        let share = (value.log10() - self.lowest) / (self.highest - self.lowest);
        self.from + share * (self.to - self.from)
    }

    fn powers(self) -> impl Iterator<Item = f64> {
        (self.lowest as i32..=self.highest as i32).map(|power| 10f64.powi(power))
    }
}

/// Draws what there are lines of, into a directory.
pub(crate) fn draw(table: &Table, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let names = ["libpmix, better store", "pmix-rs", "C on pmix-rs"];
    let by_ranks = |metric: &str, size: Option<u64>| {
        let lines = table.lines(metric, |n, s| (size.is_none_or(|size| size == s)).then_some(n));
        names.into_iter().zip(lines).collect::<Vec<_>>()
    };
    let mut fence = by_ranks("fence", None);
    for (name, metric) in [("raw frames", "fence_frames"), ("futex barrier", "barrier_futex")] {
        let [_, floor, _] = table.lines(metric, |n, _| Some(n));
        fence.push((name, floor));
    }
    let registered = table.lines("register_nspace", |_, size| Some(size));
    let memory = table.lines("uss_server", |n, size| (n == size).then_some(n));
    let charts = [
        Chart { file: "fence", title: "A fence of all ranks", x: "local ranks", y: "µs", lines: fence },
        Chart {
            file: "collect",
            title: "A fence that collects 1024 bytes of each rank",
            x: "local ranks",
            y: "µs",
            lines: by_ranks("fence_collect", Some(1024)),
        },
        Chart {
            file: "register",
            title: "Registration of a job",
            x: "ranks of the job",
            y: "µs",
            lines: ["libpmix, better store", "by maps", "all arrays"].into_iter().zip(registered).collect(),
        },
        Chart {
            file: "memory",
            title: "Private memory of the server",
            x: "local ranks",
            y: "KiB",
            lines: names.into_iter().zip(memory).collect(),
        },
    ];
    for chart in charts.iter().filter(|chart| chart.points().next().is_some()) {
        fs::write(directory.join(chart.file).with_extension("svg"), chart.svg())?;
    }
    Ok(())
}

impl Chart<'_> {
    fn points(&self) -> impl Iterator<Item = Point> + Clone + '_ {
        self.lines.iter().flat_map(|(_, points)| points.iter().copied())
    }

    fn svg(&self) -> String {
        let x = Axis::of(self.points().map(|point| point.0), LEFT, WIDTH - RIGHT);
        let y = Axis::of(self.points().map(|point| point.1), HEIGHT - BOTTOM, TOP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        let mut text = |x: f64, y: f64, anchor: &str, words: &str| {
            let _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"{anchor}\">{words}</text>");
        };
        text(LEFT, TOP - 15.0, "start", &format!("{}, {}", self.title, self.y));
        text((x.from + x.to) / 2.0, HEIGHT - 10.0, "middle", self.x);
        x.powers().for_each(|power| text(x.place(power), y.from + 20.0, "middle", &power.to_string()));
        y.powers().for_each(|power| text(LEFT - 8.0, y.place(power) + 4.0, "end", &power.to_string()));
        let drawn = self.lines.iter().zip(COLOURS).filter(|((_, points), _)| !points.is_empty());
        for (number, ((name, _), colour)) in drawn.enumerate() {
            let (x, y) = (WIDTH - RIGHT + 15.0, TOP + 20.0 * (1 + number) as f64);
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{name}</text>");
        }
        let grid = |(x1, y1): Point, (x2, y2): Point| {
            format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>\n")
        };
        svg.extend(x.powers().map(|power| grid((x.place(power), y.from), (x.place(power), y.to))));
        svg.extend(y.powers().map(|power| grid((x.from, y.place(power)), (x.to, y.place(power)))));
        for ((_, points), colour) in self.lines.iter().zip(COLOURS) {
            let places: Vec<_> =
                points.iter().map(|(a, b)| format!("{:.1},{:.1}", x.place(*a), y.place(*b))).collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                places.join(" ")
            );
            svg.extend(places.iter().filter_map(|place| {
                let (x, y) = place.split_once(',')?;
                Some(format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>\n"))
            }));
        }
        svg + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_of_whole_powers_of_ten() {
        let axis = Axis::of([2.0, 64.0].into_iter(), 0.0, 100.0);
        assert_eq!(axis.powers().collect::<Vec<_>>(), [1.0, 10.0, 100.0]);
        assert_eq!((axis.place(1.0), axis.place(10.0), axis.place(100.0)), (0.0, 50.0, 100.0));
    }

    #[test]
    fn a_drawing_has_a_point_for_each_figure() {
        let lines = vec![("theirs", vec![(2.0, 60.0), (64.0, 1800.0)]), ("ours", vec![(2.0, 50.0)])];
        let svg = Chart { file: "f", title: "A fence", x: "ranks", y: "µs", lines }.svg();
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("A fence, µs") && svg.contains(">theirs<") && svg.ends_with("</svg>\n"));
    }
}
