//! What a user sees while daemons and a job start, and how a start ends early.

use std::io::Read;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use pmix_test_wait::within;
use pmix_tests::{Hosts, agent, nothing_is_left, on_path, program, stop, with_agent};
use rustix::process::{Pid, Signal, kill_process};

use super::hosts::nothing_is_left_on;

/// The daemon of `c` waits until the test writes to a pipe.
const HELD: &str = "test $host != c || read line <\"${0%/*}/go\"; exec \"$@\"";

/// A run whose output and errors go to a terminal.
pub(super) struct OnTerminal {
    child: Child,
    terminal: ChildStdout,
    written: Vec<u8>,
}

impl OnTerminal {
    /// `None`, with a line on standard error, without `script`.
    pub(super) fn start(command: &Command) -> Option<Self> {
        let script = on_path("script", "apt-get install bsdutils")?;
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
        let mut script = Command::new(script);
        script.args(["-q", "-e", "-f", "-c", &words.join(" "), "/dev/null"]).env("SHELL", "/bin/sh");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        let mut child = script.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let terminal = child.stdout.take().unwrap();
        Some(Self { child, terminal, written: Vec::new() })
    }

    /// Reads until the lines of the terminal are as wanted.
    pub(super) fn until(&mut self, is_it: impl Fn(&[String]) -> bool) {
        while !is_it(&lines(&self.written)) {
            let mut piece = [0; 4096];
            let count = self.terminal.read(&mut piece).unwrap();
            assert!(count > 0, "{:?}", String::from_utf8_lossy(&self.written));
            self.written.extend(&piece[..count]);
        }
    }

    /// Its exit code, and the lines of the terminal.
    pub(super) async fn end(mut self) -> (Option<i32>, Vec<String>) {
        let reading = tokio::task::spawn_blocking(move || {
            self.terminal.read_to_end(&mut self.written).unwrap();
            (self.child.wait().unwrap().code(), lines(&self.written))
        });
        within(reading).await.unwrap()
    }
}

/// Has the daemon that is held up go on.
fn release(dir: &Path) {
    std::fs::write(dir.join("go"), "\n").unwrap();
}

/// Makes the pipe that holds a daemon up.
fn hold(dir: &Path) {
    assert!(Command::new("mkfifo").arg(dir.join("go")).status().unwrap().success());
}

/// What a terminal shows.
fn lines(bytes: &[u8]) -> Vec<String> {
    let show = |line: &[u8]| {
        let (mut cells, mut column) = (Vec::new(), 0);
        for byte in line {
            match byte {
                b'\r' => column = 0,
                _ => {
                    cells.resize(cells.len().max(column + 1), b' ');
                    cells[column] = *byte;
                    column += 1;
                }
            }
        }
        String::from_utf8(cells).unwrap().trim_end().to_owned()
    };
    bytes.split(|byte| *byte == b'\n').map(show).collect()
}

#[tokio::test]
async fn a_terminal_shows_how_many_daemons_are_ready_and_keeps_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    hold(dir.path());
    let start = |args: &[&str]| OnTerminal::start(&with_agent(dir.path(), "a,b,c", HELD, args));
    let Some(mut run) = start(&["sh", "-c", "echo done"]) else { return };
    run.until(|lines| lines == ["starting daemons: 2 of 3 ready"]);
    release(dir.path());
    let (code, lines) = run.end().await;
    assert_eq!((code, lines), (Some(0), ["done", "done", "done", ""].map(str::to_owned).to_vec()));
    let mut run = start(&["--quiet", "-n", "1", "sh", "-c", "echo done"]).unwrap();
    release(dir.path());
    run.until(|lines| lines.len() > 1);
    assert_eq!(run.written, b"done\r\n");
    assert_eq!(run.end().await.0, Some(0));
    nothing_is_left(dir.path());
}

/// A run over hosts of which one has a daemon that hangs from before its part of the job begins.
struct Hanging {
    hosts: Hosts,
    run: OnTerminal,
    daemon: i32,
}

impl Hanging {
    /// `None` where there can be no hosts.
    async fn start(args: &[&str]) -> Option<Self> {
        let hosts = Hosts::with_ssh(3)?;
        let dir = hosts.shared();
        hold(dir);
        program("pmixd");
        let agent = agent(dir, "test $host != n2 || read line <\"${0%/*}/go\"; exec ssh $host \"$@\"");
        let mut command = hosts.command(0, program("pmixrun"));
        command.env_remove("RUST_LOG").env("PMIXRUN_RECORD", "none");
        command.args(["--host", "n1,n2", "--launch-agent"]).arg(agent).args(args);
        let mut run = OnTerminal::start(&command)?;
        run.until(|lines| lines == ["starting daemons: 1 of 2 ready"]);
        let daemon = process(&hosts, 1, "/pmixd ");
        stop(daemon).await;
        release(dir);
        Some(Self { hosts, run, daemon })
    }

    fn interrupt(&self) {
        kill(process(&self.hosts, 0, "/pmixrun --host"), Signal::INT);
    }

    /// Its exit code, and the lines of the terminal, when nothing is left on any host once the daemon goes on.
    async fn end(self) -> (Option<i32>, Vec<String>) {
        let Self { hosts, run, daemon } = self;
        let ended = run.end().await;
        kill(daemon, Signal::CONT);
        nothing_is_left_on(&hosts, 0..hosts.count(), &format_args!("{ended:?}"));
        ended
    }
}

fn process(hosts: &Hosts, host: usize, words: &str) -> i32 {
    let processes = hosts.processes_on(host);
    let found = processes.iter().find(|(_, line)| line.starts_with('/') && line.contains(words));
    found.unwrap_or_else(|| panic!("{words} of {processes:?}")).0
}

fn kill(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[tokio::test]
async fn the_time_of_a_run_counts_while_its_job_starts() {
    let args = ["--timeout", "4", "--grace", "0.1", "sleep", "600"];
    let Some(hanging) = Hanging::start(&args).await else { return };
    let (code, lines) = hanging.end().await;
    assert_eq!(code, Some(124), "{lines:?}");
    let told = "pmixrun: ending the run after 4 seconds (--timeout), while the job was starting";
    assert!(lines.iter().any(|line| line == told), "{lines:?}");
}

#[tokio::test]
async fn a_second_interrupt_waits_for_no_daemon_that_hangs() {
    let args = ["--host-grace", "100000", "--grace", "100000", "sleep", "600"];
    let Some(mut hanging) = Hanging::start(&args).await else { return };
    // all daemons are ready
    hanging.run.until(|lines| lines == [""]);
    hanging.interrupt();
    let told = "pmixrun: interrupted while the job was starting";
    hanging.run.until(|lines| lines.iter().any(|line| line == told));
    // the daemon hangs until pmixrun has ended
    hanging.interrupt();
    let (code, lines) = hanging.end().await;
    assert_eq!(code, Some(130), "{lines:?}");
}
