//! Jobs that a tool has a server start, and follows to their ends: the library, and `pmix submit`.

mod children;
mod readers;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use pmix_client::types::{App, Directives, Event, Info, IofChannels, keys};
use pmix_client::{ProcId, Status};
use pmix_test_wait::{until, until_async, within};
use pmix_tests::{Running, outside_allocations, plain_environment, pmix, pmixrun, program, run};
use pmix_tool::{JobEnd, JobUpdate, SubmittedJob, Submitter, Tool};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

const BOTH: IofChannels = IofChannels::STDOUT.union(IofChannels::STDERR);

/// A `pmixrun` whose own job goes on, so that its server takes jobs of tools.
struct Rig {
    dir: TempDir,
    run: Running,
}

impl Rig {
    async fn start() -> Self {
        Self::with(&[]).await
    }

    async fn with(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let words = [options, &["sh", "-c", "echo started; exec sleep 1000"]].concat();
        let mut run = Running::start(pmixrun(dir.path(), &words));
        run.line_with("started").await;
        Self { dir, run }
    }

    async fn tool(&self) -> Tool {
        within(Tool::builder().session_root(self.dir.path()).connect()).await.unwrap()
    }

    async fn submitter(&self) -> Submitter {
        within(self.tool().await.submitter()).await.unwrap()
    }

    /// `pmix` with these arguments.
    fn pmix(&self, args: &[&str]) -> Command {
        pmix(self.dir.path(), args)
    }

    async fn end(self) {
        self.run.signal(Signal::TERM);
        self.run.end().await;
    }
}

fn script(script: &str, ranks: u32) -> Vec<App> {
    vec![App::new("sh", ranks).args(["-c", script])]
}

async fn submit(submitter: &Submitter, apps: Vec<App>, output: IofChannels) -> SubmittedJob {
    within(submitter.submit(apps, Directives::new(), output)).await.unwrap()
}

async fn next(job: &mut SubmittedJob) -> JobUpdate {
    within(job.next()).await.unwrap().unwrap()
}

