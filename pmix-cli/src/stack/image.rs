//! A snapshot as a small core file, which gdb and eu-stack read.

use procfs::process::{MMPermissions, MMapPath};

use super::registers::Registers;
use super::snapshot::{PAGE, Piece, Snapshot};

/// Types of program headers.
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
/// Types of notes.
const NT_PRSTATUS: u32 = 1;
const NT_PRPSINFO: u32 = 3;
const NT_AUXV: u32 = 6;
const NT_FILE: u32 = 0x4649_4c45;

const ELF_HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
/// Mappings of files that are listed. The header of an ELF file counts up to 65,534 segments.
const MAX_FILES: usize = 20_000;

/// Bytes in the order of this machine.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_ne_bytes())
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_ne_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_ne_bytes())
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn pad(&mut self, to: usize) -> &mut Self {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
        self
    }

    fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    fn note(&mut self, kind: u32, body: &Self) -> &mut Self {
        self.u32(5).u32(u32::try_from(body.0.len()).unwrap_or(u32::MAX)).u32(kind).raw(b"CORE\0\0\0\0");
        self.raw(&body.0).pad(4)
    }
}

/// The whole file.
pub(super) fn image(snapshot: &Snapshot) -> Vec<u8> {
    let notes = notes(snapshot);
    let segments = segments(snapshot);
    let headers = 1 + segments.len();
    let mut file = Bytes::default();
    elf_header(&mut file, headers);
    let notes_at = ELF_HEADER + PROGRAM_HEADER * headers as u64;
    program_header(
        &mut file,
        PT_NOTE,
        notes_at,
        &Segment { address: 0, size: notes.len() as u64, bytes: &notes },
    );
    let mut at = (notes_at + notes.len() as u64).next_multiple_of(PAGE);
    for segment in &segments {
        program_header(&mut file, PT_LOAD, at, segment);
        at += segment.bytes.len() as u64;
    }
    file.raw(&notes).pad(PAGE as usize);
    for segment in segments {
        file.raw(segment.bytes);
    }
    file.0
}

/// A part of the memory, whose contents are left out if debuggers find them in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment<'a> {
    address: u64,
    size: u64,
    bytes: &'a [u8],
}

/// What was copied, and what is mapped of files: eu-stack takes an address outside of all segments for one of the library before
/// it.
fn segments(snapshot: &Snapshot) -> Vec<Segment<'_>> {
    let stacks = snapshot.threads.iter().map(|thread| &thread.stack);
    let pieces = apart(snapshot.pieces.iter().chain(stacks));
    let mut segments = pieces.clone();
    for map in snapshot.maps.iter().filter(|map| matches!(map.pathname, MMapPath::Path(_))).take(MAX_FILES) {
        let (mut from, end) = map.address;
        let first = pieces.partition_point(|piece| piece.address + piece.size <= from);
        for piece in pieces[first..].iter().take_while(|piece| piece.address < end) {
            segments.extend(left_out(from, piece.address));
            from = piece.address + piece.size;
        }
        segments.extend(left_out(from, end));
    }
    segments.sort_by_key(|segment| segment.address);
    segments
}

fn left_out(from: u64, to: u64) -> Option<Segment<'static>> {
    (from < to).then(|| Segment { address: from, size: to - from, bytes: &[] })
}

/// Sorted, and none reaches into the next: stacks of threads may be in one mapping, and each was copied to its end.
fn apart<'a>(pieces: impl Iterator<Item = &'a Piece>) -> Vec<Segment<'a>> {
    let mut pieces: Vec<_> = pieces.collect();
    pieces.sort_by_key(|piece| piece.address);
    let next = pieces.iter().skip(1).map(|piece| piece.address).chain([u64::MAX]);
    let cut = |(piece, next): (&&'a Piece, u64)| {
        let room = usize::try_from(next - piece.address).unwrap_or(usize::MAX);
        let bytes = &piece.bytes[..piece.bytes.len().min(room)];
        Segment { address: piece.address, size: bytes.len() as u64, bytes }
    };
    pieces.iter().zip(next).map(cut).filter(|segment| segment.size > 0).collect()
}

fn elf_header(file: &mut Bytes, headers: usize) {
    const ET_CORE: u16 = 4;
    // 64 bits, the order of this machine, version 1
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    file.raw(b"\x7fELF").raw(&[2, order, 1]).zeros(9).u16(ET_CORE).u16(Registers::MACHINE).u32(1);
    // no entry, program headers, no sections, no flags
    file.u64(0).u64(ELF_HEADER).u64(0).u32(0);
    file.u16(64).u16(56).u16(u16::try_from(headers).unwrap_or(u16::MAX)).zeros(6);
}

fn program_header(file: &mut Bytes, kind: u32, at: u64, segment: &Segment<'_>) {
    const READABLE: u32 = 4;
    file.u32(kind).u32(READABLE).u64(at).u64(segment.address).u64(0);
    file.u64(segment.bytes.len() as u64).u64(segment.size);
    file.u64(if kind == PT_LOAD { PAGE } else { 4 });
}

fn notes(snapshot: &Snapshot) -> Vec<u8> {
    let pid = snapshot.pid.cast_unsigned();
    let mut notes = Bytes::default();
    // state, flags, user and group; processes; name and arguments
    let mut info = Bytes::default();
    info.zeros(24).u32(pid).zeros(12 + 16 + 80);
    notes.note(NT_PRPSINFO, &info);
    for thread in &snapshot.threads {
        // signals; the thread and its processes; times
        let mut status = Bytes::default();
        status.zeros(32).u32(thread.tid.cast_unsigned()).zeros(12 + 64);
        for word in thread.registers.words() {
            status.u64(word);
        }
        notes.note(NT_PRSTATUS, status.zeros(8));
    }
    let mut auxv = Bytes::default();
    for (key, value) in snapshot.auxv.iter().chain([&(0, 0)]) {
        auxv.u64(*key).u64(*value);
    }
    notes.note(NT_AUXV, &auxv).note(NT_FILE, &files(snapshot));
    notes.0
}

/// Which files are mapped where.
fn files(snapshot: &Snapshot) -> Bytes {
    let mapped = || {
        snapshot.maps.iter().filter_map(|map| match &map.pathname {
            MMapPath::Path(path) if map.perms.contains(MMPermissions::READ) => Some((map, path)),
            _ => None,
        })
    };
    let mut files = Bytes::default();
    files.u64(mapped().count() as u64).u64(PAGE);
    for (map, _) in mapped() {
        files.u64(map.address.0).u64(map.address.1).u64(map.offset / PAGE);
    }
    for (_, path) in mapped() {
        files.raw(path.as_os_str().as_encoded_bytes()).raw(&[0]);
    }
    files
}
