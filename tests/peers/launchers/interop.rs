//! Each operation of our client at each server: `docs/interop.md`.
//!
//! `spec/interop.tsv` has how each goes, and the reason where it does not. With `PMIX_WRITE_INTEROP` set, the tests ask the
//! servers that are installed again and write the table, its page and its summary; otherwise they compare. The program is
//! `tests/src/bin/operation.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard};

use pmix_tests::page::{Page, wrapped};
use pmix_tests::{Dvm, Hosts, Launches, operation_program, processes_of};

/// The servers, as the table calls them.
pub(crate) const MPIRUN_4: &str = "Open MPI 4.1.4 `mpirun`";
pub(crate) const MPIRUN_5: &str = "Open MPI 5.0.11 `mpirun`";
pub(crate) const PRTE: &str = "`prte` of Open MPI 5.0.11";
pub(crate) const SLURM: &str = "Slurm 22.05 `srun`";
pub(crate) const OURS: &str = "`pmixrun`, native wire";
pub(crate) const SERVERS: [&str; 5] = [MPIRUN_4, MPIRUN_5, PRTE, SLURM, OURS];
/// The same in the headings of the summary.
pub(crate) const SHORT: [&str; 5] = ["`mpirun` 4", "`mpirun` 5", "`prte`", "`srun`", "`pmixrun`"];

const FILE: &str = "docs/interop.md";

/// What would take the server down, so that it is never tried.
const NEVER: [(&str, &str, &str); 3] = [
    (MPIRUN_4, "events: of the namespace", LOCKED),
    (MPIRUN_4, "events: of named processes", LOCKED),
    (MPIRUN_4, "group invite, join", LOCKED),
];
const LOCKED: &str = "hangs";

/// What a server does or leaves undone although it accepts the request.
const TOLD: [&str; 5] = ["no event", "no signal", "not told", "an empty table", "succeeds without the peer"];
/// A fence with a process that has died: a third-party server may learn of the death or of the fence first.
const LEFT_OUT: &str = "depends on timing";
/// What Slurm says when it is about to end a step, and when it does. What the ranks manage to say before it does not count.
const ENDS: [&str; 2] = [" Error handler invoked: ", " CANCELLED AT "];
/// What becomes of the ranks.
const CANCELLED: &str = "all ranks are killed";

const OK: &str = "ok";
const DEFECT: &str = "our defect";
/// The server answers differently on different machines: any answer passes.
const VARIES: &str = "varies";

/// How long an operation may take, with its launch, in seconds. One that the table has an answer to may take as long as any
/// machine needs.
const LIMIT: u32 = 20;
const LONG: u32 = 600;
/// The same for the loss of a process, after which some launchers stay although all others have ended.
const LOSS: u32 = 120;
/// After how many seconds a process says that it has no answer, and half of that after which no event comes.
const PATIENCE: &str = "8";
const LONG_PATIENCE: &str = "100";

const HEADER: &str = "\
# Our client with other servers: all results

The result of each operation of `pmix-client` in a job of two ranks with each server. \"ok\" means that both ranks checked the
result; \"not supported\" comes with the status with which that server refuses. Generated from `spec/interop.tsv` and
`spec/checks.tsv`; docs/interop.md is the summary. The program is `tests/src/bin/operation.rs`.

";

const SUMMARY: &str = "\
# Our client with other servers

`pmix-client` against the servers of Open MPI 4.1.4 (`mpirun` 4), Open MPI 5.0.11 (`mpirun` 5, and `prte`) and Slurm 22.05 (`srun`), and \
against ours on the native wire (`pmixrun`). This page sums up `spec/interop.tsv` and `spec/checks.tsv`.

    PMIX_WRITE_INTEROP=1 cargo test -p pmix-peers launchers::interop::every_cell

writes all rows to `target/interop.md` and renews this page. With the filter `launchers::interop::` it also asks all servers that are \
installed again, for `spec/interop.tsv`, and with `launchers::checks::` for `spec/checks.tsv`. Without the variable, the tests compare.

## Operations

Each operation runs in a job of two ranks. \"ok\" means that both ranks checked the result; a server refuses with the status in the cell, \
or with `ERR_NOT_SUPPORTED` (\"unsupported\"). An operation that is known to take a server down or to lock it is not tried. `loss of a peer` runs with the options \
with which a launcher does not end the job (`--enable-recovery`, `--runtime-options recoverable,notifyerrors`, `PMIX_JOB_RECOVERABLE`, \
`--reaction`). When the server itself is killed, all ranks get `ERR_LOST_CONNECTION` at once at each of these servers, from calls that \
wait and from the next ones (`cargo test -p pmix-peers launchers::loss::`).

";

/// What is checked by the tests of `tools.rs`.
const TOOLS: &str = "
## Tools

