//! Options that other launchers have too, with scripts as ranks.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Child;

use pmix_test_wait::block_until;

use crate::common::{Done, Running, Site};

/// Writes a line to each stream.
const BOTH: &str = "echo out $PMIX_RANK; echo err $PMIX_RANK >&2";

/// Files below a directory, by their paths from there, without the namespace's own name.
fn files(dir: &Path) -> Vec<(String, String)> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { walk(&entry, found) } else { found.push(entry) }
        }
    }
    let mut found = Vec::new();
    walk(dir, &mut found);
    found.sort_unstable();
    let named = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path.strip_prefix(dir).unwrap().display().to_string(), text)
    };
    found.into_iter().map(named).collect()
}

/// Files in order, each with its text, as expected for a job of this name.
fn expected(nspace: &str, files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(path, text)| (path.replace("JOB", nspace), (*text).to_owned())).collect()
}

/// The namespace of a job that has ended, as the last word of a report.
fn nspace(done: &Done) -> String {
    let report: serde_json::Value = serde_json::from_str(done.out().lines().last().unwrap()).unwrap();
    report["nspace"].as_str().unwrap().to_owned()
}

#[test]
fn each_rank_has_files_in_a_directory_as_under_prterun() {
    let dir = tempfile::tempdir().unwrap();
    let list = format!("dir={}", dir.path().join("new/d").display());
    let done = Site::new().run(&["-np", "2", "--json", "--output", &list, "sh", "-c", BOTH]);
    assert_eq!((done.code(), done.err(), done.out().lines().count()), (0, "", 1), "{done:?}");
    let all = [
        ("JOB/rank.0/stderr", "err 0\n"),
        ("JOB/rank.0/stdout", "out 0\n"),
        ("JOB/rank.1/stderr", "err 1\n"),
        ("JOB/rank.1/stdout", "out 1\n"),
    ];
    assert_eq!(files(&dir.path().join("new/d")), expected(&nspace(&done), &all));
}

#[test]
fn each_rank_has_files_of_a_name_which_may_be_shown_too() {
    let dir = tempfile::tempdir().unwrap();
    let name = format!("{}:copy", dir.path().join("log").display());
    let done = Site::new().run(&["-np", "2", "--json", "-output-filename", &name, "sh", "-c", BOTH]);
    assert_eq!(done.code(), 0, "{done:?}");
    let all = [
        ("log.JOB.0.err", "err 0\n"),
        ("log.JOB.0.out", "out 0\n"),
        ("log.JOB.1.err", "err 1\n"),
        ("log.JOB.1.out", "out 1\n"),
    ];
    assert_eq!(files(dir.path()), expected(&nspace(&done), &all));
    assert_eq!(
        done.lines().into_iter().filter(|line| line.starts_with("out")).collect::<Vec<_>>(),
        ["out 0", "out 1"]
    );
}

#[test]
fn lines_in_files_have_tags_and_both_channels_may_share_one() {
    let dir = tempfile::tempdir().unwrap();
    let list = format!("tag,merge,dir={}", dir.path().display());
    let text = "echo one; echo oops >&2; printf last";
    let done = Site::new().run(&["-np", "1", "--json", "--output", &list, "sh", "-c", text]);
    let [(path, text)] = &files(dir.path())[..] else { panic!("{done:?}") };
    assert_eq!(*path, format!("{}/rank.0/stdout", nspace(&done)));
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        (lines, text.ends_with('\n')),
        (vec!["[0]<stderr>: oops", "[0]<stdout>: last", "[0]<stdout>: one"], true)
    );
}

#[test]
fn a_directory_that_cannot_be_made_keeps_the_job_from_starting() {
    let done = Site::new().run(&["--output", "dir=/dev/null/x", "echo", "started"]);
    assert_eq!((done.code(), done.out()), (1, ""), "{done:?}");
    assert_eq!(done.err(), "pmixrun: output of ranks: /dev/null/x: Not a directory\n");
}

