use std::future::ready;
use std::io;
use std::pin::pin;

use pmix_host::{OutputChannel, ProcExit};
use pmix_types::App;
use rustix::process::Pid;

use super::*;
use pmix_test_wait::StillClock;

fn nspace() -> Nspace {
    Nspace::new("job").unwrap()
}

fn id(rank: u32) -> ProcId {
    ProcId::new(nspace(), Rank::from_raw(rank))
}

fn script(text: &str, count: u32) -> App {
    App::new("sh", count).args(["-c", text])
}

/// A job in which each application has as many processes as it asks for.
fn job(apps: Vec<App>) -> LaunchJob {
    let mut job = LaunchJob::new(nspace(), apps);
    for (index, app) in job.apps.iter().enumerate() {
        for _ in 0..app.max_procs {
            let rank = Rank::from_raw(u32::try_from(job.procs.len()).unwrap());
            let env = vec![("RANK".into(), rank.to_string())];
            job.procs.push(LaunchProc::new(rank, "here".into(), index, env));
        }
    }
    job
}

/// What became of a process: what it wrote, and how it ended.
#[derive(Debug, Default, PartialEq)]
struct Life {
    pid: Option<i32>,
    out: Vec<u8>,
    err: Vec<u8>,
    closed: usize,
    exit: Option<ProcExit>,
}

impl Life {
    fn out(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }
}

/// Follows a job to its end, checking the order of reports.
struct Watch {
    received: mpsc::Receiver<LaunchReport>,
    lives: BTreeMap<ProcId, Life>,
}

impl Watch {
    async fn start(launcher: &LocalLauncher, apps: Vec<App>) -> Self {
        let (reports, received) = mpsc::channel(4);
        launcher.launch(job(apps), reports).await.unwrap();
        Self { received, lives: BTreeMap::new() }
    }

    async fn next(&mut self) -> bool {
        let Some(report) = self.received.recv().await else { return false };
        match report {
            LaunchReport::Started { proc, pid, executable } => {
                assert!(executable.starts_with('/'), "{executable}");
                assert!(self.lives.insert(proc, Life { pid: Some(pid), ..Life::default() }).is_none());
            }
            LaunchReport::Output { proc, channel, data } => {
                let life = self.lives.get_mut(&proc).expect("output after the start");
                assert_eq!(life.exit, None, "no output after the end");
                life.closed += usize::from(data.is_empty());
                match channel {
                    OutputChannel::Stdout => life.out.extend_from_slice(&data),
                    OutputChannel::Stderr => life.err.extend_from_slice(&data),
                }
            }
            LaunchReport::Ended { proc, exit } => {
                let life = self.lives.get_mut(&proc).expect("end after the start");
                assert_eq!((life.exit, life.closed), (None, 2), "one end, after that of both channels");
                life.exit = Some(exit);
            }
            report => panic!("{report:?}"),
        }
        true
    }

    /// Waits until a process has written this.
    async fn until_written(&mut self, rank: u32, text: &str) {
        while !self.lives.get(&id(rank)).is_some_and(|life| life.out().contains(text)) {
            assert!(self.next().await, "the job ended without {text:?}");
        }
    }

    async fn finish(mut self) -> BTreeMap<ProcId, Life> {
        while self.next().await {}
        self.lives
    }
}

async fn run(launcher: &LocalLauncher, apps: Vec<App>) -> BTreeMap<ProcId, Life> {
    Watch::start(launcher, apps).await.finish().await
}

#[tokio::test]
async fn exit_codes_and_signals_are_told_apart() {
    let apps = vec![script("exit 7", 1), script("kill -9 $$", 1), App::new("true", 1)];
    let lives = run(&LocalLauncher::new("here"), apps).await;
    let exits: Vec<_> = lives.values().map(|life| life.exit.unwrap()).collect();
    assert_eq!(exits, [ProcExit::Code(7), ProcExit::Signal(9), ProcExit::Code(0)]);
}

