//! Runs every target on its corpus and on changed inputs: ten thousand in all, `PMIX_FUZZ_INPUTS`, or as many as there are in
//! `PMIX_FUZZ_SECONDS` seconds. With one of these variables, each run uses a new seed, unless `PMIX_FUZZ_SEED` sets it; without them,
//! all runs try the same inputs.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests may fail them, and say what they have done"
)]

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use pmix_fuzz::{Campaign, TARGETS, target};

/// Inputs of each target, if nothing else is said.
const INPUTS: u64 = 10_000;
/// Most memory that all of this may take, in kilobytes: inputs are small.
const MOST_MEMORY: u64 = 512 << 10;

fn run(name: &str) {
    let number = |variable| {
        let text = std::env::var(variable).ok()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
    };
    let (inputs, seconds) = (number("PMIX_FUZZ_INPUTS"), number("PMIX_FUZZ_SECONDS"));
    let any = || match (inputs, seconds) {
        (None, None) => 1,
        _ => RandomState::new().hash_one(()),
    };
    let seed = number("PMIX_FUZZ_SEED").unwrap_or_else(any);
    let mut campaign = Campaign::new(target(name), seed).unwrap();
    let outcome = match seconds {
        Some(seconds) if inputs.is_none() => campaign.run(Duration::from_secs(seconds)),
        _ => campaign.run_inputs(inputs.unwrap_or(INPUTS)),
    };
    let outcome = outcome.unwrap_or_else(|problem| panic!("{problem}\nthe seed: {seed}"));
    println!(
        "{name}: {} inputs, none took more than {:?}, {} kB at most",
        outcome.inputs,
        outcome.slowest,
        peak()
    );
    assert!(peak() < MOST_MEMORY, "{name}: {} kB", peak());
}

/// Most memory this process has ever held, in kilobytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

macro_rules! targets {
    ($($test:ident $name:literal;)+) => {
        $(
            #[test]
            fn $test() {
                run($name);
            }
        )+

        #[test]
        fn no_target_is_left_out() {
            assert_eq!(TARGETS.map(|target| target.name), [$($name),+]);
        }
    };
}

targets! {
    native_connect "native-connect";
    native_client "native-client";
    native_server "native-server";
    pmi1_client "pmi1-client";
    pmi1_server "pmi1-server";
    native_conversation "native-conversation";
    proto_client "proto-client";
    proto_server "proto-server";
}
