//! The page of shared memory in which the ranks of a launch and their host meet and exchange times, so that the library
//! under test does not coordinate its own measurement. Its layout is that of `c/bench_common.h`: ranks in C share it
//! too.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::{io, process};

use memmap2::{MmapOptions, MmapRaw};
use rustix::thread::futex::{self, Flags, Timespec};

use crate::clock;

/// Local ranks.
pub(crate) const RANKS: usize = 256;
/// Samples of a rank that are held at a time.
pub(crate) const SAMPLES: usize = 1024;
/// How often one who waits looks whether the launch has failed, in nanoseconds.
const LOOK: i64 = 200_000_000;

/// What is known of a rank. Times are nanoseconds of the monotonic clock.
#[repr(C)]
pub(crate) struct Slot {
    pub(crate) fork: AtomicU64,
    pub(crate) main: AtomicU64,
    pub(crate) init_begin: AtomicU64,
    pub(crate) init_end: AtomicU64,
    pub(crate) finalize_begin: AtomicU64,
    pub(crate) finalize_end: AtomicU64,
    /// KiB.
    pub(crate) rss: AtomicU64,
    /// KiB.
    pub(crate) uss: AtomicU64,
    /// When its event handler was called.
    pub(crate) event: AtomicU64,
}

/// One call.
#[repr(C)]
pub(crate) struct Sample {
    pub(crate) begin: AtomicU64,
    pub(crate) end: AtomicU64,
}

/// The page.
#[repr(C)]
pub(crate) struct Page {
    failed: AtomicU32,
    barrier_count: AtomicU32,
    barrier_round: AtomicU32,
    pub(crate) events: AtomicU32,
    local: AtomicU32,
    total: AtomicU32,
    pub(crate) first_fork: AtomicU64,
    /// Of the server when all clients are initialised, KiB.
    pub(crate) server_rss: AtomicU64,
    pub(crate) server_uss: AtomicU64,
    pub(crate) slots: [Slot; RANKS],
    samples: [[Sample; SAMPLES]; RANKS],
}

impl Page {
    /// Makes the page of a launch, all zero.
    pub(crate) fn create(path: &Path) -> io::Result<&'static Self> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        file.set_len(size_of::<Self>() as u64)?;
        Self::map(&file)
    }

    /// The page of the launch that this process belongs to.
    pub(crate) fn attach(path: &Path) -> io::Result<&'static Self> {
        let file = File::options().read(true).write(true).open(path)?;
        if file.metadata()?.len() < size_of::<Self>() as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "this is no page of a launch"));
        }
        Self::map(&file)
    }

    /// Mapped until the process ends: there is one a process.
    #[allow(unsafe_code, reason = "memory that other processes write to has no safe form")]
    fn map(file: &File) -> io::Result<&'static Self> {
        let map: &'static MmapRaw = Box::leak(Box::new(MmapOptions::new().map_raw(file)?));
        // SAFETY: the mapping starts at a page's boundary, is as long as `Page`, as both callers have made sure, is never
        // unmapped, and its file is never made shorter. `Page` is nothing but atomic integers: any bytes are valid, and
        // others may change them at any time.
        Ok(unsafe { &*map.as_ptr().cast::<Self>() })
    }

    /// Prepares for a launch of `local` ranks of a job of `total`.
    pub(crate) fn begin(&self, local: u32, total: u32) {
        for slot in &self.slots {
            let Slot { fork, main, init_begin, init_end, finalize_begin, finalize_end, rss, uss, event } =
                slot;
            for field in [fork, main, init_begin, init_end, finalize_begin, finalize_end, rss, uss, event] {
                field.store(0, Relaxed);
            }
        }
        self.local.store(local, Relaxed);
        self.total.store(total, Relaxed);
        self.barrier_count.store(0, SeqCst);
    }

    /// Ranks of this launch.
    pub(crate) fn local(&self) -> u32 {
        self.local.load(Relaxed)
    }

    /// Ranks of the job.
    pub(crate) fn total(&self) -> u32 {
        self.total.load(Relaxed)
    }

    /// Tells all who wait that there is nothing to wait for any more.
    pub(crate) fn fail(&self) {
        self.failed.store(1, SeqCst);
    }

    /// A sample of a rank.
    pub(crate) fn sample(&self, rank: u32, index: usize) -> &Sample {
        &self.samples[rank as usize][index]
    }

    /// Waits for all local ranks, out of band. Ends the process if the launch has failed.
    pub(crate) fn barrier(&self) {
        let round = self.barrier_round.load(SeqCst);
        if self.barrier_count.fetch_add(1, SeqCst) + 1 == self.local() {
            self.barrier_count.store(0, SeqCst);
            self.barrier_round.fetch_add(1, SeqCst);
            wake(&self.barrier_round);
            return;
        }
        while self.barrier_round.load(SeqCst) == round {
            if self.failed.load(SeqCst) != 0 {
                process::exit(9);
            }
            wait(&self.barrier_round, round);
        }
    }
}

