//! Inside allocations of Slurm, where one `srun` starts the daemons.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use pmix_test_wait::block_until;
use pmix_tests::{Hosts, Peer, Running, example, executable, program, run};
use rustix::process::{Pid, Signal, kill_process};

use super::hosts::nothing_is_left_on;

/// `pmixrun` in an allocation with these options.
fn pmixrun_in(hosts: &Hosts, options: &[&str], args: &[&str]) -> Command {
    program("pmixd");
    let mut command = hosts.in_allocation(options, program("pmixrun"));
    command.args(["--timeout", "600"]).args(args);
    ready(command)
}

fn ready(mut command: Command) -> Command {
    command.env_remove("RUST_LOG").env("PMIXRUN_RECORD", "none");
    pmix_tests::allow_root(&mut command);
    command
}

/// No step of any job, and nothing on any host.
fn nothing_is_left(hosts: &Hosts) {
    nothing_is_left_on(hosts, 0..hosts.count(), &"after the run");
    assert_eq!(steps(hosts), "");
}

/// The steps that there are, but for those that Slurm itself makes for a job.
fn steps(hosts: &Hosts) -> String {
    let (code, out, err) = run(with(hosts.command(0, "squeue"), &["-s", "-h", "-n", "pmixd", "-o", "%i %j"]));
    assert_eq!(code, Some(0), "{err}");
    out
}

fn with(mut command: Command, args: &[&str]) -> Command {
    command.args(args);
    command
}

/// An executable script where all hosts see it.
fn script(hosts: &Hosts, name: &str, text: &str) -> String {
    let path = hosts.shared().join(name);
    executable(&path, &format!("#!/bin/sh\n{text}\n"));
    path.to_str().unwrap().to_owned()
}

fn ring_is_closed(out: &str) {
    for rank in 0..8 {
        let line = format!("rank {rank} of 8 on n{}: values right, publish right", rank / 2);
        assert!(out.contains(&line), "{line}\n{out}");
    }
    assert!(out.contains("spawn right"), "{out}");
}

#[test]
fn the_ring_closes_over_all_nodes_of_an_allocation_of_slurm() {
    let Some(hosts) = Hosts::with_slurm(4) else { return };
    let ring = example("ring");
    // as users leave them for srun; here they would halve the daemons, or give each another input
    let options = [("SLURM_CPUS_PER_TASK", "2"), ("SLURM_STDINMODE", "none"), ("SRUN_CPUS_PER_TASK", "2")];
    let mut command = pmixrun_in(&hosts, &["-N4", "-n8"], &[]);
    command.arg(&ring).envs(options);
    let (code, out, err) = run(command);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}{err}");
    ring_is_closed(&out);
    nothing_is_left(&hosts);

    // from a batch script, which runs on a node of the allocation
    let out = hosts.shared().join("out");
    let pmixrun = program("pmixrun");
    let batch = script(&hosts, "batch", &format!("exec {} {}", pmixrun.display(), ring.display()));
    let mut command = ready(hosts.command(0, "sbatch"));
    command.args(["--wait", "-N4", "-n8", "-o"]).arg(&out).arg(batch);
    let (code, _, err) = run(command);
    let out = fs::read_to_string(out).unwrap();
    assert_eq!(code, Some(0), "{out}{err}");
    ring_is_closed(&out);
    nothing_is_left(&hosts);

    // in an order of their own, by their names on the nodes; and what the ranks inherit
    let tell = ["sh", "-c", "echo $PMIX_RANK $(hostname) $SLURM_JOB_NUM_NODES $PASSED; env >&2"];
    let mut command = pmixrun_in(&hosts, &["-w", "n[0-2]"], &[&["--host", "n2,n0:2,n1"], &tell[..]].concat());
    command.env("PASSED", "on").env("SLURM_ARRAY_TASK_ID", "3");
    let (code, out, err) = run(command);
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        (code, lines),
        (Some(0), ["0 n2 3 on", "1 n0 3 on", "2 n0 3 on", "3 n1 3 on"].into()),
        "{err}"
    );
    assert_eq!(err.matches("SLURM_ARRAY_TASK_ID=3\n").count(), 4, "{err}");
    for of_step in ["SLURM_STEP", "SLURM_PROCID", "SLURM_NODELIST", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE"] {
        assert!(!err.contains(of_step), "{of_step}: {err}");
    }

    // a rank starts a job of its own, whose daemons are not where the rank is
    let nested = format!("exec {} --host n0,n1:2 hostname", pmixrun.display());
    let (code, out, err) = run(pmixrun_in(&hosts, &["-w", "n[0-1]"], &["-n", "1", "sh", "-c", &nested]));
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((code, lines), (Some(0), ["n0", "n1", "n1"].into()), "{err}");

    let (code, out, err) = run(pmixrun_in(&hosts, &["-w", "n[0-1]"], &["--host", "n1,n3", "true"]));
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("error: n3 is not in the allocation of Slurm job "), "{err}");
    nothing_is_left(&hosts);
}

