//! Throws changed messages at the decoder and reports how fast it takes them and what memory it keeps.
//!
//! ```sh
//! cargo run --release -p pmix-native --example mutate -- 10000000
//! ```
#![allow(clippy::print_stdout, reason = "a program")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;
use std::{env, fs};

use common::Vector;

/// Messages to be decoded unless a number is given.
const COUNT: u64 = 10_000_000;

/// A small generator, so that every run sees the same messages.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or_default()
    }

    fn byte(&mut self) -> u8 {
        let [byte, ..] = self.next().to_le_bytes();
        byte
    }
}

fn change(random: &mut Random, bytes: &mut Vec<u8>) {
    let at = random.below(bytes.len());
    let end = bytes.len().min(at + 1 + random.below(8));
    match random.below(6) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        1 if !bytes.is_empty() => bytes[at] = random.byte(),
        2 => bytes.insert(at, random.byte()),
        3 => drop(bytes.drain(at..end)),
        4 => bytes.extend_from_within(at..end),
        _ => bytes.truncate(bytes.len() - random.below(4).min(bytes.len())),
    }
}

/// Memory in use now and at most so far, as the kernel says.
fn memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(", ")
}

fn main() {
    let count = env::args().nth(1).and_then(|number| number.parse().ok()).unwrap_or(COUNT);
    let vectors: Vec<Vector> = common::vectors();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    println!("before: {}", memory());
    let start = Instant::now();
    let (mut read, mut refused, mut size) = (0u64, 0u64, 0usize);
    let mut bytes = Vec::new();
    for _ in 0..count {
        let vector = &vectors[random.below(vectors.len())];
        bytes.clone_from(&vector.bytes);
        for _ in 0..1 + random.below(4) {
            change(&mut random, &mut bytes);
        }
        size += bytes.len();
        match vector.decode(&bytes) {
            Ok(_) => read += 1,
            Err(_) => refused += 1,
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{count} messages, {read} read, {refused} refused, none a panic");
    println!(
        "{:.0} messages/s, {:.1} MB/s, {seconds:.1} s",
        count as f64 / seconds,
        size as f64 / seconds / 1e6
    );
    println!("after: {}", memory());
}
