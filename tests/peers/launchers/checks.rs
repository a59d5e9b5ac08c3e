//! The conformance programs with our client at each server: `pmix-check --wire native`.
//!
//! `spec/checks.tsv` has each check that does not pass at a server, with what excuses it: an operation that `spec/interop.tsv` says this
//! server lacks, a setting that this job does not have, or the server itself, with how that was seen. All others have to pass, and one
//! that the table excuses must not. With `PMIX_WRITE_INTEROP` set, the tests write what they see instead.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use pmix_conformance::{Report, Verdict, checks};
use pmix_tests::{Dvm, Hosts, Launches, program, run};

use super::interop::{self, MPIRUN_4, MPIRUN_5, OURS, PRTE, SERVERS, SLURM, root};

/// Ranks of each job.
const RANKS: usize = 4;
/// How long checks may take, in seconds.
#[derive(Clone, Copy)]
struct Limits {
    /// After which a request counts as never answered.
    patience: &'static str,
    /// Longest time of a job.
    job: u32,
}

/// For checks that are to pass, on any machine.
const LONG: Limits = Limits { patience: "100", job: 600 };
/// For others, at servers that do not answer: longer than a client waits beyond the limit of one second that checks set.
const SHORT: Limits = Limits { patience: "6", job: 75 };

const FILE: &str = "spec/checks.tsv";

const PASS: &str = "pass";
const FAIL: &str = "fail";
const SKIP: &str = "skip";
/// Passes or fails, as chance has it.
const VARIES: &str = "varies";
/// Would lock the server for good, and is not tried.
const NEVER: &str = "never";

/// How often `prte` may crash.
const ATTEMPTS: u32 = 3;

/// Failures of servers for one reason that the summary names.
const FREQUENT: usize = 4;

/// What excuses a check that does not pass.
const THE_SERVER: &str = "server";
/// The job of this test is not one that the check could run in.
const THE_SETTING: &str = "setting";
/// Before the name of an operation, for which that server has no `ok` in `spec/interop.tsv`.
const OPERATION: &str = "operation: ";

/// Checks that do not pass, by check and server.
type Table = BTreeMap<(String, String), Row>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    verdict: String,
    excuse: String,
    reason: String,
}

fn table() -> Table {
    let text = fs::read_to_string(root().join(FILE)).unwrap_or_default();
    let rows = text.lines().skip(1).map(|line| {
        let mut cells = line.split('\t').map(str::to_owned);
        let mut next = || cells.next().unwrap_or_default();
        let key = (next(), next());
        (key, Row { verdict: next(), excuse: next(), reason: next() })
    });
    rows.collect()
}

/// All checks, but for those that are never tried at this server.
fn tried(server: &str, held: &Table) -> Vec<&'static str> {
    let row = |name: &str| held.get(&(name.to_owned(), server.to_owned()));
    let is_tried = |name: &&str| row(name).is_none_or(|row| row.verdict != NEVER);
    checks().iter().map(|check| check.name).filter(is_tried).collect()
}

/// Runs checks at a server. `None` if there is no such launcher.
fn report(server: &str, launcher: Launches<'_>, names: &[&str], limits: Limits) -> Option<Report> {
    if names.is_empty() {
        return Some(Report::default());
    }
    let dir = tempfile::tempdir().unwrap();
    let launch = launcher.command(dir.path(), RANKS, limits.job)?;
    let mut command = Command::new(program("pmix-check"));
    command.args(["--wire", "native", "--json", "--patience", limits.patience]);
    command.args(names.iter().flat_map(|name| ["--only", name]));
    command.arg("--").arg(launch.get_program()).args(launch.get_args());
    for (name, value) in launch.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let (code, out, err) = run(command);
    let report = serde_json::from_str(&out);
    Some(report.unwrap_or_else(|error| panic!("{server}: {error}, {code:?}: {out}{err}")))
}

/// The verdict in a word, and what a rank or the launcher says about it.
fn read(verdict: &Verdict) -> (&'static str, &str) {
    match verdict {
        Verdict::Passed => (PASS, ""),
        Verdict::Skipped(reason) => (SKIP, reason),
        Verdict::Failed(reason) => (FAIL, reason),
    }
}

/// How verdicts of checks differ from the table.
fn differences(server: &str, report: &Report, held: &Table) -> Vec<String> {
    let difference = |outcome: &pmix_conformance::Outcome| {
        let (seen, said) = read(&outcome.verdict);
        let row = held.get(&(outcome.check.clone(), server.to_owned()));
        let expected = row.map_or(PASS, |row| &row.verdict);
        let is_so = seen == expected || expected == VARIES && seen != SKIP;
        let what = || format!("{}: {seen}, and {FILE} says {expected}: {said}", outcome.check);
        (!is_so).then(what)
    };
    report.outcomes.iter().filter_map(difference).collect()
}