#[tokio::test]
async fn output_comes_whole_and_by_channel() {
    let text = "printf 'rank %s' $RANK; echo oops >&2; exit 1";
    let lives = run(&LocalLauncher::new("here"), vec![script(text, 3)]).await;
    for rank in 0..3 {
        let life = &lives[&id(rank)];
        assert_eq!(life.out(), format!("rank {rank}"));
        assert_eq!(life.err, b"oops\n");
    }
}

#[tokio::test]
async fn ten_megabytes_pass_through_a_channel_of_four() {
    let text = "dd if=/dev/zero bs=1048576 count=10 2>/dev/null; echo end >&2";
    let lives = run(&LocalLauncher::new("here"), vec![script(text, 1)]).await;
    assert_eq!(lives[&id(0)].out.len(), 10 * 1024 * 1024);
    assert_eq!(lives[&id(0)].err, b"end\n");
}

#[tokio::test]
async fn environment_directory_and_arguments_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let app = script("echo $A $RANK $0 $1; pwd; cat", 1)
        .args(["zero", "one"])
        .env("A", "a")
        .env("RANK", "overruled")
        .cwd(dir.to_str().unwrap());
    let lives = run(&LocalLauncher::new("here"), vec![app]).await;
    assert_eq!(lives[&id(0)].out(), format!("a 0 zero one\n{}\n", dir.display()));
}

