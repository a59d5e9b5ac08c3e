//! `pmix ps --watch`: jobs as they come, change and end.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::ExitCode;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::{self, BoxStream, SelectAll};
use pmix_tool::submit::JobEnd;
use pmix_tool::types::{RankSet, escaped};
use pmix_tool::watch::{JobChange, Jobs, JobsChange, JobsWatch, WatchUpdate};
use pmix_tool::{Error, Nspace, OutputFormat, ProcInfo, Rank, Status, Tool, ToolBuilder};
use serde::Serialize;

use super::super::printer::{Item, Printer};
use super::super::refresh::Refresh;
use super::super::selection::{absent, finalize};
use super::super::{Console, Trouble};
use super::Args;

/// A line of the JSON report.
#[derive(Debug, Serialize)]
struct WatchLine<'a> {
    server: &'a Nspace,
    #[serde(flatten)]
    news: WatchNews<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum WatchNews<'a> {
    Snapshot { missed: u64, jobs: Vec<JobRows<'a>> },
    Changed(Vec<JobRows<'a>>),
    Removed(Vec<Removed<'a>>),
}

#[derive(Debug, Serialize)]
struct JobRows<'a> {
    nspace: &'a Nspace,
    procs: Vec<&'a ProcInfo>,
}

/// A job, or ranks of one.
#[derive(Debug, Serialize)]
struct Removed<'a> {
    nspace: &'a Nspace,
    ranks: Option<&'a [Rank]>,
    exit_code: Option<i32>,
    status: Option<Status>,
}

/// A server that is watched.
#[derive(Debug)]
struct Watched {
    tool: Tool,
    nspace: Nspace,
    /// How many of the jobs that are watched run; `None` before its first answer.
    running: Option<usize>,
}

/// What a server tells.
#[derive(Debug)]
struct Told {
    /// Of the server.
    number: usize,
    news: Result<WatchUpdate, Error>,
    /// Jobs that run now.
    running: Option<usize>,
    answer: Refresh,
}

pub(super) async fn run(args: &Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let starting = args.selection.candidates()?.into_iter().map(|tool| start(tool, &args.jobs));
    let (mut servers, mut all) = (Vec::new(), SelectAll::new());
    for started in join_all(starting).await {
        match started {
            Ok((server, watch)) => {
                all.push(all_of(servers.len(), watch));
                servers.push(Some(server));
            }
            Err(error) => console.complain(&error.to_string()),
        }
    }
    let count = servers.len();
    let printer = Printer::start(OutputFormat::default(), false)?;
    let seen = follow(args, &printer, console.width, &mut servers, all).await?;
    printer.finish().await?;
    join_all(servers.into_iter().flatten().map(|server| finalize(server.tool))).await;
    let missing: Vec<_> = args.jobs.iter().filter(|job| !seen.contains(*job)).collect();
    if count > 0 {
        missing.iter().for_each(|job| console.complain(&absent(job)));
    }
    let is_complete = count > 0 && missing.is_empty();
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn start(builder: ToolBuilder, jobs: &[Nspace]) -> Result<(Watched, JobsWatch), Error> {
    let tool = builder.connect().await?;
    let nspace = tool.server()?.proc_id().nspace.clone();
    let watch = tool.watch_jobs().only(jobs.iter().cloned()).start().await?;
    Ok((Watched { tool, nspace, running: None }, watch))
}

fn all_of(number: usize, watch: JobsWatch) -> BoxStream<'static, Told> {
    let next = move |mut watch: JobsWatch| async move {
        let news = watch.next().await?;
        let told = Told { number, news, running: watch.jobs().map(Jobs::len), answer: Refresh::of(&watch) };
        Some((told, watch))
    };
    stream::unfold(watch, next).boxed()
}

/// Prints all news until no server is left, or none of the jobs that were named. Returns the jobs that were seen.
async fn follow(
    args: &Args,
    printer: &Printer,
    width: Option<usize>,
    servers: &mut [Option<Watched>],
    mut all: SelectAll<BoxStream<'static, Told>>,
) -> Result<BTreeSet<Nspace>, Trouble> {
    let are_several = servers.len() > 1;
    let mut seen = BTreeSet::new();
    while let Some(Told { number, news, running, answer }) = all.next().await {
        let Some(place) = servers.get_mut(number) else { continue };
        let Some(server) = place else { continue };
        let is_answer = news.is_ok();
        let item = match news {
            Ok(news) => {
                server.running = running;
                seen.extend(named(&news).cloned());
                let mut text = Vec::new();
                let mut page = Console { out: &mut text, err: &mut io::sink(), width };
                match args.json {
                    true => write_json(&server.nspace, &news, &mut page)?,
                    false => write_text(are_several.then_some(&server.nspace), &news, args.ranks, &mut page)?,
                }
                Some(Item::Text(text))
            }
            // it is asked again
            Err(error) if error.is_timeout() => Some(Item::Note(error.to_string())),
            Err(error) => {
                if let Some(server) = place.take() {
                    finalize(server.tool).await;
                }
                // the jobs of one that has stopped have ended
                (!error.is_server_stopped()).then(|| Item::Note(error.to_string()))
            }
        };
        if let Some(item) = item
            && !printer.print(item).await
        {
            break;
        }
        if is_answer {
            answer.is_shown(None);
        }
        let is_over = |server: &Watched| server.running == Some(0);
        if !args.jobs.is_empty() && servers.iter().flatten().all(is_over) {
            break;
        }
    }
    Ok(seen)
}