`pmix` finds the servers of `mpirun` 5 and `prte` as it finds ours (`cargo test -p pmix-peers launchers::tools::`). There:

| Command | Result |
| --- | --- |
| `pmix ps`, `query` | ok; tools are listed as jobs, also after they have left |
| `pmix attrs` | ok; `pmix attrs FUNCTION` gets `ERR_NOT_SUPPORTED`, and names the release of the server |
| `pmix output` | ok; ends with the job with `mpirun`, after a second of silence with `prte` |
| `pmix stack`, events | ok |
| `pmix why` | not supported |

Any tool takes `mpirun` 4 down, also one of the C library: ours refuse to attach to it. Two tools that have come and gone keep `mpirun` 5 \
from ending with its job, also two of the C library; it ends on a signal. Slurm starts its PMIx server, in `slurmstepd`, without support \
for tools: it writes no rendezvous file, and closes the connection of a tool without an answer, also of `pps` of the C library. `pmix` says \
that there is no server, or, with the address from the environment of a process (`--uri`), that the server closed the connection. The job \
goes on.
";

/// Answers by operation and server.
type Table = BTreeMap<(String, String), Row>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    answer: String,
    reason: String,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn table() -> Table {
    let text = fs::read_to_string(root().join("spec/interop.tsv")).unwrap_or_default();
    let rows = text.lines().skip(1).map(|line| {
        let mut cells = line.split('\t').map(str::to_owned);
        let mut next = || cells.next().unwrap_or_default();
        let key = (next(), next());
        (key, Row { answer: next(), reason: next() })
    });
    rows.collect()
}

fn operations() -> Vec<String> {
    let listed = Command::new(operation_program()).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// What the two ranks say, and how their job ended, in a cell. Without a code it was not ended in time.
fn read(text: &str, code: Option<i32>) -> String {
    let (mut results, mut ends) = (Vec::new(), 0);
    for line in text.lines() {
        // launchers may put something before it
        if let Some(at) = line.find("RESULT ") {
            let result = line[at..].splitn(4, ' ').nth(3).unwrap_or_default();
            results.push(result.to_owned());
        } else if line.contains("END ") {
            ends += 1;
        }
    }
    if let Some(bad) = results.iter().find(|result| *result != OK) {
        if let Some(refused) = bad.strip_prefix("status ") {
            let status = refused.split(':').next().unwrap_or_default();
            return format!("not supported ({status})");
        }
        if bad == "no answer" {
            return "hangs".to_owned();
        }
        if let Some(told) = bad.strip_prefix("wrong: ").filter(|told| TOLD.contains(told)) {
            return told.to_owned();
        }
        if bad.starts_with("lost") {
            return "that server crashes".to_owned();
        }
        return format!("{DEFECT}: {bad}");
    }
    if ENDS.iter().any(|words| text.contains(words)) {
        return CANCELLED.to_owned();
    }
    match (results.len(), code) {
        (2, _) => OK.to_owned(),
        (_, None) => "hangs".to_owned(),
        // those that were to be ended
        (said, Some(_)) if said + ends >= 2 => OK.to_owned(),
        (0, Some(code)) if code != 0 && ends == 1 => CANCELLED.to_owned(),
        (0, Some(code)) if code != 0 && ends == 0 => "that server crashes".to_owned(),
        _ => format!("{DEFECT}: {} of 2 ranks say something, {code:?}", results.len()),
    }
}

/// Whether the server answers, as the table says: then there is no reason not to wait for that.
fn is_answered(answer: &str) -> bool {
    answer == OK || answer == TOLD[4] || answer.starts_with("not supported") || answer == CANCELLED
}

#[allow(clippy::print_stderr, reason = "who writes the table wants to see why")]
fn asked(server: &str, launcher: Launches<'_>, name: &str, held: &str) -> Option<String> {
    if let Some((.., instead)) = NEVER.iter().find(|(who, what, _)| *who == server && *what == name) {
        return Some((*instead).to_owned());
    }
    let is_loss = name.starts_with("loss ");
    let (limit, patience) = match is_answered(held) {
        true => (if is_loss { LOSS } else { LONG }, LONG_PATIENCE),
        false => (LIMIT, PATIENCE),
    };
    let dir = tempfile::tempdir().unwrap();
    let mut command = if is_loss {
        launcher.command_that_goes_on(dir.path(), 2, limit)?
    } else {
        launcher.command(dir.path(), 2, limit)?
    };
    command.arg(operation_program()).args(["--patience", patience, name]);
    let output = command.output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    // as timeout(1) says it; who is not ended by its signal is killed, and timeout with it
    let is_over = output.status.code() == Some(124) || output.status.signal() == Some(9);
    // one that is killed by another signal has no code of its own
    let code = (!is_over).then_some(output.status.code().unwrap_or(-1));
    // of a job that has lost a process not every server says that it has ended; it has, when its processes are gone
    let code = code.or_else(|| processes_of(dir.path()).is_empty().then_some(-1));
    let mut cell = read(&format!("{out}{err}"), code);
    if name == "loss of a peer: fence" && server != OURS && [OK, TOLD[4], "hangs"].contains(&&*cell) {
        LEFT_OUT.clone_into(&mut cell);
    }
    if name == "abort" && cell == CANCELLED {
        OK.clone_into(&mut cell);
    }
    if name == "job control: cleanup" && cell == OK {
        let files = out.lines().filter_map(|line| line.find("FILE ").map(|at| &line[at..]));
        let files = files.filter_map(|line| line.splitn(4, ' ').nth(3));
        if files.clone().any(|file| Path::new(file).exists()) {
            "nothing is removed".clone_into(&mut cell);
        }
        files.for_each(|file| drop(fs::remove_file(file)));
    }
    if std::env::var_os("PMIX_WRITE_INTEROP").is_some() && cell != OK {
        eprintln!("{server}: {name}: {cell} ({code:?})\n{out}{err}");
    }
    Some(cell)
}

/// Asks a server everything, and compares or writes.
fn check(server: &str, launcher: Launches<'_>) {
    let writes = std::env::var_os("PMIX_WRITE_INTEROP").is_some();
    if !writes && !launcher.is_as_named(server) {
        return;
    }
    let table = table();
    let held = |name: &String| {
        let row = table.get(&(name.clone(), server.to_owned())).filter(|_| !writes);
        row.map(|row| row.answer.clone()).unwrap_or_default()
    };
    let mut answers = Vec::new();
    for name in operations() {
        let Some(answer) = asked(server, launcher, &name, &held(&name)) else { return };
        answers.push((name, answer));
    }
    if writes {
        write(server, answers);
        return;
    }
    let wrong: Vec<_> = answers
        .into_iter()
        .filter(|(name, answer)| held(name) != *answer && held(name) != VARIES)
        .map(|(name, answer)| format!("{name}: {answer}, and the table says {:?}", held(&name)))
        .collect();
    assert!(wrong.is_empty(), "{server}\n{}", wrong.join("\n"));
}

/// Replaces what the table has of a server, and writes the page.
fn write(server: &str, answers: Vec<(String, String)>) {
    let _turn = turn();
    let mut held = table();
    for (name, answer) in answers {
        let row = held.entry((name, server.to_owned())).or_default();
        if row.answer != VARIES {
            row.answer = answer;
        }
    }
    let names = operations();
    held.retain(|(name, _), _| names.contains(name));
    let mut text = "operation\tserver\tanswer\treason\n".to_owned();
    for ((name, server), Row { answer, reason }) in &held {
        let _ = writeln!(text, "{name}\t{server}\t{answer}\t{reason}");
    }
    fs::write(root().join("spec/interop.tsv"), text).unwrap();
    write_page();
}

/// Held while a table or the page is written.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap()
}

