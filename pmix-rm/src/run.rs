//! One run of `pmixrun`: sets up what the job of a [`Plan`] needs, runs it, and cleans up.

use std::io;

use pmix_host::{JobStart, OnFailure, StartError};
use pmix_program::signals::Signals;
use pmix_server::ServerStats;
use pmix_types::{Nspace, ProcInfo, Rank, keys};
use tokio::time::Instant;

use crate::causes::with_causes;
use crate::cli::{Plan, Stdin};
use crate::console::Console;
use crate::debugger::Prepared;
use crate::dvm::{Dvm, Keeping};
use crate::ending::{Ending, Interrupts, NotRun};
use crate::exit_code::{NO_READER, NOT_STARTED};
use crate::job::Job;
use crate::records::RecordPlace;
use crate::report::Report;
use crate::report_file::ReportFile;
use crate::starter::Starter;
use crate::stdin::To;
use crate::watch::{JobEnded, Watch};
use crate::{in_dvm, map, report_file, stdin};

/// Runs a job and returns the exit code of `pmixrun`.
///
/// # Errors
/// The process has no usable standard streams or signals.
pub(crate) async fn run(plan: Plan) -> io::Result<i32> {
    let started = Instant::now();
    let mut interrupts = Interrupts::new(Signals::receive()?, plan.timeout);
    let mut console = Console::start("pmixrun", plan.talk)?;
    plan.warnings.iter().for_each(|warning| console.say(warning));
    let nspace =
        Nspace::new(format!("run.{}.{}", plan.setup.node(), std::process::id())).map_err(io::Error::other)?;
    let mut report = Report::new(&nspace, plan.ranks());
    let json = plan.json;

    let result = match (prepare(&plan, &mut console), plan.dvm.clone()) {
        (Ok((_pid_file, _)), Some(dvm)) => {
            in_dvm::job(plan, &dvm, &mut report, &mut console, &mut interrupts).await
        }
        (Ok((_pid_file, records)), None) => {
            match Run::start(&plan, records, &mut console, &mut interrupts).await {
                Ok(mut run) => {
                    let result = run.job(plan, nspace, &mut console, &mut interrupts).await;
                    report.servers(&run.end(&mut interrupts).await);
                    result
                }
                Err(error) => Err(error),
            }
        }
        (Err(error), _) => Err(error.into()),
    };
    let code = match result {
        Ok(ended) => {
            let code = ended.code;
            report.ended(&ended.outcome, code, ended.by.map(Ending::name));
            code
        }
        Err(error) => {
            if error.by.is_none() {
                console.say(&error.reason);
            }
            report.error(&error.reason, error.code(), error.by.map(Ending::name));
            error.code()
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
            Err(_) => NOT_STARTED,
        },
        // a signal ends the wait for a slow reader
        () = interrupts.again() => code,
    })
}

/// Creates output and pid files and the directory of records, before any process starts; returns the reason if that fails.
fn prepare(plan: &Plan, console: &mut Console) -> Result<(Option<ReportFile>, RecordPlace), String> {
    console.keep(&plan.format, plan.ranks()).map_err(|error| format!("output of ranks: {error}"))?;
    let records = match plan.dvm {
        // its servers write them
        Some(_) => RecordPlace::Nowhere,
        None => RecordPlace::prepare(plan.record.as_deref())?,
    };
    let Some(place) = &plan.report_pid else { return Ok((None, records)) };
    let file = report_file::report_pid(place, console)?;
    Ok((file, records))
}

/// The job and what it needs.
struct Run {
    dvm: Dvm,
    /// Where the records of the servers go if the job fails.
    records: RecordPlace,
    /// The tool that has started this launcher.
    starter: Option<Starter>,
}

impl Run {
    /// Sets up all that a job needs; returns node and reason if that fails.
    async fn start(
        plan: &Plan,
        records: RecordPlace,
        console: &mut Console,
        interrupts: &mut Interrupts,
    ) -> Result<Self, NotRun> {
        let starter = Starter::from_env().await?;
        let reader = match plan.stdin {
            Stdin::Rank(rank) => Some(rank),
            _ => None,
        };
        // the session directories, where records would be otherwise, end with the job
        let keeping = Keeping { records: records.records(), durable: None, lasting: None };
        let dvm = Dvm::start(&plan.setup, keeping, reader, console, interrupts).await?;
        Ok(Self { dvm, records, starter })
    }

