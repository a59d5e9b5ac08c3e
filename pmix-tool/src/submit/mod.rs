//! Jobs that a tool has started, from their start to their end: what `prun` does.

mod dispatch;
pub(crate) mod end;
mod reader;

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use pmix_client::{Client, OutputChunk, OutputError, OutputStream};
use pmix_types::{App, DataRange, Directives, IofChannels, Nspace, ProcId, Query, Status, keys};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::dispatch::{Dispatch, Ending};
pub use self::end::JobEnd;
use self::end::NoEnd;
use crate::error::Error;
use crate::query;
use crate::tool::{Tool, read_namespaces};

/// Unread events that are held; the task that reads them does nothing else.
const UNREAD_EVENTS: usize = 16_384;

/// Unread output of a job that is held, in bytes: as much as a server holds for a connection.
const UNREAD_OUTPUT: usize = 8 << 20;

/// How long output of a job that has ended may be silent before the server is asked whether it still has the job.
const SILENCE: Duration = Duration::from_secs(1);

impl Tool {
    /// Prepares to start jobs at the primary server and to follow them: registers for the ends of jobs.
    ///
    /// One registration serves all jobs of a [`Submitter`] and its clones. It stays with this server when another becomes
    /// the primary one.
    ///
    /// # Errors
    /// [`Error::NotAttached`] without a primary server, [`Error::Client`] as of [`Client::events`], and `ERR_TIMEOUT`
    /// when the tool's limit has passed.
    ///
    /// # Cancel safety
    /// Safe.
    ///
    /// # Panics
    /// Outside of a tokio runtime with a timer: a task of it reads the events.
    pub async fn submitter(&self) -> Result<Submitter, Error> {
        let server = self.server()?;
        let client = server.client().clone();
        let mut events = client.events([Status::EVENT_JOB_END]).capacity(UNREAD_EVENTS);
        if !server.is_of_openpmix() {
            // a process could tell of an end, too
            events = events.source_range(DataRange::RM);
        }
        let events = events.await?;
        let doubt = Arc::new(Notify::new());
        let shared = Arc::new_cyclic(|shared| Shared {
            tool: self.clone(),
            client,
            dispatch: Mutex::default(),
            doubt: Arc::clone(&doubt),
            reader: tokio::spawn(reader::read(events, shared.clone(), doubt)),
        });
        Ok(Submitter { shared })
    }
}

/// Starts jobs at a server and follows them; made by [`Tool::submitter`]. Cheap to clone.
///
/// # Examples
/// ```no_run
/// use pmix_tool::types::App;
/// use pmix_tool::{Directives, IofChannels, Tool};
/// use pmix_tool::submit::JobUpdate;
///
/// # async fn example() -> Result<(), pmix_tool::Error> {
/// let tool = Tool::builder().connect().await?;
/// let submitter = tool.submitter().await?;
/// let app = App::new("hostname", 4);
/// let mut job = submitter.submit(vec![app], Directives::new(), IofChannels::STDOUT).await?;
/// while let Some(news) = job.next().await {
///     match news? {
///         JobUpdate::Output(chunk) => println!("{}: {} bytes", chunk.source, chunk.data.len()),
///         JobUpdate::Missing { bytes } => println!("{bytes} bytes are missing here"),
///         JobUpdate::Ended(end) => println!("{} has ended with {}", job.nspace(), end.exit_code),
///         _ => {}
///     }
/// }
/// tool.finalize().await
/// # }
/// ```
#[derive(Clone)]
pub struct Submitter {
    shared: Arc<Shared>,
}

struct Shared {
    tool: Tool,
    client: Client,
    dispatch: Mutex<Dispatch>,
    /// There is a job whose end may have been lost.
    doubt: Arc<Notify>,
    /// The task that reads events.
    reader: JoinHandle<()>,
}