#[test]
fn output_that_a_full_disk_does_not_take_is_shown_once_and_the_job_goes_on() {
    for (qualifier, out) in [("", vec![]), (":copy", vec!["first", "first", "out 0", "out 1"])] {
        let dir = tempfile::tempdir().unwrap();
        let (site, go, files_of) = (Site::new(), dir.path().join("go"), dir.path().join("d"));
        let wait = format!("while [ ! -e {} ]; do read line < /dev/null; done", go.display());
        let list = format!("dir={}{qualifier}", files_of.display());
        let run =
            site.start(&["-n", "2", "--output", &list, "sh", "-c", &format!("echo first; {wait}; {BOTH}")]);
        block_until("both ranks have a file", || {
            files_of.exists() && files(&files_of).iter().filter(|(_, text)| text == "first\n").count() == 2
        });
        // the errors of rank 1 will not find any room
        let job = std::fs::read_dir(&files_of).unwrap().next().unwrap().unwrap().path();
        let full = job.join("rank.1/stderr");
        std::os::unix::fs::symlink("/dev/full", &full).unwrap();
        std::fs::write(&go, "").unwrap();
        let done = run.finish();
        assert_eq!((done.code(), done.lines()), (0, out), "{done:?}");
        let words = "No space left on device; printing the rest of its output here";
        let said = format!("pmixrun: cannot write to {}: {words}", full.display());
        let mut errors: Vec<_> = done.err().lines().filter(|line| *line != "err 0").collect();
        errors.sort_unstable();
        assert_eq!(errors, ["err 1", said.as_str()]);
        std::fs::remove_file(full).unwrap();
        let texts: Vec<_> = files(&files_of).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["err 0\n", "first\nout 0\n", "first\nout 1\n"]);
    }
}

#[test]
fn much_output_comes_into_files_whole() {
    let dir = tempfile::tempdir().unwrap();
    let list = format!("file={}", dir.path().join("x").display());
    let text = "dd if=/dev/zero bs=1048576 count=8 2>/dev/null";
    let done = Site::new().run(&["-n", "2", "--output", &list, "sh", "-c", text]);
    assert_eq!((done.code(), done.out()), (0, ""), "{done:?}");
    let sizes: Vec<_> = files(dir.path()).into_iter().map(|(_, text)| text.len()).collect();
    assert_eq!(sizes, [8 << 20; 2]);
}

#[test]
fn lines_may_begin_with_the_time() {
    let done = Site::new().run(&[
        "-n",
        "2",
        "-timestamp-output",
        "-tag-output",
        "-merge-stderr-to-stdout",
        "sh",
        "-c",
        BOTH,
    ]);
    let mut rests: Vec<_> = done.out().lines().map(|line| line.split_once("Z ").unwrap().1).collect();
    rests.sort_unstable();
    assert_eq!(
        rests,
        ["[0]<stderr>: err 0", "[0]<stdout>: out 0", "[1]<stderr>: err 1", "[1]<stdout>: out 1"]
    );
    assert_eq!(done.err(), "");
}

/// What ranks write who repeat their input.
fn fed(args: &[&str], input: &str) -> Done {
    let site = Site::new();
    let mut run = site.start(&[&["-n", "3", "--tag-output"], args, &["cat"]].concat());
    feed(&mut run.child, input);
    run.finish()
}

fn feed(child: &mut Child, input: &str) {
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
}

#[test]
fn standard_input_goes_to_whom_it_was_meant_for() {
    let done = fed(&["--stdin", "2"], "one\ntwo\n");
    assert_eq!((done.code(), done.lines()), (0, vec!["[2]<stdout>: one", "[2]<stdout>: two"]), "{done:?}");
    let done = fed(&["-stdin", "all"], "one\ntwo\n");
    let all = vec![
        "[0]<stdout>: one",
        "[0]<stdout>: two",
        "[1]<stdout>: one",
        "[1]<stdout>: two",
        "[2]<stdout>: one",
        "[2]<stdout>: two",
    ];
    assert_eq!((done.code(), done.lines()), (0, all), "{done:?}");
    let site = Site::new();
    // nobody reads it: to write it might not succeed
    let done = Done(site.pmixrun(&["-n", "3", "--stdin", "none", "cat"]).output().unwrap());
    assert_eq!((done.code(), done.out()), (0, ""), "{done:?}");
}

#[test]
fn much_input_comes_to_all_whole_also_when_some_have_ended() {
    let site = Site::new();
    let text = "if [ $PMIX_RANK = 1 ]; then exit 0; fi; cat | wc -c";
    let mut run = site.start(&["-n", "3", "--stdin", "all", "sh", "-c", text]);
    feed(&mut run.child, &"x".repeat(4 << 20));
    let done = run.finish();
    assert_eq!((done.code(), done.lines()), (0, vec!["4194304", "4194304"]), "{done:?}");
}

