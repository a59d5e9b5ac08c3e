//! Programs of others under `pmixrun`: linked with the C library of PMIx, or with Open MPI. Sources in `native/`.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use pmix_native::conn::{Connect, Peer as Who};
use pmix_native::{Dialect, Encoding};
use pmix_server::NativeWire;
use pmix_tests::{Peer, Running, TestNode, pid_of, processes_of, program, rank_program, within};
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

/// `pmixrun` with directories of its own.
fn pmixrun(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program("pmix-rm", "pmixrun"));
    command.args(["--timeout", "60"]).args(args).env_remove("RUST_LOG");
    // Open MPI's session directories go there, too
    command.env("PMIX_SERVER_TMPDIR", dir).env("TMPDIR", dir);
    command
}

/// Runs to the end; exit code, standard output and error.
fn run(mut command: Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Runs a program of ours in C in each dialect, with and without described items.
fn in_all_dialects(ranks: &str, name: &str, mut check: impl FnMut(&str, Option<i32>, &str)) {
    let Some(client) = Peer::Libpmix.program(name) else { return };
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

#[test]
fn a_c_client_lives_its_life_in_each_dialect() {
    in_all_dialects("3", "pmix_basic", |out, code, all| {
        assert_eq!(code, Some(0), "{all}");
        assert_eq!(out.matches("done, 0 checks failed").count(), 3, "{all}");
        assert_eq!(out.matches("OK get of a peer's value").count(), 9, "{all}");
    });
}

#[test]
fn each_data_type_passes_between_c_clients_in_each_dialect() {
    in_all_dialects("2", "pmix_zoo", |out, code, all| {
        assert_eq!(code, Some(0), "{all}");
        assert_eq!(out.matches(" types put, 0 bad").count(), 2, "{all}");
    });
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
    let mut job = Running::start(pmixrun(dir.path(), &[&["--tag-output"], &rust[..], &c].concat()));
    for _ in 0..4 {
        job.line_with("connected to").await;
    }

    let mut ps = Command::new(program("pmix-tool", "pmix"));
    ps.arg("ps").env("PMIX_SERVER_TMPDIR", dir.path());
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
        assert!(out.contains(&format!("[{rank}] read 4 values")), "rank {rank}: {out}{err}");
    }
}

/// An MPI program with so many ranks, with what it leaves in memory kept within the directory.
fn mpirun(dir: &Path, ranks: &str, args: &[&str]) -> Command {
    let shared = |name| format!("OMPI_MCA_btl_{name}_backing_directory={}", dir.display());
    let (vader, sm) = (shared("vader"), shared("sm"));
    pmixrun(dir, &[&["--tag-output", "-n", ranks, "-x", &vader, "-x", &sm], args].concat())
}

fn mpi_suite(mpi: Peer) {
    let Some(suite) = mpi.program("mpi_suite") else { return };
    let dir = tempfile::tempdir().unwrap();
    for ranks in [1, 2, 4, 8] {
        let count = ranks.to_string();
        let (code, out, err) = run(mpirun(dir.path(), &count, &[suite.to_str().unwrap(), &count]));
        assert_eq!(code, Some(0), "{ranks} ranks: {out}{err}");
        assert!(out.contains("[0] PASS"), "{ranks} ranks: {out}{err}");
        assert!(out.contains(&format!("[0] ranks sharing memory with rank 0: {ranks}\n")), "{out}");
        assert_eq!(processes_of(dir.path()), []);
    }
}

#[test]
fn open_mpi_programs_run_with_1_2_4_and_8_ranks() {
    mpi_suite(Peer::OpenMpi);
}

#[test]
fn open_mpi_5_programs_run_with_1_2_4_and_8_ranks() {
    mpi_suite(Peer::OpenMpi5);
}

fn mpi_abort(mpi: Peer) {
    let Some(acts) = mpi.program("mpi_acts") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(mpirun(dir.path(), "4", &[acts.to_str().unwrap(), "abort", "7"]));
    assert_eq!(code, Some(7), "{out}{err}");
    let named = |line: &str| line.starts_with("pmixrun:") && line.contains(":0 called abort with status 7");
    assert!(err.lines().any(named), "{err}");
    assert_eq!(processes_of(dir.path()), []);
}

#[test]
fn abt_01_mpi_abort_gives_its_code_to_the_job() {
    mpi_abort(Peer::OpenMpi);
}

#[test]
fn abt_01_mpi_abort_of_open_mpi_5_gives_its_code_to_the_job() {
    mpi_abort(Peer::OpenMpi5);
}

/// A killed rank ends the job; how long the others may take is up to the launcher's option.
async fn mpi_death(mpi: Peer, launcher: &[&str]) {
    let Some(acts) = mpi.program("mpi_acts") else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut job =
        mpirun(dir.path(), "4", &[launcher, &[acts.to_str().unwrap(), "barrier-without", "0"]].concat());
    job.stdin(std::process::Stdio::null());
    let mut job = Running::start(job);
    let mut inside = 0;
    while inside < 3 {
        inside += usize::from(job.line().await.unwrap().contains("entering the barrier"));
    }
    let victim = pid_of(dir.path(), 2);
    let killed = Instant::now();
    kill_process(Pid::from_raw(victim).unwrap(), Signal::KILL).unwrap();
    let (status, out, err) = job.end().await;
    let took = killed.elapsed();
    assert_eq!(status.code(), Some(137), "{out}{err}");
    let named =
        |line: &str| line.starts_with("pmixrun:") && line.contains(":2 (") && line.contains("signal 9");
    assert!(err.lines().any(named), "{err}");
    assert!(took < Duration::from_secs(2), "{took:?}: {err}");
    assert_eq!(processes_of(dir.path()), []);
}

/// The others hear of it and abort by themselves.
#[tokio::test]
async fn evt_20_an_mpi_rank_killed_inside_a_barrier_ends_the_job() {
    mpi_death(Peer::OpenMpi, &[]).await;
}

/// The others do not react: they have the grace period.
#[tokio::test]
async fn an_open_mpi_5_rank_killed_inside_a_barrier_ends_the_job() {
    mpi_death(Peer::OpenMpi5, &["--grace", "0.5"]).await;
}
