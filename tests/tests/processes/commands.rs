//! Commands of `pmix` against a `pmixrun` and its job.

use std::fs;
use std::path::Path;
use std::process::Command;

use pmix_client::types::{DataRange, Event, Info, Status, keys};
use pmix_test_wait::{until_async, within};
use pmix_tests::{Running, long_enough, pmix, pmixrun, proc, program, rank_program, run};
use pmix_tool::Tool;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::line_now;

/// A `pmixrun` whose job goes on.
struct Rig {
    dir: TempDir,
    run: Running,
}

impl Rig {
    async fn start() -> Self {
        Self::with(&["sh", "-c", "echo started; exec sleep 1000"], "started").await
    }

    /// With a job of these words, which has started when it says this.
    async fn with(words: &[&str], says: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut run = Running::start(pmixrun(dir.path(), words));
        run.line_with(says).await;
        Self { dir, run }
    }

    /// The namespace of the job.
    fn job(&self) -> String {
        let report = self.json(&["ps", "--json"]);
        report["servers"][0]["jobs"][0]["nspace"].as_str().unwrap().to_owned()
    }

    fn pmix(&self, args: &[&str]) -> Command {
        pmix(self.dir.path(), args)
    }

    /// Its exit code, and what it has said on standard output and error.
    fn says(&self, args: &[&str]) -> (i32, String, String) {
        let (code, out, err) = run(self.pmix(args));
        (code.unwrap(), out, err)
    }

    /// The same of one with a limit that is over before something happens, but not before the server answers.
    async fn says_in_vain(&self, args: &[&str]) -> (i32, String, String) {
        long_enough(async |seconds| {
            let (code, out, err) = self.says(&[args, &["--timeout", &seconds.to_string()]].concat());
            let is_late =
                ["has not answered within", "did not answer within"].iter().any(|late| err.contains(late));
            if is_late { Err(err) } else { Ok((code, out, err)) }
        })
        .await
    }

    /// One that has nothing to say.
    fn does(&self, args: &[&str]) {
        assert_eq!(self.says(args), (0, String::new(), String::new()), "{args:?}");
    }

    fn json(&self, args: &[&str]) -> Value {
        let (code, out, err) = self.says(args);
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        serde_json::from_str(&out).unwrap()
    }

