//! What `pmixrun` costs on the command line, beside the `mpirun` of Open MPI 4 and 5: from launch to exit of `true`, after
//! subtracting the time that as many bare children take, and a gigabyte of lines from eight ranks, each line with the name of its
//! rank. Prints a JSON line for each figure. Launches that hang are ended and counted, as are those of `mpirun` that fail.
//!
//! ```text
//! cargo bench -p pmix-tests --bench command            # 7 turns
//! cargo bench -p pmix-tests --bench command -- 15      # so many
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, missing_docs)]

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use pmix_tests::pmixrun;

const RANKS: [usize; 4] = [2, 8, 32, 128];
const WRITERS: usize = 8;
const BYTES: u64 = 125_000_000;
/// How often the memory of a launcher is looked at.
const LOOK: Duration = Duration::from_millis(20);

fn main() {
    let turns = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(7);
    let dir = tempfile::tempdir().unwrap();
    let launchers: Vec<_> = [Some(("mpirun 4", "mpirun".into())), five()].into_iter().flatten().collect();
    let launchers: Vec<_> = launchers
        .into_iter()
        .filter(|(_, path)| mpirun(path, dir.path()).arg("--version").output().is_ok())
        .collect();
    for ranks in RANKS {
        launches(ranks, turns, &launchers, dir.path());
    }
    output(&launchers, dir.path());
}

fn five() -> Option<(&'static str, PathBuf)> {
    Some(("mpirun 5", Path::new(&std::env::var_os("OMPI5_PREFIX")?).join("bin/mpirun")))
}

fn mpirun(path: &Path, dir: &Path) -> Command {
    let mut command = Command::new(path);
    command.env("TMPDIR", dir);
    for variable in ["OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"] {
        command.env(variable, "1").env(format!("{variable}_CONFIRM"), "1");
    }
    command
}

fn launches(ranks: usize, turns: usize, launchers: &[(&str, PathBuf)], dir: &Path) {
    let count = ranks.to_string();
    let mut commands = vec![("pmixrun", limited(pmixrun(dir, &["-n", &count, "true"])))];
    for (name, path) in launchers {
        let mut command = mpirun(path, dir);
        command.args(["--oversubscribe", "-n", &count, "true"]);
        commands.push((name, limited(command)));
    }
    let mut times = vec![Vec::new(); commands.len() + 1];
    let mut failed = 0;
    for turn in 0..=turns {
        let took = std::iter::once(Some(bare(ranks)));
        let took = took.chain(commands.iter_mut().map(|(_, command)| time(command)));
        for (times, took) in times.iter_mut().zip(took) {
            failed += usize::from(took.is_none());
            // the first ones bring programs and libraries into memory
            times.extend(took.filter(|_| turn > 0));
        }
    }
    let mut medians = times.into_iter().map(median);
    let bare = medians.next().unwrap();
    let figures: Vec<_> = commands.iter().map(|(name, _)| *name).zip(medians.map(|all| all - bare)).collect();
    let best = figures.iter().skip(1).map(|(_, figure)| *figure).reduce(f64::min);
    let ratio = best.map_or(f64::NAN, |best| figures[0].1 / best);
    println!(
        r#"{{"metric":"launch_true","ranks":{ranks},"turns":{turns},"bare_ms":{bare:.1},"above_ms":{figures:?},"failed":{failed},"ratio":{ratio:.2}}}"#
    );
}

/// Starts so many children and waits for them.
fn bare(ranks: usize) -> Duration {
    let started = Instant::now();
    let children: Vec<_> = (0..ranks).map(|_| Command::new("true").spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    started.elapsed()
}

/// The same command, ended if it takes too long: some launchers hang if many processes end at once.
fn limited(command: Command) -> Command {
    let mut limited = Command::new("timeout");
    limited.args(["--kill-after=1", "20"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

/// `None` if it hangs or fails, which is an error of `pmixrun` alone.
fn time(command: &mut Command) -> Option<Duration> {
    let started = Instant::now();
    let output = command.output().unwrap();
    let took = started.elapsed();
    let is_ours = command.get_args().any(|arg| Path::new(arg).ends_with("pmixrun"));
    assert!(!is_ours || output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.status.success().then_some(took)
}

fn output(launchers: &[(&str, PathBuf)], dir: &Path) {
    let script = format!("yes {} | head -c {BYTES}", "x".repeat(63));
    let program = ["sh", "-c", &script];
    let count = WRITERS.to_string();
    let mut ours = pmixrun(dir, &["-n", &count, "--tag-output"]);
    ours.args(program);
    let mut commands = vec![("pmixrun", ours)];
    for (name, path) in launchers {
        let mut theirs = mpirun(path, dir);
        theirs.args(["--oversubscribe", "-n", &count, "--tag-output"]).args(program);
        commands.push((name, theirs));
    }
    for (name, mut command) in commands {
        let started = Instant::now();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (bytes, memory) = drain(&mut child);
        let status = child.wait().unwrap();
        let took = started.elapsed().as_secs_f64();
        assert!(status.success() && bytes > WRITERS as u64 * BYTES, "{command:?}: {status}, {bytes} bytes");
        println!(
            r#"{{"metric":"output_1gb_tagged","launcher":"{name}","ranks":{WRITERS},"seconds":{took:.2},"peak_kib":{memory}}}"#
        );
    }
}

/// Reads all that a child writes; also returns the most memory that it had resident, in KiB.
fn drain(child: &mut Child) -> (u64, u64) {
    let (status, mut stdout) = (format!("/proc/{}/status", child.id()), child.stdout.take().unwrap());
    let (done, end) = mpsc::channel();
    let reading = std::thread::spawn(move || {
        let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0);
        while let Ok(read @ 1..) = stdout.read(&mut buffer) {
            bytes += read as u64;
        }
        done.send(()).unwrap();
        io::Result::Ok(bytes)
    });
    let mut peak = 0;
    while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(peak);
    }
    (reading.join().unwrap().unwrap(), peak)
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times.get(times.len() / 2).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}