/// A job that was started by [`Submitter::submit`].
///
/// If it is dropped before the end of the job, nobody follows the job, which goes on; its output is dropped.
#[must_use = "a job that is dropped is not followed"]
pub struct SubmittedJob {
    shared: Arc<Shared>,
    nspace: Nspace,
    /// `None` if no output is received, or nothing more.
    output: Option<OutputStream>,
    /// The server gave the output up before it was pulled.
    misses_all: bool,
    ended: oneshot::Receiver<Ending>,
    /// Its output has ended with the connection.
    cut_off: Option<OutputError>,
    /// How it has ended, while output may still come.
    ending: Option<Ending>,
    /// The server has forgotten it, so that no more output comes than is here.
    is_gone: bool,
    /// Nothing comes after this.
    is_over: bool,
}

/// What happens to a job: see [`SubmittedJob::next`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum JobUpdate {
    /// A piece of output, or the note that a process has closed a channel.
    Output(OutputChunk),
    /// Output is missing here, because it was not read fast enough.
    Missing {
        /// How many bytes; 0 if that is not known.
        bytes: u64,
    },
    /// All processes of the job have ended, and all of its output has been handed out. The last news.
    Ended(JobEnd),
}

impl Submitter {
    /// Starts a job; ready when all its processes have started.
    ///
    /// `apps` and `directives` are those of [`Client::spawn`]. Output on the channels in `output` is delivered to
    /// [`SubmittedJob::next`] instead of its usual destination; with [`IofChannels::NONE`], none is forwarded. This method
    /// sets `NOTIFY_COMPLETION`, `FWD_STDOUT` and `FWD_STDERR` accordingly, and `EVENT_SILENT_TERMINATION` has no effect.
    /// Without the directive `TIMEOUT`, the limit
    /// of [`ToolBuilder::timeout`](crate::ToolBuilder::timeout), in whole seconds, is that of the start: the server ends a job that
    /// has not started by then, and its answer is awaited for a few seconds more.
    ///
    /// # Errors
    /// Those of [`Client::spawn`] and [`Client::pull_output`], as [`Error::Client`], such as `ERR_TIMEOUT` when that limit has passed,
    /// and `ERR_TIMEOUT` if the output is not pulled within the tool's limit. No job is left running, unless the server does
    /// not answer any more.
    ///
    /// # Cancel safety
    /// Not safe: once the request is sent, the job is started, and nobody follows it.
    pub async fn submit(
        &self,
        apps: Vec<App>,
        mut directives: Directives,
        output: IofChannels,
    ) -> Result<SubmittedJob, Error> {
        let shared = &self.shared;
        for key in
            [&keys::NOTIFY_COMPLETION, &keys::EVENT_SILENT_TERMINATION, &keys::FWD_STDOUT, &keys::FWD_STDERR]
        {
            directives.remove(key);
        }
        for (key, channel) in
            [(&keys::FWD_STDOUT, IofChannels::STDOUT), (&keys::FWD_STDERR, IofChannels::STDERR)]
        {
            if output.contains(channel) {
                directives = directives.with(key, true);
            }
        }
        let has_limit = directives.contains(&keys::TIMEOUT);
        let mut spawn = shared.client.spawn(apps).directives(directives).notify_completion();
        if let Some(limit) = shared.tool.servers().limit().filter(|_| !has_limit) {
            let whole = limit.as_secs().saturating_add(u64::from(limit.subsec_nanos() > 0));
            spawn = spawn.timeout(Duration::from_secs(whole.min(i32::MAX as u64)));
        }
        let under_way = UnderWay::begin(shared);
        // not by the tool's clock, which the server's is behind: a job that starts in between would be followed by nobody
        let nspace = spawn.await?;
        let ended = under_way.started(nspace.clone());
        let mut job = SubmittedJob {
            shared: Arc::clone(shared),
            nspace,
            output: None,
            misses_all: false,
            cut_off: None,
            ended,
            ending: None,
            is_gone: false,
            is_over: false,
        };
        if !output.is_empty() {
            job.pull(output).await?;
        }
        Ok(job)
    }
}

