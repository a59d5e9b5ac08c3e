//! Inputs from a corpus, changed at random.

use std::any::Any;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Target;

/// Largest input in bytes: a decoder that handles these handles larger ones.
const LONGEST: usize = 16 << 10;
/// Most changes that make an input from one of the corpus.
const CHANGES: usize = 4;
/// No input of that size may take a processor as long.
const TOO_LONG: Duration = Duration::from_secs(10);
/// Bytes that stand at the edges of numbers, and those that mean much to a terminal, a path or a list.
const EDGES: [u8; 10] = [0, 1, 0x7f, 0x80, 0xff, 0x1b, b'\n', b'/', b',', b':'];

/// A target under fire.
#[derive(Debug)]
pub struct Campaign {
    target: Target,
    corpus: Vec<Vec<u8>>,
    random: Random,
}

/// What became of it.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Inputs that were tried, the corpus included.
    pub inputs: u64,
    /// The longest that one of them took a processor.
    pub slowest: Duration,
}

impl Campaign {
    /// With the corpus of the target. The same seed makes the same inputs.
    ///
    /// # Errors
    /// The corpus cannot be read, or there is none.
    pub fn new(target: Target, seed: u64) -> io::Result<Self> {
        let directory = corpus_of(target);
        let mut files =
            fs::read_dir(&directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        // directories are listed in any order
        files.sort();
        let corpus = files.iter().map(fs::read).collect::<io::Result<Vec<_>>>()?;
        if corpus.is_empty() {
            return Err(io::Error::other(format!("{} is empty", directory.display())));
        }
        // it must not be 0, from which nothing follows
        Ok(Self { target, corpus, random: Random(seed | 1) })
    }

    /// Tries the corpus, then changed inputs for that long.
    ///
    /// # Errors
    /// What is wrong, and the file that holds the input it is wrong with.
    pub fn run(&mut self, time: Duration) -> Result<Outcome, String> {
        let start = Instant::now();
        self.run_while(|_| start.elapsed() < time)
    }

    /// Tries the corpus and then changed inputs, `count` in all.
    ///
    /// # Errors
    /// Those of [`Campaign::run`].
    pub fn run_inputs(&mut self, count: u64) -> Result<Outcome, String> {
        self.run_while(|inputs| inputs < count)
    }

    fn run_while(&mut self, goes_on: impl Fn(u64) -> bool) -> Result<Outcome, String> {
        let mut outcome = Outcome { inputs: 0, slowest: Duration::ZERO };
        for index in 0..self.corpus.len() {
            self.attempt(&self.corpus[index], &mut outcome)?;
        }
        while goes_on(outcome.inputs) {
            let input = self.change();
            self.attempt(&input, &mut outcome)?;
        }
        Ok(outcome)
    }

    fn attempt(&self, input: &[u8], outcome: &mut Outcome) -> Result<(), String> {
        let start = used();
        let result = catch_unwind(AssertUnwindSafe(|| (self.target.run)(input)));
        let took = used().saturating_sub(start);
        outcome.inputs += 1;
        outcome.slowest = outcome.slowest.max(took);
        match result {
            Err(panic) => Err(self.keep(input, &format!("panics: {}", words(&*panic)))),
            Ok(()) if took >= TOO_LONG => Err(self.keep(input, &format!("takes {took:?}"))),
            Ok(()) => Ok(()),
        }
    }

    /// Saves an input that was found.
    fn keep(&self, input: &[u8], problem: &str) -> String {
        let name = self.target.name;
        let file = std::env::temp_dir().join(format!("pmix-fuzz-{name}-{}", std::process::id()));
        let kept = match fs::write(&file, input) {
            Ok(()) => format!(
                "{}; when it is mended, move it to {}",
                file.display(),
                corpus_of(self.target).display()
            ),
            Err(error) => format!("{} ({error})", input.escape_ascii()),
        };
        format!("{name} {problem}\nthe input: {kept}")
    }

    /// An input of the corpus that is not as it was.
    fn change(&mut self) -> Vec<u8> {
        let one = self.random.below(self.corpus.len());
        let mut input = self.corpus[one].clone();
        for _ in 0..=self.random.below(CHANGES) {
            let other = self.random.below(self.corpus.len());
            self.random.change(&mut input, &self.corpus[other]);
        }
        input.truncate(LONGEST);
        input
    }
}

/// Where the inputs of a target are.
fn corpus_of(target: Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name)
}

/// How long this thread has had a processor.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it does not say why")
}

/// A small generator.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below the bound; 0 if there is none.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or_default()
    }

    fn byte(&mut self) -> u8 {
        let [byte, ..] = self.next().to_le_bytes();
        byte
    }

    fn range(&mut self, length: usize, longest: usize) -> std::ops::Range<usize> {
        let start = self.below(length);
        start..length.min(start + 1 + self.below(longest))
    }

    fn change(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        let piece = self.range(input.len(), 16);
        let at = piece.start;
        match self.below(9) {
            0 if !input.is_empty() => input[at] ^= 1 << self.below(8),
            1 if !input.is_empty() => input[at] = self.byte(),
            2 if !input.is_empty() => input[at] = EDGES[self.below(EDGES.len())],
            3 => input.insert(at, self.byte()),
            4 => drop(input.drain(piece)),
            5 => input.extend_from_within(piece),
            // a count or length of several bytes
            6 => drop(input.splice(piece, self.next().to_le_bytes())),
            7 => {
                let piece = self.range(other.len(), other.len());
                drop(input.splice(at..at, other[piece].iter().copied()));
            }
            _ => input.truncate(input.len() - self.below(4).min(input.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign(run: fn(&[u8])) -> Campaign {
        Campaign {
            target: Target { name: "test", run },
            corpus: vec![b"seed".into(), Vec::new()],
            random: Random(7),
        }
    }

    #[test]
    fn what_is_found_is_kept_and_said() {
        let found = campaign(|input| assert!(!input.contains(&b'!'), "it holds a mark")).run(Duration::MAX);
        let problem = found.unwrap_err();
        assert!(problem.starts_with("test panics: it holds a mark"), "{problem}");
        let file = problem.split(": ").nth(2).unwrap().split(';').next().unwrap();
        assert!(fs::read(file).unwrap().contains(&b'!'));
        fs::remove_file(file).unwrap();
    }

    #[test]
    fn inputs_differ_and_stay_small() {
        let mut campaign = campaign(|_| ());
        let inputs: std::collections::BTreeSet<_> = (0..1000).map(|_| campaign.change()).collect();
        assert!(inputs.len() > 500 && inputs.iter().all(|input| input.len() <= LONGEST));
        assert_eq!(campaign.run(Duration::ZERO).unwrap().inputs, 2, "the corpus is tried in any case");
        assert_eq!(campaign.run_inputs(1).unwrap().inputs, 2);
        assert_eq!(campaign.run_inputs(50).unwrap().inputs, 50);
    }

    #[test]
    fn a_target_without_corpus_is_an_error() {
        assert!(Campaign::new(Target { name: "none", run: |_| () }, 1).is_err());
    }
}
