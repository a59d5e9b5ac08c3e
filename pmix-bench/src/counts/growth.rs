//! Which workloads and functions have grown between two counts.

use std::fmt;

use super::profile::Profile;

/// Growth that is worth a warning, in per cent.
const WORTH: f64 = 5.0;
/// Growth of a function that is not, in per cent of all that the work took.
const LITTLE: f64 = 1.0;
/// Functions that are named at most.
const NAMED: usize = 5;

/// A piece of work, counted twice.
#[derive(Debug)]
pub(super) struct Growth<'a> {
    pub(super) work: &'a str,
    pub(super) before: u64,
    pub(super) after: u64,
    /// Those that make up for it, the largest first.
    functions: Vec<Function<'a>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Function<'a> {
    name: &'a str,
    before: u64,
    after: u64,
}

impl<'a> Growth<'a> {
    pub(super) fn of(work: &'a str, before: &Profile, after: &'a Profile) -> Self {
        let mut functions: Vec<_> = after
            .functions
            .iter()
            .map(|(name, count)| Function { name, before: before.of(name), after: *count })
            .filter(|function| function.after > function.before)
            .collect();
        functions.sort_by_key(|function| std::cmp::Reverse(function.after - function.before));
        let mut growth = Self { work, before: before.total(), after: after.total(), functions };
        let all = growth.after.saturating_sub(growth.before);
        let floor = growth.before as f64 * LITTLE / 100.0;
        let is_too_much = is_much(growth.before, growth.after);
        let mut named = 0;
        growth.functions.retain(|function| {
            let more = function.after - function.before;
            // what one function has more and others have less was moved: the compiler puts functions into others
            let has_moved = more > 2 * all;
            let counts = is_much(function.before, function.after) && more as f64 > floor && !has_moved;
            // some function has to be named
            let is_kept = (counts || is_too_much && named == 0) && named < NAMED;
            named += usize::from(is_kept);
            is_kept
        });
        growth
    }

    /// Growth in per cent.
    pub(super) fn percent(&self) -> f64 {
        percent(self.before, self.after)
    }

    /// Whether the work as a whole or one of its functions takes so much more that somebody should look.
    pub(super) fn is_worth_a_look(&self) -> bool {
        is_much(self.before, self.after) || !self.functions.is_empty()
    }
}

fn percent(before: u64, after: u64) -> f64 {
    100.0 * (after as f64 - before as f64) / before.max(1) as f64
}

fn is_much(before: u64, after: u64) -> bool {
    percent(before, after) > WORTH
}

/// A warning.
impl fmt::Display for Growth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { work, before, after, functions } = self;
        write!(f, "warning: {work}: {:+.1} % instructions, {before} -> {after}", self.percent())?;
        functions.iter().try_for_each(|function| write!(f, "\n  {function}"))
    }
}

impl fmt::Display for Function<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, before, after } = self;
        match before {
            0 => write!(f, "{name}: new, {after}"),
            _ => write!(f, "{name}: {:+.1} %, {before} -> {after}", percent(*before, *after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile<const N: usize>(functions: [(&str, u64); N]) -> Profile {
        Profile { functions: functions.map(|(name, count)| (name.to_owned(), count)).into() }
    }

    /// The warning, if there is one.
    fn warning(before: &Profile, after: &Profile) -> Option<String> {
        let growth = Growth::of("work", before, after);
        growth.is_worth_a_look().then(|| growth.to_string())
    }

    #[test]
    fn a_function_that_takes_more_is_named_with_the_work() {
        let before = profile([("fence", 1000), ("get", 9000)]);
        let after = profile([("fence", 1600), ("get", 9000)]);
        let expected = "warning: work: +6.0 % instructions, 10000 -> 10600\n  fence: +60.0 %, 1000 -> 1600";
        assert_eq!(warning(&before, &after).as_deref(), Some(expected));
        // the work as a whole takes 2 % more, the function 20 %
        let after = profile([("fence", 1200), ("get", 9000)]);
        let expected = "warning: work: +2.0 % instructions, 10000 -> 10200\n  fence: +20.0 %, 1000 -> 1200";
        assert_eq!(warning(&before, &after).as_deref(), Some(expected));
    }

    #[test]
    fn five_per_cent_and_less_is_no_warning() {
        let before = profile([("fence", 1000), ("get", 9000)]);
        assert_eq!(warning(&before, &before), None);
        assert_eq!(warning(&before, &profile([("fence", 1050), ("get", 9450)])), None);
        assert!(warning(&before, &profile([("fence", 1051), ("get", 9460)])).is_some());
        // less is no growth
        assert_eq!(warning(&before, &profile([("fence", 100), ("get", 900)])), None);
        // a function of which there is next to nothing
        assert_eq!(warning(&before, &profile([("fence", 1000), ("get", 9000), ("little", 99)])), None);
    }

    #[test]
    fn code_that_has_moved_is_no_warning() {
        let before = profile([("fence", 1000), ("inlined", 5000), ("get", 4000)]);
        let after = profile([("fence", 6010), ("get", 4000)]);
        assert_eq!(warning(&before, &after), None);
        // but it does not hide what is really more
        let after = profile([("fence", 6010), ("get", 5000)]);
        let expected = "warning: work: +10.1 % instructions, 10000 -> 11010\n  get: +25.0 %, 4000 -> 5000";
        assert!(warning(&before, &after).unwrap().ends_with(expected.split_once('\n').unwrap().1));
    }

    #[test]
    fn the_largest_are_named_first_and_not_all_of_them() {
        let before = profile([("old", 10_000)]);
        let new: Vec<_> = (0..9).map(|number| (format!("new{number}"), 1000 + number)).collect();
        let mut after = before.clone();
        after.functions.extend(new);
        let text = warning(&before, &after).unwrap();
        assert_eq!(text.lines().count(), 1 + NAMED, "{text}");
        assert_eq!(text.lines().nth(1), Some("  new8: new, 1008"));
    }

    #[test]
    fn growth_that_is_spread_over_all_functions_has_a_name_too() {
        let before = profile([("a", 10), ("b", 10), ("c", 0)]);
        let many: Vec<(String, u64)> = (0..200).map(|number| (format!("f{number:03}"), 1000)).collect();
        let before = Profile { functions: before.functions.into_iter().chain(many.clone()).collect() };
        let mut after = before.clone();
        after.functions.values_mut().for_each(|count| *count += *count * 7 / 100);
        let text = warning(&before, &after).unwrap();
        assert_eq!(text.lines().nth(1), Some("  f000: +7.0 %, 1000 -> 1070"), "{text}");
    }
}