#[tokio::test]
async fn only_rank_zero_of_the_first_job_reads_standard_input() {
    let (read, mut write) = io::pipe().unwrap();
    io::Write::write_all(&mut write, b"for one").unwrap();
    drop(write);
    let launcher = LocalLauncher::new("here").first_stdin(read.into());
    for expected in [["for one", ""], ["", ""]] {
        let lives = run(&launcher, vec![App::new("cat", 2)]).await;
        assert_eq!(lives.values().map(Life::out).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn hst_04_a_job_starts_whole_or_not_at_all() {
    let (reports, mut received) = mpsc::channel(4);
    let dir = tempfile::tempdir().unwrap();
    // passes all checks, fails when it is started
    let broken = dir.path().join("broken");
    let broken = broken.to_str().unwrap();
    // not by this process: one that another test starts meanwhile could have the file open for writing, too
    let write = "echo \"#!$0-interpreter\" > \"$0\"; chmod 755 \"$0\"";
    assert!(std::process::Command::new("sh").args(["-c", write, broken]).status().unwrap().success());
    let marker = dir.path().join("pid");
    let first = script("echo $$ > $MARKER; exec cat", 1).env("MARKER", marker.to_str().unwrap());

    let launcher = LocalLauncher::new("here");
    let error = launcher.launch(job(vec![first, App::new(broken, 2)]), reports).await.unwrap_err();
    assert_eq!(error.proc, id(1));
    let text = error.to_string();
    assert!(text.contains(broken) && text.contains("here") && text.contains("interpreter"), "{text}");
    assert_eq!(received.recv().await, None, "no reports of a job that did not start");
    if let Some(pid) = std::fs::read_to_string(marker).ok().and_then(|pid| pid.trim().parse().ok()) {
        assert!(rustix::process::test_kill_process(Pid::from_raw(pid).unwrap()).is_err(), "{pid} is left");
    }
}

#[tokio::test]
async fn errors_before_the_start_name_process_node_program_and_cause() {
    let launcher = LocalLauncher::new("here");
    let fail = async |job: LaunchJob| launcher.launch(job, mpsc::channel(4).0).await.unwrap_err().to_string();
    let nothing = tempfile::tempdir().unwrap();
    let missing = App::new("no-such-program", 1).env("PATH", nothing.path().to_str().unwrap());
    let text = fail(job(vec![App::new("true", 2), missing])).await;
    assert!(text.contains(":2") || text.contains(".2"), "the rank: {text}");
    assert!(text.contains("no-such-program") && text.contains("here") && text.contains("PATH"), "{text}");

    let mut elsewhere = job(vec![App::new("true", 1)]);
    elsewhere.procs[0].node = "there".into();
    let text = fail(elsewhere).await;
    assert!(text.contains("there"), "{text}");

    let mut stray = job(vec![App::new("true", 1)]);
    stray.procs[0].app = 5;
    let text = fail(stray).await;
    assert!(text.contains("application"), "{text}");
}

#[tokio::test]
async fn jct_01c_signals_reach_a_process_and_what_it_started() {
    // the shell waits for its child, so it ends only if both hear of the signal
    let text = "trap 'exit 5' USR1; echo ready; sh -c 'echo inner; exec sleep 1000'; echo after";
    let launcher = LocalLauncher::new("here");
    let mut watch = Watch::start(&launcher, vec![script(text, 2)]).await;
    watch.until_written(1, "inner").await;
    launcher.signal(&[id(1), id(7)], Signal::USR1.as_raw()).await.unwrap();
    while watch.lives.get(&id(1)).is_none_or(|life| life.exit.is_none()) {
        assert!(watch.next().await);
    }
    assert_eq!(watch.lives[&id(1)].exit, Some(ProcExit::Code(5)));
    assert_eq!(watch.lives[&id(0)].exit, None, "the other was not meant");
    launcher.signal(&[id(0)], Signal::KILL.as_raw()).await.unwrap();
    assert_eq!(watch.finish().await[&id(0)].exit, Some(ProcExit::Signal(9)));

    let error = launcher.signal(&[id(0)], 4711).await.unwrap_err();
    assert!(error.to_string().contains("4711"), "{error}");
}

#[tokio::test]
async fn those_that_do_not_end_when_asked_are_killed() {
    let still = StillClock::start();
    let launcher = LocalLauncher::new("here").grace(Duration::from_secs(1));
    let apps = vec![
        script("trap '' TERM; echo ready; sleep 1000", 1),
        script("trap 'kill -9 $!; exit 4' TERM; echo ready; sleep 1000 & wait", 1),
    ];
    let mut watch = Watch::start(&launcher, apps).await;
    watch.until_written(0, "ready").await;
    watch.until_written(1, "ready").await;
    let all = [id(0), id(1)];
    let time = async {
        still.until("the second ends when asked", || launcher.has_ended(&id(1))).await;
        assert!(!launcher.has_ended(&id(0)));
        // its time may begin a little later
        let time = Duration::from_millis(1_010);
        still.until_passing("the first is killed", time, || launcher.has_ended(&id(0))).await;
    };
    let (ended, lives, ()) = tokio::join!(launcher.terminate(&all), watch.finish(), time);
    ended.unwrap();
    assert_eq!(lives[&id(0)].exit, Some(ProcExit::Signal(9)));
    assert_eq!(lives[&id(1)].exit, Some(ProcExit::Code(4)));
    launcher.terminate(&all).await.unwrap();
}

#[tokio::test]
async fn a_descendant_that_holds_the_output_open_does_not_hold_back_the_end() {
    let launcher = LocalLauncher::new("here");
    let lives = run(&launcher, vec![script("sleep 1000 & echo $!; exit 3", 1)]).await;
    assert_eq!(lives[&id(0)].exit, Some(ProcExit::Code(3)));
    let left = lives[&id(0)].out().trim().parse().ok().and_then(Pid::from_raw).unwrap();
    rustix::process::kill_process(left, Signal::KILL).expect("it was still there");
}

#[tokio::test]
async fn a_descendant_that_never_stops_writing_does_not_hold_back_the_end() {
    let launcher = LocalLauncher::new("here");
    let lives = run(&launcher, vec![script("yes & exit 3", 1)]).await;
    assert_eq!(lives[&id(0)].exit, Some(ProcExit::Code(3)));
}

#[tokio::test]
async fn processes_end_when_nobody_takes_their_reports() {
    let launcher = LocalLauncher::new("here");
    let mut watch = Watch::start(&launcher, vec![script("echo ready; exec sleep 1000", 1)]).await;
    watch.until_written(0, "ready").await;
    let mut ended = launcher.alive(&[id(0)])[0].ended.clone();
    drop(watch);
    assert!(ended.changed().await.is_err(), "the process has ended");
    assert!(launcher.alive(&[id(0)]).is_empty());
}

#[tokio::test]
async fn input_comes_to_those_who_take_it_and_ends() {
    let launcher = LocalLauncher::new("here");
    let mut job = job(vec![script("cat; echo end", 2), script("cat", 1)]);
    job.procs[0].takes_stdin = true;
    job.procs[1].takes_stdin = true;
    let (reports, received) = mpsc::channel(4);
    launcher.launch(job, reports).await.unwrap();
    let mut watch = Watch { received, lives: BTreeMap::new() };
    let both = [id(0), id(1)];
    launcher.push_stdin(&both, "one\n".into(), false).await.unwrap();
    watch.until_written(0, "one").await;
    watch.until_written(1, "one").await;
    // it reads from nowhere and may have ended already
    while launcher.running().contains_key(&id(2)) {
        watch.next().await;
    }
    launcher.push_stdin(&[id(2)], "x".into(), false).await.unwrap();
    launcher.push_stdin(&[id(0)], "two\n".into(), true).await.unwrap();
    // what comes after the end is nobody's
    let _ = launcher.push_stdin(&[id(0)], "late\n".into(), false).await;
    watch.until_written(0, "end").await;
    launcher.push_stdin(&[id(1)], Bytes::new(), true).await.unwrap();
    let lives = watch.finish().await;
    assert_eq!(lives[&id(0)].out(), "one\ntwo\nend\n");
    assert_eq!(lives[&id(1)].out(), "one\nend\n");
    assert_eq!(lives[&id(2)].out(), "");
}

#[tokio::test]
async fn a_process_that_does_not_read_holds_its_input_back_until_it_ends() {
    holds_back(64, 64 << 10).await;
    holds_back(1, 8 << 20).await;
}

/// Input of so many pieces of this size.
async fn holds_back(count: usize, size: usize) {
    let launcher = LocalLauncher::new("here");
    let mut job = job(vec![App::new("sleep", 1).args(["60"])]);
    job.procs[0].takes_stdin = true;
    let (reports, received) = mpsc::channel(4);
    launcher.launch(job, reports).await.unwrap();
    let watch = Watch { received, lives: BTreeMap::new() };
    let much = async {
        for _ in 0..count {
            launcher.push_stdin(&[id(0)], vec![b'x'; size].into(), false).await.unwrap();
        }
    };
    tokio::pin!(much);
    assert!(futures_poll(&mut much).await.is_pending());
    launcher.signal(&[id(0)], Signal::KILL.as_raw()).await.unwrap();
    much.await;
    watch.finish().await;
}

/// Lets a future go as far as it can without anything happening.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
    std::future::poll_fn(|context| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context)))
        .await
}

/// An abort asks who was dead by then, and may come while others of the job are being started.
#[tokio::test]
async fn who_is_being_launched_has_not_ended() {
    let launcher = LocalLauncher::new("here");
    let (reports, received) = mpsc::channel(4);
    let mut launch = pin!(launcher.launch(job(vec![script("read line", 2)]), reports));
    tokio::select! {
        biased;
        _ = &mut launch => panic!("one process is started at a time"),
        () = ready(()) => {}
    }
    assert!(!launcher.has_ended(&id(0)), "it runs, though not all of its job do");
    assert!(!launcher.has_ended(&id(1)), "it is yet to be started");
    launch.await.unwrap();
    let mut watch = Watch { received, lives: BTreeMap::new() };
    while watch.next().await {}
    assert!(launcher.has_ended(&id(0)));
}
