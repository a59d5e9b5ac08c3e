//! Whether a node that works for long stays as it was: pairs of publish and lookup, and cycles of register and
//! deregister with a client each, over the socket of a real server. Prints resident set and open files of server and
//! clients, which are one process, before and after; fails if they have grown.
//!
//! ```text
//! cargo bench -p pmix-tests --bench leaks                  # 100,000 pairs, 10,000 cycles
//! cargo bench -p pmix-tests --bench leaks -- 1000000 20000
//! ```

#![allow(clippy::print_stdout, missing_docs)]

use std::error::Error;
use std::time::Instant;

use pmix_tests::{Footprint, Steady};

/// What the resident set may grow by, in KiB: the allocator's play, 10 bytes a pair.
const PLAY_KIB: u64 = 1024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<u32> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let (pairs, cycles) = match numbers[..] {
        [pairs, cycles] => (pairs, cycles),
        _ => (100_000, 10_000),
    };
    let mut steady = Steady::start().await;
    // what the allocator takes once, and tables that grow to their size
    steady.publish_and_look_up(pairs / 10).await;
    steady.register_and_deregister(cycles / 10).await;

    let begin = steady.settled(Footprint::now()).await;
    let clock = Instant::now();
    steady.publish_and_look_up(pairs).await;
    let between = compare(&format!("{pairs} pairs of publish and lookup"), begin, &steady, clock).await?;
    let clock = Instant::now();
    steady.register_and_deregister(cycles).await;
    compare(&format!("{cycles} cycles of register and deregister"), between, &steady, clock).await?;
    steady.stop().await;
    Ok(())
}

async fn compare(
    what: &str,
    before: Footprint,
    steady: &Steady,
    clock: Instant,
) -> Result<Footprint, String> {
    let took = clock.elapsed().as_secs_f64();
    let after = steady.settled(before).await;
    println!("{what}, {took:.1} s\n  before: {before}\n  after:  {after}");
    match after.resident_kib <= before.resident_kib + PLAY_KIB && after.files <= before.files {
        true => Ok(after),
        false => Err(format!("{what} have left something behind")),
    }
}