impl SubmittedJob {
    /// Its namespace.
    pub const fn nspace(&self) -> &Nspace {
        &self.nspace
    }

    /// What happens next; `None` after [`JobUpdate::Ended`] and after an error.
    ///
    /// # Errors
    /// [`Error::Client`] if the connection is lost or the tool was finalized, and [`Error::UnknownEnd`] if the job has ended,
    /// the event of its end was lost, and the server does not remember it. What becomes of a job after a lost connection depends on the server's host.
    ///
    /// # Cancel safety
    /// Safe: nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<JobUpdate, Error>> {
        if self.is_over {
            return None;
        }
        if std::mem::take(&mut self.misses_all) {
            return Some(Ok(JobUpdate::Missing { bytes: 0 }));
        }
        match self.next_output().await {
            Some(Ok(news)) => return Some(Ok(news)),
            Some(Err(error)) => {
                self.is_over = true;
                return Some(Err(error));
            }
            None => {}
        }
        if self.ending.is_none() {
            self.ending = Some(ending_of((&mut self.ended).await));
        }
        self.is_over = true;
        Some(match (self.ending.take()?, self.cut_off.take()) {
            (Ok(_), Some(error)) => Err(error.into()),
            (Ok(end), None) => Ok(JobUpdate::Ended(end)),
            // the reader of events knows more about a lost connection
            (Err(reason), _) => Err(reason.into_error(&self.nspace)),
        })
    }

    /// The next piece of output; `None` if no more can come.
    async fn next_output(&mut self) -> Option<Result<JobUpdate, Error>> {
        while let Some(output) = &mut self.output {
            let item = if self.is_gone {
                output.recv().now_or_never().flatten()
            } else if self.ending.is_some() {
                match timeout(SILENCE, output.recv()).await {
                    Ok(item) => item,
                    // not every server tells of the end of output
                    Err(_) => match self.shared.running().await {
                        Ok(running) => {
                            self.is_gone = !running.contains(&self.nspace);
                            continue;
                        }
                        Err(error) => return Some(Err(error)),
                    },
                }
            } else {
                tokio::select! {
                    biased;
                    item = output.recv() => item,
                    ending = &mut self.ended => {
                        self.ending = Some(ending_of(ending));
                        continue;
                    }
                }
            };
            match item {
                Some(Ok(chunk)) if chunk.is_complete && chunk.source.rank.is_wildcard() => self.output = None,
                Some(Ok(chunk)) => return Some(Ok(JobUpdate::Output(chunk))),
                Some(Err(OutputError::Lagged { bytes })) => return Some(Ok(JobUpdate::Missing { bytes })),
                Some(Err(error)) => (self.output, self.cut_off) = (None, Some(error)),
                None => self.output = None,
            }
        }
        None
    }

    /// Sends a signal to all its processes.
    ///
    /// # Errors
    /// Those of [`Client::job_control`] as [`Error::Client`], such as `ERR_NOT_FOUND` after its end, and `ERR_TIMEOUT` when
    /// the tool's limit has passed.
    ///
    /// # Cancel safety
    /// Not safe: a request that was sent is carried out.
    #[doc(alias = "PMIX_JOB_CTRL_SIGNAL")]
    pub fn signal(&self, signal: i32) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.control(move |request| request.signal(signal))
    }

    /// Asks its processes to end, and ends them if they do not.
    ///
    /// # Errors
    /// Those of [`SubmittedJob::signal`].
    ///
    /// # Cancel safety
    /// That of [`SubmittedJob::signal`].
    #[doc(alias = "PMIX_JOB_CTRL_TERMINATE")]
    pub fn terminate(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.control(pmix_client::JobControlBuilder::terminate)
    }

    /// Ends its processes at once.
    ///
    /// # Errors
    /// Those of [`SubmittedJob::signal`].
    ///
    /// # Cancel safety
    /// That of [`SubmittedJob::signal`].
    #[doc(alias = "PMIX_JOB_CTRL_KILL")]
    pub fn kill(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.control(pmix_client::JobControlBuilder::kill)
    }

    /// The future borrows nothing, so that news can be awaited beside it.
    fn control<F>(&self, what: F) -> impl Future<Output = Result<(), Error>> + Send + use<F>
    where
        F: FnOnce(pmix_client::JobControlBuilder) -> pmix_client::JobControlBuilder + Send,
    {
        let (shared, job) = (Arc::clone(&self.shared), ProcId::wildcard(self.nspace.clone()));
        async move {
            let request = what(shared.client.job_control([job]));
            Ok(request.await.map(drop)?)
        }
    }

    /// Has its output come here.
    async fn pull(&mut self, channels: IofChannels) -> Result<(), Error> {
        let job = ProcId::wildcard(self.nspace.clone());
        let pull = self.shared.client.pull_output([job]).channels(channels).capacity(UNREAD_OUTPUT);
        match pull.await {
            Ok(output) => self.output = Some(output),
            // it ended, and nobody came for its output in time
            Err(error) if error.is_not_found() => self.misses_all = true,
            Err(error) => {
                if let Err(why) = self.terminate().await {
                    tracing::warn!(job = %self.nspace, error = %why, "a job whose output cannot be pulled cannot be ended");
                }
                return Err(error.into());
            }
        }
        Ok(())
    }
}