/// The jobs in news that run.
fn named(news: &WatchUpdate) -> Box<dyn Iterator<Item = &Nspace> + '_> {
    match news {
        WatchUpdate::Snapshot(jobs) | WatchUpdate::Resync { jobs, .. } => {
            Box::new(jobs.iter().map(|(nspace, _)| nspace))
        }
        WatchUpdate::Changed(change) => Box::new(change.jobs.keys()),
        _ => Box::new(std::iter::empty()),
    }
}

fn write_json(server: &Nspace, news: &WatchUpdate, console: &mut Console<'_>) -> io::Result<()> {
    let mut write = |news| console.json_line(&WatchLine { server, news });
    let snapshot = |missed: u64, jobs| WatchNews::Snapshot { missed, jobs: rows(jobs) };
    match news {
        WatchUpdate::Snapshot(jobs) => write(snapshot(0, jobs)),
        WatchUpdate::Resync { missed, jobs } => write(snapshot(*missed, jobs)),
        WatchUpdate::Changed(change) => {
            let row = |(nspace, job)| JobRows::of_change(nspace, job);
            let changed: Vec<_> = change.jobs.iter().filter_map(row).collect();
            if !changed.is_empty() {
                write(WatchNews::Changed(changed))?;
            }
            let removed = removed(change);
            if !removed.is_empty() {
                write(WatchNews::Removed(removed))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn rows(jobs: &Jobs) -> Vec<JobRows<'_>> {
    jobs.iter().map(|(nspace, procs)| JobRows { nspace, procs: procs.values().collect() }).collect()
}

impl<'a> JobRows<'a> {
    /// A job that has lost processes and nothing else is not named.
    fn of_change(nspace: &'a Nspace, change: &'a JobChange) -> Option<Self> {
        let is_one = change.gone.is_empty() || !change.procs.is_empty();
        is_one.then(|| Self { nspace, procs: change.procs.iter().collect() })
    }
}

fn removed(change: &JobsChange) -> Vec<Removed<'_>> {
    let of_jobs = change.gone.iter().map(|(nspace, end)| Removed {
        nspace,
        ranks: None,
        exit_code: end.as_ref().map(|end| end.exit_code),
        status: end.as_ref().map(|end| end.status),
    });
    let of_ranks = change.jobs.iter().filter(|(_, job)| !job.gone.is_empty()).map(|(nspace, job)| Removed {
        nspace,
        ranks: Some(&job.gone),
        exit_code: None,
        status: None,
    });
    of_jobs.chain(of_ranks).collect()
}

/// A table of all, or a sentence for each change. `server` is named if there are several.
fn write_text(
    server: Option<&Nspace>,
    news: &WatchUpdate,
    each: bool,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let of = server.map(|server| format!("{server}: ")).unwrap_or_default();
    match news {
        WatchUpdate::Snapshot(jobs) => {
            if let Some(server) = server {
                writeln!(console.out, "server {server}:")?;
            }
            write_jobs(jobs, each, console)
        }
        WatchUpdate::Resync { missed, jobs } => {
            writeln!(console.out, "# {of}{missed} events were missed; all processes as of now:")?;
            write_jobs(jobs, each, console)
        }
        WatchUpdate::Changed(change) => {
            sentences(change).iter().try_for_each(|line| writeln!(console.out, "{of}{}", escaped(line)))
        }
        _ => Ok(()),
    }
}

fn write_jobs(jobs: &Jobs, each: bool, console: &mut Console<'_>) -> io::Result<()> {
    let mut procs: Vec<_> = jobs.procs().collect();
    procs.sort_by(|one, other| natord::compare(&one.proc.nspace, &other.proc.nspace));
    super::table::write(procs.into_iter(), each, console)
}

/// One for all ranks of a job that are in the same state now.
fn sentences(change: &JobsChange) -> Vec<String> {
    let mut lines = Vec::new();
    for (nspace, job) in &change.jobs {
        let mut states = BTreeMap::<String, RankSet>::new();
        for row in &job.procs {
            let state = match row.state.is_terminated() {
                true => format!("{}, exit code {}", row.state, row.exit_code),
                false => row.state.to_string(),
            };
            states.entry(state).or_default().insert(row.proc.rank);
        }
        lines.extend(states.iter().map(|(state, ranks)| format!("{nspace}: {} {state}", are(ranks))));
        let gone: RankSet = job.gone.iter().copied().collect();
        if !gone.is_empty() {
            lines.push(format!("{nspace}: {} not listed any more", are(&gone)));
        } else if job.procs.is_empty() {
            lines.push(format!("{nspace}: no process yet"));
        }
    }
    lines.extend(change.gone.iter().map(|(nspace, end)| match end {
        Some(JobEnd { exit_code, status, .. }) if status.is_success() => {
            format!("{nspace} has ended, exit code {exit_code}")
        }
        Some(JobEnd { exit_code, status, .. }) => {
            format!("{nspace} has ended, exit code {exit_code}, {status}")
        }
        None => format!("{nspace} has ended"),
    }));
    lines
}

/// `rank 3 is`, `ranks 0-2,4 are`.
fn are(ranks: &RankSet) -> String {
    if ranks.len() == 1 { format!("rank {ranks} is") } else { format!("ranks {ranks} are") }
}

#[cfg(test)]
mod tests {
    use pmix_tool::types::{Pid, ProcId, ProcState};

    use super::*;

    fn row(rank: u32, state: ProcState, exit_code: i32) -> ProcInfo {
        let mut row = ProcInfo::new(ProcId::new("job".parse().unwrap(), Rank::new(rank).unwrap()));
        (row.pid, row.state, row.exit_code) = (Pid(7), state, exit_code);
        row
    }

    fn jobs(rows: Vec<ProcInfo>) -> Jobs {
        let mut jobs = Jobs::new();
        jobs.insert("job".parse().unwrap(), rows);
        jobs
    }

    fn lines(news: &WatchUpdate) -> (String, String) {
        let (mut text, mut json) = (Vec::new(), Vec::new());
        let server = "srv".parse().unwrap();
        write_text(None, news, true, &mut Console { out: &mut text, err: &mut io::sink(), width: None })
            .unwrap();
        write_json(&server, news, &mut Console { out: &mut json, err: &mut io::sink(), width: None })
            .unwrap();
        (String::from_utf8(text).unwrap(), String::from_utf8(json).unwrap())
    }

    #[test]
    fn changes_are_a_sentence_for_each_state_and_a_line_of_json_for_each_kind() {
        let before = jobs(vec![
            row(0, ProcState::RUNNING, 0),
            row(1, ProcState::RUNNING, 0),
            row(2, ProcState::RUNNING, 0),
            row(3, ProcState::RUNNING, 0),
        ]);
        let now = jobs(vec![
            row(0, ProcState::CONNECTED, 0),
            row(1, ProcState::CONNECTED, 0),
            row(2, ProcState::TERM_NON_ZERO, 3),
        ]);
        let (text, json) = lines(&WatchUpdate::Changed(now.since(&before)));
        let expected = "\
job: ranks 0-1 are CONNECTED
job: rank 2 is TERM_NON_ZERO, exit code 3
job: rank 3 is not listed any more
";
        assert_eq!(text, expected);
        let json: Vec<serde_json::Value> =
            json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(json.len(), 2);
        assert_eq!((&json[0]["schema"], &json[0]["server"]), (&2.into(), &"srv".into()));
        assert_eq!(json[0]["changed"][0]["procs"].as_array().unwrap().len(), 3);
        assert_eq!(json[0]["changed"][0]["procs"][2]["state"], "TERM_NON_ZERO");
        let gone = serde_json::json!([{"nspace": "job", "ranks": [3], "exit_code": null, "status": null}]);
        assert_eq!(json[1]["removed"], gone);

        let mut change = Jobs::new().since(&now);
        let (text, json) = lines(&WatchUpdate::Changed(change.clone()));
        assert_eq!(text, "job has ended\n");
        let gone = "{\"schema\":2,\"server\":\"srv\",\"removed\":[{\"nspace\":\"job\",\"ranks\":null,\"exit_code\":null,\"status\":null}]}\n";
        assert_eq!(json, gone);
        change = jobs(vec![]).since(&Jobs::new());
        let (text, json) = lines(&WatchUpdate::Changed(change));
        assert_eq!(text, "job: no process yet\n");
        assert_eq!(
            json,
            "{\"schema\":2,\"server\":\"srv\",\"changed\":[{\"nspace\":\"job\",\"procs\":[]}]}\n"
        );
    }

    #[test]
    fn what_is_missing_is_told_before_all_anew() {
        let jobs = jobs(vec![row(0, ProcState::RUNNING, 0)]);
        let resync = WatchUpdate::Resync { missed: 9, jobs: jobs.clone() };
        let (text, json) = lines(&resync);
        let (table, first) = lines(&WatchUpdate::Snapshot(jobs));
        assert_eq!(text, format!("# 9 events were missed; all processes as of now:\n{table}"));
        assert!(table.starts_with("NAMESPACE  RANK"), "{table}");
        let read = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap()["snapshot"].clone();
        assert_eq!(read(&first)["missed"], 0);
        assert_eq!(read(&json)["missed"], 9);
        assert_eq!(read(&json)["jobs"][0]["procs"][0]["pid"], 7);
    }
}
