//! Hosts that are killed or cut off in each phase of a job: all that are left are answered, and nothing stays anywhere.
//!
//! `PMIX_FAULT_ROUNDS=100` plays so many rounds that are drawn by a seed, each of which it prints. `PMIX_FAULT_SEED` is the seed of
//! the first one, so that a round can be played again.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use pmix_test_wait::block_until;
use pmix_tests::{Hosts, phase_program, program};

use super::hosts::{nothing_is_left_on, pmixrun_on};

/// As many as there are ranks: rank N runs on host N, and `pmixrun` on the first.
const HOSTS: usize = 3;
/// Phases in which all ranks depend on each other, so that all that are left are answered with a failure.
const TOGETHER: [&str; 7] = ["fence", "collect", "connect", "group", "get", "spawn", "finalize"];
/// Those in which no process waits for a certain one.
const ALONE: [&str; 4] = ["start", "publish", "lookup", "output"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// No packet passes any more.
    Cut,
    /// All processes end, and the system closes their connections.
    Kill,
    /// Its power fails: all processes end, and the others are not told.
    PowerOff,
    /// `pmixrun` alone is killed.
    KillPmixrun,
}

/// One job and what happens to it.
#[derive(Clone, Copy)]
struct Round {
    phase: &'static str,
    fault: Fault,
    /// Whose rank takes no part, if `is_absent`.
    host: usize,
    is_absent: bool,
    /// The ranks begin after the fault.
    is_before: bool,
    delay: Duration,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { phase, fault, host, is_absent, is_before, delay } = self;
        let when = if *is_before { "before" } else { "in" };
        let absent = if *is_absent { ", whose rank is absent" } else { "" };
        write!(f, "{fault:?} of n{host}{absent}, {when} {phase}, after {} ms", delay.as_millis())
    }
}

impl Round {
    /// Ranks are in a phase, and the one on this host does not come.
    const fn absent(phase: &'static str, fault: Fault, host: usize) -> Self {
        Self { phase, fault, host, is_absent: true, is_before: false, delay: Duration::ZERO }
    }

    /// The fault comes first.
    const fn before(phase: &'static str, fault: Fault, host: usize) -> Self {
        Self { phase, fault, host, is_absent: false, is_before: true, delay: Duration::ZERO }
    }

    fn drawn(seed: u64) -> Self {
        let mut state = seed;
        // splitmix64
        let mut draw = |below: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % below
        };
        let phases = [&TOGETHER[..], &ALONE].concat();
        let phase = phases[usize::try_from(draw(phases.len() as u64)).unwrap()];
        let host = usize::try_from(draw(HOSTS as u64)).unwrap();
        let fault = match draw(if host == 0 { 4 } else { 3 }) {
            0 => Fault::Cut,
            1 => Fault::Kill,
            2 => Fault::PowerOff,
            _ => Fault::KillPmixrun,
        };
        let (is_absent, is_before) = (draw(2) == 0, draw(2) == 0);
        // all that are in it leave at once if none is absent
        let is_absent = is_absent || (phase == "finalize" && !is_before);
        let delay = Duration::from_millis(draw(if phase == "start" { 700 } else { 100 }));
        Self { phase, fault, host, is_absent, is_before, delay }
    }

    fn command(&self, hosts: &Hosts) -> Command {
        let go = hosts.shared().join("go");
        let _ = std::fs::remove_file(&go);
        let mut command = pmixrun_on(hosts, 0, &["--host", "n0:2,n1:2,n2:2", "--map-by", "node", "-n", "3"]);
        command.args(["--host-grace", "8", "--head-grace", "12", "--start-timeout", "60"]);
        // n2 is below n1, which is below n0
        command.args(["--tree-degree", "1"]);
        // where all ranks that pmixrun still reaches are to be answered, nothing else ends the job
        let all_end = TOGETHER.contains(&self.phase) && !(self.is_absent && self.host == 0);
        let reaction = if all_end { "100000" } else { "2" };
        command.args(["--reaction", reaction, "--grace", "1"]).arg(phase_program()).arg(self.phase);
        if self.is_before {
            command.arg(go)
        } else {
            command.arg("-")
        };
        command.arg(if self.is_absent { self.host.to_string() } else { "-".to_owned() });
        command
    }

    /// Plays it, on hosts which are whole before and after it.
    fn play(&self, hosts: &mut Hosts) {
        let mut job = Job::start(self.command(hosts));
        if self.phase != "start" {
            job.until(|said| (0..HOSTS).all(|rank| said.contains(&format!("ready {rank}\n"))), self);
        }
        // the moment is drawn; nothing is waited for
        std::thread::park_timeout(self.delay);
        match self.fault {
            Fault::Cut => hosts.cut(self.host),
            Fault::Kill => hosts.kill(self.host),
            Fault::PowerOff => {
                hosts.cut(self.host);
                hosts.kill(self.host);
            }
            Fault::KillPmixrun => job.kill_pmixrun(hosts),
        }
        if self.is_before {
            std::fs::write(hosts.shared().join("go"), "").unwrap();
        }
        let status = job.end(self);
        if self.host != 0 || self.fault == Fault::Cut {
            self.check(&job, status);
        }
        let is_gone = matches!(self.fault, Fault::Kill | Fault::PowerOff);
        let there = (0..HOSTS).filter(|host| !is_gone || *host != self.host);
        nothing_is_left_on(hosts, there, &format_args!("{self}: {}", job.said()));
        if is_gone {
            hosts.start_again(self.host);
        } else if self.fault == Fault::Cut {
            hosts.mend(self.host);
        }
    }

    /// What `pmixrun` and the ranks that are left say.
    fn check(&self, job: &Job, status: ExitStatus) {
        let said = job.said();
        let lost: Vec<_> = (1..HOSTS).filter(|host| self.host == 0 || *host == self.host).collect();
        if self.phase == "start" && status.code() == Some(1) {
            let names = |host: &usize| {
                [": ", " is lost: "].iter().any(|after| said.contains(&format!("node n{host}{after}")))
            };
            return assert!(lost.iter().any(names), "{self}: {said}");
        }
        assert_eq!(status.code(), Some(137), "{self}: {said}");
        for host in &lost {
            assert!(said.contains(&format!("pmixrun: node n{host} is lost: ")), "{self}: {said}");
        }
        let names = |host: &usize| {
            let (rank, node) = (format!("pmixrun: rank {host} ("), format!(") on n{host} failed: "));
            said.lines().any(|line| line.starts_with(&rank) && line.contains(&node))
        };
        assert!(lost.iter().any(names), "{self}: {said}");
        if !TOGETHER.contains(&self.phase) {
            return;
        }
        let waits = |rank: &usize| !(lost.contains(rank) || self.is_absent && *rank == self.host);
        for rank in (0..HOSTS).filter(waits) {
            let outcome = format!("outcome {rank} ");
            let Some(answered) = job.when(&outcome) else {
                panic!("{self}: rank {rank} is not answered\n{said}")
            };
            let line = job.line(&outcome);
            // a spawn has no rank yet; the peer that a get names may have ended because it was answered itself
            let is_named = |host: &usize| match self.phase {
                "get" => {
                    let has_ended = |other: &usize| {
                        job.when(&format!("outcome {other} ")).is_some_and(|when| when <= answered)
                    };
                    line.contains(&format!("node n{host}"))
                        || (0..HOSTS)
                            .filter(|other| *other != rank && has_ended(other))
                            .any(|other| line.contains(&format!(":{other} has ended")))
                }
                "spawn" => line.contains(&format!("node n{host}")),
                _ => line.contains(&format!("node n{host}")) && line.contains(&format!(":{host}")),
            };
            assert!(lost.iter().any(is_named), "{self}: node and rank are not named: {line}");
        }
    }
}

