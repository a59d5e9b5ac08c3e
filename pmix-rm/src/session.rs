//! What `pmixrun` does with a [`Plan`]: sets up guardian and server, has the job watched, clears up behind it.

use std::io;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use pmix_server::standard::{JobOutcome, JobStart, MemoryExchange, OnFailure, StandardHost};
use pmix_server::{Server, ServerStats};
use pmix_types::Nspace;
use rustix::system::uname;
use tokio::time::Instant;

use crate::cli::Plan;
use crate::console::Console;
use crate::report::Report;
use crate::signals::{Received, Signals};
use crate::watch::{Ending, NO_READER, Watch};
use crate::{GUARDIAN_COMMAND, Guardian, LocalLauncher, orphans, stdin};

/// Exit code when the job could not be started, or `pmixrun` not do its work.
pub(crate) const NOT_STARTED: i32 = 1;
/// Longest time between the request to end and force when a failed job is ended.
const LAUNCHER_GRACE: Duration = Duration::from_secs(2);

/// Runs a job and returns the exit code for it.
///
/// # Errors
/// The process has no usable standard streams or signals.
pub(crate) async fn run(plan: Plan) -> io::Result<i32> {
    let started = Instant::now();
    let mut signals = Signals::receive()?;
    let mut console = Console::start()?;
    let node = uname().nodename().to_string_lossy().into_owned();
    let nspace = Nspace::new(format!("pmixrun.{node}.{}", std::process::id())).map_err(io::Error::other)?;
    let mut report = Report::new(&nspace, plan.ranks());
    let json = plan.json;

    let result = match Session::start(&node, plan.grace).await {
        Ok(session) => {
            let result = session.job(plan, nspace, &mut console, &mut signals).await;
            report.server(&session.end().await);
            result
        }
        Err(error) => Err(error),
    };
    let code = match result {
        Ok(ended) => {
            let code = ended.code;
            report.ended(&ended.outcome, code, ended.by.map(Ending::name));
            code
        }
        Err(error) => {
            console.say(&error);
            report.error(&error);
            NOT_STARTED
        }
    };
    if json {
        report.duration(started.elapsed());
        console.put_line(&report.to_line());
    }
    Ok(tokio::select! {
        written = console.finish() => match written {
            Ok(()) => code,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => NO_READER,
            Err(error) => return Err(error),
        },
        // whoever holds up the output does not hold us
        Received::End(_) = signals.next() => code,
    })
}

/// What there is around a job.
struct Session {
    node: String,
    guardian: Arc<Guardian>,
    host: StandardHost<LocalLauncher, MemoryExchange>,
    server: Server,
}

/// What became of a job.
struct Ended {
    outcome: JobOutcome,
    code: i32,
    by: Option<Ending>,
}

impl Session {
    /// Sets up all that a job needs; the error says on which node what is missing.
    async fn start(node: &str, grace: Duration) -> Result<Self, String> {
        let mut command = Command::new("/proc/self/exe");
        command.arg(GUARDIAN_COMMAND);
        let guardian = Guardian::start(command).map_err(|error| format!("{node}: guardian: {error}"))?;
        let guardian = Arc::new(guardian);
        let rank_zero = stdin::for_rank_zero().map_err(|error| format!("{node}: standard input: {error}"))?;
        let launcher = LocalLauncher::new(node)
            .with_guardian(Arc::clone(&guardian))
            .grace(grace.min(LAUNCHER_GRACE))
            .first_stdin(rank_zero);
        let host = StandardHost::new(launcher, MemoryExchange::single(node));
        let server = Server::builder()
            .host(host.clone())
            .hostname(node)
            .tool_support(true)
            .native_wire(pmix_server::NativeWire::WithOpenMpi4)
            .start()
            .await;
        let server = server.map_err(|error| format!("{node}: {}", with_causes(&error)))?;
        let protected = guardian.protect(server.handle().session_dir());
        protected.map_err(|error| format!("{node}: guardian: {error}"))?;
        Ok(Self { node: node.to_owned(), guardian, host, server })
    }

    /// Runs the job to its end; the error says why it did not start.
    async fn job(
        &self,
        plan: Plan,
        nspace: Nspace,
        console: &mut Console,
        signals: &mut Signals,
    ) -> Result<Ended, String> {
        let grace = plan.grace;
        let start = JobStart::new(nspace, plan.apps.clone()).on_failure(OnFailure::End { grace });
        let job = self.host.start_job(start).await.map_err(|error| with_causes(&error))?;
        let mut watch = Watch::new(plan, job, console);
        let (outcome, code) =
            watch.until_done(signals).await.map_err(|error| format!("{}: {error}", self.node))?;
        Ok(Ended { outcome, code, by: watch.ending })
    }

    /// Leaves nothing behind.
    async fn end(self) -> ServerStats {
        let stats = self.server.stats().await;
        self.server.stop().await;
        if let Err(error) = self.guardian.finish() {
            tracing::warn!(%error, "guardian");
        }
        orphans::end();
        stats
    }
}

/// An error with those that caused it, where they say something new.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
