//! What each process has opened and contributed to rounds. A failed round may stay for long: until all participants that
//! it was meant for have entered it.

use std::collections::BTreeMap;

use pmix_types::message::Failure;
use pmix_types::{ProcId, Status};

/// Rounds that one process can have opened at a time.
const MAX_OPENED: usize = 1024;
/// Bytes that these rounds, and the directives that the process has contributed to others, may take.
const MAX_OPENED_BYTES: usize = 16 << 20;

/// By process.
#[derive(Debug, Default)]
pub(super) struct Shares(BTreeMap<ProcId, Share>);

/// What one process has opened and contributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    rounds: usize,
    bytes: usize,
}

impl Shares {
    /// Refuses a contribution to a round, which the process opens or which exists already, if that would be too much.
    pub(super) fn check(&self, proc: &ProcId, bytes: usize, opens: bool) -> Result<(), Failure> {
        let held = self.0.get(proc).copied().unwrap_or_default();
        if held.rounds + usize::from(opens) > MAX_OPENED {
            let message = format!(
                "{proc} has begun {MAX_OPENED} operations that are not complete yet, which is the limit"
            );
            return Err(Failure::new(Status::ERR_RESOURCE_BUSY, message));
        }
        let bytes = held.bytes + bytes;
        if bytes > MAX_OPENED_BYTES {
            let message = format!(
                "{proc} would have {bytes} bytes in operations that are not complete yet, the limit is {MAX_OPENED_BYTES}"
            );
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        Ok(())
    }

    pub(super) fn add(&mut self, proc: &ProcId, bytes: usize, opens: bool) {
        let held = self.0.entry(proc.clone()).or_default();
        held.rounds += usize::from(opens);
        held.bytes += bytes;
    }

    /// A round has ended to which these have contributed; the first of them has opened it.
    pub(super) fn remove(&mut self, brought: &[(ProcId, usize)]) {
        for (place, (proc, bytes)) in brought.iter().enumerate() {
            let Some(held) = self.0.get_mut(proc) else { continue };
            held.rounds -= usize::from(place == 0);
            held.bytes -= bytes;
            if *held == Share::default() {
                self.0.remove(proc);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
