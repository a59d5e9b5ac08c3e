//! Traces of operations: which trace a fence belongs to, and which span is the parent of which.
//!
//! All participants of a fence put their spans into one trace without asking each other: its id is computed from what each of them
//! knows. These are the *root* that a launcher hands to all servers and processes of a run (`TRACEPARENT`), the participants as
//! they are named, and how many fences of these participants a process has entered before. Ids of spans are computed in the
//! same way, from the span above. A root is drawn by chance for each run, so ids of different runs differ.
//!
//! Spans are those of the crate `tracing`, with the target [`TARGET`] and these ids in their fields, so that any
//! subscriber can read them.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use crate::{Nspace, ProcId, Status};

/// The target of all spans that have a place in a trace. Their level is `TRACE`.
pub const TARGET: &str = "pmix::trace";

/// The variable with the [root](TraceContext) of a run, in the environment of its processes.
pub const VARIABLE: &str = "TRACEPARENT";

/// The variable with the place where processes are to send their spans.
pub const TO_VARIABLE: &str = "PMIX_TRACE_TO";

/// Sets of participants whose fences are counted for processes of one namespace.
const MAX_COUNTED: usize = 65_536;

/// A place in a trace, as W3C Trace Context has it: the trace, a span of it, and flags.
///
/// Its text is that of the header `traceparent`: `00-<trace id>-<span id>-<flags>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: [u8; 16],
    span: [u8; 8],
    flags: u8,
}

/// A span and its place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TracedSpan {
    /// The span.
    pub context: TraceContext,
    /// The span above it, in the same trace; `None` for the first.
    pub parent: Option<[u8; 8]>,
}

impl TraceContext {
    /// Somebody records the spans of this trace.
    const SAMPLED: u8 = 1;

    /// The root of a run, from random bytes. `None` if either id is all zeros, which is not valid.
    pub fn root(trace: [u8; 16], span: [u8; 8]) -> Option<Self> {
        Self { trace, span, flags: Self::SAMPLED }.checked()
    }

    /// The id of the trace.
    pub const fn trace_id(&self) -> [u8; 16] {
        self.trace
    }

    /// The id of the span.
    pub const fn span_id(&self) -> [u8; 8] {
        self.span
    }

    /// Whether spans of the trace are recorded.
    pub const fn is_sampled(&self) -> bool {
        self.flags & Self::SAMPLED != 0
    }

    /// A span below this one. Two spans below the same one need different names.
    #[must_use]
    pub fn child(&self, name: &str) -> TracedSpan {
        let span = span_id(Hash::new().with(&self.trace).with(&self.span).with(name.as_bytes()));
        TracedSpan { context: Self { span, ..*self }, parent: Some(self.span) }
    }

    /// The span of one participant in a fence: the trace is that of the `number`th fence of these participants below this root. The
    /// span of the first participant is above those of all others.
    fn of_fence(&self, procs: &[ProcId], set: Hash, number: u64, of: &ProcId) -> TracedSpan {
        let hash = Hash::new().with(&self.trace).with(&self.span).with(b"fence").with(&set.0.to_be_bytes());
        let trace = hash.with(&number.to_be_bytes()).id();
        let first = procs.iter().min().map(|first| match first.rank.is_wildcard() {
            true => ProcId::new(first.nspace.clone(), crate::Rank::from_raw(0)),
            false => first.clone(),
        });
        let span = |of: &ProcId| span_id(proc(Hash::new().with(&trace), of));
        let parent = first.filter(|first| first != of).map(|first| span(&first));
        TracedSpan { context: Self { trace, span: span(of), flags: self.flags }, parent }
    }

    fn checked(self) -> Option<Self> {
        (self.trace != [0; 16] && self.span != [0; 8]).then_some(self)
    }
}

impl TracedSpan {
    /// The id of the span above, in hexadecimal digits; empty for the first span of a trace.
    pub fn parent_id(&self) -> impl fmt::Display {
        HexId(self.parent)
    }
}

/// How many fences of each set of participants processes have entered.
#[derive(Debug, Default)]
pub struct FenceCounts {
    counts: HashMap<Nspace, HashMap<u128, u64>>,
}

impl FenceCounts {
    /// Records that a process enters a fence of these participants, and returns its span below this root. `None` if too many
    /// sets of participants are already counted for its namespace.
    pub fn enter(&mut self, root: &TraceContext, procs: &[ProcId], of: &ProcId) -> Option<TracedSpan> {
        let set = participants(procs);
        let key = proc(set, of).0;
        if !self.counts.contains_key(&of.nspace) {
            self.counts.insert(of.nspace.clone(), HashMap::new());
        }
        let counts = self.counts.get_mut(&of.nspace)?;
        if counts.len() >= MAX_COUNTED && !counts.contains_key(&key) {
            return None;
        }
        let number = counts.entry(key).or_default();
        *number += 1;
        Some(root.of_fence(procs, set, *number, of))
    }

