//! A peer or the server is killed: who remains is told within a second, by an error or an event of its type.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use pmix_tests::{Dvm, Hosts, Launches, operation_program, run};
use rustix::process::{Pid, Signal, kill_process};

/// How soon a loss is to be noticed, in milliseconds.
const SOON: u64 = 1000;

/// Rank, time in milliseconds and the rest of each line of this kind.
fn lines(said: &str, kind: &str) -> Vec<(String, u64, String)> {
    let of_kind = said.lines().filter_map(|line| line.find(&format!("{kind} ")).map(|at| &line[at..]));
    let read = |line: &str| {
        let mut words = line.splitn(4, ' ').skip(1).map(str::to_owned);
        Some((words.next()?, words.next()?.parse().ok()?, words.next().unwrap_or_default()))
    };
    of_kind.filter_map(read).collect()
}

/// Rank 1 is killed, and rank 0 notices.
fn peer(launcher: Launches<'_>, how: &str) {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut command) = launcher.command_that_goes_on(dir.path(), 2, 30) else { return };
    let (_, out, err) = run({
        command.arg(operation_program()).arg(format!("loss of a peer: {how}"));
        command
    });
    let (killed, noticed) = (lines(&out, "END"), lines(&out, "NOTICED"));
    let ([(_, killed, _)], [(rank, noticed, _)]) = (&*killed, &*noticed) else {
        panic!("{launcher:?}, {how}: {out}{err}");
    };
    assert_eq!(rank, "0");
    assert!(noticed.saturating_sub(*killed) < SOON, "{launcher:?}, {how}: {out}{err}");
}

// the servers of others tell nobody, or end the job: `docs/interop.md`
#[test]
fn the_loss_of_a_peer_is_noticed_under_pmixrun() {
    for launcher in [Launches::Pmixrun, Launches::Native] {
        peer(launcher, "event");
        peer(launcher, "fence");
    }
}

/// The lines of a file, once there are so many of a kind.
fn until(file: &Path, kind: &str, count: usize) -> Vec<(String, u64, String)> {
    let began = Instant::now();
    loop {
        let said = fs::read_to_string(file).unwrap_or_default();
        let found = lines(&said, kind);
        if found.len() >= count {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "fewer than {count} say {kind}: {said}");
        std::thread::yield_now();
    }
}

/// The server, the parent of the ranks, is killed, and both notice. (With `pmixrun`, its ranks are ended.) `kill` is what kills a process as the ranks call it.
fn server(launcher: Launches<'_>, kill: impl Fn() -> Command) {
    // where all hosts see it
    let shared = operation_program().parent().unwrap().to_owned();
    let dir = tempfile::tempdir_in(shared).unwrap();
    let Some(mut command) = launcher.command(dir.path(), 2, 60) else { return };
    let said = dir.path().join("said");
    command.arg(operation_program()).arg("loss of the server").arg(&said);
    let mut launched = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let served = until(&said, "SERVED", 2);
    let killed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let killed = u64::try_from(killed).unwrap();
    let status = kill().args(["-9", &served[0].2]).status().unwrap();
    assert!(status.success(), "{launcher:?}");
    for (rank, noticed, status) in until(&said, "NOTICED", 2) {
        assert_eq!(status, "ERR_LOST_CONNECTION", "{launcher:?}: rank {rank}");
        assert!(noticed.saturating_sub(killed) < SOON, "{launcher:?}: rank {rank}: {killed} {noticed}");
    }
    for (rank, _, result) in until(&said, "RESULT", 2) {
        assert_eq!(result, "ok", "{launcher:?}: rank {rank}");
    }
    // a launcher in another process than the server may not notice
    let pid = Pid::from_raw(i32::try_from(launched.id()).unwrap()).unwrap();
    // it may be gone already
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