impl Sample {
    pub(crate) fn set(&self, begin: u64, end: u64) {
        self.begin.store(begin, Relaxed);
        self.end.store(end, Relaxed);
    }

    pub(crate) fn get(&self) -> (u64, u64) {
        (self.begin.load(Relaxed), self.end.load(Relaxed))
    }
}

/// Waits while a word has this value, but not for long.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    let limit = Timespec { tv_sec: 0, tv_nsec: LOOK };
    // whoever waits looks again for itself, whatever has ended the wait
    let _ = futex::wait(word, Flags::empty(), value, Some(&limit));
}

/// Wakes all who wait for a word to change.
pub(crate) fn wake(word: &AtomicU32) {
    let _ = futex::wake(word, Flags::empty(), i32::MAX.cast_unsigned());
}

/// Marks the moment in a field.
pub(crate) fn stamp(field: &AtomicU64) {
    field.store(clock::now(), Relaxed);
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;
    use std::process::Command;

    use super::*;

    /// What the C compiler says of the same structures.
    const PROGRAM: &str = r#"
#include "bench_common.h"
#include <stddef.h>
#define O(t, f) offsetof(t, f)
int main(void)
{
    size_t v[] = {sizeof(shm_t), sizeof(rankslot_t), O(shm_t, failed), O(shm_t, bar_count), O(shm_t, bar_gen),
        O(shm_t, ev_count), O(shm_t, nlocal), O(shm_t, total), O(shm_t, t_first_fork), O(shm_t, srv_rss_kb),
        O(shm_t, srv_uss_kb), O(shm_t, r), O(shm_t, s), O(rankslot_t, t_fork), O(rankslot_t, t_main),
        O(rankslot_t, t_init0), O(rankslot_t, t_init1), O(rankslot_t, t_fin0), O(rankslot_t, t_fin1),
        O(rankslot_t, rss_kb), O(rankslot_t, uss_kb), O(rankslot_t, ev), MAXR, MAXIT};
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) printf("%zu ", v[i]);
    return 0;
}
"#;

    #[test]
    fn the_page_has_the_layout_of_the_c_programs() {
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("layout.c"), dir.path().join("layout"));
        std::fs::write(&source, PROGRAM).unwrap();
        let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/c");
        let Ok(cc) = Command::new("cc").args(["-w", include, "-o"]).args([&program, &source]).status() else {
            assert!(std::env::var_os("PMIX_REQUIRE_PEERS").is_none(), "there is no C compiler");
            return println!("skipped: there is no C compiler");
        };
        assert!(cc.success());
        let output = Command::new(&program).output().unwrap().stdout;
        let theirs: Vec<usize> =
            String::from_utf8(output).unwrap().split_whitespace().map(|word| word.parse().unwrap()).collect();
        let ours = [
            size_of::<Page>(),
            size_of::<Slot>(),
            offset_of!(Page, failed),
            offset_of!(Page, barrier_count),
            offset_of!(Page, barrier_round),
            offset_of!(Page, events),
            offset_of!(Page, local),
            offset_of!(Page, total),
            offset_of!(Page, first_fork),
            offset_of!(Page, server_rss),
            offset_of!(Page, server_uss),
            offset_of!(Page, slots),
            offset_of!(Page, samples),
            offset_of!(Slot, fork),
            offset_of!(Slot, main),
            offset_of!(Slot, init_begin),
            offset_of!(Slot, init_end),
            offset_of!(Slot, finalize_begin),
            offset_of!(Slot, finalize_end),
            offset_of!(Slot, rss),
            offset_of!(Slot, uss),
            offset_of!(Slot, event),
            RANKS,
            SAMPLES,
        ];
        assert_eq!(theirs, ours);
    }

    #[test]
    fn ranks_meet_round_after_round() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        let page = Page::create(&path).unwrap();
        page.begin(3, 5);
        assert_eq!((page.local(), page.total()), (3, 5));
        let ranks: Vec<_> = (0..3)
            .map(|rank| {
                let page = Page::attach(&path).unwrap();
                std::thread::spawn(move || {
                    for round in 0..200 {
                        page.sample(rank, 0).set(round, 0);
                        page.barrier();
                        // nobody is behind, and nobody is ahead before all have looked
                        for peer in 0..3 {
                            assert_eq!(page.sample(peer, 0).get().0, round);
                        }
                        page.barrier();
                    }
                })
            })
            .collect();
        ranks.into_iter().for_each(|rank| rank.join().unwrap());
    }

    #[test]
    fn a_file_that_is_too_short_is_no_page() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(Page::attach(file.path()).err().unwrap().kind(), io::ErrorKind::InvalidData);
    }
}