    /// Drops the counts of a namespace whose processes have ended.
    pub fn forget(&mut self, nspace: &Nspace) {
        self.counts.remove(nspace);
    }
}

/// Participants as a field of a span: the first eight, then the number of the others, so that the text stays short.
pub fn listed(procs: &[ProcId]) -> impl fmt::Display {
    Listed(procs)
}

struct Listed<'a>(&'a [ProcId]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMED: usize = 8;
        for (at, proc) in self.0.iter().take(NAMED).enumerate() {
            write!(f, "{}{proc}", if at == 0 { "" } else { " " })?;
        }
        match self.0.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// A `traceparent` that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid traceparent: 00-<32 digits>-<16 digits>-<2 digits>, all hexadecimal in lower case")]
#[non_exhaustive]
pub struct TraceContextError;

crate::statuses! {
    TraceContextError, "`ERR_BAD_PARAM`", |_this| Status::ERR_BAD_PARAM;
}

/// As W3C Trace Context says: what newer versions append is left out.
impl FromStr for TraceContext {
    type Err = TraceContextError;

    fn from_str(text: &str) -> Result<Self, TraceContextError> {
        const LENGTH: usize = 55;
        let parse = || {
            let bytes = text.as_bytes();
            let [version] = digits(bytes.get(..2)?)?;
            let is_whole = match version {
                0 => bytes.len() == LENGTH,
                0xff => false,
                _ => bytes.len() == LENGTH || bytes.get(LENGTH) == Some(&b'-'),
            };
            let has_dashes = [2, 35, 52].iter().all(|at| bytes.get(*at) == Some(&b'-'));
            if !is_whole || !has_dashes {
                return None;
            }
            let [flags] = digits(bytes.get(53..LENGTH)?)?;
            // other flags mean something to whoever has set them alone
            let flags = flags & Self::SAMPLED;
            Self { trace: digits(bytes.get(3..35)?)?, span: digits(bytes.get(36..52)?)?, flags }.checked()
        };
        parse().ok_or(TraceContextError)
    }
}

fn digits<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", HexId(Some(self.trace)), HexId(Some(self.span)), self.flags)
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An id in hexadecimal digits; nothing for `None`.
struct HexId<const N: usize>(Option<[u8; N]>);

impl<const N: usize> fmt::Display for HexId<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().flatten().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn proc(hash: Hash, proc: &ProcId) -> Hash {
    hash.with(proc.nspace.as_str().as_bytes()).with(&proc.rank.to_raw().to_be_bytes())
}

/// The same whatever the order.
fn participants(procs: &[ProcId]) -> Hash {
    if let [one] = procs {
        return proc(Hash::new(), one);
    }
    let mut sorted: Vec<_> = procs.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.into_iter().fold(Hash::new(), proc)
}

fn span_id(hash: Hash) -> [u8; 8] {
    let [id @ .., _, _, _, _, _, _, _, _] = hash.id();
    id
}

/// FNV-1a with 128 bits, which is the same in each process and release, as the hashes of the standard library are not. Ids have
/// to be alike and to differ; nothing depends on their being hard to foresee.
#[derive(Clone, Copy)]
struct Hash(u128);