impl Drop for SubmittedJob {
    fn drop(&mut self) {
        self.shared.dispatch().forget(&self.nspace);
        self.shared.client.forget_job(&self.nspace);
    }
}

impl Shared {
    fn dispatch(&self) -> MutexGuard<'_, Dispatch> {
        lock(&self.dispatch)
    }

    /// The jobs that the server has.
    async fn running(&self) -> Result<HashSet<Nspace>, Error> {
        let queries = vec![Query::new(&keys::QUERY_NAMESPACES)];
        let answer = query::query(self.client.clone(), queries).await;
        match answer {
            Ok(results) => Ok(read_namespaces(&results)?.into_iter().collect()),
            // OpenPMIx answers so if there are none
            Err(error) if error.is_not_found() => Ok(HashSet::new()),
            Err(error) => Err(error),
        }
    }

    /// How a job has ended, if the server remembers it.
    ///
    /// # Errors
    /// It does not answer in time.
    async fn remembered(&self, nspace: &Nspace) -> Result<Option<JobEnd>, Error> {
        match self.tool.job_end_at(self.client.clone(), nspace.clone()).await {
            Err(error) if !error.is_timeout() => {
                tracing::debug!(%error, "cannot ask how a job has ended");
                Ok(None)
            }
            end => end,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// A spawn whose reply has not come.
struct UnderWay<'a> {
    shared: &'a Shared,
    number: u64,
}

impl<'a> UnderWay<'a> {
    fn begin(shared: &'a Shared) -> Self {
        Self { shared, number: shared.dispatch().begin() }
    }

    fn started(self, nspace: Nspace) -> oneshot::Receiver<Ending> {
        let (ending, ended) = oneshot::channel();
        if self.shared.dispatch().started(self.number, nspace, ending) {
            self.shared.doubt.notify_one();
        }
        ended
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.shared.dispatch().finish(self.number);
    }
}

/// The reader of events ends without a word if its runtime does.
fn ending_of(told: Result<Ending, oneshot::error::RecvError>) -> Ending {
    told.unwrap_or(Err(NoEnd::Disconnected))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Submitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitter").field("server", &self.shared.client.server_id()).finish_non_exhaustive()
    }
}

impl fmt::Debug for SubmittedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubmittedJob").field("nspace", &self.nspace).finish_non_exhaustive()
    }
}