fn check(server: &str, launcher: Launches<'_>) {
    let wrong = wrong(server, launcher);
    assert!(wrong.is_empty(), "{server}\n{}", wrong.join("\n"));
}

/// What is not as the table says.
fn wrong(server: &str, launcher: Launches<'_>) -> Vec<String> {
    let held = table();
    let names = tried(server, &held);
    let mut wrong = Vec::new();
    if std::env::var_os("PMIX_WRITE_INTEROP").is_some() {
        if let Some(all) = report(server, launcher, &names, SHORT) {
            write(server, &all);
        }
        return wrong;
    }
    if !launcher.is_as_named(server) {
        return wrong;
    }
    let is_excused = |name: &&str| held.contains_key(&((*name).to_owned(), server.to_owned()));
    let (excused, pass): (Vec<_>, Vec<_>) = names.into_iter().partition(is_excused);
    for (names, limits) in [(pass, LONG), (excused, SHORT)] {
        let Some(report) = report(server, launcher, &names, limits) else { return wrong };
        wrong.extend(differences(server, &report, &held));
    }
    wrong
}

/// Puts what was seen into the table, with the reasons that it has.
fn write(server: &str, report: &Report) {
    let _turn = interop::turn();
    let mut held = table();
    for outcome in &report.outcomes {
        let key = (outcome.check.clone(), server.to_owned());
        match read(&outcome.verdict) {
            (PASS, _) if held.get(&key).is_some_and(|row| row.verdict == VARIES) => {}
            (PASS, _) => drop(held.remove(&key)),
            (seen, said) => {
                let row = held.entry(key).or_default();
                if row.verdict != seen && row.verdict != VARIES {
                    *row = Row { verdict: seen.to_owned(), ..Row::default() };
                }
                // what is excused needs no reason of its own
                if row.reason.is_empty() && row.excuse.is_empty() {
                    row.reason = said.replace(['\n', '\t'], " ");
                }
            }
        }
    }
    let known: Vec<_> = checks().iter().map(|check| check.name).collect();
    held.retain(|(check, _), _| known.contains(&&**check));
    let mut text = "check\tserver\tverdict\texcuse\treason\n".to_owned();
    for ((check, server), Row { verdict, excuse, reason }) in &held {
        let _ = writeln!(text, "{check}\t{server}\t{verdict}\t{excuse}\t{reason}");
    }
    fs::write(root().join(FILE), text).unwrap();
    interop::write_page();
}

/// How many checks pass or fail at each server, and the failures that are the server's own, by their reason.
pub(crate) fn summary() -> String {
    const HEADER: &str = "
## Conformance programs

`pmix-check --wire native` in a job of four ranks on one node. Each check runs a small program under the launcher and compares the result \
with the Standard. `spec/checks.tsv` has an entry for each check that does not pass: the operation above that the server does not have, a \
setting that this job does not have, or a reason of the server's own, where the same requests of the same client pass at our server. \
`cargo test -p pmix-peers launchers::checks::` fails if a check fails without an entry, or passes with one.

";
    let held = table();
    let mut text = HEADER.to_owned();
    let count = |server: &str, is: &dyn Fn(&Row) -> bool| {
        held.iter().filter(|((_, at), row)| at == server && is(row)).count()
    };
    let _ = writeln!(text, "| | {} |", interop::SHORT.join(" | "));
    let _ = writeln!(text, "| --- |{}", " --- |".repeat(SERVERS.len()));
    let mut line = |name: &str, of: &dyn Fn(&str) -> usize| {
        let cells = SERVERS.map(|server| of(server).to_string());
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    };
    let fails = |row: &Row| [FAIL, VARIES].contains(&&*row.verdict);
    line("pass", &|server| checks().len() - count(server, &|_| true));
    line("fail, for want of an operation", &|server| {
        count(server, &|row| fails(row) && row.excuse != THE_SERVER)
    });
    line("fail, the server's own", &|server| count(server, &|row| fails(row) && row.excuse == THE_SERVER));
    line("cannot run: an operation or a setting is missing", &|server| {
        count(server, &|row| row.verdict == SKIP)
    });
    line("not tried", &|server| count(server, &|row| row.verdict == NEVER));
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for row in held.values().filter(|row| fails(row) && row.excuse == THE_SERVER) {
        *reasons.entry(&row.reason).or_default() += 1;
    }
    let mut reasons: Vec<_> = reasons.into_iter().filter(|(_, count)| *count >= FREQUENT).collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    text.push_str("\nThe servers' own reasons that are most frequent, with the failures at all of them:\n\n");
    for (reason, count) in reasons {
        let _ = writeln!(text, "* {count}: {reason}");
    }
    text
}

