//! Each function of a client and of a tool of the Standard, from C, at our servers: `docs/c-functions.md`.
//!
//! `spec/c_functions.tsv` has how each goes here, how it goes at the reference, and the reason if that differs. With
//! `PMIX_WRITE_C_FUNCTIONS` set, the test asks both again and writes the table, its page and its summary, for the libraries that
//! are installed; otherwise it asks our servers and compares.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pmix_client::types::Status;
use pmix_test_wait::block_until;
use pmix_tests::page::{Page, listed, wrapped};
use pmix_tests::{Peer, Running, beside, echoing_node};

const VERSIONS: [(Peer, &str); 2] = [(Peer::Libpmix, "4.2.2"), (Peer::Libpmix5, "5.0.11")];
/// What the programs say of a call that succeeded with a wrong value.
const WRONG: i32 = 99999;
const ABSENT: &str = "not in this version";
/// Answers of calls that went well.
const SUCCESSFUL: [&str; 2] = ["SUCCESS", "ends the job"];
/// After how many seconds a group of functions has no answer, at our server and at the reference: ours answers all of them, and
/// may need some time for that.
const LIMIT: &str = "600";
const REFERENCE_LIMIT: &str = "12";

const FILE: &str = "docs/c-functions.md";

const HEADER: &str = "\
# Functions of C programs: all answers

Generated from `spec/c_functions.tsv`; docs/c-functions.md is the summary.

";

const SUMMARY: &str = "\
# Functions of C programs

How the functions of clients and tools of the Standard end in a program in C, linked with libpmix 4.2.2 or with that of Open MPI 5.0.11, at \
our server and at the reference (`prterun` of Open MPI 5.0.11). This page sums up `spec/c_functions.tsv`. The programs are \
`tests/peers/c/pmix_each.c` and `pmix_each_tool.c`.

    PMIX_WRITE_C_FUNCTIONS=1 cargo test -p pmix-peers native::each::differences

writes all rows to `target/c-functions.md` and renews this page. Without `::differences` it also asks both servers again and renews the \
table; without the variable, the tests compare our server, table and page.

";

const HEADING: &str = "\
| Function | libpmix 4.2.2 | libpmix 5.0.11 | Why it is not as the reference |
| --- | --- | --- | --- |
";

const RESERVED_KEYS: &str = "
## Reserved keys that C programs put

Only hosts and libraries may give values of keys that begin with `pmix`, but the C library reports success before the server sees the \
commit, and Open MPI 4 puts two. Therefore such a commit does not fail; the server does this with each key:

| Reserved key | Kept | Example |
| --- | --- | --- |
| about a process, or in no realm, and the host gives no value | yes, as data of the process | `pmix.cpuset` of a rank that is not bound |
| about a process, or in no realm, and the host gives a value | no | `pmix.cpuset` of a bound rank, `pmix.lrank` |
| about a node, an application, a job or a session | no | `pmix.hname` |
| `pmix.qual.val` (`PMIX_QUALIFIED_VALUE`) | as a value with qualifiers | |

The log names the keys that are left out, at level debug. Neither we nor `prterun` can read the qualifiers that libpmix 4.2.2 writes; \
those of 5.0.11 are right. `Client::put` and commits over gRPC fail with `ERR_BAD_PARAM` for reserved keys.

A key or value of a commit that is not valid is left out as well, with a line of the log. If a whole commit fails, the next fence says so.
";

/// Answers by function.
type Answers = BTreeMap<String, String>;

/// A row of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    here: String,
    reference: String,
    reason: String,
}

/// By function and version.
type Table = BTreeMap<(String, String), Row>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The functions of clients and tools, in the order of the Standard.
fn functions() -> Vec<String> {
    let table = fs::read_to_string(root().join("spec/apis.tsv")).unwrap();
    let cells = table.lines().skip(1).map(|row| row.split('\t').collect::<Vec<_>>());
    cells.filter(|cells| ["client", "tool"].contains(&cells[1])).map(|cells| cells[0].to_owned()).collect()
}

fn table() -> Table {
    let text = fs::read_to_string(root().join("spec/c_functions.tsv")).unwrap_or_default();
    let rows = text.lines().skip(1).map(|line| {
        let mut cells = line.split('\t').map(str::to_owned);
        let mut next = || cells.next().unwrap_or_default();
        let key = (next(), next());
        (key, Row { here: next(), reference: next(), reason: next() })
    });
    rows.collect()
}

fn named(status: i32) -> String {
    let status = Status::from_raw(status);
    match status.to_raw() {
        WRONG => "a wrong value".to_owned(),
        _ => status.to_string(),
    }
}

