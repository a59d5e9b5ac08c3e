//! Programs linked with the C library of PMIx under `pmixrun`. Sources in `tests/peers/c`.

use std::collections::BTreeSet;
use std::process::Command;

use bytes::BytesMut;
use pmix_native::conn::{Connect, Peer as Who};
use pmix_native::{Dialect, Encoding};
use pmix_server::NativeWire;
use pmix_server::types::Status;
use pmix_tests::{
    Peer, Running, TestNode, pid_of, pmixrun, processes_of, program, rank_program, run, within,
};
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

/// How the C library is made to speak a dialect: it takes the first of these variables that it finds. And the greatest
/// data type it can send then.
const DIALECTS: [(&str, &[&str], &str); 4] = [
    ("v41", &[], "69"),
    ("v4", &["PMIX_SERVER_URI41"], "59"),
    ("v3", &["PMIX_SERVER_URI41", "PMIX_SERVER_URI4"], "46"),
    ("v21", &["PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3"], "43"),
];
/// Whether items tell their types.
const BUFFERS: [&str; 2] = ["PMIX_BFROP_BUFFER_NON_DESC", "PMIX_BFROP_BUFFER_FULLY_DESC"];

/// Runs a program of ours in C in each dialect, with and without described items.
fn in_all_dialects(library: Peer, ranks: &str, name: &str, mut check: impl FnMut(&str, Option<i32>, &str)) {
    let Some(client) = library.program(name) else { return };
    let dir = tempfile::tempdir().unwrap();
    for (dialect, removed, greatest_type) in DIALECTS {
        for buffers in BUFFERS {
            let buffers = format!("PMIX_BFROP_BUFFER_TYPE={buffers}");
            let mut args = vec!["-n", ranks, "env"];
            args.extend(removed.iter().flat_map(|name| ["-u", name]));
            args.extend([&buffers, client.to_str().unwrap(), greatest_type]);
            let (code, out, err) = run(pmixrun(dir.path(), &args));
            check(&out, code, &format!("{dialect} {buffers}:\n{out}{err}"));
        }
    }
}

fn basic(library: Peer) {
    in_all_dialects(library, "3", "pmix_basic", |out, code, all| {
        assert_eq!(code, Some(0), "{all}");
        assert_eq!(out.matches("done, 0 checks failed").count(), 3, "{all}");
        assert_eq!(out.matches("OK get of a peer's value").count(), 9, "{all}");
        assert_eq!(out.matches("OK lookup that waited").count(), 3, "{all}");
    });
}

#[test]
fn pub_13_a_c_client_lives_its_life_in_each_dialect() {
    basic(Peer::Libpmix);
}

#[test]
fn pub_13_a_client_of_libpmix_5_lives_its_life_in_each_dialect() {
    basic(Peer::Libpmix5);
}

fn zoo(library: Peer) {
    in_all_dialects(library, "2", "pmix_zoo", |out, code, all| {
        assert_eq!(code, Some(0), "{all}");
        assert_eq!(out.matches(" types put, 0 bad").count(), 2, "{all}");
    });
}

#[test]
fn each_data_type_passes_between_c_clients_in_each_dialect() {
    zoo(Peer::Libpmix);
}

#[test]
fn each_data_type_passes_between_clients_of_libpmix_5_in_each_dialect() {
    zoo(Peer::Libpmix5);
}

fn events(library: Peer) {
    in_all_dialects(library, "3", "pmix_events", |out, code, all| {
        assert_eq!(code, Some(0), "{all}");
        assert!(!out.contains("FAIL"), "{all}");
        for rank in 1..3 {
            assert!(out.contains(&format!("{rank} kept 41 in 1 calls\n")), "{all}");
            assert!(out.contains(&format!("{rank} chain singlesingle value 42\n")), "{all}");
        }
    });
}

#[test]
fn evt_06_evt_10_evt_13_evt_14_a_c_client_gets_what_was_kept_in_each_dialect() {
    events(Peer::Libpmix);
}

#[test]
fn evt_06_evt_10_evt_13_evt_14_a_client_of_libpmix_5_gets_what_was_kept_in_each_dialect() {
    events(Peer::Libpmix5);
}

fn default_handler(library: Peer, modes: &[&str]) {
    let Some(client) = library.program("pmix_handlers") else { return };
    let dir = tempfile::tempdir().unwrap();
    for mode in modes {
        let (code, out, err) = run(pmixrun(dir.path(), &["-n", "2", client.to_str().unwrap(), mode]));
        assert_eq!(code, Some(0), "{mode}: {out}{err}");
        assert_eq!(out, "heard 1\n", "{mode}: {err}");
    }
}

#[test]
fn evt_09_a_c_client_keeps_its_default_handler_when_other_handlers_end() {
    default_handler(Peer::Libpmix, &["one", "again", "filtered"]);
}

#[test]
fn evt_09_a_client_of_libpmix_5_keeps_its_default_handler_when_other_handlers_end() {
    default_handler(Peer::Libpmix5, &["one", "again", "filtered"]);
}