/// Each check that does not pass, for the page that is not committed.
pub(crate) fn whole() -> String {
    let held = table();
    let mut text =
        "\n## Conformance programs\n\n| Check | Server | | Why |\n| --- | --- | --- | --- |\n".to_owned();
    for check in checks() {
        // servers that do the same for the same reason in one row
        let mut rows: Vec<(Vec<&str>, &Row)> = Vec::new();
        for server in SERVERS {
            let Some(row) = held.get(&(check.name.to_owned(), server.to_owned())) else { continue };
            match rows.iter_mut().find(|(_, other)| *other == row) {
                Some((servers, _)) => servers.push(server),
                None => rows.push((vec![server], row)),
            }
        }
        for (servers, Row { verdict, excuse, reason }) in rows {
            let why = match (excuse.strip_prefix(OPERATION), &**reason) {
                (Some(operation), "") => format!("{operation}: see above"),
                (Some(operation), reason) => format!("{operation}: {reason}"),
                (None, reason) => reason.to_owned(),
            };
            let (name, rules) = (check.name, check.rules.join(" "));
            let _ = writeln!(text, "| `{name}` {rules} | {} | {verdict} | {why} |", servers.join(", "));
        }
    }
    text
}

#[test]
fn checks_at_mpirun_of_open_mpi_4_end_as_the_table_says() {
    check(MPIRUN_4, Launches::Mpirun4);
}

#[test]
fn checks_at_mpirun_of_open_mpi_5_end_as_the_table_says() {
    check(MPIRUN_5, Launches::Mpirun5);
}

#[test]
fn checks_at_prte_end_as_the_table_says() {
    for attempt in 1.. {
        let Some(mut dvm) = Dvm::start() else { return };
        let wrong = wrong(PRTE, Launches::Dvm(&dvm));
        if wrong.is_empty() {
            return;
        }
        // one that has crashed says nothing of ours
        assert!(attempt < ATTEMPTS && !dvm.is_running(), "{PRTE}\n{}", wrong.join("\n"));
        eprintln!("{PRTE} has crashed: once more");
    }
}

#[test]
fn checks_at_slurm_end_as_the_table_says() {
    let Some(hosts) = Hosts::with_slurm(1) else { return };
    check(SLURM, Launches::Srun(&hosts));
}

#[test]
fn checks_at_our_server_in_the_native_protocol_end_as_the_table_says() {
    check(OURS, Launches::Native);
}

#[test]
fn every_check_that_does_not_pass_is_excused() {
    let lacks = interop::lacks();
    for ((check, server), row) in table() {
        let what = format!("{check} at {server}: {row:?}");
        assert!(checks().iter().any(|known| known.name == check), "{what}: there is no such check");
        assert!(SERVERS.contains(&&*server), "{what}: there is no such server");
        match (&*row.verdict, row.excuse.strip_prefix(OPERATION)) {
            (FAIL | SKIP | NEVER | VARIES, Some(operation)) => {
                assert!(
                    lacks.contains(&(operation.to_owned(), server.clone())),
                    "{what}: it has that operation"
                );
            }
            // how it was seen
            (FAIL | NEVER | VARIES, None) => {
                assert!(row.excuse == THE_SERVER && row.reason.len() > 20, "{what}");
            }
            (SKIP, None) => {
                assert!(
                    [THE_SERVER, THE_SETTING].contains(&&*row.excuse) && !row.reason.is_empty(),
                    "{what}"
                );
            }
            _ => panic!("{what}: unknown verdict"),
        }
        assert!(server != OURS || row.verdict == SKIP, "{what}: what our server breaks has no excuse");
    }
}

#[test]
fn failures_that_are_not_expected_and_expected_ones_that_do_not_happen_are_told() {
    let names: Vec<_> = checks().iter().take(4).map(|check| check.name.to_owned()).collect();
    let row = |verdict: &str| Row { verdict: verdict.to_owned(), ..Row::default() };
    let held: Table = names[1..]
        .iter()
        .cloned()
        .map(|name| (name, "s".to_owned()))
        .zip([row(FAIL), row(SKIP), row(VARIES)])
        .collect();
    let differ = |verdicts: [Verdict; 4]| {
        let outcomes = checks().iter().zip(verdicts).map(|(check, verdict)| check.outcome(verdict));
        let mut report = Report::default();
        report.outcomes = outcomes.collect();
        differences("s", &report, &held)
            .iter()
            .map(|what| what.split(',').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let (fail, skip) = (|| Verdict::Failed("f".to_owned()), || Verdict::Skipped("s".to_owned()));
    assert!(differ([Verdict::Passed, fail(), skip(), fail()]).is_empty());
    assert!(differ([Verdict::Passed, fail(), skip(), Verdict::Passed]).is_empty());
    let told = differ([fail(), Verdict::Passed, fail(), skip()]);
    let expected =
        [&names[0], &names[1], &names[2], &names[3]].into_iter().zip(["fail", "pass", "fail", "skip"]);
    assert_eq!(told, expected.map(|(name, seen)| format!("{name}: {seen}")).collect::<Vec<_>>());
    assert!(Path::new(&root().join(FILE)).exists());
}
