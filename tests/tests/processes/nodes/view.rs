//! What tools show of the nodes of a run.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use pmix_test_wait::block_until;
use pmix_tests::{nothing_is_left, pmix, pmixrun, program, run, with_agent};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A job whose ranks have started, and wait.
struct Job {
    child: Child,
    /// It must find a reader.
    _map: BufReader<ChildStdout>,
}

impl Job {
    fn start(mut command: Command) -> Self {
        // built first: that may take longer than the job may
        program("pmix");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut first, mut map) = (String::new(), BufReader::new(child.stdout.take().unwrap()));
        map.read_line(&mut first).unwrap();
        assert!(first.starts_with("Map of job "), "{first}");
        Self { child, _map: map }
    }

    /// What `pmix` prints of the server of `pmixrun`.
    fn pmix(&self, dir: &Path, args: &[&str]) -> String {
        let mut command = pmix(dir, args);
        command.args(["--pid", &self.child.id().to_string()]);
        let (code, out, err) = run(command);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{args:?}: {out}");
        out
    }

    fn json(&self, dir: &Path, args: &[&str]) -> Value {
        let report: Value = serde_json::from_str(&self.pmix(dir, &[args, &["--json"]].concat())).unwrap();
        report["servers"][0].clone()
    }

    fn end(self, dir: &Path) -> String {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let output = self.child.wait_with_output().unwrap();
        nothing_is_left(dir);
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

/// The words of each line below the titles.
fn rows(table: &str) -> Vec<Vec<&str>> {
    table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn tools_see_the_nodes_with_their_ranks_and_which_is_lost_and_why() {
    let dir = tempfile::tempdir().unwrap();
    let agent = "echo $$ >\"${0%/*}/agent.$host\"; exec \"$@\"";
    let args = ["--display", "map", "--reaction", "100000", "sleep", "600"];
    let job = Job::start(with_agent(dir.path(), "a:2,b:3,c", agent, &args));

    let table = job.pmix(dir.path(), &["nodes"]);
    assert!(table.starts_with("NODE  MACHINE"), "{table}");
    let ends: Vec<_> = rows(&table).iter().map(|row| [&row[..1], &row[3..]].concat().join(" ")).collect();
    assert_eq!(ends, ["a 2 2 up", "b 3 3 up", "c 1 1 up"], "{table}");
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let processors = std::thread::available_parallelism().unwrap().get().to_string();
    assert!(rows(&table).iter().all(|row| row[1..3] == [&machine, &processors]), "{table}");
    let table = job.pmix(dir.path(), &["ps", "--hosts"]);
    let ends: Vec<_> = rows(&table).iter().map(|row| row[1..].join(" ")).collect();
    assert_eq!(ends, ["a 2 0-1 RUNNING", "b 3 2-4 RUNNING", "c 1 5 RUNNING"], "{table}");

    let daemon = std::fs::read_to_string(dir.path().join("agent.b")).unwrap();
    kill_process(Pid::from_raw(daemon.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    let lost = block_until("node b is lost", || {
        let nodes = job.json(dir.path(), &["nodes"])["nodes"].clone();
        // its ranks count as killed right after that
        if nodes[1]["lost"].is_string() && nodes[1]["procs"] == 0 { Ok(nodes) } else { Err(nodes) }
    });
    assert_eq!((&lost[0]["lost"], &lost[0]["procs"]), (&Value::Null, &json!(2)));
    let reason = lost[1]["lost"].as_str().unwrap();
    let table = job.pmix(dir.path(), &["nodes"]);
    assert!(table.contains(&format!("\nnode b is lost: {reason}\n")), "{table}");
    assert!(rows(&table)[1].ends_with(&["3", "0", "lost"]), "{table}");
    let table = job.pmix(dir.path(), &["ps", "--hosts"]);
    assert_eq!(rows(&table)[1][1..], ["b", "3", "2-4", "lost,", "ABORTED_BY_SIG"], "{table}");
    let hosts = job.json(dir.path(), &["ps", "--hosts"])["jobs"][0]["hosts"].clone();
    let expected =
        json!({"node": "b", "slots": 3, "ranks": "2-4", "states": {"ABORTED_BY_SIG": 3}, "lost": reason});
    assert_eq!(hosts[1], expected);
    let err = job.end(dir.path());
    assert!(err.contains(&format!("node b is lost: {reason}\n")), "{err}");
}

#[test]
fn tools_see_the_only_node_and_simulated_ones() {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let simulated = [format!("{name}-v0"), format!("{name}-v1")];
    for (args, nodes) in [(&[][..], &[name][..]), (&["--vnodes", "2"], &simulated)] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = pmixrun(dir.path(), args);
        command.args(["-n", "2", "--display", "map", "sleep", "600"]);
        let job = Job::start(command);
        let ranks = |place: usize| match nodes.len() {
            1 => "0-1".to_owned(),
            _ => place.to_string(),
        };
        let table = job.pmix(dir.path(), &["ps", "--hosts"]);
        let seen: Vec<_> = rows(&table).iter().map(|row| row[1..].join(" ")).collect();
        let expected: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(place, node)| format!("{node} {} RUNNING", ranks(place)))
            .collect();
        assert_eq!(seen, expected, "{args:?}: {table}");
        let table = job.pmix(dir.path(), &["nodes"]);
        let seen: Vec<_> = rows(&table).iter().map(|row| [&row[..1], &row[3..]].concat().join(" ")).collect();
        let expected: Vec<_> = nodes.iter().map(|node| format!("{node} {} up", 2 / nodes.len())).collect();
        assert_eq!(seen, expected, "{args:?}: {table}");
        job.end(dir.path());
    }
}
