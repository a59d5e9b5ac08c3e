//! The report for people: sentences, what waits, and the processes that matter.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use pmix_tool::types::short_duration;
use pmix_tool::types::why::ProcSet;
use pmix_tool::why::{Case, Link, Process, ProcessActivity};
use pmix_tool::{Nspace, Why};

use super::super::Console;
use super::super::render::{Columns, write_fitted, write_wrapped};
use super::Observed;
use super::report::pmix;

/// So many sentences, waits and processes are shown; more would hide what matters.
const SHOWN: usize = 40;
/// Characters for a list of ranks in a table.
const RANKS: usize = 30;

const WAITS: Columns = Columns {
    titles: &["OPERATION", "ABOUT", "WAITED", "ARRIVED", "MISSING", "NODE", "HOST", "ERROR"],
    numbers: &[2, 3],
    texts: &[0, 1, 3, 4, 5, 7],
};

const PROCS: Columns = Columns {
    titles: &["NAMESPACE", "RANK", "NODE", "PID", "STATE", "PMIX", "CPU", "RSS", "SYSCALL", "CHANNEL"],
    numbers: &[1, 3, 6, 7],
    texts: &[0, 2, 8, 9],
};

/// A report for each server, with a title if there are several. If jobs are named, servers without them are left out.
pub(super) fn write(observed: &[Observed], is_named: bool, console: &mut Console<'_>) -> io::Result<()> {
    let is_shown = |server: &&Observed| !is_named || !server.last.jobs.is_empty();
    let shown: Vec<_> = observed.iter().filter(is_shown).collect();
    for (index, server) in shown.iter().enumerate() {
        if index > 0 {
            writeln!(console.out)?;
        }
        if let (2.., Some(info)) = (shown.len(), server.server.info()) {
            writeln!(console.out, "server {}, pid {}:", server.server.proc_id().nspace, info.pid)?;
        }
        write_report(&server.last, console)?;
    }
    Ok(())
}

fn write_report(why: &Why, console: &mut Console<'_>) -> io::Result<()> {
    let cases = why.cases();
    let said: Vec<_> = cases.iter().map(|case| case.sentence.clone()).chain(why.idle_sentences()).collect();
    if said.is_empty() {
        return writeln!(console.out, "No job is running.");
    }
    for sentence in said.iter().take(SHOWN) {
        write_wrapped(console.out, sentence, console.width)?;
    }
    more(said.len(), "sentences", console)?;
    let mut jobs: BTreeSet<&Nspace> = why.jobs.iter().collect();
    jobs.extend(cases.iter().flat_map(|case| case.wait.nspaces()));
    let only = if jobs.len() == 1 { jobs.first().copied() } else { None };
    if !cases.is_empty() {
        writeln!(console.out)?;
        let rows = cases.iter().take(SHOWN).map(|case| wait_row(case, only)).collect();
        write_fitted(console.out, WAITS, rows, console.width)?;
        more(cases.len(), "operations", console)?;
    }
    let idle: BTreeSet<&Nspace> = why.idle_jobs().collect();
    let missing: BTreeSet<_> = why.missing().map(|process| &process.proc).collect();
    let is_shown =
        |process: &&Process| missing.contains(&process.proc) || idle.contains(&process.proc.nspace);
    write_processes(why.procs.values().filter(is_shown).collect(), only.is_none(), console)
}

fn write_processes(mut procs: Vec<&Process>, with_jobs: bool, console: &mut Console<'_>) -> io::Result<()> {
    if procs.is_empty() {
        return Ok(());
    }
    if procs.len() > SHOWN {
        // those that are like few others
        let mut kinds: BTreeMap<_, usize> = BTreeMap::new();
        procs.iter().for_each(|process| *kinds.entry(kind(process)).or_default() += 1);
        procs.sort_by_key(|process| kinds[&kind(process)]);
    }
    writeln!(console.out)?;
    let rows = procs.iter().take(SHOWN).map(|process| process_row(process, with_jobs)).collect();
    write_fitted(console.out, PROCS, rows, console.width)?;
    more(procs.len(), "processes", console)
}

fn kind(process: &Process) -> (ProcessActivity, Option<&'static str>, Option<&str>) {
    let syscall = process.look.as_ref().and_then(|look| look.syscall.as_deref());
    (process.doing(), pmix(process.link), syscall)
}

fn more(count: usize, what: &str, console: &mut Console<'_>) -> io::Result<()> {
    match count.checked_sub(SHOWN).filter(|more| *more > 0) {
        Some(more) => writeln!(console.out, "... and {more} more {what}: --json has all of them"),
        None => Ok(()),
    }
}

fn wait_row(case: &Case, only: Option<&Nspace>) -> Vec<String> {
    let wait = &case.wait;
    let arrived = match case.requests {
        0 => format!("{}/{}", wait.arrived.len(), wait.expected.len()),
        _ if wait.arrived.is_empty() => unknown(),
        _ => format!("by {}", ranks(&wait.arrived, only)),
    };
    vec![
        wait.operation.clone(),
        wait.about.clone().unwrap_or_else(unknown),
        short_duration(wait.waited),
        arrived,
        if wait.missing.is_empty() { unknown() } else { ranks(&wait.missing, only) },
        wait.node.clone(),
        if wait.at_host { "yes".into() } else { unknown() },
        wait.error.as_ref().map_or_else(unknown, |(status, _)| status.to_string()),
    ]
}

