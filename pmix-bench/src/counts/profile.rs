//! The counts of callgrind.

use std::collections::BTreeMap;

/// Instructions of each function, without those of the functions it calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) functions: BTreeMap<String, u64>,
}

impl Profile {
    /// Reads what `callgrind` writes with names and positions spelled out (`--compress-strings=no`, `--compress-pos=no`).
    pub(super) fn parse(text: &str) -> Self {
        let mut functions = BTreeMap::<String, u64>::new();
        let mut function = None;
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(name) = line.strip_prefix("fn=") {
                function = Some(without_depth(name));
            } else if line.starts_with("calls=") {
                // what the callee takes is told once more at the callee
                lines.next();
            } else if line.starts_with(|first: char| first.is_ascii_digit())
                && let (Some(function), Some(count)) = (function, line.split_whitespace().nth(1))
            {
                *functions.entry(function.to_owned()).or_default() += count.parse().unwrap_or(0);
            }
        }
        functions.retain(|_, count| *count > 0);
        Self { functions }
    }

    /// Instructions of all functions together.
    pub(super) fn total(&self) -> u64 {
        self.functions.values().sum()
    }

    pub(super) fn of(&self, function: &str) -> u64 {
        self.functions.get(function).copied().unwrap_or(0)
    }
}

/// The name of a function that calls itself: deeper calls have a number behind it.
fn without_depth(name: &str) -> &str {
    match name.rsplit_once('\'') {
        Some((name, depth)) if depth.parse::<u32>().is_ok() => name,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# callgrind format
version: 1
creator: callgrind-3.19.0
cmd:  ./pmix-workloads engine/fence
part: 1

desc: Trigger: Program termination

positions: line
events: Ir
summary: 1060

ob=/target/pmix-workloads
fl=???
fn=pmix_workloads::counted
0 10
cob=/target/pmix-workloads
cfi=???
cfn=<pmix_server::engine::Engine>::handle
calls=3 0
0 1050

fn=<pmix_server::engine::Engine>::handle
0 600
0 50
cfn=malloc
calls=7 0
0 400

ob=/usr/lib/libc.so.6
fn=malloc
0 390
fn=malloc'2
0 10
fn=never
0
";

    #[test]
    fn functions_have_what_they_take_themselves() {
        let profile = Profile::parse(TEXT);
        let functions: Vec<_> =
            profile.functions.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        let expected = [
            ("<pmix_server::engine::Engine>::handle", 650),
            ("malloc", 400),
            ("pmix_workloads::counted", 10),
        ];
        assert_eq!(functions, expected);
        assert_eq!(profile.total(), 1060);
        assert_eq!(profile.of("malloc") + profile.of("nobody"), 400);
    }
}