#[test]
fn the_process_id_is_reported_and_its_file_removed() {
    let site = Site::new();
    let start = |place: &str| {
        Running::new(&mut site.pmixrun(&["-report-pid", place, "sh", "-c", "read line; echo end"]))
    };
    for place in ["-", "+"] {
        let mut run = start(place);
        let pid = format!("{}\n", run.child.id());
        feed(&mut run.child, "\n");
        let done = run.finish();
        let texts = if place == "-" { (format!("{pid}end\n"), String::new()) } else { ("end\n".into(), pid) };
        assert_eq!((done.out(), done.err()), (texts.0.as_str(), texts.1.as_str()));
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let mut run = start(file.to_str().unwrap());
    let pid = format!("{}\n", run.child.id());
    block_until("the file is there", || std::fs::read_to_string(&file).is_ok_and(|text| text == pid));
    feed(&mut run.child, "\n");
    assert_eq!(run.finish().out(), "end\n");
    assert!(!file.exists());

    // what was there before may be a device: it is written and stays
    std::fs::write(&file, "before").unwrap();
    let done = site.run(&["--report-pid", file.to_str().unwrap(), "true"]);
    assert_eq!(done.code(), 0, "{done:?}");
    assert!(std::fs::read_to_string(&file).unwrap().trim().parse::<u32>().is_ok());

    let missing = dir.path().join("missing/file").display().to_string();
    let done = site.run(&["--report-pid", &missing, "true"]);
    let said = format!("pmixrun: --report-pid: {missing}: No such file or directory\n");
    assert_eq!((done.code(), done.err()), (1, &*said));
}

#[test]
fn applications_of_a_file_are_one_job() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("apps");
    std::fs::write(
        &file,
        "# two kinds\n-n 2 -x KIND=a sh -c 'echo $KIND $ALL $PMIX_RANK'\n\n-np 1 echo \"b  c\"\n",
    )
    .unwrap();
    let done = Site::new().run(&["-x", "ALL=x", "--app", file.to_str().unwrap()]);
    assert_eq!((done.code(), done.lines()), (0, vec!["a x 0", "a x 1", "b  c"]), "{done:?}");
}

#[test]
fn parameters_are_in_the_environment_of_their_application() {
    let text = "echo $OMPI_MCA_btl $PMIX_MCA_ptl";
    let done = Site::new().run(&[
        "-mca",
        "btl",
        "tcp,self",
        "--pmixmca",
        "ptl",
        "client",
        "sh",
        "-c",
        text,
        ":",
        "sh",
        "-c",
        text,
    ]);
    assert_eq!((done.code(), done.lines()), (0, vec!["", "tcp,self client"]), "{done:?}");
    let done = Site::new().run(&["--quiet", "--prtemca", "rmaps", "seq", "true"]);
    let said = "pmixrun: --prtemca rmaps seq has no effect: pmixrun does not use PRRTE\n";
    assert_eq!((done.code(), done.err()), (0, said));
}

#[test]
fn the_map_shows_where_ranks_run_before_they_write() {
    let node = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let args = ["--display", "map", "--vnodes", "2", "-n", "3", "echo", "x", ":", "true"];
    let done = Site::new().run(&args);
    let (title, rest) = done.out().split_once('\n').unwrap();
    assert!(title.starts_with("Map of job ") && title.ends_with(": 4 ranks on 2 nodes"), "{done:?}");
    let expected = format!(
        "  {node}-v0: echo: ranks 0-1\n  {node}-v1: echo: rank 2\n  {node}-v1: true: rank 3\nx\nx\nx\n"
    );
    assert_eq!(rest, expected);
}

#[test]
fn how_much_is_said_can_be_chosen() {
    let site = Site::new();
    let done = site.run(&["--quiet", "-n", "2", "sh", "-c", "exit 3"]);
    assert_eq!((done.code(), done.out(), done.err()), (3, "", ""));
    let done = site.run(&["-q", "no-such-program"]);
    assert!(done.err().starts_with("pmixrun: rank 0 (no-such-program) on "), "{done:?}");
    let mut command = site.pmixrun(&["--verbose", "true"]);
    let done = Done(command.env_remove("RUST_LOG").output().unwrap());
    assert!(done.err().contains("DEBUG pmix_"), "{done:?}");
    let mut command = site.pmixrun(&["--verbose", "true"]);
    let done = Done(command.env("RUST_LOG", "off").output().unwrap());
    assert_eq!(done.err(), "");
}

