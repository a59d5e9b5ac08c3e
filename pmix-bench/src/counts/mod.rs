//! `counts`: the instructions of engine, codecs and conversions, compared with another commit.

mod growth;
mod profile;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, thread};

use clap::Args;
use tempfile::TempDir;

use crate::Result;
use growth::Growth;
use profile::Profile;

/// The package with the work, and the program.
const PACKAGE: &str = "pmix-workloads";
const MANIFEST: &str = "pmix-bench/workloads/Cargo.toml";
/// The function of it whose instructions are counted, with all that it calls.
const COUNTED: &str = "*::counted";

/// Counts the instructions of engine, codecs and conversions, and warns of what has grown by more than 5 % since another
/// commit, which is built beside it.
#[derive(Debug, Args)]
pub(crate) struct Counts {
    /// That commit
    #[arg(long, default_value = "HEAD^")]
    against: String,
    /// Only work whose names contain one of these words
    words: Vec<String>,
}

type Profiles = BTreeMap<String, Profile>;

impl Counts {
    pub(crate) fn run(self) -> Result<()> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let directory = TempDir::new()?;
        let [old, new, sources] = ["before", "after", "sources"].map(|name| directory.path().join(name));
        let other = self.other(root).and_then(|commit| {
            let built = build(root, &commit, &sources, &target, &old);
            built.map(|()| commit.clone()).map_err(|error| format!("{commit}: {error}"))
        });
        build(root, &tree(root, &directory.path().join("index"))?, &sources, &target, &new)?;
        // a processor for each
        let (before, after) = thread::scope(|scope| {
            let before = other.is_ok().then(|| scope.spawn(|| self.count_all(&old)));
            let after = self.count_all(&new);
            (before.map(thread::ScopedJoinHandle::join), after)
        });
        let after = after?;
        if after.is_empty() {
            return Err(format!("there is no work with {:?} in its name", self.words).into());
        }
        let before = match before {
            Some(Ok(before)) => before?,
            Some(Err(_)) => return Err("counting the other commit has panicked".into()),
            None => BTreeMap::new(),
        };
        print!("{}", report(&before, &after));
        match other {
            Ok(commit) => println!("\ncompared with {commit}"),
            Err(why) => println!("\ncompared with nothing: {why}"),
        }
        Ok(())
    }

    /// The other commit. That it is not there, or older than the work, is no failure, but said.
    fn other(&self, root: &Path) -> std::result::Result<String, String> {
        let against = &self.against;
        let found = git(root, &["rev-parse", "--verify", "--quiet", &format!("{against}^{{commit}}")]);
        let commit = found.map_err(|_| {
            format!(
                "there is no commit {against} here; a clone of depth 1 has no parents (git fetch --deepen 1)"
            )
        })?;
        match git(root, &["rev-parse", "--verify", "--quiet", &format!("{commit}:{MANIFEST}")]) {
            Ok(_) => Ok(commit),
            Err(_) => Err(format!("{commit} has no {PACKAGE} yet")),
        }
    }

    /// Counts all work of a program that is wanted.
    fn count_all(&self, program: &Path) -> std::result::Result<Profiles, String> {
        let output = Command::new(program).output().map_err(|error| format!("{PACKAGE}: {error}"))?;
        let names = String::from_utf8_lossy(&output.stdout).into_owned();
        let wants =
            |name: &&str| self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()));
        names.lines().filter(wants).map(|name| Ok((name.to_owned(), count(program, name)?))).collect()
    }
}

/// What `git` prints.
fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    said(git_in(root).args(arguments))
}

/// `git` in a repository, whatever one the environment names, as it does in a hook.
fn git_in(root: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(root);
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(variable);
    }
    if cfg!(test) {
        // tests do not depend on the settings of the user who runs them
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    }
    git
}