/// All output by channel, up to the end.
async fn to_the_end(job: &mut SubmittedJob) -> (String, String, JobEnd) {
    let (mut out, mut err) = (String::new(), String::new());
    loop {
        match next(job).await {
            JobUpdate::Output(chunk) => {
                let text = std::str::from_utf8(&chunk.data).unwrap();
                if chunk.channels == IofChannels::STDOUT { &mut out } else { &mut err }.push_str(text);
            }
            JobUpdate::Ended(end) => {
                assert!(within(job.next()).await.is_none(), "the end is the last news");
                return (out, err, end);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Reads up to a line of the job.
async fn read_to(job: &mut SubmittedJob, words: &str) {
    let mut out = Vec::new();
    while !String::from_utf8_lossy(&out).contains(words) {
        match next(job).await {
            JobUpdate::Output(chunk) => out.extend_from_slice(&chunk.data),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn iof_04_the_output_of_a_submitted_job_is_whole_before_its_end_is_told() {
    let rig = Rig::start().await;
    let submitter = rig.submitter().await;
    let wrong = "seq 20000; echo wrong >&2; exit $((7 * PMIX_RANK))";
    let mut job = submit(&submitter, script(wrong, 2), BOTH).await;
    let first = ProcId::new(job.nspace().clone(), pmix_client::Rank::from_raw(1));
    let (out, err, end) = to_the_end(&mut job).await;
    assert_eq!((out.lines().count(), &*err), (40_000, "wrong\nwrong\n"));
    assert_eq!((end.exit_code, end.status), (7, Status::ERR_JOB_NON_ZERO_TERM));
    assert_eq!(end.first_failure, Some(first));
    // only what was asked for
    let mut job = submit(&submitter, script("echo out; echo err >&2", 1), IofChannels::STDERR).await;
    let (out, err, end) = to_the_end(&mut job).await;
    assert_eq!((&*out, &*err, end.exit_code, end.status), ("", "err\n", 0, Status::SUCCESS));
    assert_eq!(end.first_failure, None);
    rig.end().await;
}

#[tokio::test]
async fn spn_05_each_of_many_jobs_that_end_at_once_has_its_own_end() {
    let rig = Rig::start().await;
    let (submitter, other) = (rig.submitter().await, rig.submitter().await);
    let jobs = (0..120).map(async |number: i32| {
        // a tool is told of the ends of another tool's jobs, too
        let submitter = if number % 2 == 0 { &submitter } else { &other };
        let apps = script(&format!("exit {}", number % 100), 1);
        let mut job = submit(submitter, apps, IofChannels::NONE).await;
        let (out, err, end) = to_the_end(&mut job).await;
        assert_eq!((&*out, &*err, end.exit_code), ("", "", number % 100), "{job:?}");
    });
    futures::future::join_all(jobs).await;
    rig.end().await;
}

#[tokio::test]
async fn jct_02a_jct_02b_jct_02c_a_submitted_job_is_signalled_and_ended() {
    let rig = Rig::start().await;
    let submitter = rig.submitter().await;
    let waits = "trap 'exit 5' USR1; echo ready; while :; do sleep 0.02; done";
    let started = async || {
        let mut job = submit(&submitter, script(waits, 1), IofChannels::STDOUT).await;
        read_to(&mut job, "ready\n").await;
        job
    };
    let mut job = started().await;
    within(job.signal(Signal::USR1.as_raw())).await.unwrap();
    assert_eq!(to_the_end(&mut job).await.2.exit_code, 5);
    let late = within(job.signal(Signal::USR1.as_raw())).await.unwrap_err();
    assert!(late.is_not_found(), "{late}");
    let mut job = started().await;
    within(job.terminate()).await.unwrap();
    let end = to_the_end(&mut job).await.2;
    assert_eq!((end.exit_code, end.status), (143, Status::ERR_JOB_KILLED_BY_CMD));
    let mut job = started().await;
    within(job.kill()).await.unwrap();
    assert_eq!(to_the_end(&mut job).await.2.exit_code, 137);
    rig.end().await;
}

#[tokio::test]
async fn tol_17_when_the_server_is_gone_or_the_tool_is_finalized_each_job_says_so() {
    let rig = Rig::start().await;
    let (tool, sleep) = (rig.tool().await, || vec![App::new("sleep", 1).arg("1000")]);
    let submitter = within(tool.submitter()).await.unwrap();
    let mut job = submit(&submitter, sleep(), BOTH).await;
    within(tool.finalize()).await.unwrap();
    let error = within(job.next()).await.unwrap().unwrap_err();
    assert_eq!(error.status(), Status::ERR_INIT, "{error}");
    assert!(within(job.next()).await.is_none());

    let submitter = rig.submitter().await;
    let mut jobs = Vec::new();
    for output in [BOTH, IofChannels::NONE, BOTH] {
        jobs.push(submit(&submitter, sleep(), output).await);
    }
    let mut unread = jobs.pop().unwrap();
    let waiting = jobs.iter_mut().map(SubmittedJob::next).collect::<Vec<_>>();
    let kill = async { rig.run.kill() };
    let (lost, ()) = within(async { tokio::join!(futures::future::join_all(waiting), kill) }).await;
    for news in lost {
        let error = news.unwrap().unwrap_err();
        assert!(error.is_lost_connection(), "{error}");
    }
    let error = within(unread.next()).await.unwrap().unwrap_err();
    assert!(error.is_lost_connection(), "{error}");
    let refused = within(submitter.submit(sleep(), Directives::new(), BOTH)).await.unwrap_err();
    assert!(refused.is_lost_connection(), "{refused}");
}

/// Another process may send events to the tool.
#[tokio::test]
async fn evt_09_the_end_of_a_job_is_not_believed_unless_the_host_tells_it() {
    let rig = Rig::start().await;
    let tool = rig.tool().await;
    let submitter = within(tool.submitter()).await.unwrap();
    let waits = "trap 'exit 5' USR1; echo ready; while :; do sleep 0.02; done";
    let mut job = submit(&submitter, script(waits, 1), IofChannels::STDOUT).await;
    read_to(&mut job, "ready\n").await;
    let liar = rig.tool().await;
    let lie = Event::new(Status::EVENT_JOB_END, ProcId::none())
        .with_info(Info::new(&keys::NSPACE.text(), job.nspace().as_str()))
        .with_info(Info::new(&keys::EXIT_CODE, 99));
    within(liar.client().notify(lie).custom_range([tool.proc_id().clone()])).await.unwrap();
    within(job.signal(Signal::USR1.as_raw())).await.unwrap();
    assert_eq!(to_the_end(&mut job).await.2.exit_code, 5);
    rig.end().await;
}

#[tokio::test]
async fn spn_06_what_cannot_be_submitted_says_why_and_leaves_nothing() {
    let rig = Rig::start().await;
    let submitter = rig.submitter().await;
    let none = vec![App::new("no-such-program", 1)];
    let error = within(submitter.submit(none, Directives::new(), BOTH)).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_JOB_EXE_NOT_FOUND, "{error}");
    assert!(error.to_string().contains("no-such-program"), "{error}");
    // a channel that cannot be received
    let stdin = IofChannels::STDIN;
    let error =
        within(submitter.submit(script("sleep 1000", 1), Directives::new(), stdin)).await.unwrap_err();
    assert!(error.is_not_supported(), "{error}");
    let tool = rig.tool().await;
    until_async("no job is left but that of pmixrun", async || {
        let jobs = tool.namespaces().await.unwrap();
        if jobs.len() == 1 { Ok(()) } else { Err(jobs) }
    })
    .await;
    rig.end().await;
}

#[tokio::test]
async fn pmix_submit_writes_what_a_job_writes_and_ends_as_it_does() {
    let rig = Rig::start().await;
    let (code, out, err) = run(rig.pmix(&["submit", "sh", "-c", "echo out; echo err >&2; exit 7"]));
    assert_eq!((code, &*out), (Some(7), "out\n"), "{err}");
    assert!(err.starts_with("err\n"), "{err}");
    assert!(err.contains("failed first: ERR_JOB_NON_ZERO_TERM, exit code 7"), "{err}");

    let here = rig.dir.path().canonicalize().unwrap();
    let words = "echo $ROLE $GIVEN $(pwd -P)";
    let mut command =
        rig.pmix(&["submit", "-n", "2", "--tag-output", "-x", "ROLE=io", "-x", "GIVEN", "sh", "-c", words]);
    let (code, out, err) = run({
        command.env("GIVEN", "passed on").current_dir(&here);
        command
    });
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    let line = |rank| format!("[{rank}]<stdout>: io passed on {}", here.display());
    assert_eq!((code, lines), (Some(0), vec![&*line(0), &*line(1)]), "{err}");

    let (code, out, _) = run(rig.pmix(&["submit", "--json", "--wdir", "/", "sh", "-c", "pwd; kill -9 $$"]));
    let (written, report) = out.trim_end().rsplit_once('\n').unwrap();
    let report: Value = serde_json::from_str(report).unwrap();
    assert_eq!((code, written, &report["exit_code"]), (Some(137), "/", &137.into()), "{report}");
    assert_eq!((&report["status"], &report["first_failure"]), (&"ERR_JOB_ABORTED_BY_SIG".into(), &0.into()));
    assert!(report["nspace"].as_str().unwrap().starts_with("run.") || !report["nspace"].is_null());
    // the report is a line of its own, whatever the job has written
    let (_, out, err) = run(rig.pmix(&["submit", "--json", "printf", "the rest"]));
    assert!(out.starts_with("the rest\n{\"schema\":2,\"nspace\"") && out.lines().count() == 2, "{out}{err}");
    assert_eq!(run(rig.pmix(&["submit", "--json", "true"])).1.lines().count(), 1);
    // by its other name
    assert_eq!(run(rig.pmix(&["spawn", "printf", "the rest"])).1, "the rest");
    rig.end().await;
}

#[tokio::test]
async fn pmix_submit_says_why_a_job_is_not_started() {
    let rig = Rig::start().await;
    let (code, out, err) = run(rig.pmix(&["submit", "no-such-program"]));
    assert_eq!((code, &*out), (Some(1), ""));
    assert!(err.contains("no-such-program") && err.contains("ERR_JOB_EXE_NOT_FOUND"), "{err}");
    let (code, out, _) = run(rig.pmix(&["submit", "--json", "--host", "nowhere", "true"]));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["status"]), (Some(1), &"ERR_JOB_FAILED_TO_MAP".into()));
    assert!(report["error"].as_str().unwrap().contains("nowhere"), "{report}");
    for policy in [["--map-by", "nothing"], ["--bind-to", "nothing"]] {
        let (code, _, err) = run(rig.pmix(&["submit", policy[0], policy[1], "true"]));
        assert!(code == Some(1) && err.contains("nothing"), "{err}");
    }
    for wrong in [&["submit"][..], &["submit", "--stage", "-", "true"], &["submit", "--jobs", "2", "true"]] {
        assert_eq!(run(rig.pmix(wrong)).0, Some(2), "{wrong:?}");
    }
    rig.end().await;
    let nowhere = tempfile::tempdir().unwrap();
    let (code, _, err) = run(pmix(nowhere.path(), &["submit", "true"]));
    assert!(code == Some(1) && err.contains("no PMIx server"), "{err}");
}

#[tokio::test]
async fn pmix_submit_passes_signals_on_and_a_second_interrupt_kills() {
    let rig = Rig::start().await;
    let waits = "trap 'echo int' INT; trap 'echo usr' USR1; echo ready; while :; do sleep 0.02; done";
    let mut job = Running::start(rig.pmix(&["submit", "sh", "-c", waits]));
    job.line_with("ready").await;
    job.signal(Signal::USR1);
    job.line_with("usr").await;
    job.signal(Signal::INT);
    job.line_with("int").await;
    job.signal(Signal::INT);
    let (status, _, err) = job.end().await;
    assert_eq!(status.code(), Some(137), "{err}");
    assert!(!err.contains("failed"), "who asks for the end is not told of it: {err}");
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut job = Running::start(rig.pmix(&["submit", "sh", "-c", "echo ready; exec sleep 1000"]));
        job.line_with("ready").await;
        job.signal(signal);
        assert_eq!(job.end().await.0.code(), Some(code));
    }
    rig.end().await;
}

#[tokio::test]
async fn pmix_submit_kills_what_outlasts_the_grace_period_after_a_signal() {
    let rig = Rig::start().await;
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let waits = "trap '' TERM HUP INT; echo ready; exec sleep 1000";
        let mut job = Running::start(rig.pmix(&["submit", "--grace", "0.2", "sh", "-c", waits]));
        job.line_with("ready").await;
        job.signal(signal);
        assert_eq!(job.end().await.0.code(), Some(137));
    }
    rig.end().await;
}

/// What `--detach` is made of, for a submitter that is lost before it can finalize.
#[tokio::test]
async fn a_job_that_is_separate_from_its_tool_outlives_it_and_another_does_not() {
    let rig = Rig::start().await;
    let sleeps = || vec![App::new("sleep", 1).args(["1000"])];
    let submit = async |directives: Directives| {
        let submitter = rig.submitter().await;
        let job = within(submitter.submit(sleeps(), directives, IofChannels::NONE)).await.unwrap();
        // both are dropped without finalize: the connection ends
        job.nspace().clone()
    };
    let separate = submit(Directives::new().require(&keys::SPAWN_CHILD_SEP, true)).await;
    let tool = rig.tool().await;
    for _ in 0..2 {
        let other = submit(Directives::new()).await;
        until_async("the job ends with its tool", async || {
            !tool.namespaces().await.unwrap().contains(&other)
        })
        .await;
    }
    let table = within(tool.proc_table(&separate)).await.unwrap();
    assert!(table.iter().all(|row| row.state.is_alive()) && table.len() == 1, "{table:?}");
    rig.end().await;
}

#[tokio::test]
async fn pmix_submit_ends_a_job_whose_output_nobody_reads() {
    let rig = Rig::start().await;
    let (reader, writer) = std::io::pipe().unwrap();
    let child = rig.pmix(&["submit", "yes"]).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    drop(reader);
    let ended = within(tokio::task::spawn_blocking(move || child.wait_with_output())).await.unwrap().unwrap();
    assert_eq!(ended.status.code(), Some(141), "{}", String::from_utf8_lossy(&ended.stderr));
    let tool = rig.tool().await;
    assert_eq!(within(tool.namespaces()).await.unwrap().len(), 1, "the job has ended");
    rig.end().await;
}

#[tokio::test]
async fn pmix_submit_limits_the_time_of_a_job_and_leaves_a_detached_one_alone() {
    let rig = Rig::start().await;
    let (code, out, err) = run(rig.pmix(&["submit", "--json", "--time-limit", "1", "sleep", "1000"]));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["status"], code), (&"ERR_TIMEOUT".into(), Some(124)), "{err}");
    assert!(err.contains("the job has exceeded its time limit"), "{err}");

    let fifo = rig.dir.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let words = format!("read line < {}; exit 3", fifo.display());
    let (code, out, err) = run(rig.pmix(&["submit", "--detach", "sh", "-c", &words]));
    assert_eq!(code, Some(0), "{err}");
    let tool = rig.tool().await;
    let job = out.trim_end().parse().unwrap();
    assert!(within(tool.namespaces()).await.unwrap().contains(&job), "{out}");
    let mut ends = within(async { tool.client().events([Status::EVENT_JOB_END]).await }).await.unwrap();
    fs::write(&fifo, "go\n").unwrap();
    let end = within(ends.recv()).await.unwrap().unwrap();
    assert_eq!(end.info.get(&keys::NSPACE.text()).unwrap().as_deref(), Some(&*job));
    rig.end().await;
}

