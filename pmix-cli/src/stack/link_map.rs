//! The list of libraries that the dynamic linker keeps for debuggers in the memory of a process.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

use procfs::process::{MMapPath, MemoryMap};

use super::snapshot::{PAGE, Piece};

/// Keys of the auxiliary vector: where the program headers of the executable are, and how many.
const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
/// Types of program headers.
const PT_DYNAMIC: u32 = 2;
const PT_PHDR: u32 = 6;
/// The entry of the dynamic section with the address of the list.
const DT_DEBUG: u64 = 21;
/// More libraries than any process has: the list may be damaged, and go round in circles.
const MAX_LIBRARIES: usize = 10_000;
/// Longer names of files are cut off.
const MAX_NAME: u64 = 1024;
const MAX_HEADERS: u64 = 1000;

/// What debuggers read to find executable, libraries and vDSO. Nothing of a static executable but its headers.
pub(super) fn pieces(memory: &File, auxv: &[(u64, u64)], maps: &[MemoryMap]) -> Vec<Piece> {
    let mut reader = Reader { memory, pages: BTreeSet::new() };
    // a list that cannot be read to its end is better than none
    let _ = reader.walk(auxv);
    // the header of each file tells its build
    let is_start = |map: &&MemoryMap| map.offset == 0 && matches!(map.pathname, MMapPath::Path(_));
    reader.pages.extend(maps.iter().filter(is_start).map(|map| map.address.0));
    let vdso = maps.iter().find(|map| map.pathname == MMapPath::Vdso).map(|map| map.address);
    reader.pages.extend(vdso.into_iter().flat_map(|(start, end)| (start..end).step_by(4096)));
    reader.pieces(&maps.iter().map(|map| map.address.0).collect())
}

struct Reader<'a> {
    memory: &'a File,
    /// Pages that were read.
    pages: BTreeSet<u64>,
}

impl Reader<'_> {
    fn walk(&mut self, auxv: &[(u64, u64)]) -> Option<()> {
        let value = |key| auxv.iter().find(|(found, _)| *found == key).map(|(_, value)| *value);
        let (headers, count) = (value(AT_PHDR)?, value(AT_PHNUM)?.min(MAX_HEADERS));
        let (mut bias, mut dynamic) = (0, None);
        for header in (0..count).map(|index| headers + index * 56) {
            // type and flags, offset, address, physical address, size in the file, size in memory
            let [kind, _, address, _, _, size] = self.words(header)?;
            match u32::try_from(kind & u64::from(u32::MAX)).ok()? {
                PT_PHDR => bias = headers.wrapping_sub(address),
                PT_DYNAMIC => dynamic = Some((address, size)),
                _ => {}
            }
        }
        let (address, size) = dynamic?;
        let start = bias.wrapping_add(address);
        let mut entries = (start..start.checked_add(size.min(1 << 16))?).step_by(16);
        let list = entries.find_map(|entry| match self.words(entry)? {
            [DT_DEBUG, list] => Some(list),
            _ => None,
        })?;
        let [_, mut library] = self.words(list)?;
        // version, list, function, state, base
        self.words::<5>(list)?;
        for _ in 0..MAX_LIBRARIES {
            if library == 0 {
                break;
            }
            let [_, name, dynamic, next, _] = self.words(library)?;
            self.note(name, MAX_NAME);
            self.note(dynamic, 16);
            library = next;
        }
        Some(())
    }

    fn words<const N: usize>(&mut self, address: u64) -> Option<[u64; N]> {
        let mut words = [0; N];
        for (word, address) in words.iter_mut().zip((address..).step_by(8)) {
            let mut bytes = [0; 8];
            self.memory.read_exact_at(&mut bytes, address).ok()?;
            *word = u64::from_ne_bytes(bytes);
        }
        self.note(address, 8 * N as u64);
        Some(words)
    }

    /// Pages that debuggers will read.
    fn note(&mut self, address: u64, size: u64) {
        if address != 0 {
            let start = address & !(PAGE - 1);
            self.pages.extend((start..address.saturating_add(size)).step_by(4096));
        }
    }

    /// Pages that follow each other are one piece, unless a mapping starts in between.
    fn pieces(self, starts: &BTreeSet<u64>) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for address in self.pages {
            let mut bytes = vec![0; PAGE as usize];
            // a name may end just before the end of its mapping
            if self.memory.read_exact_at(&mut bytes, address).is_err() {
                continue;
            }
            match pieces.last_mut() {
                Some(last) if last.end() == address && !starts.contains(&address) => last.bytes.extend(bytes),
                _ => pieces.push(Piece { address, bytes }),
            }
        }
        pieces
    }
}
