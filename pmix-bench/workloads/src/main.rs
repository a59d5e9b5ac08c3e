//! The workloads whose instructions `pmix-bench counts` counts. Without arguments, prints the names of all; with a
//! name, runs that workload once.
//!
//! Only instructions in [`counted`] and in functions that it calls are counted: no threads, clocks, input or output,
//! and no preparation.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of developers")]
#![allow(clippy::expect_used, reason = "work that goes wrong is not to be counted")]

mod data;
mod engine;
mod native;
mod proto;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use engine::Work;

/// What prepares work of codecs and conversions.
type Prepare = fn() -> Work;

/// How often small things are done, so that what is done once is little beside them.
const TIMES: usize = 32;

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        names().for_each(|name| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    let Some(mut work) = prepare(&name) else {
        eprintln!("pmix-workloads: there is no work {name:?}");
        return ExitCode::FAILURE;
    };
    counted(&mut *work);
    ExitCode::SUCCESS
}

/// Instructions are counted from its first to its last: `pmix-bench counts` knows it by its name.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
}

fn names() -> impl Iterator<Item = &'static str> {
    let wires = proto::ALL.iter().chain(&native::ALL).map(|(name, _)| *name);
    engine::ALL.iter().map(|(name, _)| *name).chain(wires)
}

fn prepare(name: &str) -> Option<Work> {
    if let Some((_, prepare)) = engine::ALL.iter().find(|(known, _)| *known == name) {
        return Some(prepare(Instant::now()));
    }
    let (_, prepare) = proto::ALL.iter().chain(&native::ALL).find(|(known, _)| *known == name)?;
    Some(prepare())
}

/// The same with the same thing, often.
fn again<R>(one: impl Fn() -> R + 'static) -> Work {
    Box::new(move || (0..TIMES).for_each(|_| drop(black_box(one()))))
}

/// The same with something that is used up, often.
fn with_each<T: Clone + 'static, R>(thing: T, one: impl Fn(T) -> R + 'static) -> Work {
    let mut things = vec![thing; TIMES];
    Box::new(move || things.drain(..).for_each(|thing| drop(black_box(one(thing)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_work_is_done_and_has_a_name_of_its_own() {
        let all: Vec<_> = names().collect();
        assert!(all.len() > 25, "{all:?}");
        for (place, name) in all.iter().enumerate() {
            assert!(!all[..place].contains(name), "{name}");
            counted(&mut *prepare(name).unwrap());
        }
        assert!(prepare("engine/nothing").is_none());
    }
}