fn mpi_in_an_allocation(peer: Peer) {
    let [Some(suite), Some(spawn)] = ["mpi_suite", "mpi_spawn"].map(|name| peer.program(name)) else {
        return;
    };
    let Some(hosts) = Hosts::with_slurm(8) else { return };
    for (nodes, sharing) in [("-N4", 2), ("-N8", 1)] {
        let command = pmixrun_in(&hosts, &[nodes, "-n8"], &["--tag-output"]);
        let (code, out, err) = run(with(command, &[suite.to_str().unwrap(), "8"]));
        assert_eq!(code, Some(0), "{peer:?} {nodes}: {out}{err}");
        assert!(out.contains("[0]<stdout>: PASS"), "{peer:?} {nodes}: {out}{err}");
        let sharing = format!("[0]<stdout>: ranks sharing memory with rank 0: {sharing}\n");
        assert!(out.contains(&sharing), "{peer:?} {nodes}: {out}{err}");
    }
    let args = ["-n", "4", "--map-by", "node", spawn.to_str().unwrap()];
    let (code, out, err) = run(pmixrun_in(&hosts, &["-N4", "-n8"], &args));
    assert_eq!(code, Some(0), "{peer:?}: {out}{err}");
    assert_eq!(out.matches("of 6 merged: sum 21 PASS").count(), 6, "{peer:?}: {out}{err}");
    nothing_is_left(&hosts);
}

#[test]
fn programs_of_open_mpi_4_run_in_an_allocation_of_slurm() {
    mpi_in_an_allocation(Peer::OpenMpi);
}

#[test]
fn programs_of_open_mpi_5_run_in_an_allocation_of_slurm() {
    mpi_in_an_allocation(Peer::OpenMpi5);
}

#[test]
fn a_daemon_that_srun_does_not_start_is_named_with_its_last_line_and_nothing_is_left() {
    let Some(hosts) = Hosts::with_slurm(3) else { return };
    let (code, out, err) = run(pmixrun_in(&hosts, &["-N3"], &["--daemon", "/nowhere/pmixd", "true"]));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("pmixrun: node") && err.contains(": its daemon has ended (task"), "{err}");
    assert!(
        err.contains("; its last line: slurmstepd") && err.contains("/nowhere/pmixd: No such file"),
        "{err}"
    );
    nothing_is_left(&hosts);

    // one fails, and the other two are let in
    let pmixd = program("pmixd");
    let fails = "test $SLURMD_NODENAME != n2 || { echo no such disk >&2; exit 3; }";
    let daemon = script(&hosts, "fails", &format!("{fails}\nexec {} \"$@\"", pmixd.display()));
    let (code, out, err) = run(pmixrun_in(&hosts, &["-N3"], &["--daemon", &daemon, "true"]));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    let why =
        "node n2: its daemon has ended (task 1: Exited with exit code 3); its last line: no such disk\n";
    assert!(err.contains(why), "{err}");
    nothing_is_left(&hosts);

    // one hangs, also when it is asked to end: it ends while the allocation goes on
    let hangs = "test $SLURMD_NODENAME != n1 || { echo waiting for the tape >&2; trap '' TERM; sleep 600; }";
    let daemon = script(&hosts, "hangs", &format!("{hangs}\nexec {} \"$@\"", pmixd.display()));
    let (pmixrun, said) = (program("pmixrun"), hosts.shared().join("said"));
    // long enough for the other daemons
    let job = format!(
        "{} --start-timeout 20 --grace 0 --daemon {daemon} true 2>{}",
        pmixrun.display(),
        said.display()
    );
    let mut held = Held::run(&hosts, &job);
    assert_eq!(held.lines.next().as_deref(), Some("code 1"));
    let why = "node n1: its daemon was not ready within 20 s; its last line: waiting for the tape\n";
    let err = fs::read_to_string(said).unwrap();
    assert!(err.contains(why), "{err}");
    block_until("the daemon that hangs ends", || found(&hosts, 1, "sleep 600").is_empty());
    held.release();
    nothing_is_left(&hosts);

    // srun itself does not
    let options = ["--host", "n0,n1", "--launcher", "slurm", "true"];
    let mut command = pmixrun_in(&hosts, &["-N3"], &options);
    let bin = hosts.shared().join("none");
    executable(&bin.join("srun"), "#!/bin/sh\necho 'srun: error: no step today' >&2\nexit 1\n");
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let (code, out, err) = run(command);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    let why = "node n1: srun ended with exit code 1; its last line: srun: error: no step today\n";
    assert!(err.contains(why), "{err}");
    nothing_is_left(&hosts);
}

