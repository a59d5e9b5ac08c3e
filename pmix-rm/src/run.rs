//! One run of `pmixrun`: sets up guardian and servers, runs the job of a [`Plan`], and cleans up.

use std::env::var_os;
use std::io;
use std::process::Command;
use std::sync::Arc;

use pmix_host::{JobOutcome, JobStart, MemoryExchange, OnFailure, Records, StandardHost, StartError};
use pmix_server::{Server, ServerStats};
use pmix_types::{Nspace, ProcInfo, Rank, keys};
use rustix::system::uname;
use tokio::time::Instant;

use crate::cli::{Plan, Stdin};
use crate::console::Console;
use crate::ending::{Ending, Interrupts, NotRun};
use crate::exit_code::NO_READER;
use crate::nodes::{Agent, How, Session};
use crate::records::RecordPlace;
use crate::report::Report;
use crate::signals::Signals;
use crate::starter::Starter;
use crate::watch::Watch;
use crate::{GUARDIAN_COMMAND, Guardian, LocalLauncher, map, orphans, pid_file, stdin};

/// Runs a job and returns the exit code of `pmixrun`.
///
/// # Errors
/// The process has no usable standard streams or signals.
pub(crate) async fn run(plan: Plan) -> io::Result<i32> {
    let started = Instant::now();
    let mut interrupts = Interrupts::new(Signals::receive()?, plan.timeout);
    let mut console = Console::start(plan.talk)?;
    plan.warnings.iter().for_each(|warning| console.say(warning));
    let node = plan.node.clone().unwrap_or_else(|| uname().nodename().to_string_lossy().into_owned());
    let nspace = Nspace::new(format!("run.{node}.{}", std::process::id())).map_err(io::Error::other)?;
    let mut report = Report::new(&nspace, plan.ranks());
    let json = plan.json;

    let result = match prepare(&plan, &mut console) {
        Ok((_pid_file, records)) => {
            match Run::start(&node, &plan, records, &mut console, &mut interrupts).await {
                Ok(mut run) => {
                    let result = run.job(plan, nspace, &mut console, &mut interrupts).await;
                    report.servers(&run.end(&mut interrupts).await);
                    result
                }
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error.into()),
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
            Err(error) => return Err(error),
        },
        // a signal ends the wait for a slow reader
        () = interrupts.again() => code,
    })
}

/// Creates output and pid files and the directory of records, before any process starts; returns the reason if that fails.
fn prepare(plan: &Plan, console: &mut Console) -> Result<(Option<pid_file::PidFile>, RecordPlace), String> {
    console.keep(&plan.format, plan.ranks()).map_err(|error| format!("output of ranks: {error}"))?;
    let records = RecordPlace::prepare(plan.record.as_deref())?;
    let Some(place) = &plan.report_pid else { return Ok((None, records)) };
    let file = pid_file::report(place, console).map_err(|error| format!("--report-pid: {error}"))?;
    Ok((file, records))
}

/// Everything that a job needs: guardian, launcher, host and servers.
struct Run {
    node: String,
    guardian: Arc<Guardian>,
    /// The daemons of other nodes.
    session: Option<Session>,
    /// Starts jobs on all nodes.
    host: StandardHost,
    /// The server of each node.
    servers: Vec<Server>,
    /// Where the records of the servers go if the job fails.
    records: RecordPlace,
    /// The tool that has started this launcher.
    starter: Option<Starter>,
}

/// The outcome of a job.
struct Ended {
    outcome: JobOutcome,
    code: i32,
    by: Option<Ending>,
}

impl Run {
    /// Sets up all that a job needs; returns node and reason if that fails.
    async fn start(
        node: &str,
        plan: &Plan,
        records: RecordPlace,
        console: &mut Console,
        interrupts: &mut Interrupts,
    ) -> Result<Self, NotRun> {
        // it becomes ready while the servers start
        let mut command = Command::new("/proc/self/exe");
        command.arg(GUARDIAN_COMMAND);
        let guardian = Guardian::begin(command).map_err(|error| format!("{node}: guardian: {error}"))?;
        let guardian = Arc::new(guardian);
        let starter = Starter::from_env().await?;
        let session = match &plan.hosts {
            Some(hosts) => {
                let how = how(plan, &records);
                Some(Session::start(node, hosts, &how, console, interrupts).await?)
            }
            None => None,
        };
        let started = Self::start_servers(node, plan, records, (starter, guardian), session.as_ref()).await;
        match (started, session) {
            (Ok(run), session) => Ok(Self { session, ..run }),
            (Err(error), Some(session)) => {
                session.end("pmixrun cannot go on", interrupts).await;
                Err(error.into())
            }
            (Err(error), None) => Err(error.into()),
        }
    }