/// Writes the page and its summary from the tables.
pub(crate) fn write_page() {
    page(&table()).write(&root()).unwrap();
}

/// The operations that a server does not have, or not as they should be, with that server.
pub(crate) fn lacks() -> BTreeSet<(String, String)> {
    table().into_iter().filter(|(_, row)| row.answer != OK).map(|(key, _)| key).collect()
}

fn page(table: &Table) -> Page {
    Page { file: FILE, summary: summary(table), whole: whole(table) }
}

/// What an operation has at each server.
fn rows<'a>(table: &'a Table, name: &str) -> [&'a Row; 5] {
    const NONE: &Row = &Row { answer: String::new(), reason: String::new() };
    SERVERS.map(|server| table.get(&(name.to_owned(), server.to_owned())).unwrap_or(NONE))
}

fn whole(table: &Table) -> String {
    let mut text = HEADER.to_owned();
    let _ = writeln!(text, "| Operation | {} | Why |", SERVERS.join(" | "));
    let _ = writeln!(text, "| --- |{} --- |", " --- |".repeat(SERVERS.len()));
    for name in operations() {
        let rows = rows(table, &name);
        let mut reasons: Vec<&str> = Vec::new();
        for reason in rows.iter().map(|row| &*row.reason).filter(|reason| !reason.is_empty()) {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        let cells = rows.map(|row| &*row.answer);
        let _ = writeln!(text, "| {name} | {} | {} |", cells.join(" | "), reasons.join("; "));
    }
    text + &super::checks::whole()
}

/// The operations that are not ok at each server, those that go alike in one row, with numbers of reasons.
fn summary(table: &Table) -> String {
    let mut text = SUMMARY.to_owned();
    let mut good = Vec::new();
    let mut others: Vec<(Vec<String>, [&Row; 5])> = Vec::new();
    for name in operations() {
        let rows = rows(table, &name);
        if rows.iter().all(|row| row.answer == OK) {
            good.push(name);
        } else if let Some((names, _)) = others.iter_mut().find(|(_, held)| *held == rows) {
            names.push(name);
        } else {
            others.push((vec![name], rows));
        }
    }
    let _ =
        writeln!(text, "{} operations are ok at each server: {}. The others:\n", good.len(), good.join("; "));
    let _ = writeln!(text, "| Operation | {} |", SHORT.join(" | "));
    let _ = writeln!(text, "| --- |{}", " --- |".repeat(SHORT.len()));
    let mut reasons: Vec<&str> = Vec::new();
    for (names, rows) in others {
        let cells = rows.map(|Row { answer, reason }| {
            let status = answer.strip_prefix("not supported (").and_then(|rest| rest.strip_suffix(')'));
            let answer = status
                .map_or_else(|| answer.clone(), |status| status.replace("ERR_NOT_SUPPORTED", "unsupported"));
            if reason.is_empty() {
                return answer;
            }
            let number = reasons.iter().position(|held| held == reason).unwrap_or_else(|| {
                reasons.push(reason);
                reasons.len() - 1
            });
            format!("{answer} ({})", number + 1)
        });
        let _ = writeln!(text, "| {} | {} |", names.join("; "), cells.join(" | "));
    }
    text.push('\n');
    for (number, reason) in reasons.iter().enumerate() {
        let _ = writeln!(text, "{}. {reason}", number + 1);
    }
    wrapped(&(text + TOOLS + &super::checks::summary()))
}

#[test]
fn operations_at_mpirun_of_open_mpi_4_go_as_the_table_says() {
    check(MPIRUN_4, Launches::Mpirun4);
}

#[test]
fn operations_at_mpirun_of_open_mpi_5_go_as_the_table_says() {
    check(MPIRUN_5, Launches::Mpirun5);
}

#[test]
fn operations_at_prte_go_as_the_table_says() {
    let Some(dvm) = Dvm::start() else { return };
    check(PRTE, Launches::Dvm(&dvm));
}

#[test]
fn operations_at_slurm_go_as_the_table_says() {
    let Some(hosts) = Hosts::with_slurm(1) else { return };
    check(SLURM, Launches::Srun(&hosts));
}

#[test]
fn operations_at_our_server_in_the_native_protocol_go_as_the_table_says() {
    check(OURS, Launches::Native);
}

#[test]
fn every_cell_is_filled_and_excused_and_the_page_is_current() {
    let table = table();
    for name in operations() {
        for server in SERVERS {
            let row = table.get(&(name.clone(), server.to_owned()));
            let row = row.unwrap_or_else(|| panic!("{name} at {server} is missing"));
            assert!(!row.answer.starts_with(DEFECT), "{name} at {server}: {}", row.answer);
            assert_eq!(
                row.answer == OK,
                row.reason.is_empty(),
                "{name} at {server} needs a reason unless it is ok, and only then: {row:?}"
            );
        }
    }
    if std::env::var_os("PMIX_WRITE_INTEROP").is_some() {
        let _turn = turn();
        write_page();
    }
    assert!(page(&table).is_current(&root()), "{FILE} is out of date");
}

#[test]
fn a_refusal_is_told_from_a_server_that_hangs_or_crashes() {
    let both = |one: &str| read(&format!("RESULT 0 5 {one}\nRESULT 1 5 ok\n"), Some(0));
    assert_eq!(both("ok"), OK);
    assert_eq!(both("status ERR_NOT_SUPPORTED: fence failed"), "not supported (ERR_NOT_SUPPORTED)");
    assert_eq!(both("no answer"), "hangs");
    assert_eq!(both("lost: the connection"), "that server crashes");
    assert!(both("wrong: found 1, expected 2").starts_with(DEFECT));
    assert_eq!(read("RESULT 0 5 ok\nEND 1 5\n", Some(9)), OK);
    assert_eq!(read("END 0 5\nEND 1 5\n", Some(7)), OK);
    assert_eq!(read("END 0 5\n", None), "hangs");
    assert_eq!(read("", Some(139)), "that server crashes");
    assert_eq!(read("*** STEP 1.0 CANCELLED AT noon ***\n", Some(137)), CANCELLED);
    assert_eq!(read("END 1 5\n", Some(1)), CANCELLED);
    let said = "slurmstepd-n0: error: _errhandler: Error handler invoked: status = -7\nRESULT 0 5 ok\nRESULT 1 5 ok\n";
    assert_eq!((read(said, Some(0)), read(said, Some(137))), (CANCELLED.to_owned(), CANCELLED.to_owned()));
    assert_eq!(both("wrong: no event"), "no event");
    assert!(read("RESULT 0 5 ok\n", Some(0)).starts_with(DEFECT));
}