/// The reports on the jobs of a stage, by line.
fn reports(out: &str) -> BTreeMap<u64, Value> {
    let read = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    out.lines().map(read).map(|report| (report["line"].as_u64().unwrap(), report)).collect()
}

fn file(dir: &Path, text: &str) -> String {
    let path = dir.join("commands");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn each_line_of_a_stage_is_a_job_and_has_a_report() {
    let rig = Rig::start().await;
    let text = "# jobs\ntrue\n\nsh -c 'echo \"$ROLE\"; echo err >&2; exit 3'\necho 'open\nno-such-program\n";
    let commands = file(rig.dir.path(), text);
    let output = rig.dir.path().join("out");
    let words =
        ["submit", "--stage", &commands, "-x", "ROLE=two words", "--output", output.to_str().unwrap()];
    let (code, out, err) = run(rig.pmix(&words));
    assert_eq!((code, &*err), (Some(1), ""));
    let reports = reports(&out);
    assert_eq!(reports.keys().copied().collect::<Vec<_>>(), [2, 4, 5, 6]);
    let seen = |line: u64| (reports[&line]["exit_code"].clone(), reports[&line]["status"].clone());
    assert_eq!(seen(2), (0.into(), "SUCCESS".into()));
    assert_eq!(seen(4), (3.into(), "ERR_JOB_NON_ZERO_TERM".into()));
    assert_eq!(reports[&5]["error"], "a quote is not closed");
    assert_eq!(seen(6), (Value::Null, "ERR_JOB_EXE_NOT_FOUND".into()));
    assert!(reports[&6]["error"].as_str().unwrap().contains("no-such-program"));
    assert!(reports[&2]["seconds"].as_f64().unwrap() > 0.0 && reports[&2]["nspace"].is_string());
    let written = |name: &str| fs::read_to_string(output.join(name)).unwrap();
    assert_eq!(
        (written("2.out"), written("4.out"), written("4.err")),
        ("".into(), "two words\n".into(), "err\n".into())
    );

    let mut command = rig.pmix(&["submit", "--stage", "-", "--jobs", "2"]);
    command.stdin(fs::File::open(file(rig.dir.path(), &"true\n".repeat(50))).unwrap());
    let (code, out, err) = run(command);
    assert_eq!((code, self::reports(&out).len(), &*err), (Some(0), 50, ""));
    rig.end().await;
}

#[tokio::test]
async fn jobs_of_a_stage_that_find_no_room_are_tried_again() {
    let host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let rig = Rig::with(&["--host", &format!("{host}:3"), "-n", "1"]).await;
    let commands = file(rig.dir.path(), &"sleep 0.05\n".repeat(20));
    let (code, out, err) = run(rig.pmix(&["submit", "--stage", &commands, "--jobs", "8"]));
    assert_eq!((code, reports(&out).len()), (Some(0), 20), "{out}{err}");
    // a job that never has room
    let commands = file(rig.dir.path(), "true\ntrue\n");
    let (code, out, _) = run(rig.pmix(&["submit", "--stage", &commands, "-n", "9"]));
    let reports = reports(&out);
    assert_eq!((code, reports.len()), (Some(1), 2));
    assert!(reports.values().all(|report| report["error"].is_string()), "{out}");
    rig.end().await;
}

#[tokio::test]
async fn an_interrupt_ends_the_jobs_of_a_stage_and_starts_no_more() {
    let rig = Rig::start().await;
    let marks = rig.dir.path().join("marks");
    fs::create_dir(&marks).unwrap();
    let line = |number| format!("sh -c 'mkfifo {0}/{number}; exec sleep 1000'\n", marks.display());
    let commands = file(rig.dir.path(), &(0..6).map(line).collect::<String>());
    let stage = Running::start(rig.pmix(&["submit", "--stage", &commands, "--jobs", "2"]));
    let begun = || fs::read_dir(&marks).unwrap().count();
    until("two jobs have begun", || begun() == 2).await;
    stage.signal(Signal::INT);
    let (status, out, _) = stage.end().await;
    let reports = reports(&out);
    assert_eq!((status.code(), begun()), (Some(1), 2), "{out}");
    assert_eq!(reports.keys().copied().collect::<Vec<_>>(), [1, 2]);
    assert!(reports.values().all(|report| report["status"] == "ERR_JOB_KILLED_BY_CMD"), "{out}");
    rig.end().await;
}

#[tokio::test]
async fn a_third_signal_ends_a_stage_whose_server_hangs() {
    let rig = Rig::start().await;
    let mark = rig.dir.path().join("mark");
    let line = format!("sh -c 'mkfifo {0}; exec cat {0}'\n", mark.display());
    let commands = file(rig.dir.path(), &line.repeat(2));
    let mut stage = Running::start(rig.pmix(&["submit", "--stage", &commands, "--jobs", "1"]));
    until("the job has begun", || mark.exists()).await;
    rig.run.stop().await;
    // signals that come at once are one
    until("the stage ends", || {
        let is_running = stage.is_running();
        if is_running {
            stage.signal(Signal::INT);
        }
        !is_running
    })
    .await;
    let (status, out, err) = stage.end().await;
    assert_eq!((status.code(), &*out), (Some(1), ""), "{err}");
    assert!(err.contains("up to 1 of the jobs may still be running"), "{err}");
    rig.run.signal(Signal::CONT);
    rig.end().await;
}

#[tokio::test]
async fn a_stage_ends_when_its_server_is_gone() {
    let rig = Rig::start().await;
    let commands = file(rig.dir.path(), "sh -c 'kill -9 $RUN; exec sleep 1000'\ntrue\ntrue\n");
    let own = format!("RUN={}", rig.run.pid());
    let (code, out, _) = run(rig.pmix(&["submit", "--stage", &commands, "--jobs", "1", "-x", &own]));
    assert_eq!((code, reports(&out).len()), (Some(1), 1), "{out}");
    assert_eq!(reports(&out)[&1]["status"], "ERR_LOST_CONNECTION");
}

/// The head of a DVM that takes jobs.
async fn head(dir: &Path) -> Running {
    let mut command = Command::new(program("pmixd"));
    plain_environment(&mut command);
    outside_allocations(&mut command);
    command.args(["--head", "--report-uri", "-"]).env("PMIX_SERVER_TMPDIR", dir);
    let mut head = Running::start(command);
    head.line_with("unix:").await;
    head
}

#[tokio::test]
async fn pmix_dvm_stop_ends_the_jobs_of_a_head_and_the_head() {
    let dir = tempfile::tempdir().unwrap();
    let head = head(dir.path()).await;
    let pmix = |args: &[&str]| pmix(dir.path(), args);
    let mut job = Running::start(pmix(&["submit", "sh", "-c", "echo ready; exec sleep 1000"]));
    job.line_with("ready").await;
    let stopped = within(tokio::task::spawn_blocking({
        let command = pmix(&["dvm", "stop"]);
        move || run(command)
    }));
    assert_eq!(stopped.await.unwrap(), (Some(0), String::new(), String::new()));
    let (status, _, err) = head.end().await;
    assert_eq!(status.code(), Some(0), "{err}");
    let (status, _, err) = job.end().await;
    assert!(status.code().is_some_and(|code| code != 0), "{err}");
    let (code, _, err) = run(pmix(&["dvm", "stop"]));
    assert!(code == Some(1) && err.contains("no PMIx server"), "{err}");
    // a launcher of one job is no DVM
    let rig = Rig::start().await;
    let (code, _, err) = run(rig.pmix(&["dvm", "stop"]));
    assert!(code == Some(1) && err.contains("job control failed"), "{err}");
    rig.end().await;
}

#[tokio::test]
async fn pmix_submit_says_how_much_output_is_missing() {
    const WRITTEN: usize = 60_000_000;
    let rig = Rig::start().await;
    let mark = rig.dir.path().join("mark");
    // it writes whether it is read or not
    let words = format!("head -c {WRITTEN} /dev/zero; mkfifo {}; exit 3", mark.display());
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut command = rig.pmix(&["submit", "sh", "-c", &words]);
    let (mut errors, errors_writer) = std::io::pipe().unwrap();
    let mut child = command.stdout(writer).stderr(errors_writer).spawn().unwrap();
    // it has the other ends
    drop(command);
    until("all is written", || mark.exists()).await;
    let read = tokio::task::spawn_blocking(move || {
        let (mut out, mut err) = (Vec::new(), String::new());
        reader.read_to_end(&mut out).unwrap();
        errors.read_to_string(&mut err).unwrap();
        (child.wait().unwrap().code(), out.len(), err)
    });
    let (code, read, err) = within(read).await.unwrap();
    assert_eq!(code, Some(3), "{err}");
    let missing = err.lines().filter_map(|line| line.split_once(" bytes of output are missing here"));
    let missing: usize =
        missing.map(|(start, _)| start.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum();
    assert!(missing > 0, "{err}");
    assert_eq!(read + missing, WRITTEN, "{err}");
    rig.end().await;
}