#[test]
fn what_others_need_is_accepted() {
    let done = Site::new().run(&["-np", "4", "--oversubscribe", "--allow-run-as-root", "echo", "x"]);
    assert_eq!((done.code(), done.out(), done.err()), (0, "x\nx\nx\nx\n", ""));
}

#[test]
fn a_signal_is_named() {
    let done = Site::new().run(&["sh", "-c", "kill -SEGV $$"]);
    assert_eq!(done.code(), 128 + 11);
    assert!(done.err().ends_with(" failed: signal 11 (SIGSEGV)\n"), "{done:?}");
}

#[test]
fn an_unknown_option_starts_nothing_and_says_how_it_may_be_spelled() {
    let done = Site::new().run(&["-tag-ouput", "echo", "started"]);
    assert_eq!((done.code(), done.out()), (2, ""));
    assert!(
        done.err().starts_with("error: unknown option '-tag-ouput'; did you mean '-tag-output'?\n"),
        "{done:?}"
    );
}

#[test]
fn a_job_that_fails_leaves_its_record_in_the_state_of_the_user_where_the_last_eight_stay() {
    let (site, state) = (Site::new(), tempfile::tempdir().unwrap());
    let run = |variable: Option<&str>, args: &[&str]| {
        let mut command = site.pmixrun(args);
        command.env("XDG_STATE_HOME", state.path()).env_remove("PMIXRUN_RECORD");
        if let Some(variable) = variable {
            command.env("PMIXRUN_RECORD", variable);
        }
        Done(command.output().unwrap())
    };
    let records = state.path().join("pmix/records");
    let files = || -> Vec<PathBuf> {
        let mut files: Vec<_> = records.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    };
    let done = run(None, &["true"]);
    assert!(done.code() == 0 && done.err().is_empty() && files().is_empty(), "{done:?}");

    let crash = ["sh", "-c", "kill -SEGV $$"];
    let done = run(None, &crash);
    let [file] = &files()[..] else { panic!("{done:?}") };
    assert_eq!(done.code(), 139, "{done:?}");
    let said: Vec<_> = done.err().lines().collect();
    let ends = format!(" is in {}", file.display());
    assert!(said.len() == 2 && said[0].contains("signal 11") && said[1].ends_with(&ends), "{done:?}");
    assert!(said[1].starts_with("pmixrun: the flight record of "), "{done:?}");
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(": it has failed\nrecord of server "), "{text}");
    // without a word, but not without a record; one that explains nothing is not announced, either
    let done = run(None, &[&["--quiet"][..], &crash].concat());
    assert!(done.code() == 139 && done.err().is_empty() && files().len() == 2, "{done:?}");
    let done = run(None, &["sh", "-c", "exit 7"]);
    assert!(done.err().contains("exit code 7") && !done.err().contains("flight record"), "{done:?}");
    assert_eq!((done.code(), files().len()), (7, 3), "{done:?}");
    let pid = state.path().join("pid");
    let pid = pid.to_str().unwrap();
    let interrupts = ["--report-pid", pid, "sh", "-c", "kill -INT $(cat $0); sleep 100", pid];
    let done = run(None, &interrupts);
    assert!(done.code() == 130 && !done.err().contains("flight record"), "{done:?}");
    files().iter().for_each(|file| std::fs::remove_file(file).unwrap());
    run(None, &crash);
    run(None, &crash);

    for number in 0..7 {
        let old = records.join(format!("record.old.{number}.txt"));
        let old = std::fs::File::create(old).unwrap();
        old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
    let done = run(None, &crash);
    let left = files();
    assert!(left.len() == 8 && done.err().contains("flight record"), "{left:?} {done:?}");
    assert_eq!(left.iter().filter(|file| file.to_str().unwrap().contains("record.old.")).count(), 5);

    // turned off by the option or the variable, and elsewhere
    for (variable, args) in
        [(None, [&["--record", "none"][..], &crash].concat()), (Some("none"), crash.to_vec())]
    {
        let done = run(variable, &args);
        assert!(done.code() == 139 && !done.err().contains("flight record"), "{done:?}");
    }
    let other = state.path().join("other");
    let done = run(other.to_str(), &["false"]);
    assert!(done.err().contains(&format!(" is in {}/record.run.", other.display())), "{done:?}");
    assert_eq!((files(), other.read_dir().unwrap().count()), (left, 1));
    // the option counts before the variable
    run(Some("none"), &["--record", other.to_str().unwrap(), "false"]);
    assert_eq!(other.read_dir().unwrap().count(), 2);
}