    async fn end(self) {
        self.run.signal(Signal::TERM);
        self.run.end().await;
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[tokio::test]
async fn pub_03_pub_15_a_command_publishes_for_those_that_come_later_and_takes_it_back() {
    let rig = Rig::start().await;
    rig.does(&["publish", "service=10.0.0.1:7000", "workers:int=4"]);
    let found = "service: 10.0.0.1:7000\nworkers: 4\n";
    assert_eq!(rig.says(&["lookup", "service", "workers"]), (0, text(found), String::new()));
    let report = rig.json(&["lookup", "workers", "--json"]);
    assert_eq!(report["results"]["workers"]["value"], json!(4));
    let publisher = format!("pmix.publisher.{}", rustix::process::geteuid().as_raw());
    assert_eq!(report["results"]["workers"]["publisher"], json!({"nspace": publisher, "rank": 0}));

    let (code, out, err) = rig.says(&["publish", "other=1", "service=elsewhere"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("service is published already"), "{err}");
    // nothing of that call
    assert_eq!(rig.says(&["lookup", "other"]), (1, String::new(), text("pmix: not published: other\n")));

    rig.does(&["unpublish", "workers", "never"]);
    let (code, out, err) = rig.says(&["lookup", "workers", "service"]);
    assert_eq!((code, out.as_str()), (1, "service: 10.0.0.1:7000\n"));
    assert_eq!(err, "pmix: not published: workers\n");
    rig.does(&["unpublish", "--all"]);
    let (code, out, _) = rig.says(&["lookup", "service", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["missing"]), (1, &json!(["service"])));
    rig.end().await;
}

#[tokio::test]
async fn pub_05_pub_08_range_and_persistence_are_those_of_the_command_line() {
    let rig = Rig::start().await;
    rig.does(&["publish", "--range", "global", "key=global"]);
    rig.does(&["publish", "--range", "local", "key=local"]);
    rig.does(&["unpublish", "--range", "local", "key"]);
    let found = |value: &str| (0, format!("key: {value}\n"), String::new());
    assert_eq!(rig.says(&["lookup", "--range", "global", "key"]), found("global"));
    rig.does(&["unpublish", "--range", "global", "--all"]);
    rig.does(&["publish", "--persistence", "first-read", "key=once"]);
    assert_eq!(rig.says(&["lookup", "key"]), found("once"));
    assert_eq!(rig.says(&["lookup", "key"]).0, 1);
    // it would be removed before a command could look it up
    assert_eq!(rig.says(&["publish", "--persistence", "proc", "key=gone"]).0, 2);
    rig.end().await;
}

#[tokio::test]
async fn pub_13_a_lookup_waits_until_all_keys_are_published_or_its_time_is_over() {
    let rig = Rig::start().await;
    let (code, out, err) = rig.says_in_vain(&["lookup", "--wait", "late"]).await;
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(err, "pmix: not all published in time (--timeout): late\n");
    let waits = Running::start(rig.pmix(&["lookup", "--wait", "late", "later"]));
    rig.does(&["publish", "late=1"]);
    rig.does(&["publish", "later=2"]);
    let (status, out, err) = waits.end().await;
    assert_eq!((status.code(), out.as_str(), err.as_str()), (Some(0), "late: 1\nlater: 2\n", ""));
    rig.end().await;
}

#[tokio::test]
async fn commands_that_publish_at_the_same_time_take_turns() {
    let rig = Rig::start().await;
    let data: Vec<_> = (0..8).map(|number| format!("key{number}=x")).collect();
    let running: Vec<_> = data.iter().map(|datum| Running::start(rig.pmix(&["publish", datum]))).collect();
    for command in running {
        let (status, _, err) = command.end().await;
        assert!(status.success(), "{err}");
    }
    rig.does(&["unpublish", "--all"]);
    assert_eq!(rig.says(&["lookup", "key0", "key7"]).0, 1);
    rig.end().await;
}

#[tokio::test]
async fn get_01_get_shows_values_of_a_job_and_what_its_processes_have_put() {
    let ranks = rank_program();
    let rig = Rig::with(&["-n", "2", ranks.to_str().unwrap(), "keep-secret"], "listening").await;
    let job = rig.job();
    let rank = format!("{job}:1");
    assert_eq!(rig.says(&["get", &job, "JOB_SIZE"]), (0, text("pmix.job.size: 2\n"), String::new()));
    // the other rank may be the one that is listening
    let report = rig.json(&["get", &rank, "--wait", "secret", "pmix.rank", "--json"]);
    assert_eq!(report["proc"], json!({"nspace": job, "rank": 1}));
    assert_eq!(report["results"], json!({"pmix.rank": 1, "secret": "the secret"}));
    let all = rig.json(&["get", &rank, "--json"]);
    assert_eq!(
        [&all["results"]["secret"], &all["results"]["pmix.lrank"], &all["results"]["pmix.procid"]],
        [&json!("the secret"), &json!(1), &json!(null)]
    );
    let of_job = rig.json(&["get", &job, "--json"]);
    assert_eq!(
        (&of_job["results"]["pmix.job.size"], &of_job["results"]["secret"]),
        (&json!(2), &json!(null))
    );

    let (code, out, err) = rig.says(&["get", &rank, "RANK", "nope"]);
    assert_eq!((code, out.as_str()), (1, "pmix.rank: 1\n"));
    assert_eq!(err, format!("pmix: {rank} has no value for: nope\n"));
    let (code, _, err) = rig.says_in_vain(&["get", &rank, "--wait", "nope"]).await;
    assert_eq!((code, err), (1, format!("pmix: {rank} has not put nope in time (--timeout)\n")));
    let (code, _, err) = rig.says(&["get", &format!("{job}:2")]);
    assert_eq!((code, err), (1, format!("pmix: job {job} has no rank 2: its size is 2\n")));
    let (code, _, err) = rig.says(&["get", "nobody"]);
    assert_eq!(
        (code, err.as_str()),
        (1, "pmix: no job nobody is running; `pmix ps` lists the running jobs\n")
    );
    let (code, _, err) = rig.says(&["get", &job, "PMIX_NOPE"]);
    assert_eq!(code, 2);
    assert!(err.contains("not a key of the Standard"), "{err}");
    rig.end().await;
}

/// A code of a program's own.
const OURS: i32 = -4711;

#[tokio::test]
async fn events_are_followed_as_they_come() {
    let rig = Rig::start().await;
    let tool = within(Tool::builder().session_root(rig.dir.path()).connect()).await.unwrap();
    let client = tool.client();
    let notify = async |code: i32| {
        let event = Event::new(Status::from(code), tool.proc_id().clone()).with_range(DataRange::GLOBAL);
        let event = event.with_info(Info::dynamic("about".parse().unwrap(), "this\nand that"));
        within(client.notify(event)).await.unwrap();
    };
    let source = tool.proc_id().to_string();
    for (words, expected) in [
        (&["events", "--count", "1", "-4711"][..], format!("-4711 {source} ")),
        (
            &["events", "--count", "1", "--json", "ERR_PROC_ABORTED", "-4711"],
            r#"{"schema":2,"code":"-4711","number":-4711,"source":{"nspace":"#.to_owned(),
        ),
    ] {
        let mut follower = Running::start(rig.pmix(words));
        // it does not say when it has registered
        let line = until_async("it prints an event", async || {
            notify(OURS - 1).await;
            notify(OURS).await;
            line_now(&mut follower)
        })
        .await;
        assert!(line.starts_with(&expected) && line.contains("this\\nand that"), "{line}");
        let (status, out, err) = follower.end().await;
        assert_eq!((status.code(), out.as_str(), err.as_str()), (Some(0), "", ""));
    }
    assert_eq!(rig.says_in_vain(&["events", "-4712"]).await.0, 0);
    assert_eq!(rig.says_in_vain(&["events", "--count", "1", "-4710"]).await.0, 1);
    let (code, _, err) = rig.says(&["events", "ERR_NOPE"]);
    assert_eq!(code, 2);
    assert!(err.contains("ERR_NOPE"), "{err}");
    let follower = Running::start(rig.pmix(&["events", "-4710"]));
    rig.end().await;
    let (status, _, err) = follower.end().await;
    assert!(status.code() == Some(1) && !err.is_empty(), "{err}");
}

#[tokio::test]
async fn evt_09_evt_11_a_command_notifies_events_and_filters_those_of_others() {
    let rig = Rig::start().await;
    let tool = within(Tool::builder().session_root(rig.dir.path()).connect()).await.unwrap();
    let mut events = within(async { tool.client().events([Status::from(OURS)]).await }).await.unwrap();
    let job = rig.job();
    let me = tool.proc_id().to_string();
    let told = "--info=EVENT_TEXT_MESSAGE=save now";
    rig.does(&["events", "--inject", "-4711", "--about", &format!("{job}:0"), told, "--info", "mine=1"]);
    let event = within(events.recv()).await.unwrap().unwrap();
    assert_eq!(event.range, DataRange::SESSION);
    assert_eq!(event.affected_procs(), [proc(&job, 0)]);
    assert_eq!(event.info.get(&keys::EVENT_TEXT_MESSAGE).unwrap().as_deref(), Some("save now"));
    assert_eq!(event.info.get_value("mine"), Some(&"1".into()));
    // what is for others does not come
    rig.does(&["events", "--inject", "-4711", "--to", &job, "--info", "for=job"]);
    rig.does(&["events", "--inject", "-4711", "--range", "rm", "--info", "for=host"]);
    rig.does(&["events", "--inject", "-4711", "--to", &job, "--to", &me, "--info", "for=both"]);
    let event = within(events.recv()).await.unwrap().unwrap();
    assert_eq!((event.range, event.info.get_value("for")), (DataRange::CUSTOM, Some(&"both".into())));
    for (words, expected) in [
        (&["--range", "namespace"][..], "has a namespace of its own"),
        (&["--range", "rm", "--to", &job], "cannot be used with"),
        (&["--json"], "cannot be used with"),
        (&["--info", "QUERY_NOPE=1"], "not a key of the Standard"),
    ] {
        let (code, _, err) = rig.says(&[&["events", "--inject", "-4711"], words].concat());
        assert!(code == 2 && err.contains(expected), "{err}");
    }

    let about = format!("{job}:1");
    let notify = async |range: DataRange, about: &str, text: &str| {
        let event = Event::new(Status::from(OURS), tool.proc_id().clone()).with_range(range);
        let (nspace, rank) = about.split_once(':').unwrap();
        let about = proc(nspace, rank.parse().unwrap());
        let event = event.with_info(Info::new(&keys::EVENT_AFFECTED_PROC, about));
        within(tool.client().notify(event.with_info(Info::dynamic("text".parse().unwrap(), text))))
            .await
            .unwrap();
    };
    let words = ["events", "-4711", "--source", &me, "--about", &job, "--range", "global", "--json"];
    let mut follower = Running::start(rig.pmix(&words));
    let inject = ["events", "--inject", "-4711", "--range", "global", "--about", &about];
    let first = until_async("it prints an event", async || {
        rig.does(&[&inject[..], &["--info", "text=source"]].concat());
        notify(DataRange::GLOBAL, "other:1", "about").await;
        notify(DataRange::SESSION, &about, "range").await;
        notify(DataRange::GLOBAL, &about, "right").await;
        line_now(&mut follower)
    })
    .await;
    follower.signal(Signal::TERM);
    let (_, rest, _) = follower.end().await;
    let all = [first.as_str()].into_iter().chain(rest.lines());
    for line in all {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = line["info"].as_array().unwrap().iter().find(|info| info["key"] == "text");
        assert_eq!(text.unwrap()["value"], "right", "{line}");
    }
    rig.end().await;
}

#[tokio::test]
async fn events_that_a_slow_reader_loses_are_told_and_slow_nobody() {
    let rig = Rig::start().await;
    let tool = within(Tool::builder().session_root(rig.dir.path()).connect()).await.unwrap();
    let client = tool.client();
    let notify = async |text: &str| {
        let event = Event::new(Status::from(OURS), tool.proc_id().clone()).with_range(DataRange::GLOBAL);
        within(client.notify(event.with_info(Info::dynamic("text".parse().unwrap(), text)))).await.unwrap();
    };
    let mut follower = Running::start(rig.pmix(&["events", "--json", "-4711"]));
    let first = until_async("it prints an event", async || {
        notify("first").await;
        line_now(&mut follower)
    });
    assert!(first.await.contains("first"));
    // the test does not read its output now, which is more than pipes and queues hold; the server takes it all
    let long = "x".repeat(4096);
    for _ in 0..4000 {
        notify(&long).await;
    }
    // it is told how many were lost before one that comes later, and the stream goes on
    let mut missed = 0;
    until_async("it prints how many it has missed, and then the last event", async || {
        notify("last").await;
        while let Some(line) = line_now(&mut follower) {
            let line: Value = serde_json::from_str(&line).unwrap();
            missed += line["missed"].as_u64().unwrap_or(0);
            if missed > 0 && line["info"][0]["value"] == "last" {
                return true;
            }
        }
        false
    })
    .await;
    assert!((1..4000).contains(&missed), "{missed}");
    follower.signal(Signal::TERM);
    follower.end().await;
    rig.end().await;
}

#[tokio::test]
async fn servers_are_listed_also_the_dead_which_disturb_nobody() {
    let rig = Rig::start().await;
    // what a server leaves that was killed, and its guardian too
    let base = rig.dir.path().join(format!("pmix-{}", rustix::process::geteuid().as_raw()));
    let live = rig.run.pid().to_string();
    let pid = i32::MAX;
    let mut dirs = fs::read_dir(&base).unwrap().flatten().map(|entry| entry.path());
    let live_dir = dirs.find(|path| path.is_dir()).unwrap();
    let renamed = |path: &Path| path.file_name().unwrap().to_str().unwrap().replace(&live, &pid.to_string());
    let dead_dir = base.join(renamed(&live_dir));
    fs::create_dir(&dead_dir).unwrap();
    for file in fs::read_dir(&live_dir).unwrap().flatten().filter(|file| file.file_type().unwrap().is_file())
    {
        let text = fs::read_to_string(file.path()).unwrap().replace(&live, &pid.to_string());
        fs::write(dead_dir.join(renamed(&file.path())), text).unwrap();
    }
    let report = rig.json(&["servers", "--json"]);
    let servers = report["servers"].as_array().unwrap();
    let alive = |pid: i32| {
        let server = servers.iter().find(|server| server["pid"] == pid).unwrap();
        assert!(server["uri"].as_str().unwrap().contains(";unix:/") && server["node"].is_string());
        server["alive"].as_bool().unwrap()
    };
    assert_eq!((servers.len(), alive(pid), alive(rig.run.pid())), (2, false, true));
    let (code, out, err) = rig.says(&["servers"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let is_dead = |line: &str| line.contains(&pid.to_string()) && line.contains(" dead ");
    assert!(out.lines().any(is_dead) && out.contains(" up "), "{out}");
    // the only one that is alive is found without a selection
    rig.does(&["publish", "key=value"]);
    rig.end().await;

    let empty = tempfile::tempdir().unwrap();
    let (code, out, err) = run(pmix(empty.path(), &["servers", "--json"]));
    assert_eq!(
        (code, serde_json::from_str::<Value>(&out).unwrap()),
        (Some(1), json!({"schema": 2, "servers": []}))
    );
    assert_eq!(err, "");
}

#[test]
fn each_command_has_a_manual_page_and_its_exit_codes_are_documented() {
    let (home, pmix) = (tempfile::tempdir().unwrap(), program("pmix"));
    program("pmixrun");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs");
    let read = |name: &str| fs::read_to_string(docs.join(name)).unwrap();
    let (page, json) = (read("pmix.md"), read("pmix-json.md"));
    let section = |title: &str| page.split(&format!("\n## {title}\n")).nth(1).unwrap();
    // of a user who has neither yet
    let lines =
        section("Manual pages and completions").split("```").nth(1).unwrap().strip_prefix("sh\n").unwrap();
    let mut command = Command::new("sh");
    let path = format!("{}:{}", pmix.parent().unwrap().display(), std::env::var("PATH").unwrap());
    command.args(["-ec", lines]).env("HOME", home.path()).env("PATH", path);
    assert_eq!(run(command), (Some(0), String::new(), String::new()));
    let share = home.path().join(".local/share");
    let script = fs::read_to_string(share.join("bash-completion/completions/pmix")).unwrap();
    for name in ["pmix", "pmixrun", "pmixd"] {
        assert!(script.contains(&format!("_clap_complete_{name} {name}\n")), "{script}");
    }

    let (pages, codes) = (share.join("man/man1"), section("Exit codes"));
    let reports: String = json.lines().filter_map(|row| row.split('|').nth(1)).collect();
    let help_of = |words: &[&str]| {
        let mut command = Command::new(&pmix);
        command.args(words).arg("--help");
        run(command).1
    };
    let help = help_of(&[]);
    let commands = help.split("Options:\n").next().unwrap();
    let is_name = |line: &&str| line.starts_with(|first: char| first.is_ascii_lowercase());
    let names = commands.lines().filter_map(|line| line.strip_prefix("  ")).filter(is_name);
    let names: Vec<_> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"attach") && names.len() > 20, "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        assert!(pages.join(format!("pmix-{name}.1")).exists(), "{name}");
        assert!(codes.contains(&format!("`{name}")), "docs/pmix.md has no exit codes of {name}");
        let help = help_of(&[name]);
        if help.contains("--json") {
            assert!(help.contains("{\"schema\""), "the help of {name} has no fields of its report");
            assert!(reports.contains(&format!("`{name}`")), "docs/pmix-json.md has no fields of {name}");
        }
    }
    let text = |name: &str| fs::read_to_string(pages.join(name)).unwrap();
    assert!(text("pmixrun.1").contains("stop\\-in\\-init"));
    assert!(text("pmixd.1").contains("multi\\-user") && text("pmixd.1").contains("node\\-from"));

    let mut command = Command::new(&pmix);
    command.args(["man", "/dev/null/man1"]);
    let (code, _, err) = run(command);
    assert!(code == Some(1) && err.contains("cannot write manual pages to /dev/null/man1"), "{err}");
}

#[tokio::test]
async fn states_are_coloured_where_they_are_wanted() {
    let rig = Rig::start().await;
    let green = "\u{1b}[32mRUNNING\u{1b}[0m";
    for (words, variables, is_coloured) in [
        (&["ps"][..], &[][..], false),
        (&["ps", "--color", "always"], &[("NO_COLOR", "1")], true),
        (&["ps"], &[("CLICOLOR_FORCE", "1")], true),
        (&["ps"], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        (&["ps", "--color", "never"], &[("CLICOLOR_FORCE", "1")], false),
        (&["ps", "--json", "--color", "always"], &[], false),
    ] {
        let mut command = rig.pmix(words);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR").env_remove("CLICOLOR_FORCE");
        command.envs(variables.iter().copied());
        let (code, out, err) = run(command);
        assert_eq!((code, err.as_str()), (Some(0), ""));
        assert!(out.contains("RUNNING"), "{out}");
        assert_eq!(out.contains(green), is_coloured, "{words:?} {variables:?}: {out}");
        assert_eq!(out.contains('\u{1b}'), is_coloured);
    }
    rig.end().await;
}
