//! The kernel's view of a process.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use pmix_types::why::{Activity, ProcLook};
use pmix_types::{Pid, ProcId};
use procfs::process::{Process, Stat, Syscall};
use procfs::{FromRead, page_size, ticks_per_second};

/// Returns the kernel's view of a process of this machine; `None` if it is gone. `node` is copied into the result.
///
/// Reads four small files of `/proc` and blocks for some tens of microseconds. Values that the kernel hides from this
/// user are left empty: the system call and the wait channel require permission to trace the process.
///
/// # Examples
/// ```
/// use pmix_server::inspect_process;
/// use pmix_server::types::{ProcId, Rank};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let proc = ProcId::new("job-1".parse()?, Rank::new(0)?);
/// let look = inspect_process(proc, "node1", i32::try_from(std::process::id())?).ok_or("we run")?;
/// println!("{} {:?} {:?} {:?}", look.proc, look.activity, look.syscall, look.cpu_time);
/// # assert!(look.threads > 0);
/// # Ok(()) }
/// ```
#[must_use]
pub fn inspect_process(proc: ProcId, node: impl Into<String>, pid: i32) -> Option<ProcLook> {
    fill(ProcLook::new(proc, node, Pid(pid)))
}

/// Fills in the kernel's view; pid 0 is this process. `None` if there is no such process.
pub(crate) fn fill(mut look: ProcLook) -> Option<ProcLook> {
    let process = match look.pid.0 {
        0 => Process::myself(),
        pid => Process::new(pid),
    };
    let process = process.ok()?;
    tell(&mut look, &process.stat().ok()?);
    look.tracer = tracer(&process);
    if !matches!(look.activity, Activity::Runs | Activity::Ended) {
        look.syscall = process.syscall().ok().and_then(|call| name_of(&call));
        look.wait_channel = process.wchan().ok().filter(|function| !["", "0"].contains(&function.as_str()));
    }
    Some(look)
}

/// The same but for system call, wait channel and debugger: what stands in one file.
pub(crate) fn fill_brief(mut look: ProcLook) -> Option<ProcLook> {
    let of = match look.pid.0 {
        0 => "self".to_owned(),
        pid => pid.to_string(),
    };
    // `Process` opens the directory first, which takes a sixth longer for many processes
    tell(&mut look, &Stat::from_file(Path::new("/proc").join(of).join("stat")).ok()?);
    Some(look)
}

fn tell(look: &mut ProcLook, stat: &Stat) {
    look.activity = Activity::from_letter(stat.state);
    look.rss = stat.rss.saturating_mul(page_size());
    look.cpu_time = of_ticks(stat.utime.saturating_add(stat.stime));
    look.threads = stat.num_threads.try_into().unwrap_or_default();
}

/// Each thread that ever ran is counted.
fn of_ticks(ticks: u64) -> Duration {
    let per_second = ticks_per_second().max(1);
    Duration::from_secs(ticks / per_second) + Duration::from_secs(ticks % per_second) / per_second as u32
}

/// By number if nobody has named it yet.
fn name_of(call: &Syscall) -> Option<String> {
    let Syscall::Blocked { syscall_number, .. } = *call else { return None };
    let number = u64::try_from(syscall_number).ok()?;
    let named = number.try_into().ok().and_then(syscall_numbers::native::sys_call_name);
    Some(named.map_or_else(|| number.to_string(), str::to_owned))
}

