//! Runs of test programs under a switch.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes of memory that a mutant may take, in KiB as `ulimit` counts.
const MEMORY: u32 = 6 << 20;
/// At least this long are tests waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// What became of the tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// One that failed.
    Failed(String),
    /// They were ended.
    Overdue,
}

/// A program of tests.
#[derive(Clone, Debug)]
pub(crate) struct Executable {
    pub(crate) path: PathBuf,
    /// The directory of its package, from which tests are run.
    pub(crate) package: PathBuf,
}

/// The programs of tests.
#[derive(Debug)]
pub(crate) struct Runner {
    programs: Vec<Program>,
    /// For what the programs say.
    scratch: PathBuf,
}

#[derive(Debug)]
struct Program {
    executable: Executable,
    tests: Vec<String>,
    /// Those that fail without a mutant, because the switches are there.
    broken: Vec<String>,
    /// How long all of its tests take without a mutant.
    usual: Duration,
}

impl Runner {
    /// Runs all tests once, without a mutant: those that fail without one say nothing about one.
    pub(crate) fn new(executables: &[Executable], scratch: &Path) -> io::Result<Self> {
        let mut programs = Vec::new();
        for executable in executables {
            let mut command = Command::new(&executable.path);
            let listed =
                command.args(["--list", "--format=terse"]).current_dir(&executable.package).output()?;
            let tests: Vec<String> = String::from_utf8_lossy(&listed.stdout)
                .lines()
                .filter_map(|line| line.strip_suffix(": test").map(str::to_owned))
                .collect();
            let (broken, usual) = (Vec::new(), Duration::from_secs(300));
            programs.push(Program { executable: executable.clone(), tests, broken, usual });
        }
        let mut runner = Self { programs, scratch: scratch.to_owned() };
        for at in 0..runner.programs.len() {
            let broken = runner.failures(&runner.programs[at])?;
            let program = &mut runner.programs[at];
            for test in &broken {
                println!("left out, as it fails without a change: {test}");
            }
            program.tests.retain(|test| !broken.contains(test));
            program.broken = broken;
            let began = Instant::now();
            let outcome = runner.run(&runner.programs[at], None, &[])?;
            if outcome != Outcome::Passed {
                let path = &runner.programs[at].executable.path;
                return Err(io::Error::other(format!("{} without a change: {outcome:?}", path.display())));
            }
            runner.programs[at].usual = began.elapsed();
        }
        Ok(runner)
    }

    /// The tests that fail without a mutant.
    fn failures(&self, program: &Program) -> io::Result<Vec<String>> {
        match self.run(program, None, &[])? {
            Outcome::Passed => Ok(Vec::new()),
            Outcome::Failed(_) => {
                let said = fs::read(self.scratch.join("said"))?;
                Ok(failed_in(&String::from_utf8_lossy(&said)).map(str::to_owned).collect())
            }
            Outcome::Overdue => Err(io::Error::other("the tests take too long without a change")),
        }
    }

    pub(crate) fn has_tests_of(&self, rule: &str) -> bool {
        self.programs.iter().any(|program| program.tests.iter().any(|test| is_of(test, rule)))
    }

    /// The numbers of the mutants that the tests of a rule come by.
    pub(crate) fn reached_by(&self, rule: &str) -> io::Result<Vec<u32>> {
        let trace = self.scratch.join("trace");
        let _ = fs::remove_file(&trace);
        for program in &self.programs {
            let tests = program.tests_of(rule);
            if !tests.is_empty() {
                self.run_with(program, &[("PMIX_MUTANTS_TRACE", trace.as_os_str().to_owned())], &tests)?;
            }
        }
        let text = fs::read_to_string(&trace).unwrap_or_default();
        let reached: BTreeSet<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        Ok(reached.into_iter().collect())
    }

    /// Runs the tests of a rule, or all, with a mutant, until one fails.
    pub(crate) fn with(&self, mutant: u32, rule: Option<&str>) -> io::Result<Outcome> {
        for program in &self.programs {
            let tests = rule.map_or_else(Vec::new, |rule| program.tests_of(rule));
            if rule.is_some() && tests.is_empty() {
                continue;
            }
            let outcome = self.run(program, Some(mutant), &tests)?;
            if outcome != Outcome::Passed {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Passed)
    }

    fn run(&self, program: &Program, mutant: Option<u32>, tests: &[&str]) -> io::Result<Outcome> {
        let switch = mutant.map(|number| ("PMIX_MUTANT", number.to_string().into()));
        self.run_with(program, switch.as_slice(), tests)
    }

    /// Runs these tests, or all of a program.
    fn run_with(
        &self,
        program: &Program,
        environment: &[(&str, std::ffi::OsString)],
        tests: &[&str],
    ) -> io::Result<Outcome> {
        let said = self.scratch.join("said");
        let output = fs::File::create(&said)?;
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"")])
            .arg(&program.executable.path)
            .args(tests)
            .current_dir(&program.executable.package)
            .env("RUST_BACKTRACE", "0")
            .env("CARGO_MANIFEST_DIR", &program.executable.package)
            .envs(environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        command.arg("--exact");
        for test in &program.broken {
            command.args(["--skip", test]);
        }
        let mut child = command.spawn()?;
        // some of the tests take no longer than all
        let limit = if tests.is_empty() { program.usual * 4 } else { program.usual };
        let Some(is_success) = wait(&mut child, PATIENCE.max(limit))? else {
            return Ok(Outcome::Overdue);
        };
        if is_success {
            return Ok(Outcome::Passed);
        }
        let said = String::from_utf8_lossy(&fs::read(&said)?).into_owned();
        Ok(Outcome::Failed(failed_in(&said).next().unwrap_or("the program of the tests").to_owned()))
    }
}

impl Program {
    fn tests_of(&self, rule: &str) -> Vec<&str> {
        self.tests.iter().map(String::as_str).filter(|test| is_of(test, rule)).collect()
    }
}

/// Names of the tests that failed, in what a program of tests says.
fn failed_in(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
}

/// Whether the name of a test, `module::get_22_fen_01_..`, carries an id, `fen_01_`.
fn is_of(test: &str, rule: &str) -> bool {
    let name = test.rsplit("::").next().unwrap_or(test);
    name.starts_with(rule) || name.contains(&format!("_{rule}"))
}

/// Whether it succeeded; `None` if it took too long, and was ended.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<bool>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if began.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        #[allow(
            clippy::disallowed_methods,
            reason = "there is no wait with a limit in the standard library"
        )]
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_of_the_rules_in_its_name() {
        assert!(is_of("a::get_22_fen_01_x", "get_22_") && is_of("a::get_22_fen_01_x", "fen_01_"));
        assert!(!is_of("fen_01_::x", "fen_01_") && !is_of("get_41a_x", "get_41_"));
    }

    #[test]
    fn what_takes_too_long_is_ended() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        assert_eq!(wait(&mut child, Duration::ZERO).unwrap(), None);
        let mut child = Command::new("false").spawn().unwrap();
        assert_eq!(wait(&mut child, Duration::MAX).unwrap(), Some(false));
    }
}
