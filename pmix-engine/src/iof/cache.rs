//! Output that nobody has subscribed to yet.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use bytes::BytesMut;
use pmix_types::message::{Failure, Output};
use pmix_types::{Directives, IofChannels, Memory, Nspace, ProcId, Uid, keys};

/// Bytes kept for each channel of a process, unless directives say otherwise.
pub(crate) const CACHE_SIZE: usize = 64 << 10;
/// Bytes kept for all processes of a user together.
pub(crate) const MAX_CACHE: usize = 16 << 20;
/// Pieces kept for each channel of a process; output without information of its own is joined to one piece.
const MAX_PIECES: usize = 256;
/// Memory that a piece takes besides its bytes.
const OVERHEAD: usize = 256;

/// How much is kept, and which output is dropped if there is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheRule {
    size: usize,
    drop_oldest: bool,
}

impl Default for CacheRule {
    fn default() -> Self {
        Self { size: CACHE_SIZE, drop_oldest: false }
    }
}

impl CacheRule {
    /// The rule that directives ask for; `None` if they have none.
    pub(super) fn read(directives: &Directives) -> Result<Option<Self>, Failure> {
        let size = directives.get(&keys::IOF_CACHE_SIZE)?;
        let drop_oldest = directives.flag(&keys::IOF_DROP_OLDEST)?;
        let is_said = size.is_some() || drop_oldest || directives.contains(&keys::IOF_DROP_NEWEST);
        let size = size.map_or(CACHE_SIZE, |size: u32| size as usize);
        Ok(is_said.then_some(Self { size, drop_oldest }))
    }
}

/// Output of processes by channel, in order of arrival, with a note wherever some of it was dropped.
#[derive(Debug, Default)]
pub(super) struct OutputCache {
    sources: BTreeMap<Source, KeptOutput>,
    /// Bytes and overhead of all that is kept of the processes of each user.
    taken: BTreeMap<User, usize>,
}

/// The user of a process, if it is known.
pub(super) type User = Option<Uid>;

/// A channel of a process: the unit within which order is kept (IOF-09).
pub(super) type Source = (ProcId, IofChannels);

/// The output of a channel of a process, as far as it is kept.
#[derive(Debug, Default)]
struct KeptOutput {
    user: User,
    pieces: VecDeque<Piece>,
    bytes: usize,
}

#[derive(Debug)]
enum Piece {
    Data { data: BytesMut, info: Directives },
    Lost(u64),
}

/// What is taken out of the cache.
#[derive(Debug, PartialEq)]
pub(super) enum Cached {
    Output(Output),
    Lost(u64),
}

impl OutputCache {
    /// Keeps output; returns how many bytes are dropped for it.
    pub(super) fn push(
        &mut self,
        output: Output,
        user: impl FnOnce(&ProcId) -> User,
        rule: CacheRule,
    ) -> u64 {
        let Output { source, channels, data, info, .. } = output;
        let held = match self.sources.entry((source, channels)) {
            Entry::Occupied(held) => held.into_mut(),
            Entry::Vacant(place) => {
                let user = user(&place.key().0);
                place.insert(KeptOutput { user, ..KeptOutput::default() })
            }
        };
        let of_user = self.taken.entry(held.user).or_default();
        let before = held.taken();
        let bytes = held.bytes + data.len();
        let room = MAX_CACHE.saturating_sub(*of_user);
        held.push(&data, info, CacheRule { size: rule.size.min(held.bytes + room), ..rule });
        *of_user = *of_user + held.taken() - before;
        (bytes - held.bytes) as u64
    }

