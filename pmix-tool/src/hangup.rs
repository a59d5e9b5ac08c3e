//! Whether a command outlives its terminal.

use procfs::process::Process;
use rustix::process::Signal;

/// Whether this process ignores SIGHUP, as `nohup` has what it starts do. A program that handles SIGHUP asks before it does, and
/// leaves it ignored then. False where /proc does not tell.
#[must_use]
pub fn is_ignored() -> bool {
    let status = Process::myself().and_then(|process| process.status());
    status.is_ok_and(|status| status.sigign >> (Signal::HUP.as_raw() - 1) & 1 == 1)
}