/// Takes what a program says of a group of functions into account, and how it ended.
fn read(said: &str, code: Option<i32>, answers: &mut Answers) {
    let mut tried: Vec<&str> = Vec::new();
    for line in said.lines() {
        if let Some(function) = line.strip_prefix("TRY ") {
            tried.push(function);
        } else if let Some((function, status)) =
            line.strip_prefix("CALL ").and_then(|line| line.split_once(' '))
        {
            tried.retain(|other| *other != function);
            let answer = named(status.parse().unwrap());
            // each group begins and ends with the same
            let is_better = answers.get(function).is_none_or(|held| *held == named(0));
            if is_better {
                answers.insert(function.to_owned(), answer);
            }
        }
    }
    if let Some(answer) = answers.get_mut("PMIx_Abort").filter(|_| code == Some(3)) {
        "ends the job".clone_into(answer);
    }
    for function in tried {
        let answer = match code {
            Some(3) if function == "PMIx_Abort" => "ends the job",
            Some(139 | 11) | None => "the library crashes",
            _ => "no answer",
        };
        answers.entry(function.to_owned()).or_insert_with(|| answer.to_owned());
    }
}

fn groups(program: &Path) -> Vec<String> {
    let listed = Command::new(program).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Runs each group of functions under a launcher.
fn clients(peer: Peer, launcher: impl Fn(&Path) -> Command) -> Option<Answers> {
    let program = peer.program("pmix_each")?;
    let mut answers = Answers::new();
    for group in groups(&program) {
        let dir = tempfile::tempdir().unwrap();
        let mut command = launcher(dir.path());
        let output = command.arg(&program).arg(group).env("TMPDIR", dir.path()).output().unwrap();
        read(&String::from_utf8_lossy(&output.stdout), output.status.code(), &mut answers);
    }
    Some(answers)
}

fn ours(dir: &Path) -> Command {
    let mut command = pmix_tests::plain_pmixrun();
    command.env("PMIXRUN_RECORD", "none");
    command.args(["--timeout", LIMIT, "-n", "2"]).env_remove("RUST_LOG").env("PMIX_SERVER_TMPDIR", dir);
    command
}

fn prterun() -> PathBuf {
    Path::new(&std::env::var_os("OMPI5_PREFIX").unwrap()).join("bin/prterun")
}

fn theirs(_: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.arg(REFERENCE_LIMIT).arg(prterun()).args(["--oversubscribe", "-n", "2"]);
    allow_root(&mut command);
    command
}

fn allow_root(command: &mut Command) {
    command.envs([("PRTE_ALLOW_RUN_AS_ROOT", "1"), ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
}

/// The tool at our server.
async fn tools_here(peer: Peer, answers: &mut Answers) {
    let Some(tool) = peer.program("pmix_each_tool") else { return };
    for group in groups(&tool) {
        let (node, _job) = echoing_node().await;
        let mut command = beside(&node, Command::new("timeout"));
        command.arg(LIMIT).arg(&tool).args([&*group, &std::process::id().to_string(), "echo"]);
        let (status, out, _) = Running::start(command).end().await;
        read(&out, status.code(), answers);
    }
}

/// The tool at the reference.
fn tools_there(peer: Peer, answers: &mut Answers) {
    let Some(tool) = peer.program("pmix_each_tool") else { return };
    for group in groups(&tool) {
        let dir = tempfile::tempdir().unwrap();
        let ready = dir.path().join("ready");
        let mut job = Command::new(prterun());
        job.args(["--oversubscribe", "-n", "1", "sh", "-c", "touch $0; exec sleep 600"]).arg(&ready);
        allow_root(&mut job);
        let mut job = job.env("TMPDIR", dir.path()).stdin(Stdio::null()).spawn().unwrap();
        block_until("prterun starts the job", || ready.exists());
        let host = rustix::system::uname();
        let nspace = format!("prterun-{}-{}@1", host.nodename().to_string_lossy(), job.id());
        let mut command = Command::new("timeout");
        command.arg(REFERENCE_LIMIT).arg(&tool).args([&*group, &job.id().to_string(), &nspace]);
        let output = command.env("TMPDIR", dir.path()).output().unwrap();
        read(&String::from_utf8_lossy(&output.stdout), output.status.code(), answers);
        job.kill().unwrap();
        job.wait().unwrap();
    }
}

fn page(table: &Table) -> Page {
    let mut whole = format!("{HEADER}{HEADING}");
    let (mut as_reference, mut unsuccessful, mut absent) = (0, Vec::new(), Vec::new());
    let mut differences = String::new();
    for function in functions() {
        let row =
            |version: &str| table.get(&(function.clone(), version.to_owned())).cloned().unwrap_or_default();
        let rows = VERSIONS.map(|(_, version)| row(version));
        let cell = |row: &Row| match (&*row.here, &*row.reference) {
            (ABSENT, _) => ABSENT.to_owned(),
            (here, reference) if here == reference => format!("as the reference: {here}"),
            (here, reference) => format!("{here}; reference: {reference}"),
        };
        let reason = rows.iter().map(|row| &row.reason).find(|reason| !reason.is_empty());
        let reason = reason.cloned().unwrap_or_default();
        let line = format!("| `{function}` | {} | {} | {reason} |\n", cell(&rows[0]), cell(&rows[1]));
        whole.push_str(&line);
        if rows.iter().any(|row| row.here != row.reference) {
            differences.push_str(&line);
        } else if rows.iter().all(|row| row.here == ABSENT) {
            absent.push(function);
        } else {
            as_reference += 1;
            let mut answers = rows.iter().map(|row| &*row.here);
            let other = answers.find(|answer| *answer != ABSENT && !SUCCESSFUL.contains(answer));
            unsuccessful.extend(other.map(|answer| format!("`{function}` ({answer})")));
        }
    }
    let summary = format!(
        "{SUMMARY}{as_reference} functions end as at the reference, and these of them succeed at neither: {}. Neither version has {}. \
         The other functions:\n\n{HEADING}{differences}{RESERVED_KEYS}",
        unsuccessful.join(", "),
        listed(absent),
    );
    Page { file: FILE, summary: wrapped(&summary), whole }
}

/// The answers of this version, with those functions that it does not have.
fn whole(mut answers: Answers) -> Answers {
    for function in functions() {
        answers.entry(function).or_insert_with(|| ABSENT.to_owned());
    }
    answers
}

#[tokio::test]
async fn each_function_of_c_programs_goes_as_the_table_says() {
    let writes = std::env::var_os("PMIX_WRITE_C_FUNCTIONS").is_some();
    let mut held = table();
    let mut wrong = Vec::new();
    for (peer, version) in VERSIONS {
        if !peer.is_release(version) {
            continue;
        }
        let Some(mut here) = clients(peer, ours) else { continue };
        tools_here(peer, &mut here).await;
        let reference = if writes {
            let mut reference = clients(peer, theirs).unwrap();
            tools_there(peer, &mut reference);
            whole(reference)
        } else {
            Answers::new()
        };
        for (function, answer) in whole(here) {
            let key = (function.clone(), version.to_owned());
            if writes {
                let row = held.entry(key).or_default();
                row.here = answer;
                row.reference = reference[&function].clone();
            } else if held.get(&key).is_none_or(|row| row.here != answer) {
                wrong.push(format!(
                    "{function} of {version}: {answer}, and the table says {:?}",
                    held.get(&key)
                ));
            }
        }
    }
    if writes {
        let mut text = "function\tversion\there\treference\treason\n".to_owned();
        for ((function, version), Row { here, reference, reason }) in &held {
            let _ = writeln!(text, "{function}\t{version}\t{here}\t{reference}\t{reason}");
        }
        fs::write(root().join("spec/c_functions.tsv"), text).unwrap();
        page(&held).write(&root()).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn differences_from_the_reference_have_a_reason_and_the_page_is_current() {
    let table = table();
    for function in functions() {
        let rows = VERSIONS.map(|(_, version)| &table[&(function.clone(), version.to_owned())]);
        let differs = rows.iter().any(|row| row.here != row.reference);
        let has_reason = rows.iter().any(|row| !row.reason.is_empty());
        assert_eq!(
            differs, has_reason,
            "{function} needs a reason where it differs, and only there: {rows:?}"
        );
    }
    if std::env::var_os("PMIX_WRITE_C_FUNCTIONS").is_some() {
        page(&table).write(&root()).unwrap();
    }
    assert!(page(&table).is_current(&root()), "{FILE} is out of date");
}

#[test]
fn a_call_without_an_answer_is_told_from_one_that_ends_its_program() {
    let said = "TRY PMIx_Init\nCALL PMIx_Init 0\nTRY PMIx_Get\nCALL PMIx_Get 99999\nTRY PMIx_Put\n";
    let of = |code| {
        let mut answers = Answers::new();
        read(said, code, &mut answers);
        answers
    };
    assert_eq!(of(Some(124))["PMIx_Put"], "no answer");
    assert_eq!(of(Some(139))["PMIx_Put"], "the library crashes");
    assert_eq!((&*of(None)["PMIx_Init"], &*of(None)["PMIx_Get"]), ("SUCCESS", "a wrong value"));
}
