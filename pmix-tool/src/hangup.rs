//! Whether a command outlives its terminal.

use procfs::process::Process;
use rustix::process::Signal;

/// Whether SIGHUP is ignored in this process, as in programs started by `nohup`. A program that handles SIGHUP must ask this
/// first, and leave the signal ignored if so. False where /proc does not tell.
#[must_use]
pub fn is_ignored() -> bool {
    let status = Process::myself().and_then(|process| process.status());
    status.is_ok_and(|status| status.sigign >> (Signal::HUP.as_raw() - 1) & 1 == 1)
}
