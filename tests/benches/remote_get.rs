//! How long a rank waits for data of a rank on another host, directly and through the head, which is on a third host: the way
//! between the two is open and closed in turn. Prints a JSON line for 64 bytes and for 32 MiB: medians in microseconds, and
//! their ratio. Needs root and sshd.
//!
//! ```text
//! cargo bench -p pmix-tests --bench remote_get            # 7 turns
//! cargo bench -p pmix-tests --bench remote_get -- 15      # so many
//! ```
//! In a run of each turn, the data of 50 gets is small, and that of the last one large. All of it is checked.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, missing_docs)]

use pmix_tests::{Hosts, allow_root, operation_program, program, run};

fn main() {
    let turns: usize = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(7);
    let Some(hosts) = Hosts::with_ssh(3) else { return eprintln!("there are no hosts") };
    program("pmixd");
    let mut direct = Vec::new();
    let mut through_head = Vec::new();
    for _ in 0..turns {
        direct.push(gets(&hosts));
        hosts.separate(1, 2);
        through_head.push(gets(&hosts));
        hosts.reunite(1, 2);
    }
    for (what, bytes) in [(0, 64), (1, 32 << 20)] {
        let median = |of: &[[u64; 2]]| {
            let mut times: Vec<_> = of.iter().map(|times| times[what]).collect();
            times.sort_unstable();
            times[times.len() / 2]
        };
        let (direct, through_head) = (median(&direct), median(&through_head));
        #[allow(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = direct as f64 / through_head as f64;
        println!(
            "{{\"get\": {bytes}, \"direct_us\": {direct}, \"through_head_us\": {through_head}, \"ratio\": {ratio:.2}, \"turns\": {turns}}}"
        );
    }
}

/// The median time of a small get, and that of the large one.
fn gets(hosts: &Hosts) -> [u64; 2] {
    let mut command = hosts.command(0, program("pmixrun"));
    command.args(["--timeout", "100", "--host", "n1,n2", "-n", "2"]).env("PMIXRUN_RECORD", "none");
    allow_root(&mut command);
    command.arg(operation_program()).arg("gets of a peer");
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{out}{err}");
    let line = out.lines().find(|line| line.starts_with("GETS 0 ")).unwrap();
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    // rank, time of day, small, large, bytes
    [numbers[2], numbers[3]]
}
