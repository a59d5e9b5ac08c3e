//! What watching many ranks costs: how long answers take for `pmix ps --watch` and `pmix web`, and with what processes use, as
//! `pmix top` asks; how long the commands then take to show them, `top` in a terminal, the page in a browser, if there is one. The
//! ranks, none of which uses PMIx, are below four daemons on this host. Prints a JSON line for each.
//!
//! ```text
//! cargo bench -p pmix-tests --bench many                # 10,000 ranks
//! cargo bench -p pmix-tests --bench many -- 1000        # so many
//! ```

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use pmix_tests::{Browser, Running, Terminal, TestDvm, program};
use pmix_tool::Tool;
use pmix_tool::watch::WatchBuilder;
use rustix::fs::Mode;
use serde_json::Value;

/// Answers that are looked at, after the first.
const ANSWERS: usize = 11;

/// Ranks end when something has been written for them: rank 1 alone, then the other odd ones, then all others.
const RANKS: &str = "case $PMIX_RANK in 1) exec cat one;; *[13579]) exec cat half;; *) exec cat rest;; esac";

/// Notes for each state that the page is told how long it took until it was painted, and for how many ranks.
const PAINTED: &str = "
    window.painted = [];
    const parse = JSON.parse;
    JSON.parse = (text) => {
        const begin = performance.now();
        const told = parse(text);
        if (told.jobs) requestAnimationFrame(() => {
            const drawn = performance.now();
            const after = new MessageChannel();
            after.port1.onmessage = () => painted.push([performance.now() - begin, drawn - begin, text.length,
                Number(document.documentElement.dataset.drawn)]);
            after.port2.postMessage(0);
        });
        return told;
    };";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let ranks: usize = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(10_000);
    let dir = tempfile::tempdir().unwrap();
    let [one, half, rest] = ["one", "half", "rest"].map(|name| dir.path().join(name));
    for path in [&one, &half, &rest] {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
    }
    let hosts = ["a", "b", "c", "d"].map(|host| format!("{host}:{}", ranks.div_ceil(4)));
    let dvm = TestDvm::here(&hosts.join(","), "exec \"$@\"", &[]).await;
    let (count, wdir) = (ranks.to_string(), dir.path().to_str().unwrap());
    let job = Running::start(dvm.submit(&["-n", &count, "--wdir", wdir, "sh", "-c", RANKS]));
    let tool = Tool::builder().uri(dvm.uri()).connect().await.unwrap();
    while running(&tool).await < ranks {}
    answers("ps", ranks, tool.watch_jobs()).await;
    answers("top", ranks, tool.watch_jobs().usage()).await;
    tool.finalize().await.unwrap();
    for columns in [80, 200] {
        top(&dvm, dir.path(), ranks, columns).await;
    }
    watch(&dvm, dir.path(), ranks, &one).await;
    web(&dvm, dir.path(), ranks, &half).await;
    drop(job);
    dvm.stop(|_, _| ()).await;
}

async fn running(tool: &Tool) -> usize {
    let mut count = 0;
    for nspace in tool.namespaces().await.unwrap() {
        count += tool.proc_table(nspace).await.unwrap().iter().filter(|row| row.pid.0 > 0).count();
    }
    count
}

