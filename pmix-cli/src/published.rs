//! What `pmix publish`, `lookup` and `unpublish` share: the identity that publishes, and ranges.

use std::time::Duration;

use clap::ValueEnum;
use pmix_tool::types::DataRange;
use pmix_tool::{Nspace, ProcId, Rank, Status, Tool};
use tokio::time::{Instant, sleep};

use super::Trouble;
use super::selection::{Selection, hint};

/// Ranges that mean something to a command, which has a namespace of its own and is gone at once.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum PublishRange {
    /// Processes on the node of the server
    Local,
    /// Processes of the same session
    Session,
    /// All processes
    Global,
}

impl From<PublishRange> for DataRange {
    fn from(range: PublishRange) -> Self {
        match range {
            PublishRange::Local => Self::LOCAL,
            PublishRange::Session => Self::SESSION,
            PublishRange::Global => Self::GLOBAL,
        }
    }
}

/// How long a command waits between attempts to become the publisher, while another command is.
const PAUSE: Duration = Duration::from_millis(50);

/// A tool with the identity under which all commands of this user publish: only what a process has published itself can it
/// unpublish (PUB-15), and the command that did is gone.
pub(super) async fn publisher(selection: &Selection) -> Result<Tool, Trouble> {
    let nspace = Nspace::publisher(rustix::process::geteuid().as_raw());
    let identity = ProcId::new(nspace, Rank::from_raw(0));
    let end = selection.limit().map(|limit| Instant::now() + limit);
    loop {
        match selection.builder().identity(identity.clone()).connect().await {
            // one at a time has it
            Err(error)
                if error.status() == Status::ERR_EXISTS && end.is_none_or(|end| Instant::now() < end) =>
            {
                #[expect(clippy::disallowed_methods, reason = "nothing announces that an identity is free")]
                sleep(PAUSE).await;
            }
            outcome => return outcome.map_err(hint),
        }
    }
}