impl Hash {
    const fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    /// With these bytes and their number, so that the ends of several count.
    fn with(self, bytes: &[u8]) -> Self {
        let length = (bytes.len() as u64).to_be_bytes();
        let step = |hash: u128, byte: &u8| {
            (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        };
        Self(length.iter().chain(bytes).fold(self.0, step))
    }

    /// An id that is not 0. The last bytes alone would differ little between similar inputs, and samplers look at these.
    fn id(self) -> [u8; 16] {
        let mix = |half: u64| {
            let half = (half ^ (half >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
            let half = (half ^ (half >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
            (half ^ (half >> 33)).max(1)
        };
        #[allow(clippy::cast_possible_truncation, reason = "each takes its half")]
        let (high, low) = ((self.0 >> 64) as u64, self.0 as u64);
        let high = mix(high ^ low.rotate_left(32));
        (u128::from(high) << 64 | u128::from(mix(low ^ high))).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::Rank;

    const ROOT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn rank(nspace: &str, rank: u32) -> ProcId {
        ProcId::new(nspace.parse().unwrap(), Rank::from_raw(rank))
    }

    fn root() -> TraceContext {
        ROOT.parse().unwrap()
    }

    #[test]
    fn its_text_is_a_traceparent_and_anything_else_is_refused() {
        assert_eq!(root().to_string(), ROOT);
        assert!(root().is_sampled());
        let other = ROOT.replace("-01", "-00").parse::<TraceContext>().unwrap();
        assert!(!other.is_sampled() && other != root());
        // of a newer version what is known counts
        let newer = format!("01{}-more", &ROOT[2..]);
        assert_eq!(newer.parse(), Ok(root()));
        let zeros = |digits: usize| "0".repeat(digits);
        for wrong in [
            String::new(),
            "x".repeat(55),
            ROOT.to_uppercase(),
            format!("{ROOT}-more"),
            format!("ff{}", &ROOT[2..]),
            format!("01{}more", &ROOT[2..]),
            ROOT[..54].to_owned(),
            ROOT.replace('-', "_"),
            format!("00-{}-00f067aa0ba902b7-01", zeros(32)),
            format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", zeros(16)),
            ROOT.replace("4b", "é"),
            ROOT.replace("-01", "-0g"),
        ] {
            assert_eq!(wrong.parse::<TraceContext>(), Err(TraceContextError), "{wrong}");
        }
    }

    #[test]
    fn all_participants_of_a_fence_find_the_same_trace_and_the_first_is_above_the_others() {
        let named = [rank("a", 1), rank("b", 0)];
        let turned = [rank("b", 0), rank("a", 1), rank("b", 0)];
        let first = FenceCounts::default().enter(&root(), &named, &named[0]).unwrap();
        let other = FenceCounts::default().enter(&root(), &turned, &named[1]).unwrap();
        assert_eq!(first.context.trace_id(), other.context.trace_id());
        assert_eq!((first.parent, other.parent), (None, Some(first.context.span_id())));
        // of a job, that is rank 0
        let all = [ProcId::wildcard("a".parse().unwrap())];
        let [zero, one] =
            [0, 1].map(|of| FenceCounts::default().enter(&root(), &all, &rank("a", of)).unwrap());
        assert_eq!((zero.parent, one.parent), (None, Some(zero.context.span_id())));
        assert_eq!(format!("{}{}", zero.parent_id(), one.parent_id()).len(), 16);
    }

    #[test]
    fn fences_that_differ_have_traces_of_their_own() {
        let mut counts = FenceCounts::default();
        let mut enter = |procs: &[ProcId], of: &ProcId| counts.enter(&root(), procs, of).unwrap();
        let (me, all) = (rank("a", 0), [ProcId::wildcard("a".parse().unwrap())]);
        let pair = [rank("a", 0), rank("a", 1)];
        let other_job = [ProcId::wildcard("ab".parse().unwrap())];
        let entered =
            [enter(&all, &me), enter(&pair, &me), enter(&all, &me), enter(&other_job, &rank("ab", 0))];
        let other_root = ROOT.replace("4bf9", "4bf8").parse().unwrap();
        let other_run = FenceCounts::default().enter(&other_root, &all, &me).unwrap();
        let traces: HashSet<_> =
            entered.iter().chain([&other_run]).map(|span| span.context.trace_id()).collect();
        assert_eq!(traces.len(), 5, "{entered:?}");
        // each counts for itself
        assert_eq!(enter(&pair, &pair[1]).context.trace_id(), entered[1].context.trace_id());
    }

    #[test]
    fn few_participants_are_named() {
        let procs: Vec<_> = (0..10).map(|of| rank("a", of)).collect();
        assert_eq!(listed(&procs[..2]).to_string(), format!("{} {}", procs[0], procs[1]));
        let all = listed(&procs).to_string();
        assert!(all.ends_with(&format!("{} and 2 more", procs[7])), "{all}");
    }

    #[test]
    fn spans_below_others_are_in_their_trace_and_differ() {
        let (one, other) = (root().child("one"), root().child("other"));
        assert_eq!((one.context.trace_id(), one.parent), (root().trace_id(), Some(root().span_id())));
        let ids: HashSet<_> = [root(), one.context, other.context].map(|span| span.span_id()).into();
        assert_eq!(ids.len(), 3);
        assert_eq!(one, root().child("one"));
    }

    #[test]
    fn fences_of_a_bounded_number_of_sets_are_counted_until_their_job_is_gone() {
        let mut counts = FenceCounts::default();
        let me = rank("a", 0);
        let enter = |counts: &mut FenceCounts, other| counts.enter(&root(), &[rank("b", other)], &me);
        for other in 0..u32::try_from(MAX_COUNTED).unwrap() {
            assert!(enter(&mut counts, other).is_some());
        }
        assert_eq!(enter(&mut counts, u32::try_from(MAX_COUNTED).unwrap()), None);
        // another job does not suffer
        let other = rank("c", 0);
        assert!(counts.enter(&root(), std::slice::from_ref(&other), &other).is_some());
        let second = enter(&mut counts, 7).unwrap();
        counts.forget(&me.nspace);
        assert_ne!(enter(&mut counts, 7), Some(second));
        assert_eq!(counts.counts.len(), 2);
    }
}
