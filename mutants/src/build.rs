//! A copy of the workspace with all changes in it, and its test programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use serde_json::Value;

use crate::run::Executable;
use crate::sites::{Site, sites_of, with_sites};

/// How often places are given up at which the compiler does not accept the change.
const ROUNDS: usize = 30;

/// Switches are asked often, and nobody looks at the programs with a debugger.
const PROFILE: [(&str, &str); 3] = [
    ("CARGO_PROFILE_DEV_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_DEV_DEBUG", "0"),
    ("CARGO_PROFILE_TEST_DEBUG", "0"),
];

/// A change, wherever it is.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    file: String,
    site: Site,
}

impl Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Site { line, column, kind, .. } = &self.site;
        write!(f, "{}:{line}:{column} {}", self.file, kind.says())
    }
}

/// The mutants that compile, by number, and the programs that test them.
#[derive(Debug)]
pub(crate) struct Build {
    commit: String,
    mutants: BTreeMap<u32, Mutant>,
    executables: Vec<Executable>,
}

impl Build {
    /// Copies the files that git knows, changes the code of these packages, and builds their tests.
    ///
    /// # Errors
    /// Those of files and of git; and if the copy cannot be built.
    pub(crate) fn new(root: &Path, packages: &[String], targets: &[String]) -> io::Result<Self> {
        let scratch = root.join("target/mutants");
        let copy = scratch.join("source");
        let files = copy_files(root, &copy, packages)?;
        let mut mutants = BTreeMap::new();
        let mut number = 0;
        let mut texts = BTreeMap::new();
        for file in files.iter().filter(|file| is_changed(file, packages)) {
            let text = fs::read_to_string(root.join(file))?;
            for site in sites_of(&text) {
                mutants.insert(number, Mutant { file: file.clone(), site });
                number += 1;
            }
            texts.insert(file.clone(), text);
        }
        for _ in 0..ROUNDS {
            for (file, text) in &texts {
                let of_file = mutants.iter().filter(|(_, mutant)| mutant.file == *file);
                let mut changed = with_sites(text, of_file.map(|(number, mutant)| (*number, &mutant.site)));
                if file.ends_with("src/lib.rs") {
                    changed.push_str(include_str!("switch.rs.txt"));
                }
                write_if_new(&copy.join(file), changed.as_bytes())?;
            }
            let messages = compile(&copy, &scratch, packages, targets)?;
            let errors = errors_in(&messages);
            if errors.is_empty() {
                let executables = executables_in(&messages, targets);
                return Ok(Self { commit: commit(root)?, mutants, executables });
            }
            let before = mutants.len();
            give_up(&mut mutants, &errors);
            if mutants.len() == before {
                return Err(io::Error::other(format!("the copy cannot be built: {:?}", errors.first())));
            }
        }
        Err(io::Error::other("the compiler finds more and more to refuse"))
    }

    /// The commit, and a mark if files differ from it.
    pub(crate) fn commit(&self) -> &str {
        &self.commit
    }

    pub(crate) const fn mutants(&self) -> &BTreeMap<u32, Mutant> {
        &self.mutants
    }

    pub(crate) fn executables(&self) -> &[Executable] {
        &self.executables
    }
}

/// Whether a file has code of one of the packages that is to be changed.
fn is_changed(file: &str, packages: &[String]) -> bool {
    let is_generated = ["/keys/", "/generated/", "status/table.rs", "src/rules.rs", "src/macros.rs"];
    let is_test = |name: &str| name.contains("/tests/") || name.ends_with("tests.rs");
    let is_in =
        |package: &String| file.strip_prefix(package.as_str()).is_some_and(|rest| rest.starts_with("/src/"));
    file.ends_with(".rs")
        && packages.iter().any(is_in)
        && !is_test(file)
        && !file.contains("/src/bin/")
        && !file.ends_with("src/main.rs")
        && !is_generated.iter().any(|part| file.contains(part))
}

