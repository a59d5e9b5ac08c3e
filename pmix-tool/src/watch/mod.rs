//! The jobs of a server as they come, change and end: a snapshot, then what has changed.
//!
//! ```no_run
//! use pmix_tool::Tool;
//! use pmix_tool::watch::WatchUpdate;
//!
//! # async fn example() -> Result<(), pmix_tool::Error> {
//! let tool = Tool::builder().connect().await?;
//! let mut watch = tool.watch_jobs().start().await?;
//! while let Some(news) = watch.next().await {
//!     match news? {
//!         WatchUpdate::Snapshot(jobs) => println!("{} jobs", jobs.len()),
//!         WatchUpdate::Changed(change) => {
//!             for row in change.jobs.values().flat_map(|job| &job.procs) {
//!                 println!("{} is now {}", row.proc, row.state);
//!             }
//!             for nspace in change.gone.keys() {
//!                 println!("{nspace} is gone");
//!             }
//!         }
//!         WatchUpdate::Resync { jobs, .. } => println!("{} jobs; what was before is not known", jobs.len()),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod ask;
mod jobs;
mod stream;
mod usage;

use std::time::Duration;

use pmix_types::{DataRange, Nspace, Status};

pub use jobs::{JobChange, JobProcs, Jobs, JobsChange};
pub use pmix_types::usage::ProcUsage;
pub use stream::{JobsWatch, WatchUpdate};
pub use usage::{Rate, Usage};

use crate::error::Error;
use crate::tool::Tool;

/// How often the server is asked, if nothing else is chosen.
const PERIOD: Duration = Duration::from_secs(1);
/// The least that can be chosen, and the time after an answer in which the server is not asked again, whatever happens.
const SHORTEST: Duration = Duration::from_millis(100);
/// Unread events that are held. Each says no more than that it is time to ask.
const UNREAD_EVENTS: usize = 256;
/// What prompts a question: jobs that start and end, and processes that are lost. Not each end of a process, of which there are
/// as many as ranks.
const PROMPTS: [Status; 3] = [Status::EVENT_JOB_START, Status::EVENT_JOB_END, Status::ERR_PROC_TERM_WO_SYNC];

impl Tool {
    /// Prepares to watch the jobs of the primary server: see [`WatchBuilder::start`].
    pub const fn watch_jobs(&self) -> WatchBuilder<'_> {
        WatchBuilder { tool: self, period: PERIOD, only: Vec::new(), has_usage: false }
    }
}

/// Settings of a [`JobsWatch`]; made by [`Tool::watch_jobs`].
#[derive(Clone, Debug)]
#[must_use = "nothing is watched before `start`"]
pub struct WatchBuilder<'a> {
    tool: &'a Tool,
    period: Duration,
    only: Vec<Nspace>,
    has_usage: bool,
}

impl WatchBuilder<'_> {
    /// The interval at which the server is queried, in addition to each start and end of a job: 1 second by default, at
    /// least 0.1 seconds; a shorter one counts as 0.1 seconds.
    pub const fn period(mut self, period: Duration) -> Self {
        self.period = if period.as_millis() < SHORTEST.as_millis() { SHORTEST } else { period };
        self
    }

    /// Watches only these jobs, which need not run yet. All visible jobs if none is given.
    pub fn only(mut self, jobs: impl IntoIterator<Item = Nspace>) -> Self {
        self.only.extend(jobs);
        self
    }

    /// Also queries what the processes use each time, and reports it as [`WatchUpdate::Usage`]. Servers that do not support this, such as those of
    /// OpenPMIx, report none.
    pub const fn usage(mut self) -> Self {
        self.has_usage = true;
        self
    }

    /// Registers for events of the server, and returns the stream of news. It stays with this server when another
    /// becomes the primary one, and keeps the connection open.
    ///
    /// # Errors
    /// [`Error::NotAttached`] without a primary server, [`Error::Client`] as of
    /// [`Client::events`](pmix_client::Client::events), and `ERR_TIMEOUT` when the tool's limit has passed.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn start(self) -> Result<JobsWatch, Error> {
        let server = self.tool.server()?;
        let client = server.client().clone();
        let mut events = client.events(PROMPTS).capacity(UNREAD_EVENTS);
        if !server.is_of_openpmix() {
            // a process could tell of an end, too
            events = events.source_range(DataRange::RM);
        }
        let events = events.await?;
        let has_usage = self.has_usage && !server.is_of_openpmix();
        let ask = ask::Ask { client, only: self.only.into(), has_usage };
        Ok(JobsWatch::new(ask, events, self.period))
    }
}
