//! Every target with its corpus and changed inputs, for a second each, or as many as `PMIX_FUZZ_SECONDS` says.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests may fail them, and say what they have done"
)]

use std::time::{Duration, SystemTime};

use pmix_fuzz::{Campaign, TARGETS, target};

/// Most memory that all of this may take, in kilobytes: inputs are small.
const MOST_MEMORY: u64 = 512 << 10;

fn run(name: &str) {
    let seconds = std::env::var("PMIX_FUZZ_SECONDS").map_or(1, |seconds| {
        seconds.parse().unwrap_or_else(|_| panic!("PMIX_FUZZ_SECONDS={seconds} is no number of seconds"))
    });
    // other inputs each time: what is found is kept in a file
    let seed = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let outcome = Campaign::new(target(name), seed).unwrap().run(Duration::from_secs(seconds));
    let outcome = outcome.unwrap_or_else(|problem| panic!("{problem}"));
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
    proto_client "proto-client";
    proto_server "proto-server";
}