/// Brings the copy up to date but for files that are changed in it, and removes what git does not know any more.
fn copy_files(root: &Path, copy: &Path, packages: &[String]) -> io::Result<Vec<String>> {
    let listed = git(root, &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let files: BTreeSet<String> =
        listed.lines().filter(|file| root.join(file).is_file()).map(str::to_owned).collect();
    let list = copy.join(".files");
    for gone in fs::read_to_string(&list).unwrap_or_default().lines().filter(|file| !files.contains(*file)) {
        fs::remove_file(copy.join(gone))?;
    }
    for file in files.iter().filter(|file| !is_changed(file, packages)) {
        write_if_new(&copy.join(file), &fs::read(root.join(file))?)?;
    }
    let files: Vec<String> = files.into_iter().collect();
    fs::write(list, files.join("\n"))?;
    Ok(files)
}

/// Writes a file unless it is so already, which would have it built again.
fn write_if_new(path: &Path, text: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|held| held == text) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}

fn git(root: &Path, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new("git").args(arguments).current_dir(root).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!(
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn commit(root: &Path) -> io::Result<String> {
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let is_clean = git(root, &["status", "--porcelain"])?.is_empty();
    Ok(format!("{}{}", commit.trim(), if is_clean { "" } else { "+" }))
}

/// What the compiler says, as JSON objects.
fn compile(copy: &Path, scratch: &Path, packages: &[String], targets: &[String]) -> io::Result<Vec<Value>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut messages = Vec::new();
    let mut build = |more: &[&str]| -> io::Result<()> {
        let mut command = Command::new(&cargo);
        command
            .args(["test", "--no-run", "--locked", "--message-format=json"])
            .args(more)
            .current_dir(copy)
            .env("CARGO_TARGET_DIR", scratch.join("build"))
            .envs(PROFILE)
            .env("RUSTFLAGS", "--cap-lints allow");
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let found: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if !output.status.success() && errors_in(&found).is_empty() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        messages.extend(found);
        Ok(())
    };
    let packages: Vec<&str> = packages.iter().flat_map(|package| ["-p", package]).collect();
    build(&[&packages[..], &["--lib"]].concat())?;
    if !targets.is_empty() {
        let targets: Vec<&str> = targets.iter().flat_map(|target| ["--test", target.as_str()]).collect();
        build(&[&["-p", "pmix-tests", "-p", "pmix-peers"], &targets[..]].concat())?;
    }
    Ok(messages)
}

/// Files and lines of errors.
fn errors_in(messages: &[Value]) -> Vec<(String, usize)> {
    let errors =
        messages.iter().map(|message| &message["message"]).filter(|message| message["level"] == "error");
    errors.flat_map(places).collect()
}

/// Where the compiler points to: each place of a message, and where those in macros come from.
fn places(message: &Value) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let spans = message["spans"].as_array().into_iter().flatten();
    for span in spans {
        let mut at = Some(span);
        while let Some(span) = at {
            let file = span["file_name"].as_str().unwrap_or_default().to_owned();
            let line = span["line_start"].as_u64().unwrap_or_default() as usize;
            found.push((file, line));
            at = Some(&span["expansion"]["span"]).filter(|outer| outer.is_object());
        }
    }
    found
}

/// Leaves out the changes on the lines of errors, or those around them if there is none. If the compiler points to lines without
/// a change, as it does where a value is moved only if a statement is run, those between such lines go, or else all of the file.
fn give_up(mutants: &mut BTreeMap<u32, Mutant>, errors: &[(String, usize)]) {
    let before = mutants.len();
    give_up_at(mutants, errors);
    if mutants.len() < before {
        return;
    }
    for (file, lines) in spans_of(errors) {
        let before = mutants.len();
        mutants.retain(|_, mutant| !(mutant.file == file && lines.contains(&mutant.site.line)));
        if mutants.len() == before {
            mutants.retain(|_, mutant| mutant.file != file);
        }
    }
}