fn texts(library: Peer) {
    let Some(client) = library.program("pmix_texts") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(pmixrun(dir.path(), &["-n", "2", client.to_str().unwrap()]));
    assert_eq!(code, Some(0), "{out}{err}");
    let large = (0..5).map(|number| format!("large{number} ok"));
    let others = ["published ok", "latin ok", "argument ok"].map(str::to_owned);
    let expected: BTreeSet<_> = others.into_iter().chain(large).collect();
    assert_eq!(out.lines().map(str::to_owned).collect::<BTreeSet<_>>(), expected, "{err}");
}

#[test]
fn put_06_get_22_a_c_client_shares_texts_that_are_large_or_not_utf_8() {
    texts(Peer::Libpmix);
}

#[test]
fn put_06_get_22_a_client_of_libpmix_5_shares_texts_that_are_large_or_not_utf_8() {
    texts(Peer::Libpmix5);
}

fn operations(library: Peer) {
    let Some(ops) = library.program("pmix_ops") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(pmixrun(dir.path(), &["-n", "2", ops.to_str().unwrap()]));
    assert_eq!(code, Some(0), "{out}{err}");
    for rank in ["0", "1"] {
        let start = format!("{rank} OP ");
        let lines = out.lines().filter_map(|line| line.strip_prefix(&start)?.split_once(' '));
        let answers: Vec<_> = lines.map(|(op, status)| (op, status.parse().map(Status::from_raw))).collect();
        for due in ["release", "validate-credential", "finalize"] {
            assert!(answers.iter().any(|(op, _)| *op == due), "{due}: {out}{err}");
        }
        for (op, status) in answers {
            assert_eq!(status, Ok(Status::SUCCESS), "{op}: {out}{err}");
        }
        for due in ["event with value 42", "namespaces with mine", "peers 2", "group has a context id"] {
            assert!(out.contains(&format!("{rank} {due}\n")), "{due}: {out}{err}");
        }
    }
    assert!(out.contains("spawned with OPS=1\n"), "{out}{err}");
    assert_eq!(out.matches("logged to standard output\n").count(), 2, "{out}{err}");
    assert_eq!(err.matches("logged to standard error\n").count(), 2, "{out}{err}");
}

#[test]
fn log_01_a_c_client_calls_each_operation() {
    operations(Peer::Libpmix);
}

#[test]
fn log_01_a_client_of_libpmix_5_calls_each_operation() {
    operations(Peer::Libpmix5);
}

#[test]
fn a_failing_child_job_ends_that_of_its_parent() {
    let Some(parent) = Peer::Libpmix.program("pmix_spawn") else { return };
    let dir = tempfile::tempdir().unwrap();
    let args = ["--grace", "0.2", parent.to_str().unwrap(), "stay", "sh", "-c", "exit 3"];
    let (code, out, err) = run(pmixrun(dir.path(), &args));
    assert_eq!(code, Some(3), "{out}{err}");
    assert!(
        err.lines().any(|line| line.contains("rank 0 of spawned job ")
            && line.contains(".1 (sh)")
            && line.contains("exit code 3")),
        "{err}"
    );
    assert_eq!(processes_of(dir.path()), []);
}

#[tokio::test]
async fn a_child_job_ends_with_its_parent_that_is_killed() {
    let Some(parent) = Peer::Libpmix.program("pmix_spawn") else { return };
    let dir = tempfile::tempdir().unwrap();
    let args = ["--grace", "0.2", "--tag-output", parent.to_str().unwrap(), "stay", "sleep", "1000"];
    let mut job = Running::start(pmixrun(dir.path(), &args));
    let said = job.line_with(">: child ").await;
    let is_parent = |words: &str| words.starts_with(parent.to_str().unwrap());
    let pid = processes_of(dir.path()).into_iter().find(|(_, words)| is_parent(words));
    kill_process(Pid::from_raw(pid.unwrap().0).unwrap(), Signal::KILL).unwrap();
    let (status, out, err) = job.end().await;
    assert_eq!(status.code(), Some(137), "{said}{out}{err}");
    assert_eq!(processes_of(dir.path()), []);
}

#[test]
fn a_job_goes_on_until_its_child_jobs_have_ended() {
    let Some(parent) = Peer::Libpmix.program("pmix_spawn") else { return };
    let dir = tempfile::tempdir().unwrap();
    // ends when the parent has gone
    let wait = "while kill -0 $(cat pid); do sleep 0.05; done 2>/dev/null; echo the child is the last";
    let start = format!("echo $$ > pid; exec {} leave sh -c '{wait}'", parent.display());
    let mut job = pmixrun(dir.path(), &["sh", "-c", &start]);
    job.current_dir(dir.path());
    let (code, out, err) = run(job);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("the child is the last"), "{out}{err}");
}

