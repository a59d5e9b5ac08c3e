//! How much memory a process has.

use std::fs;

/// In KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Resident.
    pub(crate) rss: u64,
    /// Resident and shared with no other process.
    pub(crate) uss: u64,
}

impl Memory {
    /// Of a process; nothing if the kernel does not report it.
    pub(crate) fn of(pid: u32) -> Self {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default())
    }

    /// Of this process.
    pub(crate) fn own() -> Self {
        Self::of(std::process::id())
    }

    fn parse(rollup: &str) -> Self {
        let mut memory = Self::default();
        for line in rollup.lines() {
            let mut words = line.split_whitespace();
            let (Some(name), Some(Ok(size))) = (words.next(), words.next().map(str::parse::<u64>)) else {
                continue;
            };
            match name {
                "Rss:" => memory.rss = size,
                "Private_Clean:" | "Private_Dirty:" => memory.uss += size,
                _ => {}
            }
        }
        memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_memory_is_clean_and_dirty_together() {
        let text = "55d0-7ffe ---p 00000000 00:00 0 [rollup]\nRss:  1200 kB\nPss: 300 kB\nShared_Clean: 900 kB\n\
                    Private_Clean: 40 kB\nPrivate_Dirty: 260 kB\n";
        assert_eq!(Memory::parse(text), Memory { rss: 1200, uss: 300 });
        let own = Memory::own();
        assert!(own.rss >= own.uss && own.uss > 0, "{own:?}");
    }
}