/// The first to the last line of each file that errors point to.
fn spans_of(errors: &[(String, usize)]) -> BTreeMap<&str, RangeInclusive<usize>> {
    let mut spans: BTreeMap<&str, RangeInclusive<usize>> = BTreeMap::new();
    for (file, line) in errors {
        let span = spans.entry(file).or_insert(*line..=*line);
        *span = (*line).min(*span.start())..=(*line).max(*span.end());
    }
    spans
}

fn give_up_at(mutants: &mut BTreeMap<u32, Mutant>, errors: &[(String, usize)]) {
    for (file, line) in errors {
        let begins = |mutant: &Mutant| mutant.file == *file && mutant.site.line == *line;
        let is_around = |mutant: &Mutant| {
            mutant.file == *file && (mutant.site.line..=mutant.site.last_line).contains(line)
        };
        let before = mutants.len();
        mutants.retain(|_, mutant| !begins(mutant));
        if mutants.len() == before {
            mutants.retain(|_, mutant| !is_around(mutant));
        }
    }
}

/// The programs of unit tests, and those of the targets that were asked for.
fn executables_in(messages: &[Value], targets: &[String]) -> Vec<Executable> {
    let mut found = Vec::new();
    for message in messages.iter().filter(|message| message["reason"] == "compiler-artifact") {
        let target = &message["target"];
        let is_asked =
            target["kind"][0] != "test" || targets.iter().any(|name| target["name"] == *name.as_str());
        let (Some(path), Some(manifest)) =
            (message["executable"].as_str(), message["manifest_path"].as_str())
        else {
            continue;
        };
        if message["profile"]["test"] == true && is_asked {
            let package = Path::new(manifest).parent().map_or_else(PathBuf::new, Path::to_owned);
            found.push(Executable { path: path.into(), package });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutants(text: &str) -> BTreeMap<u32, Mutant> {
        let sites = sites_of(text).into_iter();
        sites
            .enumerate()
            .map(|(number, site)| (number as u32, Mutant { file: "a.rs".into(), site }))
            .collect()
    }

    #[test]
    fn what_the_compiler_refuses_is_given_up_where_it_points() {
        let text = "fn f() -> Odd {\n    a(\n        b + c,\n    );\n    d(1);\n}\n";
        let mut on_line = mutants(text);
        give_up(&mut on_line, &[("a.rs".into(), 5), ("b.rs".into(), 2)]);
        assert_eq!(on_line.values().map(|mutant| mutant.site.line).collect::<Vec<_>>(), [2]);
        give_up(&mut on_line, &[("a.rs".into(), 3)]);
        assert!(on_line.is_empty());
    }

    #[test]
    fn what_the_compiler_refuses_elsewhere_is_given_up_between_the_places_it_points_to() {
        let text = "fn f() -> Odd {\n    let a = b(&c);\n    d = e(a);\n    g(c)\n}\nfn h() -> Odd {\n    i(2);\n}\n";
        let lines =
            |held: &BTreeMap<u32, Mutant>| held.values().map(|held| held.site.line).collect::<Vec<_>>();
        let mut between = mutants(text);
        assert_eq!(lines(&between), [3, 7, 7]);
        give_up(&mut between, &[("a.rs".into(), 4), ("a.rs".into(), 2)]);
        assert_eq!(lines(&between), [7, 7]);
        give_up(&mut between, &[("a.rs".into(), 2), ("b.rs".into(), 2)]);
        assert!(between.is_empty(), "none is between: all of the file");
    }

    #[test]
    fn generated_code_and_tests_are_not_changed() {
        let packages = ["pmix-types".to_owned()];
        assert!(is_changed("pmix-types/src/key.rs", &packages));
        for file in [
            "pmix-types/src/keys/job.rs",
            "pmix-types/src/job/tests/lookup.rs",
            "pmix-types/tests/generated.rs",
        ] {
            assert!(!is_changed(file, &packages), "{file}");
        }
        assert!(!is_changed("pmix-types-more/src/key.rs", &packages));
    }
}