/// An allocation of all hosts that is kept when its command has ended, so that Slurm does not end what the command leaves.
struct Held {
    salloc: Child,
    /// What is written there, and the exit code.
    lines: Box<dyn Iterator<Item = String>>,
}

impl Held {
    fn run(hosts: &Hosts, command: &str) -> Self {
        let job = script(hosts, "job", &format!("{command} & wait $!; echo code $?; read -r _"));
        let mut command = ready(hosts.in_allocation(&[&format!("-N{}", hosts.count())], job));
        let mut salloc = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(salloc.stdout.take().unwrap()).lines().map(Result::unwrap);
        Self { salloc, lines: Box::new(lines) }
    }

    /// Ends the allocation, which is still there.
    fn release(mut self) {
        self.salloc.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(self.salloc.wait().unwrap().success());
    }
}

/// The processes on a host whose command line has these words.
fn found(hosts: &Hosts, host: usize, words: &str) -> Vec<i32> {
    let all = hosts.processes_on(host).into_iter();
    all.filter(|(_, line)| line.contains(words)).map(|(pid, _)| pid).collect()
}

#[test]
fn a_pmixrun_that_is_killed_leaves_no_process_and_no_step_while_the_allocation_goes_on() {
    let Some(hosts) = Hosts::with_slurm(3) else { return };
    let (pmixrun, pmixd) = (program("pmixrun"), program("pmixd"));
    let rank = "trap '' TERM; echo up; sleep 600";
    for is_starting in [false, true] {
        let go = hosts.shared().join(format!("go.{is_starting}"));
        // its daemons come as far as their line when their head has ended
        let wait =
            format!("while ! test -e {}; do sleep 0.01; done; exec {} \"$@\"", go.display(), pmixd.display());
        let daemon = if is_starting { script(&hosts, "late", &wait) } else { pmixd.display().to_string() };
        let job = format!("{} --grace 0.2 --daemon {daemon} sh -c \"{rank}\"", pmixrun.display());
        let mut held = Held::run(&hosts, &job);
        if is_starting {
            block_until("the daemons start", || (1..3).all(|host| !found(&hosts, host, &daemon).is_empty()));
        } else {
            assert!(held.lines.by_ref().take(3).all(|line| line == "up"));
            assert!(steps(&hosts).contains(" pmixd\n"));
        }
        let heads = hosts.processes_on(0).into_iter();
        let mut heads = heads.filter(|(_, line)| line.starts_with(&format!("{} --grace", pmixrun.display())));
        let (head, _) = heads.next().unwrap();
        kill_process(Pid::from_raw(head).unwrap(), Signal::KILL).unwrap();
        assert_eq!(held.lines.next().as_deref(), Some("code 137"));
        fs::write(&go, "").unwrap();
        let of_job = ["sleep 600", "/pmixd", "/late", "srun"];
        block_until("the processes end", || {
            (0..3).all(|host| of_job.iter().all(|words| found(&hosts, host, words).is_empty()))
        });
        block_until("the step ends", || steps(&hosts).is_empty());
        held.release();
        nothing_is_left(&hosts);
    }
}

/// It does not wait for `srun`, which waits for the node for minutes, nor for ranks that could take their grace to end.
#[tokio::test]
async fn a_node_of_the_allocation_that_is_cut_off_ends_the_job_which_names_it_and_does_not_wait_for_it() {
    let Some(hosts) = Hosts::with_slurm(3) else { return };
    let args = [
        "--host-grace",
        "8",
        "--head-grace",
        "12",
        "--grace",
        "100000",
        "sh",
        "-c",
        "echo up; exec sleep 600",
    ];
    let mut run = Running::start(pmixrun_in(&hosts, &["-N3"], &args));
    for _ in 0..3 {
        assert_eq!(run.line().await.as_deref(), Some("up"));
    }
    hosts.cut(2);
    let (status, _, err) = run.end().await;
    assert_eq!(status.code(), Some(137), "{err}");
    assert!(err.contains("node n2 is lost: "), "{err}");
    assert!(err.contains("(sh) on n2 failed"), "{err}");
    hosts.mend(2);
    nothing_is_left_on(&hosts, 0..2, &"after the loss");
}
