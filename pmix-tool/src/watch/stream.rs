//! The stream of news: when the server is asked, and what is told of its answers.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::Stream;
use futures::future::BoxFuture;
use pmix_client::{EventError, EventStream};
use pmix_types::{Event, Nspace, Status};
use tokio::time::{Instant, Sleep, sleep_until};

use super::ask::{Answer, Ask};
use super::jobs::{Jobs, JobsChange};
use super::usage::Usage;
use super::{SHORTEST, UNREAD_EVENTS};
use crate::error::Error;
use crate::submit::JobEnd;

/// The server works for a tool at most a part of the time: after an answer that took a while, this many times as long passes
/// before it is asked again.
const SPARE: u32 = 9;
/// No longer than this, because one answer may have come late for a reason that is over.
const LONGEST: Duration = Duration::from_secs(30);

/// How long to wait after an answer that took this long, if the server is to be asked once in a period.
fn pause(took: Duration, period: Duration) -> Duration {
    took.saturating_mul(SPARE).min(LONGEST).max(period)
}

/// What is told of the jobs of a server: see [`JobsWatch`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WatchUpdate {
    /// All jobs. The first news.
    Snapshot(Jobs),
    /// What has changed since the last news. Of several changes of a process between two questions, only the last is told.
    Changed(JobsChange),
    /// What the processes use, after each answer and after what it has changed, if [`WatchBuilder::usage`](super::WatchBuilder::usage) was chosen.
    Usage(Arc<Usage>),
    /// Events of the server are missing, because this stream was not read. All jobs as they are now take the place of what was
    /// told before.
    Resync {
        /// How many events are missing.
        missed: u64,
        /// All jobs.
        jobs: Jobs,
    },
}

/// A stream of the jobs of a server; made by [`WatchBuilder::start`](super::WatchBuilder::start).
///
/// It asks the server while it is read: at once, then as often as was chosen, and as soon as a job starts or ends or a process is lost. It asks
/// less often if answers take long, so that it costs the server a tenth of its time at most, but at least once in 30 seconds. Nothing is queued for a reader that is
/// slow: the next news has all that has changed meanwhile, or is [`WatchUpdate::Resync`] if more events came than are held. A job
/// that has started and ended between two questions is not told of.
///
/// If the server takes longer than the limit of [`ToolBuilder::timeout`](crate::ToolBuilder::timeout), an item is
/// `ERR_TIMEOUT`, and the stream goes on. After any other error it ends, such as that of a lost connection.
#[must_use = "a stream that is not read tells nothing"]
pub struct JobsWatch {
    ask: Ask,
    events: EventStream,
    period: Duration,
    state: AskState,
    /// What was told; `None` before the first answer.
    known: Option<Jobs>,
    /// What the processes have used; `None` before the first answer, and if it is not asked.
    usage: Option<Arc<Usage>>,
    /// It is to be told next.
    owes_usage: bool,
    /// The last question has had no answer in time.
    was_late: bool,
    /// How long the last answer took.
    took: Duration,
    /// When it came.
    answered: Instant,
    /// An event since the last question makes the next one due.
    is_prompted: bool,
    /// Events that are missing since the last news.
    missed: u64,
    /// Ends that were told of jobs that may still be in the last answer.
    ends: BTreeMap<Nspace, JobEnd>,
}

enum AskState {
    /// Until it is time to ask: no earlier than this, even if there is reason.
    Waits(Instant, Pin<Box<Sleep>>),
    /// Since then.
    Asks(Instant, BoxFuture<'static, Result<Answer, Error>>),
    /// This is told next, and nothing after it.
    Fails(Error),
    Over,
}

impl JobsWatch {
    pub(super) fn new(ask: Ask, events: EventStream, period: Duration) -> Self {
        Self {
            state: AskState::Asks(Instant::now(), Box::pin(ask.clone().jobs())),
            ask,
            events,
            period,
            known: None,
            usage: None,
            owes_usage: false,
            was_late: false,
            took: Duration::ZERO,
            answered: Instant::now(),
            is_prompted: false,
            missed: 0,
            ends: BTreeMap::new(),
        }
    }

    /// The next news; `None` at the end.
    ///
    /// # Errors
    /// `ERR_TIMEOUT`, after which the stream goes on; [`Error::Client`] if the connection is lost or the tool was finalized, and
    /// other errors of [`Tool::query`](crate::Tool::query), after which it ends.
    ///
    /// # Cancel safety
    /// Safe: no news is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<WatchUpdate, Error>> {
        poll_fn(|context| self.poll_news(context)).await
    }

    /// The jobs as they were told last; `None` before the snapshot.
    #[must_use]
    pub const fn jobs(&self) -> Option<&Jobs> {
        self.known.as_ref()
    }

    /// What the processes have used up to the last answer; `None` if it is not asked, and before the first answer.
    #[must_use]
    pub const fn usage(&self) -> Option<&Arc<Usage>> {
        self.usage.as_ref()
    }

    /// How long the last answer took, with all that was asked.
    #[must_use]
    pub const fn took(&self) -> Duration {
        self.took
    }

    /// When the last answer came, or the wait for it was given up; before the first one, when the stream was made.
    #[must_use]
    pub fn answered(&self) -> std::time::Instant {
        self.answered.into_std()
    }

    fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<WatchUpdate, Error>>> {
        if std::mem::take(&mut self.owes_usage)
            && let Some(usage) = &self.usage
        {
            return Poll::Ready(Some(Ok(WatchUpdate::Usage(Arc::clone(usage)))));
        }
        loop {
            let has_events = self.take_events(context);
            match &mut self.state {
                AskState::Over => return Poll::Ready(None),
                AskState::Fails(_) => {
                    let failed = std::mem::replace(&mut self.state, AskState::Over);
                    return Poll::Ready(if let AskState::Fails(error) = failed {
                        Some(Err(error))
                    } else {
                        None
                    });
                }
                // the next question says why there are no more events
                AskState::Waits(soonest, until) if self.is_prompted || !has_events => {
                    if until.deadline() > *soonest {
                        until.as_mut().reset(*soonest);
                    }
                    ready!(until.as_mut().poll(context));
                    self.ask();
                }
                AskState::Waits(_, until) => {
                    ready!(until.as_mut().poll(context));
                    self.ask();
                }
                AskState::Asks(since, answer) => {
                    let answer = ready!(answer.as_mut().poll(context));
                    let took = since.elapsed();
                    // the events of jobs that are gone were sent before this answer
                    self.take_events(context);
                    match answer {
                        Ok(Answer { jobs, usage }) => {
                            self.wait(took);
                            let usage = self
                                .ask
                                .has_usage
                                .then(|| Arc::new(Usage::at(std::time::Instant::now(), usage)));
                            self.usage.clone_from(&usage);
                            let changed = self.compare(jobs);
                            self.owes_usage = changed.is_some() && usage.is_some();
                            if let Some(news) = changed.or_else(|| usage.map(WatchUpdate::Usage)) {
                                return Poll::Ready(Some(Ok(news)));
                            }
                        }
                        Err(error) if error.is_timeout() => {
                            self.was_late = true;
                            self.wait(took);
                            return Poll::Ready(Some(Err(error)));
                        }
                        Err(error) => {
                            self.state = AskState::Fails(error);
                            if let Some(last) = self.last_words() {
                                return Poll::Ready(Some(Ok(WatchUpdate::Changed(last))));
                            }
                        }
                    }
                }
            }
        }
    }

    /// The ends of jobs of which events have told, and no answer will.
    fn last_words(&mut self) -> Option<JobsChange> {
        let known = self.known.as_mut()?;
        let ends = std::mem::take(&mut self.ends).into_iter();
        let gone = ends.filter(|(nspace, _)| known.get(nspace).is_some());
        let gone = gone.map(|(nspace, end)| (nspace, Some(end))).collect();
        let change = JobsChange { jobs: BTreeMap::new(), gone };
        known.apply(&change);
        (!change.is_empty()).then_some(change)
    }

    fn ask(&mut self) {
        self.is_prompted = false;
        self.state = AskState::Asks(Instant::now(), Box::pin(self.ask.clone().jobs()));
    }

    fn wait(&mut self, took: Duration) {
        let now = Instant::now();
        (self.took, self.answered) = (took, now);
        let (soonest, latest) = (now + pause(took, SHORTEST), now + pause(took, self.period));
        self.state = AskState::Waits(soonest, Box::pin(sleep_until(latest)));
    }

    /// Notes what events say; returns whether more can come. No more than are held at a time, so that a flood of them holds
    /// nothing up.
    fn take_events(&mut self, context: &mut Context<'_>) -> bool {
        for _ in 0..UNREAD_EVENTS {
            match Pin::new(&mut self.events).poll_next(context) {
                Poll::Ready(Some(Ok(event))) => self.note(&event),
                Poll::Ready(Some(Err(EventError::Lagged { missed }))) => {
                    self.missed = self.missed.saturating_add(missed);
                    self.is_prompted = true;
                }
                Poll::Ready(Some(Err(_)) | None) => return false,
                Poll::Pending => break,
            }
        }
        true
    }

    fn note(&mut self, event: &Event) {
        self.is_prompted = true;
        if event.code == Status::EVENT_JOB_END
            && let Some((nspace, end)) = JobEnd::read(event)
        {
            self.ends.insert(nspace, end);
        }
    }

    fn compare(&mut self, jobs: Jobs) -> Option<WatchUpdate> {
        let was_late = std::mem::take(&mut self.was_late);
        let Some(known) = &self.known else {
            self.ends.clear();
            self.missed = 0;
            return Some(WatchUpdate::Snapshot(self.known.insert(jobs).clone()));
        };
        let mut change = jobs.since(known);
        for (nspace, end) in &mut change.gone {
            *end = self.ends.remove(nspace);
        }
        // of others it is told once they are gone; what never was told of is not kept
        self.ends.retain(|nspace, _| jobs.get(nspace).is_some());
        let missed = std::mem::take(&mut self.missed);
        let jobs = &*self.known.insert(jobs);
        if missed > 0 {
            return Some(WatchUpdate::Resync { missed, jobs: jobs.clone() });
        }
        (was_late || !change.is_empty()).then_some(WatchUpdate::Changed(change))
    }
}

impl Stream for JobsWatch {
    type Item = Result<WatchUpdate, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_news(context)
    }
}

impl fmt::Debug for JobsWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jobs = self.known.as_ref().map(Jobs::len);
        f.debug_struct("JobsWatch").field("jobs", &jobs).field("period", &self.period).finish_non_exhaustive()
    }
}