    /// Runs the job to its end; returns the reason if it does not start.
    async fn job(
        &mut self,
        plan: Plan,
        nspace: Nspace,
        console: &mut Console,
        interrupts: &mut Interrupts,
    ) -> Result<JobEnded, NotRun> {
        let debugging = Prepared::new(plan.debug.clone(), self.dvm.for_debuggers(), plan.setup.grace).await?;
        let mut start = JobStart::new(nspace.clone(), plan.apps.clone())
            .on_failure(OnFailure::End { grace: plan.reaction });
        let mut directives = plan.binding.clone();
        if plan.stop_in_init {
            directives = directives.with(&keys::DEBUG_STOP_IN_INIT, true);
        }
        if let Some(starter) = &self.starter {
            starter.directives().await?.into_iter().for_each(|info| directives.push(info));
        }
        start = start.directives(directives);
        match plan.stdin {
            Stdin::All => start.stdin = Some(Rank::WILDCARD),
            Stdin::Rank(rank) if self.dvm.session.is_some() => start.stdin = Some(rank),
            _ => {}
        }
        let reader = start.stdin;
        // other hosts may take long, and what has been started ends with their daemons
        let has_others = self.dvm.session.is_some();
        let job = tokio::select! {
            job = self.dvm.host.start_job(start) => job.map_err(|error| why_not(&error).into()),
            ended = interrupts.first("the job was starting"), if has_others => Err(ended),
        };
        if let Err(NotRun { reason, by: Some(_) }) = &job {
            console.tell(reason);
        }
        if job.is_err()
            && let Some(session) = &mut self.dvm.session
        {
            for (node, reason) in session.lost_meanwhile() {
                console.tell(format_args!("node {node} is lost: {reason}"));
            }
        }
        let job = job?;
        if let Some(starter) = &mut self.starter {
            starter.has_launched(&nspace);
        }
        let table = self.dvm.host.process_table(&nspace);
        if plan.shows_map {
            map::lines(&nspace, &plan.apps, &table).iter().for_each(|line| console.put_line(line));
        }
        if let Some(reader) = reader {
            let procs = table.into_iter().map(|row: ProcInfo| row.proc);
            let procs = procs.filter(|proc| reader.matches(proc.rank)).collect();
            stdin::forward(To::Host(self.dvm.host.clone(), procs))
                .map_err(|error| format!("{}: standard input: {error}", self.dvm.node))?;
        }
        if plan.stop_in_init && debugging.is_none() {
            console
                .say(format_args!("ranks are waiting in init; run `pmix release {nspace}` to resume them"));
        }
        let nodes = self.dvm.session.as_mut().map(|session| (session, self.dvm.host.clone()));
        let debugging = debugging.map(|prepared| prepared.started(nspace, plan.ranks()));
        let watch = Watch::new(plan, Job::Here(job), console, self.records.clone(), nodes);
        let mut watch = watch.debugged(debugging);
        let ended = watch.until_done(&mut *interrupts).await;
        Ok(ended.map_err(|error| format!("{}: {error}", self.dvm.node))?)
    }

    /// Stops servers and guardian, and ends what is left of the job.
    async fn end(self, interrupts: &mut Interrupts) -> Vec<ServerStats> {
        let stats = self.dvm.end("the job has ended", interrupts).await;
        // last: its server may hang
        if let Some(starter) = self.starter {
            starter.leave().await;
        }
        stats
    }
}

/// The reason for a failed start, without the namespace, which the user has not chosen.
fn why_not(error: &StartError) -> String {
    match error {
        StartError::Launch(error) => {
            format!("rank {} ({}) on {}: {}", error.proc.rank, error.program, error.node, error.reason)
        }
        error => with_causes(error),
    }
}