/// Ranks, with their jobs unless there is only this one.
fn ranks(procs: &ProcSet, only: Option<&Nspace>) -> String {
    let parts = procs.iter().map(|(nspace, ranks)| {
        let ranks = ranks.to_short_string(RANKS);
        if only == Some(nspace) { ranks } else { format!("{nspace}:{ranks}") }
    });
    parts.collect::<Vec<_>>().join(" ")
}

fn process_row(process: &Process, with_job: bool) -> Vec<String> {
    let look = process.look.as_ref();
    let text = |text: Option<&String>| text.cloned().unwrap_or_else(unknown);
    vec![
        if with_job { process.proc.nspace.to_string() } else { unknown() },
        process.proc.rank.to_string(),
        text(process.node.as_ref()),
        process.pid.map_or_else(unknown, |pid| pid.to_string()),
        process.doing().word().into(),
        // all others are connected, and nobody asks
        pmix(process.link).filter(|_| process.link != Link::Connected).map_or_else(unknown, str::to_owned),
        process.cpu.map_or_else(unknown, |cpu| format!("{:.0}%", cpu.share() * 100.0)),
        look.map_or_else(unknown, |look| memory(look.rss)),
        text(look.and_then(|look| look.syscall.as_ref())),
        text(look.and_then(|look| look.wait_channel.as_ref())),
    ]
}

fn memory(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match bytes {
        ..MIB => format!("{}K", bytes >> 10),
        _ if bytes < 10 << 30 => format!("{}M", bytes / MIB),
        _ => format!("{}G", bytes >> 30),
    }
}

fn unknown() -> String {
    "-".into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pmix_tool::types::why::{Activity, ProcLook, Wait};
    use pmix_tool::types::{Pid, Status};
    use pmix_tool::{ProcId, Rank};

    use super::*;

    const WIDTH: usize = 80;

    fn written(columns: Columns, rows: Vec<Vec<String>>) -> String {
        let mut out = Vec::new();
        write_fitted(&mut out, columns, rows, Some(WIDTH)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        text
    }

    #[test]
    fn ten_thousand_ranks_are_one_line_of_80_columns() {
        let job: Nspace = "a-job-whose-name-is-rather-long".parse().unwrap();
        let odd = (0..10_000).filter(|rank| rank % 2 == 1).map(Rank::from_raw).collect();
        let mut case = Case::default();
        case.wait = Wait::new(1, "get of another node", "node-0123456789", Duration::from_secs(86_000));
        case.wait.about = Some("an endpoint with a name that is long\n".into());
        case.wait.missing.add(&job, &odd);
        case.wait.expected.add(&job, &"0-9999".parse().unwrap());
        case.wait.arrived.add(&job, &"0".parse().unwrap());
        case.wait.at_host = true;
        case.wait.error = Some((Status::ERR_PARTIAL_SUCCESS, "late".into()));
        for only in [None, Some(&job)] {
            for requests in [0, 1] {
                case.requests = requests;
                assert_eq!(written(WAITS, vec![wait_row(&case, only)]).lines().count(), 2);
            }
        }
        case.wait.operation = "fence".into();
        (case.wait.about, case.wait.error, case.requests) = (None, None, 0);
        let text = written(WAITS, vec![wait_row(&case, Some(&job))]);
        assert!(text.contains("  1/10000  1,3,5,7,9,...,9997,9999  node-0123456789  yes"), "{text}");
    }

    #[test]
    fn a_process_is_one_line_of_80_columns() {
        let proc = ProcId::new("a-job-whose-name-is-rather-long".parse().unwrap(), Rank::from_raw(99_999));
        let mut process = Process::new(proc.clone());
        let mut look = ProcLook::new(proc, "node-0123456789", Pid(4_194_303));
        look.activity = Activity::Stopped;
        (look.rss, look.syscall) = (9_999 << 20, Some("clock_nanosleep\u{1b}".into()));
        look.wait_channel = Some("nfs_wait_bit_killable".into());
        process.node = Some(look.node.clone());
        (process.pid, process.link, process.look) = (Some(look.pid), Link::NotYet, Some(look));
        let text = written(PROCS, vec![process_row(&process, true)]);
        assert!(
            text.contains("  99999  ") && text.contains("  4194303  stopped  no init  9999M  "),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'));
        // nothing is known of this one, and columns without anything are not there
        let blank = Process::new(process.proc);
        assert_eq!(written(PROCS, vec![process_row(&blank, false)]), " RANK  STATE\n99999  unknown\n");
    }

    #[test]
    fn memory_is_told_in_units_that_fit() {
        assert_eq!([1 << 10, 5 << 20, 20 << 30].map(memory), ["1K", "5M", "20G"]);
    }
}