/// What a command prints.
fn said(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} ended with {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The files as they are, committed or not, as git names them; with an index of its own, so that nothing is staged.
fn tree(root: &Path, index: &Path) -> Result<String> {
    let git = |arguments: &[&str]| said(git_in(root).env("GIT_INDEX_FILE", index).args(arguments));
    git(&["add", "--all", "."])?;
    git(&["write-tree"])
}

/// Builds the program of a commit or tree.
///
/// All are built into the same place, so that crates of others are built once, and what has not changed is the same in
/// both. `cargo` takes our crates of two places for the same and knows by the times of files what it has built:
/// they have to be new each time, and must not be in the target directory, below which it does not look where they are now.
fn build(root: &Path, tree: &str, sources: &Path, target: &Path, program: &Path) -> Result<()> {
    unpack(root, tree, sources)?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(sources).args(["build", "--locked", "--profile", "counts", "-p", PACKAGE]);
    // what is built in parts is optimised in parts
    cargo.arg("--target-dir").arg(target).env("CARGO_INCREMENTAL", "0");
    let built = cargo.status()?;
    if !built.success() {
        return Err(format!("{PACKAGE} cannot be built: {built}").into());
    }
    fs::copy(target.join("counts").join(PACKAGE), program)?;
    Ok(())
}

/// Writes the files of a commit or tree into a directory that has nothing else.
fn unpack(root: &Path, tree: &str, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    let mut archive = git_in(root);
    archive.args(["archive", "--format=tar", tree]).stdout(Stdio::piped());
    let mut archive = archive.spawn()?;
    let mut tar = Command::new("tar");
    tar.args(["-x", "-m", "-C"]).arg(to);
    if let Some(files) = archive.stdout.take() {
        tar.stdin(files);
    }
    let unpacked = tar.status()?;
    let archived = archive.wait()?;
    if !archived.success() || !unpacked.success() {
        return Err(format!("git archive ended with {archived}, tar with {unpacked}").into());
    }
    Ok(())
}

/// Counts one piece of work of a program.
fn count(program: &Path, work: &str) -> std::result::Result<Profile, String> {
    let failed =
        |what: &dyn std::fmt::Display| format!("the instructions of {work} cannot be counted: {what}");
    let directory = TempDir::new().map_err(|error| failed(&error))?;
    let file = directory.path().join("callgrind.out");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--compress-strings=no", "--compress-pos=no", "--dump-line=no"]);
    valgrind
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", file.display()));
    // what else is in the environment is on the stack too, and moves all that lies below
    valgrind.arg(program).arg(work).env_clear().env("PATH", env::var_os("PATH").unwrap_or_default());
    let output = valgrind
        .output()
        .map_err(|error| failed(&format!("valgrind: {error}; on Debian: apt-get install valgrind")))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(failed(&format!("valgrind ended with {}: {}", output.status, words.trim())));
    }
    let profile = Profile::parse(&fs::read_to_string(&file).map_err(|error| failed(&error))?);
    if profile.functions.is_empty() {
        return Err(failed(&format!("there is no function {COUNTED} in {}", program.display())));
    }
    Ok(profile)
}

