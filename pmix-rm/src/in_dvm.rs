//! A run of `pmixrun` whose job the head of a DVM starts.

use std::fmt::Display;

use pmix_tool::{IofChannels, Tool, ToolBuilder};
use pmix_types::{Directives, Info, ProcInfo, Rank, Uid, Value, keys};

use crate::cli::{DvmPlace, Plan, Stdin};
use crate::console::Console;
use crate::debugger::{DebugServer, Prepared};
use crate::ending::{Interrupts, NotRun};
use crate::job::{InDvm, Job};
use crate::nodes::Host;
use crate::records::RecordPlace;
use crate::report::Report;
use crate::watch::{JobEnded, Watch};
use crate::{map, stdin};

/// Has the head start the job, and runs it to its end.
///
/// # Errors
/// Why it does not start, or what becomes of it is not known.
pub(crate) async fn job(
    plan: Plan,
    dvm: &DvmPlace,
    report: &mut Report,
    console: &mut Console,
    interrupts: &mut Interrupts,
) -> Result<JobEnded, NotRun> {
    let starting = async {
        let tool = builder(dvm, plan.trust_uid).connect().await.map_err(|error| no_dvm(&error))?;
        let submitter = tool.submitter().await.map_err(|error| no_dvm(&error))?;
        let server = DebugServer::InDvm { tool: tool.clone(), submitter: submitter.clone() };
        let debugging = Prepared::new(plan.debug.clone(), Some(server), plan.setup.grace).await?;
        let output = IofChannels::STDOUT | IofChannels::STDERR;
        let started = submitter.submit(plan.apps.clone(), directives(&plan), output).await;
        let job = started.map_err(|error| error.to_string())?;
        // it may have ended already
        let table = tool.proc_table(job.nspace()).await.unwrap_or_default();
        let debugging = debugging.map(|prepared| prepared.started(job.nspace().clone(), plan.ranks()));
        Ok::<_, String>((tool, job, table, debugging))
    };
    let (tool, job, table, debugging) = tokio::select! {
        started = starting => started?,
        // a job that is about to start ends with the connection
        ended = interrupts.first("the job was starting") => {
            console.tell(&ended.reason);
            return Err(ended);
        }
    };
    report.names(job.nspace());
    if plan.shows_map {
        map::lines(job.nspace(), &plan.apps, &table).iter().for_each(|line| console.put_line(line));
    }
    forward_stdin(&plan, &tool, &table)?;
    if plan.stop_in_init && debugging.is_none() {
        console.say(format_args!(
            "ranks are waiting in init; run `pmix release {}` to resume them",
            job.nspace()
        ));
    }
    let apps = plan.apps.clone();
    let job = Job::InDvm(Box::new(InDvm::new(job, apps, table)));
    let mut watch = Watch::new(plan, job, console, RecordPlace::Nowhere, None).debugged(debugging);
    let ended = watch.until_done(interrupts).await;
    if let Err(error) = tool.finalize().await {
        tracing::debug!(%error, "finalize failed");
    }
    Ok(ended?)
}

fn no_dvm(error: &dyn Display) -> String {
    format!("--dvm: {error}")
}

fn builder(dvm: &DvmPlace, trusted: Option<Uid>) -> ToolBuilder {
    let builder = Tool::builder();
    let builder = match trusted {
        Some(uid) => builder.trusted_server_uid(uid),
        None => builder,
    };
    match dvm.clone() {
        DvmPlace::Only => builder,
        DvmPlace::Uri(uri) => builder.uri(uri),
        DvmPlace::File(file) => builder.rendezvous_file(file),
        DvmPlace::Pid(pid) => builder.pid(pid),
        DvmPlace::Nspace(nspace) => builder.nspace(nspace),
        DvmPlace::System => builder.system(),
    }
}

fn directives(plan: &Plan) -> Directives {
    let mut directives = plan.binding.clone();
    if plan.stop_in_init {
        directives = directives.with(&keys::DEBUG_STOP_IN_INIT, true);
    }
    if let Some(hosts) = &plan.setup.hosts {
        let names: Vec<_> = hosts.hosts().iter().map(Host::in_dvm).collect();
        directives = directives.require(&keys::HOST, names.join(","));
    }
    if let Some(reader) = reader(plan) {
        directives.push(Info::dynamic(keys::FWD_STDIN.key_name(), Value::Rank(reader)));
    }
    directives
}

/// The rank that reads standard input, or all.
const fn reader(plan: &Plan) -> Option<Rank> {
    match plan.stdin {
        Stdin::None => None,
        Stdin::All => Some(Rank::WILDCARD),
        Stdin::Rank(rank) => Some(rank),
    }
}

fn forward_stdin(plan: &Plan, tool: &Tool, table: &[ProcInfo]) -> Result<(), String> {
    let Some(reader) = reader(plan) else { return Ok(()) };
    let procs: Vec<_> =
        table.iter().map(|row| row.proc.clone()).filter(|proc| reader.matches(proc.rank)).collect();
    if procs.is_empty() {
        return Ok(());
    }
    let sink = tool.push_stdin(procs);
    stdin::forward(stdin::To::Tool(sink)).map_err(|error| format!("standard input: {error}"))
}
