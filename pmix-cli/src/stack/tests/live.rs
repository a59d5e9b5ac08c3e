//! Real processes: what they notice of a look at them.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, TryRecvError};
use std::thread;
use std::time::Duration;
use std::{env, fs, io};

use futures::FutureExt;
use nix::sys::ptrace;
use pmix_test_wait::{LIMIT as LONG, block_until, until, until_async};
use pmix_tool::types::{Pid, ProcState};
use pmix_tool::{ProcId, ProcInfo};
use procfs::process::{MMapPath, Process};
use rustix::process::{Signal, kill_process};

use crate::stack::backend::{Backends, Debugger, DebuggerKind, LIMIT, Patience, With};
use crate::stack::find::{self, Outcome};
use crate::stack::image::image;
use crate::stack::snapshot::{Piece, RunningProgram, Snapshot, copy_thread, snapshot};

/// Killed at the end, in whatever state it is.
struct Sleeper(Child);

impl Sleeper {
    fn start(command: &mut Command) -> Self {
        let sleeper = Self(command.stdin(Stdio::null()).spawn().unwrap());
        sleeper.until("it runs another program", |sleeper| sleeper.stat('S'));
        sleeper
    }

    fn sleep() -> Self {
        Self::start(Command::new("sleep").arg("1000"))
    }

    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    fn signal(&self, signal: Signal) {
        kill_process(rustix::process::Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    /// Whether it is in a state, and nobody traces it.
    fn stat(&self, state: char) -> bool {
        let process = Process::new(self.pid()).unwrap();
        process.stat().unwrap().state == state && find::status(&process).unwrap().tracerpid == 0
    }

    fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        block_until(what, || is_so(self));
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// No process is held longer to be copied, unless the machine has much else to do.
const MOMENT: Duration = Duration::from_millis(100);

/// A copy of a process that was held for a moment only.
fn copied(pid: i32, all: bool) -> Snapshot {
    block_until("a copy in a moment", || {
        let copy = snapshot(pid, all).map_err(|error| error.to_string())?;
        match copy.stopped() {
            long if long >= MOMENT => Err(format!("it was held for {long:?}")),
            _ if copy.threads[0].stack.bytes.is_empty() => Err("its stack is not in it".to_owned()),
            _ => Ok(copy),
        }
    })
}

/// A debugger, or a line on standard error.
fn installed(with: With) -> Option<Backends> {
    Backends::find(with, false)
        .inspect_err(|missing| {
            assert!(env::var_os("PMIX_REQUIRE_PEERS").is_none(), "PMIX_REQUIRE_PEERS is set, and {missing}");
            // print macros would be captured
            let _ =
                writeln!(io::stderr(), "skipped {}: {missing}", thread::current().name().unwrap_or_default());
        })
        .ok()
}

#[test]
fn who_sleeps_goes_on_sleeping_and_who_is_stopped_stays_stopped() {
    let sleeper = Sleeper::sleep();
    let copy = copied(sleeper.pid(), false);
    assert_eq!((copy.threads.len(), copy.threads[0].tid), (1, sleeper.pid()));
    assert!(!copy.pieces.is_empty());
    sleeper.until("it sleeps again", |sleeper| sleeper.stat('S'));
    assert!(!find::is_stopped(sleeper.pid()));

    sleeper.signal(Signal::STOP);
    sleeper.until("it is stopped", |sleeper| sleeper.stat('T'));
    for _ in 0..20 {
        assert!(find::is_stopped(sleeper.pid()));
        copied(sleeper.pid(), true);
        sleeper.until("it is stopped again", |sleeper| sleeper.stat('T'));
    }
    sleeper.signal(Signal::CONT);
    sleeper.until("it goes on", |sleeper| sleeper.stat('S'));
}

/// Otherwise, a process could be copied for its user while it runs a set-user-ID program.
#[test]
fn a_process_that_runs_another_program_than_before_is_not_copied() {
    let mut shell = Command::new("sh");
    let mut shell =
        Sleeper(shell.args(["-c", "read line; exec sleep 1000"]).stdin(Stdio::piped()).spawn().unwrap());
    let process = Process::new(shell.pid()).unwrap();
    let source = block_until("it runs", || RunningProgram::of(&process)).0;
    let tid = shell.pid();
    let copy = |source| thread::scope(|scope| scope.spawn(move || copy_thread(tid, source)).join().unwrap());
    block_until("the shell is copied", || copy(&source));
    shell.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    shell.until("it runs another program", |_| process.stat().unwrap().comm == "sleep");
    let refused = copy(&source).unwrap_err().to_string();
    assert!(refused.contains("another program"), "{refused}");
    let source = RunningProgram::of(&process).unwrap().0;
    block_until("the other program is copied", || copy(&source));
}

/// A signal may come just when a process is stopped to be copied.
#[test]
fn no_signal_is_lost() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap 'echo got' USR1; echo ready; while :; do :; done"]).stdout(Stdio::piped());
    let mut shell = Sleeper(shell.stdin(Stdio::null()).spawn().unwrap());
    let output = BufReader::new(shell.0.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    let reader =
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let line = || lines.recv_timeout(LONG).unwrap();
    assert_eq!(line(), "ready");
    let pid = shell.pid();
    let (end, ended) = mpsc::channel::<()>();
    let looker = thread::spawn(move || {
        while ended.try_recv() == Err(TryRecvError::Empty) {
            // it may not be let go by the last one yet
            let _ = snapshot(pid, false);
        }
    });
    for _ in 0..500 {
        shell.signal(Signal::USR1);
        assert_eq!(line(), "got");
    }
    drop(end);
    looker.join().unwrap();
    drop(shell);
    let _ = reader.join().unwrap();
}

/// Words of a core file.
fn word(image: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(image[at..at + 8].try_into().unwrap())
}

/// eu-stack takes an address outside of all segments for one of another library.
#[test]
fn a_core_file_has_a_segment_for_all_that_is_mapped_of_files_and_for_the_stack() {
    let sleeper = Sleeper::sleep();
    let copy = copied(sleeper.pid(), false);
    let image = image(&copy);
    assert_eq!(&image[..6], b"\x7fELF\x02\x01");
    let count = u16::from_ne_bytes(image[56..58].try_into().unwrap());
    let headers = (0..usize::from(count)).map(|index| 64 + 56 * index);
    // where they are in the file and in the memory, and their sizes there
    let loads: Vec<_> = headers
        .filter(|at| image[*at] == 1)
        .map(|at| [8, 16, 32, 40].map(|field| word(&image, at + field)))
        .collect();
    assert!(loads.windows(2).all(|pair| pair[0][1] + pair[0][3] <= pair[1][1]), "{loads:x?}");
    let last = loads.iter().rfind(|load| load[2] > 0).unwrap();
    assert_eq!(last[0] + last[2], image.len() as u64);
    for map in copy.maps.iter().filter(|map| matches!(map.pathname, MMapPath::Path(_))) {
        let (start, end) = map.address;
        let inside = loads.iter().filter(|load| (start..end).contains(&load[1])).map(|load| load[3]);
        assert_eq!(inside.sum::<u64>(), end - start, "{map:?}");
    }
    let stack = &copy.threads[0].stack;
    let load = loads.iter().find(|load| load[1] == stack.address).unwrap();
    let (at, size) = (usize::try_from(load[0]).unwrap(), usize::try_from(load[2]).unwrap());
    assert_eq!(image[at..at + size], stack.bytes);
}

#[test]
fn a_process_whose_names_are_no_text_is_copied_like_others() {
    let model = Sleeper::sleep();
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join(OsStr::from_bytes(b"sl\xffep"));
    // by another process: what this one has open for writing, its children have too, and that cannot be run
    let copied_by = Command::new("cp").arg(format!("/proc/{}/exe", model.pid())).arg(&program).status();
    assert!(copied_by.unwrap().success());
    let sleeper = Sleeper::start(Command::new(program).arg0("sleep").arg("1000"));
    let copy = copied(sleeper.pid(), true);
    let start = copy.maps.first().unwrap().address.0;
    assert!(copy.file_at(start).unwrap().ends_with("/sl\u{fffd}ep"));
}

/// Stacks of two threads in one mapping: each was copied to its end.
#[test]
fn copies_that_overlap_are_cut() {
    let sleeper = Sleeper::sleep();
    let mut copy = copied(sleeper.pid(), false);
    let (inner, outer) = (0x1000_0000, 0x1000_1000);
    copy.pieces = [outer, inner].map(|address| Piece { address, bytes: vec![7; 0x3000] }).into();
    copy.maps.clear();
    let image = image(&copy);
    let sizes: Vec<_> = (0..3).map(|index| 64 + 56 * (index + 1)).map(|at| word(&image, at + 32)).collect();
    assert_eq!(sizes[..2], [0x1000, 0x3000]);
}

#[test]
fn what_cannot_be_traced_is_told() {
    let mut sleeper = Sleeper::sleep();
    let pid = sleeper.pid();
    let refusal = |pid| find::refusal(pid, &snapshot(pid, false).unwrap_err());
    // another debugger: a thread of ours, until it ends
    let (begun, traced) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let debugger = thread::spawn(move || {
        ptrace::seize(nix::unistd::Pid::from_raw(pid), ptrace::Options::empty()).unwrap();
        begun.send(nix::unistd::gettid()).unwrap();
        let _ = ended.recv();
    });
    let tracer = traced.recv().unwrap();
    let refused = refusal(pid);
    assert_eq!(refused.outcome, Outcome::NotPermitted);
    let expected = format!("process {pid} is traced by process {tracer} already; end that first");
    assert_eq!(refused.message, expected);
    drop(end);
    debugger.join().unwrap();
    sleeper.until("it is let go", |sleeper| sleeper.stat('S'));

    // dead, but not buried, and then buried
    sleeper.signal(Signal::KILL);
    sleeper.until("it is dead", |sleeper| sleeper.stat('Z'));
    assert_eq!(refusal(pid).outcome, Outcome::Gone);
    sleeper.0.wait().unwrap();
    assert_eq!(refusal(pid).message, format!("process {pid} is gone"));
    assert!(!find::is_stopped(pid));
}

async fn shows_where_it_sleeps(with: With) {
    let Some(backends) = installed(with) else { return };
    let sleeper = Sleeper::sleep();
    let copy = copied(sleeper.pid(), false);
    let stopped = copy.stopped();
    let looked = backends.look(sleeper.pid(), Some(Ok(copy))).await.unwrap();
    let (tid, frames) = &looked.threads[0];
    assert_eq!((*tid, looked.note), (sleeper.pid(), None));
    assert!(looked.is_whole, "{frames:?}");
    assert!(frames.iter().any(|frame| frame.function.contains("nanosleep")), "{frames:?}");
    assert!(frames.iter().any(|frame| frame.is_program && frame.function.contains("sleep")), "{frames:?}");
    assert_eq!(looked.stopped, stopped, "it runs while the debugger reads");
}

#[tokio::test]
async fn eu_stack_reads_a_copy() {
    shows_where_it_sleeps(With::EuStack).await;
}

#[tokio::test]
async fn gdb_reads_a_copy() {
    shows_where_it_sleeps(With::Gdb).await;
}

/// It never held the process.
#[tokio::test]
async fn a_debugger_that_hangs_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("eu-stack");
    let mark = dir.path().join("pid");
    // not by this process: one that another test starts meanwhile could have the file open for writing, too
    let write = "printf '#!/bin/sh\\necho $$ > %s\\nexec sleep 1000\\n' \"$1\" > \"$0\"; chmod 755 \"$0\"";
    let written = Command::new("sh").args(["-c", write]).args([&program, &mark]).status();
    assert!(written.unwrap().success());
    let sleeper = Sleeper::sleep();
    let native = Some(Debugger { kind: DebuggerKind::EuStack, program });
    let limit = Duration::from_secs(3600);
    let backends = Backends { native, py_spy: None, all_threads: false, patience: Patience::new(limit) };
    let look = || Box::pin(backends.look(sleeper.pid(), Some(Ok(copied(sleeper.pid(), false)))));
    let mut looks = look();
    let hung: i32 = tokio::select! {
        early = &mut looks => panic!("{early:?}"),
        pid = until("the debugger runs", || fs::read_to_string(&mark).ok()?.trim().parse().ok()) => pid,
    };
    assert!(sleeper.stat('S'));
    let mut others = futures::future::join(look(), look());
    assert!((&mut others).now_or_never().is_none());
    tokio::time::pause();
    tokio::time::advance(limit).await;
    tokio::time::resume();
    let late = "eu-stack did not end within 3600 s";
    let (second, third) = others.await;
    for failed in [looks.await, second, third] {
        let failed = failed.unwrap_err();
        assert_eq!((failed.outcome, failed.message.as_str()), (Outcome::Failed, late));
    }
    let own = rustix::process::getuid();
    let not_asked = format!("eu-stack is not asked: it did not end for 3 other processes of uid {own}");
    assert_eq!(look().await.unwrap_err().message, not_asked);
    let is_dead = || Process::new(hung).and_then(|process| process.stat()).is_none_or_zombie();
    sleeper.until("the debugger is dead", |_| is_dead());
}

trait Dead {
    fn is_none_or_zombie(&self) -> bool;
}

impl Dead for procfs::ProcResult<procfs::process::Stat> {
    fn is_none_or_zombie(&self) -> bool {
        !matches!(self, Ok(stat) if stat.state != 'Z')
    }
}

#[tokio::test]
async fn a_debugger_that_fails_is_quoted() {
    let native = Some(Debugger { kind: DebuggerKind::EuStack, program: "/bin/false".into() });
    let mut backends = Backends { native, py_spy: None, all_threads: false, patience: Patience::new(LIMIT) };
    let sleeper = Sleeper::sleep();
    let copy = until_async("a copy", async || backends.copy(sleeper.pid()).await.unwrap()).await;
    let failed = backends.look(sleeper.pid(), Some(Ok(copy))).await.unwrap_err();
    assert_eq!(failed.message, "eu-stack failed with exit status: 1: says nothing");

    (backends.native, backends.py_spy) = (None, Some("/bin/false".into()));
    let copy = backends.copy(sleeper.pid()).await;
    assert!(copy.is_none());
    let failed = backends.look(sleeper.pid(), copy).await.unwrap_err();
    assert!(
        failed.message.ends_with("does not run Python; py-spy reads only Python stacks"),
        "{}",
        failed.message
    );
}

#[test]
fn a_rank_is_the_process_that_says_so() {
    let mut command = Command::new("sleep");
    let sleeper = Sleeper::start(command.arg("1000").env("PMIX_NAMESPACE", "job").env("PMIX_RANK", "3"));
    let info = |host: &str, rank: u32, pid: i32, state: ProcState| {
        let mut info = ProcInfo::new(ProcId::new("job".parse().unwrap(), rank.to_string().parse().unwrap()));
        (info.hostname, info.pid, info.state) = (Some(host.into()), Pid(pid), state);
        info
    };
    let running =
        |host: &str, rank, pid| find::find(&info(host, rank, pid, ProcState::RUNNING), "here.example");
    let pid = sleeper.pid();
    assert_eq!(running("here", 3, pid), Ok(pid));
    assert_eq!(running("vnode-7", 3, pid), Ok(pid), "a simulated node");
    let problem = |found: Result<i32, find::NoStack>| {
        found.map_err(|error| (error.outcome, error.message)).unwrap_err()
    };
    let (outcome, message) = problem(running("there", 4, pid));
    assert_eq!(
        (outcome, message.as_str()),
        (Outcome::Elsewhere, "on host there: run `pmix stack job` there")
    );
    let (outcome, message) = problem(running("here", 4, pid));
    assert!(outcome == Outcome::Gone && message.contains("another pid namespace"), "{message}");
    let (outcome, message) = problem(running("here", 4, i32::MAX));
    assert!(outcome == Outcome::Gone && message.contains("is gone, or its id is of another"), "{message}");
    let (outcome, message) = problem(running("here", 4, 0));
    assert!(outcome == Outcome::NotRunning && message.contains("does not know its process id"), "{message}");
    let (outcome, message) = problem(find::find(&info("here", 3, pid, ProcState::TERMINATED), "here"));
    assert_eq!((outcome, message.as_str()), (Outcome::NotRunning, "has ended (TERMINATED)"));
    // one that says nothing is what its server says, if it is on this host
    let silent = Sleeper::start(Command::new("sleep").arg("1000").env_remove("PMIX_RANK"));
    assert_eq!(running("here", 4, silent.pid()), Ok(silent.pid()));
    let (outcome, _) = problem(running("here.elsewhere", 4, silent.pid()));
    assert_eq!(outcome, Outcome::Elsewhere);
}
