//! What each process, and the tools of each user, have opened and contributed to rounds. A failed round may stay for long: until all participants that
//! it was meant for have entered it.

use std::collections::BTreeMap;
use std::fmt;

use pmix_types::message::Failure;
use pmix_types::{ProcId, Status, Uid};

/// Rounds that one process, or the tools of one user, can have opened at a time.
const MAX_OPENED: usize = 1024;
/// Bytes that these rounds, and the directives contributed to others, may take.
const MAX_OPENED_BYTES: usize = 16 << 20;

/// Whose share it is. Tools have no limit of their own, because a user could have one after the other leave rounds behind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sharer {
    Proc(ProcId),
    ToolsOf(Uid),
}

impl fmt::Display for Sharer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proc(proc) => proc.fmt(f),
            Self::ToolsOf(uid) => write!(f, "tools of uid {uid}"),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Shares(BTreeMap<Sharer, Share>);

/// What one of them has opened and contributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    rounds: usize,
    bytes: usize,
}

impl Shares {
    /// Refuses a contribution to a round, which it opens or which exists already, if that would be too much.
    pub(super) fn check(&self, by: &Sharer, bytes: usize, opens: bool) -> Result<(), Failure> {
        let held = self.0.get(by).copied().unwrap_or_default();
        if held.rounds + usize::from(opens) > MAX_OPENED {
            let message =
                format!("{MAX_OPENED} operations that {by} began are not complete yet, which is the limit");
            return Err(Failure::new(Status::ERR_RESOURCE_BUSY, message));
        }
        let bytes = held.bytes + bytes;
        if bytes > MAX_OPENED_BYTES {
            let message = format!(
                "operations that {by} began, and are not complete yet, would have {bytes} bytes, the limit is {MAX_OPENED_BYTES}"
            );
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        Ok(())
    }

    pub(super) fn add(&mut self, by: &Sharer, bytes: usize, opens: bool) {
        let held = self.0.entry(by.clone()).or_default();
        held.rounds += usize::from(opens);
        held.bytes += bytes;
    }

    /// A round has ended to which these have contributed; the first of them has opened it.
    pub(super) fn remove(&mut self, brought: &[(Sharer, usize)]) {
        for (place, (by, bytes)) in brought.iter().enumerate() {
            let Some(held) = self.0.get_mut(by) else { continue };
            held.rounds -= usize::from(place == 0);
            held.bytes -= bytes;
            if *held == Share::default() {
                self.0.remove(by);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