/// A job under `pmixrun`, with what has been said, in its order.
struct Job {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Job {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        pass_on(child.stdout.take().unwrap(), sender.clone());
        pass_on(child.stderr.take().unwrap(), sender);
        Self { child, lines, said: Vec::new() }
    }

    fn said(&self) -> String {
        // output that only fills the way is of no interest
        let lines = self.said.iter().filter(|line| !line.starts_with("output"));
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// The number of the first line with these words.
    fn when(&self, words: &str) -> Option<usize> {
        self.said.iter().position(|line| line.contains(words))
    }

    fn line(&self, words: &str) -> &str {
        self.said.iter().map(String::as_str).find(|line| line.contains(words)).unwrap()
    }

    /// Reads what has been said meanwhile; whether that was all that it ever says.
    fn read(&mut self) -> bool {
        loop {
            match self.lines.try_recv() {
                Ok(line) => self.said.push(line),
                Err(error) => return error == TryRecvError::Disconnected,
            }
        }
    }

    /// Reads until it has said something.
    fn until(&mut self, is_it: impl Fn(&str) -> bool, round: &Round) {
        block_until(format_args!("{round}: its ranks are ready"), || {
            let is_over = self.read();
            let said = self.said();
            if is_it(&said) {
                return Ok(());
            }
            assert!(!is_over, "{round}: it has ended\n{said}");
            Err(said)
        });
    }

    /// Kills `pmixrun` on the first host, as one kills a process.
    fn kill_pmixrun(&self, hosts: &Hosts) {
        let is_it = |line: &str| line.contains("/pmixrun --timeout");
        let found = hosts.processes_on(0).into_iter().filter(|(_, line)| is_it(line));
        for (pid, _) in found {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            // it may have ended
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// Reads to its end.
    fn end(&mut self, round: &Round) -> ExitStatus {
        block_until(format_args!("{round}: it ends"), || if self.read() { Ok(()) } else { Err(self.said()) });
        self.child.wait().unwrap()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pass_on(from: impl Read + Send + 'static, to: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { return };
            if to.send(line).is_err() {
                return;
            }
        }
    });
}

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text:?}")))
}

#[test]
fn a_host_that_is_lost_in_any_phase_is_named_whoever_is_left_is_answered_and_nothing_stays() {
    use Fault::{Cut, Kill, KillPmixrun, PowerOff};
    let Some(mut hosts) = Hosts::with_ssh(HOSTS) else { return };
    program("pmixd");
    if let Some(rounds) = number_of("PMIX_FAULT_ROUNDS") {
        let first = number_of("PMIX_FAULT_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 20);
        for seed in first..first + rounds {
            let round = Round::drawn(seed);
            eprintln!("PMIX_FAULT_SEED={seed}: {round}");
            round.play(&mut hosts);
        }
        return;
    }
    let rounds = [
        Round::absent("fence", Cut, 2),
        Round::absent("get", Kill, 1),
        // asked by the daemon of n1 on a connection of their own
        Round::absent("get", Cut, 2),
        Round::before("spawn", Cut, 1),
        Round::absent("finalize", PowerOff, 2),
        Round::before("connect", Cut, 0),
        Round { delay: Duration::from_millis(200), ..Round::absent("start", Cut, 1) },
        Round::absent("output", KillPmixrun, 0),
    ];
    for round in rounds {
        round.play(&mut hosts);
    }
}