/// Each rank of 2, 4 and 8, on the node itself and over two simulated ones, prints this.
fn each_rank_says(library: Peer, name: &str, due: &[&str]) {
    let Some(program) = library.program(name) else { return };
    for nodes in [&[][..], &["--vnodes", "2"]] {
        for ranks in [2, 4, 8] {
            let dir = tempfile::tempdir().unwrap();
            let count = ranks.to_string();
            let args = [&["-n", &count], nodes, &[program.to_str().unwrap()]].concat();
            let (code, out, err) = run(pmixrun(dir.path(), &args));
            assert_eq!(code, Some(0), "{ranks} ranks {nodes:?}: {out}{err}");
            for due in due {
                assert_eq!(out.matches(due).count(), ranks, "{due}: {out}{err}");
            }
        }
    }
}

#[test]
fn con_15_c_clients_that_are_connected_connect_again() {
    let due = ["connect 0: 0\n", "connect 1: 0\n", "connect 2: 0\n", "disconnect: 0\n", "connect again: 0\n"];
    each_rank_says(Peer::Libpmix, "pmix_connect_twice", &due);
    each_rank_says(Peer::Libpmix5, "pmix_connect_twice", &due);
}

#[test]
fn gen_01_keys_that_c_clients_build_from_their_namespace_are_not_reserved() {
    each_rank_says(Peer::Libpmix, "pmix_own_keys", &[": ok\n"]);
    each_rank_says(Peer::Libpmix5, "pmix_own_keys", &[": ok\n"]);
}

/// The tests above would be worth little if the C library spoke its newest dialect all the time.
#[tokio::test]
async fn a_c_client_speaks_as_the_addresses_and_the_buffer_type_say() {
    let Some(client) = Peer::Libpmix.program("pmix_basic") else { return };
    let node = TestNode::builder(1).server(|server| server.native_wire(NativeWire::On)).start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("listener.0;tcp4://{}", listener.local_addr().unwrap());
    for (dialect, removed, _) in DIALECTS {
        for buffers in BUFFERS {
            let mut command = Command::new(&client);
            node.handle().setup_fork(&node.proc(0)).await.unwrap().apply(&mut command);
            for other in Dialect::ALL.map(Dialect::uri_variable) {
                command.env(other, &address);
            }
            removed.iter().for_each(|variable| {
                command.env_remove(variable);
            });
            command.env("PMIX_BFROP_BUFFER_TYPE", buffers);
            let client = Running::start(command);
            let (mut stream, _) = within(listener.accept()).await.unwrap();
            let mut arrived = BytesMut::new();
            let connect = loop {
                assert_ne!(within(stream.read_buf(&mut arrived)).await.unwrap(), 0);
                if let Some(connect) = Connect::decode(&mut arrived).unwrap() {
                    break connect;
                }
            };
            let described = buffers == BUFFERS[1];
            assert_eq!(connect.encoding, Encoding { dialect: dialect.parse().unwrap(), described });
            assert_eq!(connect.peer, Who::Client(node.proc(0)));
            // hanging up is how a client is refused
            drop(stream);
            let (status, out, _) = client.end().await;
            assert!(!status.success() && out.contains("FAIL init"), "{out}");
        }
    }
}

#[tokio::test]
async fn rust_and_c_processes_are_in_one_job_and_read_each_others_values() {
    let Some(c) = Peer::Libpmix.program("pmix_peers") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (rust, gate) = (rank_program(), dir.path().join("gate"));
    rustix::fs::mknodat(CWD, &gate, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let rust = ["-n", "2", rust.to_str().unwrap(), "put-commit-get", "1", ":"];
    let c = ["-n", "2", c.to_str().unwrap(), gate.to_str().unwrap()];
    // built first: that may take longer than the job may
    let mut ps = Command::new(program("pmix"));
    let mut job = Running::start(pmixrun(dir.path(), &[&["--tag-output"], &rust[..], &c].concat()));
    for _ in 0..4 {
        job.line_with("connected to").await;
    }

    ps.args(["ps", "--ranks"]).env("PMIX_SERVER_TMPDIR", dir.path());
    let (status, table, err) = Running::start(ps).end().await;
    assert!(status.success(), "{err}");
    for rank in 0..4 {
        let pid = pid_of(dir.path(), rank).to_string();
        let is_row =
            |line: &str| line.split_whitespace().any(|word| word == pid) && line.contains("CONNECTED");
        assert!(table.lines().any(is_row), "rank {rank} with pid {pid} is not in\n{table}");
    }

    // opens when a reader is there, and stays open for the second
    let opened = tokio::task::spawn_blocking(move || std::fs::File::options().write(true).open(gate));
    let gate = opened.await.unwrap().unwrap();
    let (status, out, err) = job.end().await;
    drop(gate);
    assert_eq!(status.code(), Some(0), "{out}{err}");
    for rank in 0..4 {
        assert!(out.contains(&format!("[{rank}]<stdout>: read 4 values")), "rank {rank}: {out}{err}");
    }
}
