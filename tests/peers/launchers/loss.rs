//! A peer or the server is killed: who remains is told at once, by an error or an event of its type.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use pmix_test_wait::block_until;
use pmix_tests::{Dvm, Hosts, Launches, operation_program, run};
use rustix::process::{Pid, Signal, kill_process};

/// How long a job may take, in seconds.
const LONG: u32 = 600;

/// Rank and what is said in each line of this kind.
fn lines(said: &str, kind: &str) -> Vec<(String, String)> {
    let of_kind = said.lines().filter_map(|line| line.find(&format!("{kind} ")).map(|at| &line[at..]));
    let read = |line: &str| {
        let mut words = line.splitn(4, ' ').skip(1).map(str::to_owned);
        let (rank, _time) = (words.next()?, words.next()?);
        Some((rank, words.next().unwrap_or_default()))
    };
    of_kind.filter_map(read).collect()
}

/// Rank 1 is killed, and rank 0 notices, which would not be ended for an hour.
fn peer(launcher: Launches<'_>, how: &str) {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut command) = launcher.command_that_goes_on(dir.path(), 2, LONG) else { return };
    let (_, out, err) = run({
        command.arg(operation_program()).arg(format!("loss of a peer: {how}"));
        command
    });
    let (killed, noticed) = (lines(&out, "END"), lines(&out, "NOTICED"));
    let ([_], [(rank, _)]) = (&*killed, &*noticed) else {
        panic!("{launcher:?}, {how}: {out}{err}");
    };
    assert_eq!(rank, "0");
}

// the servers of others tell no process, or end the job: `docs/interop.md`
#[test]
fn the_loss_of_a_peer_is_noticed_under_pmixrun() {
    for launcher in [Launches::Pmixrun, Launches::Native] {
        peer(launcher, "event");
        peer(launcher, "fence");
    }
}

/// The lines of a file, once there are so many of a kind.
fn until(file: &Path, kind: &str, count: usize) -> Vec<(String, String)> {
    block_until(format!("{count} say {kind}"), || {
        let said = fs::read_to_string(file).unwrap_or_default();
        let found = lines(&said, kind);
        if found.len() >= count { Ok(found) } else { Err(said) }
    })
}

/// The server, the parent of the ranks, is killed, and both notice. (With `pmixrun`, its ranks are ended.) `kill` is what kills a process as the ranks call it.
fn server(launcher: Launches<'_>, kill: impl Fn() -> Command) {
    // where all hosts see it
    let shared = operation_program().parent().unwrap().to_owned();
    let dir = tempfile::tempdir_in(shared).unwrap();
    let Some(mut command) = launcher.command(dir.path(), 2, LONG) else { return };
    let said = dir.path().join("said");
    command.arg(operation_program()).arg("loss of the server").arg(&said);
    let mut launched = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let served = until(&said, "SERVED", 2);
    let status = kill().args(["-9", &served[0].1]).status().unwrap();
    assert!(status.success(), "{launcher:?}");
    for (rank, status) in until(&said, "NOTICED", 2) {
        assert_eq!(status, "ERR_LOST_CONNECTION", "{launcher:?}: rank {rank}");
    }
    for (rank, result) in until(&said, "RESULT", 2) {
        assert_eq!(result, "ok", "{launcher:?}: rank {rank}");
    }
    // a launcher in another process than the server may not notice
    let pid = Pid::from_raw(i32::try_from(launched.id()).unwrap()).unwrap();
    // it may have ended already
    let _ = kill_process(pid, Signal::TERM);
    launched.wait().unwrap();
}

fn kill() -> Command {
    Command::new("kill")
}

#[test]
fn the_loss_of_the_server_is_noticed_under_mpirun_of_open_mpi_4() {
    server(Launches::Mpirun4, kill);
}

#[test]
fn the_loss_of_the_server_is_noticed_under_mpirun_of_open_mpi_5() {
    server(Launches::Mpirun5, kill);
}

#[test]
fn the_loss_of_the_server_is_noticed_in_jobs_of_a_prte_server() {
    let Some(dvm) = Dvm::start() else { return };
    server(Launches::Dvm(&dvm), kill);
}

#[test]
fn the_loss_of_the_server_is_noticed_under_srun() {
    let Some(hosts) = Hosts::with_slurm(1) else { return };
    server(Launches::Srun(&hosts), || hosts.command(0, "kill"));
}