async fn answers(of: &str, ranks: usize, watch: WatchBuilder<'_>) {
    let mut watch = watch.period(Duration::from_millis(100)).start().await.unwrap();
    watch.next().await.unwrap().unwrap();
    let first = watch.took();
    let mut took = Vec::new();
    // without changes there is no news, but how long the last answer took is known
    while took.len() < ANSWERS {
        let _ = tokio::time::timeout(Duration::from_secs(3), watch.next()).await;
        took.push(watch.took());
    }
    println!(
        r#"{{"metric":"watch","of":"{of}","ranks":{ranks},"first_ms":{:.1},{}}}"#,
        ms(first),
        median_and_max(took)
    );
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn median_and_max(mut times: Vec<Duration>) -> String {
    times.sort();
    format!(r#""median_ms":{:.1},"max_ms":{:.1}"#, ms(times[times.len() / 2]), ms(times[times.len() - 1]))
}

/// The log of a command, which has a line for each answer that was shown.
struct Log(PathBuf);

/// How long the answer took, how long it took then to show it, and in how many bytes.
type Refreshed = (Duration, Duration, u64);

impl Log {
    const FILTER: &str = "pmix::cli::refresh=debug";

    fn new(dir: &Path, name: &str) -> Self {
        Self(dir.join(name))
    }

    fn refreshed(&self) -> Vec<Refreshed> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        let number = |line: &str, name: &str| {
            let (_, rest) = line.split_once(&format!(" {name}="))?;
            rest.split(' ').next()?.trim().parse().ok()
        };
        let read = |line: &str| {
            let times = ["answered_us", "shown_us"].map(|name| number(line, name).map(Duration::from_micros));
            Some((times[0]?, times[1]?, number(line, "bytes").unwrap_or_default()))
        };
        // the last line may not be whole
        text.split_inclusive('\n').filter(|line| line.ends_with('\n')).filter_map(read).collect()
    }
}

fn report(metric: &str, of: &str, ranks: usize, refreshed: &[Refreshed]) {
    let shown = refreshed.iter().map(|(_, shown, _)| *shown).collect();
    let all = refreshed.iter().map(|(answered, shown, _)| *answered + *shown).collect();
    let bytes = refreshed.iter().map(|(.., bytes)| *bytes).max().unwrap_or_default();
    println!(
        r#"{{"metric":"{metric}","of":"{of}","ranks":{ranks},"shown":{{{}}},"with_answer":{{{}}},"bytes":{bytes}}}"#,
        median_and_max(shown),
        median_and_max(all)
    );
}

/// `pmix top`: all jobs, then the ranks of the one there is, in two orders.
async fn top(dvm: &TestDvm, dir: &Path, ranks: usize, columns: u16) {
    let log = Log::new(dir, &format!("top-{columns}"));
    let mut script = dvm.command("script");
    script.env("RUST_LOG", Log::FILTER);
    let pmix = program("pmix");
    let line = format!("{} top --uri '{}' 2>{}", pmix.display(), dvm.uri(), log.0.display());
    let mut top = Terminal::open(script, &line, (columns, 50));
    top.until("SLOWEST").await;
    let mut seen = 0;
    for (of, keys, words) in [("jobs", "", "run"), ("ranks", "\r", "STATE"), ("ranks by memory", "ss", "")] {
        top.press(keys);
        top.until(words).await;
        top.while_not(|| log.refreshed().len() > seen + ANSWERS).await;
        let refreshed = log.refreshed();
        // the first one may have been on its way
        report("top", &format!("{of}, {columns} columns"), ranks, &refreshed[seen + 1..]);
        seen = refreshed.len();
    }
    top.press("q");
    assert_eq!(top.end().await.0, Some(0));
}

/// Writes for those who wait for it, and they end.
fn end(path: &Path) {
    drop(File::options().write(true).open(path).unwrap());
}

/// `pmix ps --watch`: the table of all, and the end of one rank.
async fn watch(dvm: &TestDvm, dir: &Path, ranks: usize, one: &Path) {
    let log = Log::new(dir, "ps");
    let begin = Instant::now();
    let mut ps = Running::start(logged(dvm.pmix(&["ps", "--watch"], &[]), &log));
    for _ in 0..=ranks {
        ps.line().await.unwrap();
    }
    let table = begin.elapsed();
    end(one);
    ps.line_with(": rank 1 is ").await;
    let refreshed = log.refreshed();
    println!(
        r#"{{"metric":"ps","of":"from the start to the last line","ranks":{ranks},"ms":{:.1}}}"#,
        ms(table)
    );
    report("ps", "table", ranks, &refreshed[..1]);
    report("ps", "change", ranks, &refreshed[1..]);
    drop(ps);
}

/// A command whose standard error is this log.
fn logged(command: Command, log: &Log) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "exec \"$@\" 2>\"$0\""])
        .arg(&log.0)
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.env("RUST_LOG", Log::FILTER);
    shell
}

/// `pmix web`: the page when it is opened, when every second rank has ended, and when it is opened then.
async fn web(dvm: &TestDvm, dir: &Path, ranks: usize, half: &Path) {
    let Some(browser) = Browser::start() else { return };
    let log = Log::new(dir, "web");
    let mut web = Running::start(logged(dvm.pmix(&["web"], &[]), &log));
    let url = web.line().await.unwrap();
    browser.first_run(PAINTED);
    browser.show((1600, 900), false);
    browser.open(&url);
    let last = |browser: &Browser| browser.run("return painted[painted.length - 1] || null");
    browser.until("return painted.length > 0");
    painted("first state", ranks, &last(&browser));
    end(half);
    browser.until(&format!("return document.body.innerText.includes('{} ended')", ranks / 2));
    browser.until("return painted.length > 1");
    painted("every second rank has ended", ranks, &last(&browser));
    browser.run("location.reload()");
    browser.until(
        "return performance.getEntriesByType('navigation')[0].type === 'reload' && painted.length > 0",
    );
    painted("first state, every second rank has ended", ranks, &last(&browser));
    let refreshed = log.refreshed();
    report("web", "first state", ranks, &refreshed[..1]);
    report("web", "changes", ranks, &refreshed[1..]);
    drop(web);
}

fn painted(of: &str, ranks: usize, times: &Value) {
    let [painted, drawn, bytes, handled] = [0, 1, 2, 3].map(|place| times[place].as_f64().unwrap());
    println!(
        r#"{{"metric":"page","of":"{of}","ranks":{ranks},"handled_ms":{handled:.1},"frame_ms":{drawn:.1},"painted_ms":{painted:.1},"bytes":{bytes}}}"#
    );
}