    async fn start_servers(
        node: &str,
        plan: &Plan,
        records: RecordPlace,
        (starter, guardian): (Option<Starter>, Arc<Guardian>),
        session: Option<&Session>,
    ) -> Result<Self, String> {
        let failed = |error: io::Error| format!("{node}: guardian: {error}");
        let nodes = node_names(node, plan);
        let mut launcher =
            LocalLauncher::simulating(&nodes).with_guardian(Arc::clone(&guardian)).grace(plan.grace);
        // on other nodes, a rank has its input forwarded
        if let Stdin::Rank(rank) = plan.stdin
            && session.is_none()
        {
            let stdin = stdin::for_one().map_err(|error| format!("{node}: standard input: {error}"))?;
            launcher = launcher.first_stdin_to(rank, stdin);
        }
        let mut hosts = match session {
            Some(session) => vec![StandardHost::head(launcher, session.exchange(), session.members())],
            None => StandardHost::cluster(launcher, MemoryExchange::cluster(&nodes)),
        };
        // the session directories, where they would be otherwise, end with the job
        hosts = hosts.into_iter().map(|host| host.with_records(records.records())).collect();
        if let (Some(file), Some(host)) = (&plan.store, hosts.first_mut()) {
            // the first node keeps the data published on all nodes
            let durable = host.clone().with_durable_store(file);
            *host = durable.map_err(|error| format!("{node}: --store {error}"))?;
        }
        let mut servers = Vec::with_capacity(nodes.len());
        for (node, host) in nodes.iter().zip(&hosts) {
            // each server knows all jobs, and a tool that expects one server here must find one
            let is_for_tools = servers.is_empty();
            let mut server = Server::builder()
                .host(host.clone())
                .hostname(node)
                .tool_support(is_for_tools)
                .native_wire(plan.native)
                .pmi1_wire(plan.pmi1);
            if plan.system_server {
                server = server.system_support(true);
            }
            // a tool that has started this launcher looks for it there
            let file = var_os("PMIX_LAUNCHER_RNDZ_FILE").filter(|file| is_for_tools && !file.is_empty());
            if let Some(file) = file {
                server = server.rendezvous_file(file);
            }
            let server = server.start().await;
            let server = server.map_err(|error| format!("{node}: {}", with_causes(&error)))?;
            guardian.protect(server.handle().session_dir()).map_err(failed)?;
            servers.push(server);
        }
        guardian.ready().map_err(failed)?;
        let host = hosts.into_iter().next().ok_or_else(|| format!("{node}: no node"))?;
        Ok(Self { node: node.to_owned(), guardian, session: None, host, servers, records, starter })
    }

    /// Runs the job to its end; returns the reason if it does not start.
    async fn job(
        &mut self,
        plan: Plan,
        nspace: Nspace,
        console: &mut Console,
        interrupts: &mut Interrupts,
    ) -> Result<Ended, NotRun> {
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
            Stdin::Rank(rank) if self.session.is_some() => start.stdin = Some(rank),
            _ => {}
        }
        let reader = start.stdin;
        // other hosts may take long, and what has been started ends with their daemons
        let has_others = self.session.is_some();
        let job = tokio::select! {
            job = self.host.start_job(start) => job.map_err(|error| why_not(&error).into()),
            ended = interrupts.first("the job was starting"), if has_others => Err(ended),
        };
        if let Err(NotRun { reason, by: Some(_) }) = &job {
            console.tell(reason);
        }
        if job.is_err()
            && let Some(session) = &mut self.session
        {
            for (node, reason) in session.lost_meanwhile() {
                console.tell(format_args!("node {node} is lost: {reason}"));
            }
        }
        let job = job?;
        if let Some(starter) = &mut self.starter {
            starter.has_launched(&nspace);
        }
        let table = self.host.process_table(&nspace);
        if plan.shows_map {
            map::lines(&nspace, &plan.apps, &table).iter().for_each(|line| console.put_line(line));
        }
        if let Some(reader) = reader {
            let procs = table.into_iter().map(|row: ProcInfo| row.proc);
            let procs = procs.filter(|proc| reader.matches(proc.rank)).collect();
            stdin::forward(self.host.clone(), procs)
                .map_err(|error| format!("{}: standard input: {error}", self.node))?;
        }
        if plan.stop_in_init {
            console
                .say(format_args!("ranks are waiting in init; run `pmix release {nspace}` to resume them"));
        }
        let nodes = self.session.as_mut().map(|session| (session, self.host.clone()));
        let mut watch = Watch::new(plan, job, console, self.records.clone(), nodes);
        let (outcome, code) =
            watch.until_done(&mut *interrupts).await.map_err(|error| format!("{}: {error}", self.node))?;
        Ok(Ended { outcome, code, by: watch.ending })
    }

    /// Stops servers and guardian, and ends what is left of the job.
    async fn end(self, interrupts: &mut Interrupts) -> Vec<ServerStats> {
        let mut stats = Vec::with_capacity(self.servers.len());
        for server in self.servers {
            stats.push(server.stats().await);
            server.stop().await;
        }
        if let Some(session) = self.session {
            session.end("the job has ended", interrupts).await;
        }
        if let Err(error) = self.guardian.finish() {
            tracing::warn!(%error, "cannot wait for the guardian");
        }
        orphans::end(|_, _| ());
        // last: its server may hang
        if let Some(starter) = self.starter {
            starter.leave().await;
        }
        stats
    }
}

/// How daemons are started.
fn how(plan: &Plan, records: &RecordPlace) -> How {
    let start = plan.start.clone();
    let daemon = start.daemon.unwrap_or_else(|| {
        let own = std::env::current_exe().unwrap_or_default();
        own.with_file_name("pmixd")
    });
    How {
        agent: Agent::new(start.by, daemon),
        within: start.within,
        grace: plan.grace,
        head_grace: start.head_grace,
        host_grace: start.host_grace,
        tree_degree: start.tree_degree,
        interface: start.interface,
        record: match records.records() {
            Records::Directory(directory) => directory.into_os_string().into_string().ok(),
            _ => None,
        },
        native: plan.native,
        pmi1: plan.pmi1,
    }
}

/// The local node, or the nodes simulated on it.
fn node_names(node: &str, plan: &Plan) -> Vec<String> {
    match plan.vnodes {
        None => vec![node.to_owned()],
        Some(count) => (0..count).map(|number| format!("{node}-v{number}")).collect(),
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

/// An error with its causes, as far as they add something.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
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
