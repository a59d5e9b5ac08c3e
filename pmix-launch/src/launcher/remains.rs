//! What is said of processes that a job has left behind.

use std::time::Duration;

use pmix_types::ProcId;

use crate::tree::Leftover;

/// The most processes that a line names.
const MAX_NAMES: usize = 8;

/// Names what was killed at the end of a job, whose last process here this was; empty if that is nothing.
pub(super) fn left_behind(proc: &ProcId, linger: Duration, killed: &[Leftover]) -> String {
    let (late, daemons): (Vec<_>, Vec<_>) = killed.iter().partition(|left| left.is_in_session);
    let mut said = String::new();
    if !late.is_empty() {
        said += &format!(
            "pmix: killed {}, which {} had left in the background, {} s after its last process ended (--linger)\n",
            names(&late),
            proc.nspace,
            linger.as_secs_f64()
        );
    }
    if !daemons.is_empty() {
        said +=
            &format!("pmix: killed {}, which {} had left behind as daemons\n", names(&daemons), proc.nspace);
    }
    said
}

/// Says that the output of a process is not read any more, although others hold it.
pub(super) fn unread(proc: &ProcId, linger: Duration) -> String {
    format!(
        "pmix: what {} rank {} has left in the background still holds its output, which is no longer read, {} s after its end \
         (--linger)\n",
        proc.nspace,
        proc.rank,
        linger.as_secs_f64()
    )
}

fn names(left: &[&Leftover]) -> String {
    let shown: Vec<_> = left.iter().take(MAX_NAMES).map(ToString::to_string).collect();
    let more = left.len().saturating_sub(MAX_NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}