    /// Takes out the output of these sources.
    pub(super) fn take(&mut self, mut wanted: impl FnMut(&ProcId, IofChannels) -> bool) -> Vec<Cached> {
        let mut taken = Vec::new();
        self.sources.retain(|(source, channels), held| {
            if !wanted(source, *channels) {
                return true;
            }
            if let Some(of_user) = self.taken.get_mut(&held.user) {
                *of_user -= held.taken();
            }
            taken.extend(std::mem::take(&mut held.pieces).into_iter().map(|piece| match piece {
                Piece::Lost(bytes) => Cached::Lost(bytes),
                Piece::Data { data, info } => {
                    let mut output = Output::new(source.clone(), *channels, data.freeze());
                    output.info = info;
                    Cached::Output(output)
                }
            }));
            false
        });
        self.taken.retain(|_, of_user| *of_user > 0);
        taken
    }

    /// Drops the output of a namespace.
    pub(super) fn forget(&mut self, nspace: &Nspace) {
        self.take(|source, _| source.nspace == *nspace);
    }
}

impl KeptOutput {
    /// Pieces with information of their own are few.
    fn taken(&self) -> usize {
        let of_info = |piece: &Piece| match piece {
            Piece::Data { info, .. } => info.heap(),
            Piece::Lost(_) => 0,
        };
        self.bytes + self.pieces.iter().map(|piece| OVERHEAD + of_info(piece)).sum::<usize>()
    }

    fn push(&mut self, data: &[u8], info: Directives, rule: CacheRule) {
        let excess = (self.bytes + data.len()).saturating_sub(rule.size);
        let data = if rule.drop_oldest {
            let kept = self.drop_front(excess);
            data.get(kept..).unwrap_or_default()
        } else {
            let (kept, lost) = data.split_at(data.len().saturating_sub(excess));
            self.append(kept);
            self.note_lost(lost.len());
            &[]
        };
        self.append(data);
        if !info.is_empty() && self.pieces.len() < MAX_PIECES {
            // information about a piece follows it
            self.pieces.push_back(Piece::Data { data: BytesMut::new(), info });
        }
    }

    fn append(&mut self, more: &[u8]) {
        if more.is_empty() {
            return;
        }
        self.bytes += more.len();
        let has_room = self.pieces.len() < MAX_PIECES;
        match self.pieces.back_mut() {
            Some(Piece::Data { data, info }) if info.is_empty() => data.extend_from_slice(more),
            _ if has_room => {
                self.pieces.push_back(Piece::Data { data: more.into(), info: Directives::new() });
            }
            _ => {
                self.bytes -= more.len();
                self.note_lost(more.len());
            }
        }
    }

    fn note_lost(&mut self, bytes: usize) {
        match self.pieces.back_mut() {
            _ if bytes == 0 => {}
            Some(Piece::Lost(lost)) => *lost += bytes as u64,
            _ => self.pieces.push_back(Piece::Lost(bytes as u64)),
        }
    }

    /// Drops this many bytes from the front; returns how many of them were missing.
    fn drop_front(&mut self, mut excess: usize) -> usize {
        let mut lost = 0;
        let mut kept = VecDeque::new();
        while excess > 0 {
            match self.pieces.pop_front() {
                None => break,
                Some(Piece::Lost(bytes)) => lost += bytes,
                Some(Piece::Data { mut data, info }) => {
                    let dropped = excess.min(data.len());
                    bytes::Buf::advance(&mut data, dropped);
                    (self.bytes, excess, lost) =
                        (self.bytes - dropped, excess - dropped, lost + dropped as u64);
                    if !data.is_empty() {
                        self.pieces.push_front(Piece::Data { data, info });
                    } else if !info.is_empty() {
                        kept.push_back(Piece::Data { data, info });
                    }
                }
            }
        }
        // the rest is dropped from the piece that is about to be added
        lost += excess as u64;
        while let Some(piece) = kept.pop_back() {
            self.pieces.push_front(piece);
        }
        match self.pieces.front_mut() {
            _ if lost == 0 => {}
            Some(Piece::Lost(held)) => *held += lost,
            _ => self.pieces.push_front(Piece::Lost(lost)),
        }
        excess
    }
}