/// The debugger of a process. Its status has sixty lines, and this is one of the first.
fn tracer(process: &Process) -> Option<Pid> {
    let mut status = Vec::new();
    process.open_relative("status").ok()?.read_to_end(&mut status).ok()?;
    // the name of the program stands there too, and need not be text
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    line.trim().parse().ok().filter(|pid| *pid > 0).map(Pid)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::{Child, Command, Stdio};

    use pmix_test_wait::block_until;
    use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process, waitid};

    use super::*;

    /// Is ended with the test.
    struct Running(Child);

    impl Running {
        fn new(program: &str, args: &[&str]) -> Self {
            Self(Command::new(program).args(args).stdin(Stdio::piped()).spawn().unwrap())
        }

        fn pid(&self) -> rustix::process::Pid {
            rustix::process::Pid::from_child(&self.0)
        }

        fn look(&self) -> Option<ProcLook> {
            look(self.0.id().try_into().unwrap())
        }

        /// The first look that shows this: programs take time to start.
        #[track_caller]
        fn until(&self, is_so: impl Fn(&ProcLook) -> bool) -> ProcLook {
            block_until("the process looks so", || {
                let look = self.look().expect("it runs");
                if is_so(&look) { Ok(look) } else { Err(Box::new(look)) }
            })
        }

        /// Whether the kernel tells in which system call it is: some tell only privileged users.
        fn has_call(&self) -> bool {
            std::fs::read(format!("/proc/{}/syscall", self.0.id())).is_ok()
        }

        fn signal(&self, signal: Signal) {
            kill_process(self.pid(), signal).unwrap();
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn look(pid: i32) -> Option<ProcLook> {
        inspect_process(ProcId::wildcard("job".parse().unwrap()), "n0", pid)
    }

    #[test]
    fn a_process_that_sleeps_is_in_a_system_call_and_uses_no_time() {
        let sleeps = Running::new("sleep", &["1000"]);
        let is_in = |process: &Running, call: &str| {
            let has_call = process.has_call();
            process.until(|look| {
                look.activity == Activity::Sleeps && (!has_call || look.syscall.as_deref() == Some(call))
            })
        };
        let found = is_in(&sleeps, "clock_nanosleep");
        assert_eq!((found.activity, found.threads, found.tracer), (Activity::Sleeps, 1, None));
        assert_eq!((found.node.as_str(), found.pid.0), ("n0", sleeps.0.id().try_into().unwrap()));
        assert!(found.rss > 100_000, "{}", found.rss);
        assert!(found.cpu_time < Duration::from_secs(1), "{:?}", found.cpu_time);
        // absent where the kernel was built without names
        assert!(found.wait_channel.is_none_or(|function| function.contains("sleep")));

        let reads = Running::new("sh", &["-c", "read line"]);
        is_in(&reads, "read");
    }

    #[test]
    fn a_process_that_spins_uses_time() {
        let spins = Running::new("sh", &["-c", "while :; do :; done"]);
        let before = spins.until(|look| look.cpu_time > Duration::ZERO);
        let later = before.cpu_time + Duration::from_millis(50);
        let after = spins.until(|look| {
            look.cpu_time >= later && (look.activity, &look.syscall) == (Activity::Runs, &None)
        });
        assert!(after.cpu_time < Duration::from_secs(60), "{:?}", after.cpu_time);
    }

    #[test]
    fn a_process_is_stopped_then_ended_then_gone() {
        let mut sleeps = Running::new("sleep", &["1000"]);
        sleeps.until(|look| look.activity == Activity::Sleeps);
        sleeps.signal(Signal::STOP);
        sleeps.until(|look| look.activity == Activity::Stopped);
        sleeps.signal(Signal::KILL);
        waitid(WaitId::Pid(sleeps.pid()), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        let ended = sleeps.look().unwrap();
        assert_eq!((ended.activity, ended.rss, ended.syscall), (Activity::Ended, 0, None));
        sleeps.0.wait().unwrap();
        assert_eq!(sleeps.look(), None);
    }

    #[test]
    fn pids_that_cannot_be_and_names_that_are_no_text_are_taken() {
        for pid in [-1, i32::MIN, i32::MAX] {
            assert_eq!(look(pid), None);
        }
        // so that this process has at least two threads
        let (release, released) = std::sync::mpsc::channel::<()>();
        let second = std::thread::spawn(move || released.recv());
        let own = fill(ProcLook::new(ProcId::wildcard("job".parse().unwrap()), "n0", Pid(0))).unwrap();
        assert!(own.rss > 100_000 && own.threads > 1, "{own:?}");
        let brief = |pid| fill_brief(ProcLook::new(ProcId::wildcard("job".parse().unwrap()), "n0", Pid(pid)));
        assert!(brief(0).unwrap().threads > 1 && brief(-1).is_none());
        drop(release);
        second.join().unwrap().unwrap_err();

        use std::os::unix::ffi::OsStrExt;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(std::ffi::OsStr::from_bytes(b") Z (\n\xff 7"));
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        let sleep = std::env::split_paths(&path).map(|dir| dir.join("sleep")).find(|path| path.exists());
        symlink(sleep.unwrap(), &program).unwrap();
        let odd = Running(Command::new(&program).arg("1000").spawn().unwrap());
        let has_call = odd.has_call();
        let look = odd.until(|look| look.activity == Activity::Sleeps && look.syscall.is_some() == has_call);
        let brief = brief(look.pid.0).unwrap();
        assert_eq!((brief.activity, brief.rss, brief.threads), (look.activity, look.rss, 1));
    }

    #[test]
    fn ticks_are_parts_of_a_second() {
        let second = ticks_per_second();
        assert_eq!(of_ticks(3 * second + second / 2), Duration::from_millis(3500));
    }

    #[test]
    fn calls_have_names_or_numbers() {
        let call = |syscall_number| {
            name_of(&Syscall::Blocked {
                syscall_number,
                argument_registers: [0; 6],
                stack_pointer: 0,
                program_counter: 0,
            })
        };
        assert_eq!(name_of(&Syscall::Running), None);
        assert_eq!((call(-1), call(999_999)), (None, Some("999999".to_owned())));
    }

    #[test]
    fn a_debugger_is_named() {
        // a process that it has started itself, since not all users may trace others
        let gdb = |mode: &[&str]| {
            let mut gdb = Command::new("gdb");
            gdb.args(mode).args(["-nx", "-ex", "set startup-with-shell off", "-ex", "starti"]);
            gdb.args(["--args", "sleep", "1000"]).stdin(Stdio::piped());
            gdb.stdout(Stdio::null()).stderr(Stdio::null());
            gdb
        };
        if !gdb(&["-batch"]).status().is_ok_and(|status| status.success()) {
            return println!("skipped: there is no gdb that may trace");
        }
        let gdb = Running(gdb(&["-q"]).spawn().unwrap());
        let pid = gdb.pid().as_raw_nonzero().get();
        let is_its_child =
            |process: &Process| process.stat().is_ok_and(|stat| stat.ppid == pid && stat.comm == "sleep");
        let tracer = block_until("gdb stops the process", || {
            let child = procfs::process::all_processes().ok()?.flatten().find(is_its_child)?;
            look(child.pid).filter(|look| look.activity == Activity::Traced)?.tracer
        });
        assert_eq!(tracer, Pid(pid));
    }
}