/// The table, with warnings below it.
fn report(before: &Profiles, after: &Profiles) -> String {
    let growths: Vec<_> = after
        .iter()
        .filter_map(|(work, after)| Some((work.as_str(), Growth::of(work, before.get(work)?, after))))
        .collect();
    let width = after.keys().map(String::len).max().unwrap_or(0);
    let mut text = format!("| {:width$} | {:>12} | {:>12} | {:>7} |\n", "work", "before", "now", "%");
    text += &format!("|{}|{}|{}|{}|\n", "-".repeat(width + 2), "-".repeat(14), "-".repeat(14), "-".repeat(9));
    for (work, profile) in after {
        let growth = growths.iter().find(|(name, _)| name == work);
        let (before, percent) = growth.map_or_else(Default::default, |(_, growth)| {
            (growth.before.to_string(), format!("{:+.2}", growth.percent()))
        });
        text += &format!("| {work:width$} | {before:>12} | {:>12} | {percent:>7} |\n", profile.total());
    }
    for (_, growth) in growths.iter().filter(|(_, growth)| growth.is_worth_a_look()) {
        text += &format!("\n{growth}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of one piece of work, in which one function does what it did, or twice as much.
    const PROGRAM: &str = r#"
        mod codec {
            #[inline(never)]
            pub fn encode(times: u64) -> u64 {
                (0..times).fold(0, |sum, number| std::hint::black_box(sum ^ number))
            }
            #[inline(never)]
            pub fn decode(times: u64) -> u64 {
                (0..times).fold(1, |product, number| std::hint::black_box(product * (number | 1)))
            }
        }
        #[inline(never)]
        fn counted(work: &mut dyn FnMut()) {
            work();
        }
        fn main() {
            let times = if cfg!(slow) { 2000 } else { 1000 };
            println!("{}", codec::decode(5000)); // not counted
            counted(&mut || { std::hint::black_box((codec::encode(times), codec::decode(1000))); });
        }
    "#;

    /// The program, built.
    fn program(directory: &Path, name: &str, flags: &[&str]) -> PathBuf {
        let source = directory.join("work.rs");
        fs::write(&source, PROGRAM).unwrap();
        let program = directory.join(name);
        let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.args(["--edition=2024", "-O", "--check-cfg=cfg(slow)"]).args(flags).arg("-o").arg(&program);
        assert!(rustc.arg(source).status().unwrap().success());
        program
    }

    /// Whether instructions can be counted here; where all that tests need must be there, they must.
    fn has_valgrind() -> bool {
        let has = Command::new("valgrind").arg("--version").output().is_ok();
        assert!(
            has || env::var_os("PMIX_REQUIRE_PEERS").is_none(),
            "PMIX_REQUIRE_PEERS is set, and there is no valgrind"
        );
        if !has {
            eprintln!("skipped: there is no valgrind");
        }
        has
    }

    #[test]
    fn a_function_that_was_made_slower_is_named() {
        if !has_valgrind() {
            return;
        }
        let directory = TempDir::new().unwrap();
        let before = count(&program(directory.path(), "before", &[]), "work").unwrap();
        let again = count(&directory.path().join("before"), "work").unwrap();
        assert_eq!(before, again, "the same work takes the same instructions");
        let after = count(&program(directory.path(), "after", &["--cfg", "slow"]), "work").unwrap();
        let named = |profile: Profile| BTreeMap::from([("work".to_owned(), profile)]);
        let (before, after) = (named(before), named(after));
        let text = report(&before, &after);
        let warning: Vec<_> = text.lines().skip_while(|line| !line.starts_with("warning: work: +")).collect();
        assert_eq!(warning.len(), 2, "{text}");
        assert!(warning[1].contains("::encode: +") && warning[1].contains(" %, "), "{text}");
        assert!(!report(&before, &before).contains("warning"), "{text}");
    }

    #[test]
    fn work_without_the_function_that_is_counted_is_an_error() {
        if has_valgrind() {
            let error = count(Path::new("/bin/true"), "work").unwrap_err();
            assert!(error.starts_with("the instructions of work cannot be counted: "), "{error}");
        }
    }

    #[test]
    fn new_work_is_in_the_table_without_growth() {
        let profile = Profile::parse("fn=f\n0 5\n");
        let of = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), profile.clone())).collect();
        let text = report(&of(&["known", "gone"]), &of(&["known", "new"]));
        let rows: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(rows.len(), 2, "{text}");
        assert!(rows[0].starts_with("| known |            5 |            5 |   +0.00 |"), "{text}");
        assert!(rows[1].starts_with("| new   |              |            5 |         |"), "{text}");
    }

    #[test]
    fn where_there_is_no_such_commit_it_is_said() {
        let directory = TempDir::new().unwrap();
        let git = |args: &[&str]| {
            let mut git = git_in(directory.path());
            git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args);
            assert!(git.stdout(Stdio::null()).status().unwrap().success(), "{args:?}");
        };
        git(&["init", "-q"]);
        fs::write(directory.path().join("file"), "text").unwrap();
        git(&["add", "file"]);
        git(&["commit", "-q", "-m", "first"]);
        let other = |against: &str| {
            let counts = Counts { against: against.to_owned(), words: Vec::new() };
            counts.other(directory.path())
        };
        assert!(other("HEAD^").unwrap_err().contains("a clone of depth 1 has no parents"));
        // that one is older than the work
        assert!(other("HEAD").unwrap_err().ends_with("has no pmix-workloads yet"));
        fs::create_dir_all(directory.path().join(MANIFEST).parent().unwrap()).unwrap();
        fs::write(directory.path().join(MANIFEST), "").unwrap();
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "second"]);
        assert_eq!(other("HEAD").unwrap().len(), 40);
        assert!(other("HEAD^").unwrap_err().ends_with("has no pmix-workloads yet"));
    }

    #[test]
    fn files_are_unpacked_as_they_are_and_nothing_is_staged() {
        let directory = TempDir::new().unwrap();
        let root = directory.path().join("root");
        fs::create_dir(&root).unwrap();
        git(&root, &["init", "-q"]).unwrap();
        for (name, text) in [("gone", ""), ("changed", "old"), (".gitignore", "ignored")] {
            fs::write(root.join(name), text).unwrap();
        }
        git(&root, &["add", "."]).unwrap();
        fs::remove_file(root.join("gone")).unwrap();
        for name in ["changed", "new", "ignored"] {
            fs::write(root.join(name), "new").unwrap();
        }
        let before = git(&root, &["status", "--porcelain"]).unwrap();
        let tree = tree(&root, &directory.path().join("index")).unwrap();
        assert_eq!(git(&root, &["status", "--porcelain"]).unwrap(), before);
        let to = directory.path().join("to");
        fs::create_dir(&to).unwrap();
        fs::write(to.join("left"), "").unwrap();
        unpack(&root, &tree, &to).unwrap();
        let mut found: Vec<_> = fs::read_dir(&to)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        assert_eq!(found, [".gitignore", "changed", "new"]);
        assert_eq!(fs::read_to_string(to.join("changed")).unwrap(), "new");
    }
}
