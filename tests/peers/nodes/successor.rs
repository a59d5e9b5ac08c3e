//! A head whose host is killed or cut off: another one goes on with its jobs.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pmix_test_wait::{until, within};
use pmix_tests::{
    Hosts, NUMBERS, Running, TestDvm, TestEtcd, executable, kill_daemon, on_path, program, run,
};
use rustix::process::Signal;

use super::hosts::nothing_is_left_on;

/// Writes to a common file who it is, waits until it may end, and ends with a code of its own.
const RANK: &str = "#!/bin/sh
echo \"$1 $PMIX_RANK $(hostname) $$\" >> $2/log
while ! test -e $2/go; do sleep 0.1; done
exit $((10 + $1))
";

/// Where the first head is, where the next one waits, where a tool publishes, and where etcd is.
const FIRST: usize = 0;
const NEXT: usize = 1;
const PUBLISHER: usize = 2;
const ETCD: usize = 3;
const JOBS: usize = 4;
const RANKS: usize = 3;

/// Hosts with etcd on one of them.
struct Site {
    hosts: Hosts,
    /// It ends with its host.
    _etcd: Running,
}

impl Site {
    async fn new() -> Option<Self> {
        let etcd = on_path("etcd", "apt-get install etcd-server")?;
        let hosts = Hosts::with_ssh(4)?;
        program("pmix");
        let [clients, peers] = [2379, 2380].map(|port| format!("http://{}:{port}", hosts.address(ETCD)));
        let mut command = hosts.command(ETCD, etcd);
        command.args(["--name", "e", "--log-level", "error", "--initial-cluster", &format!("e={peers}")]);
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.arg("--data-dir").arg(hosts.shared().join("etcd"));
        let etcd = Running::start(command);
        let site = Self { hosts, _etcd: etcd };
        executable(&site.path("rank"), RANK);
        Some(site)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.hosts.shared().join(name)
    }

    fn head(&self, host: usize) -> Running {
        let mut command = self.hosts.command(host, program("pmixd"));
        command.args(["--head", "--report-uri", "-", "--host", "n0:2,n1:8,n2:8,n3:8", "--etcd-insecure"]);
        command.args(["--host-grace", "10", "--head-grace", "40", "--grace", "1"]);
        command.args(["--etcd", &format!("http://{}:2379", self.hosts.address(ETCD))]);
        command.env_remove("RUST_LOG");
        Running::start(command)
    }

    fn pmix(&self, host: usize, args: &[&str]) -> Command {
        let mut command = self.hosts.command(host, program("pmix"));
        command.env_remove("RUST_LOG").args(args);
        command
    }

    /// Submits a job whose ranks wait, to hosts that are not lost.
    fn submit(&self, host: usize, job: usize) -> Running {
        let ranks = RANKS.to_string();
        let rank = self.path("rank");
        let args = ["submit", "-H", "n1,n2,n3", "-n", &ranks, rank.to_str().unwrap()];
        let mut command = self.pmix(host, &args);
        command.arg(job.to_string()).arg(self.hosts.shared());
        Running::start(command)
    }

    /// How often each rank of each job has run.
    fn log(&self) -> BTreeMap<(usize, usize), usize> {
        let mut ran = BTreeMap::new();
        for line in fs::read_to_string(self.path("log")).unwrap_or_default().lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            let [job, rank, ..] = words[..] else { panic!("{line}") };
            *ran.entry((job.parse().unwrap(), rank.parse().unwrap())).or_default() += 1;
        }
        ran
    }
}

/// What happens to the host of the first head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Killed,
    CutOff,
}

/// Publishes keys one after the other until it is told to end; those that were published.
async fn publish(site: &Site, is_over: &AtomicBool) -> Vec<String> {
    let mut published = Vec::new();
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("key.{number}");
        let (status, ..) =
            Running::start(site.pmix(PUBLISHER, &["publish", &format!("{key}={number}")])).end().await;
        if status.success() {
            published.push(key);
        }
    }
    published
}

/// The first head is lost so long after jobs were submitted, and the next one is there.
async fn lose(site: &Site, fate: Fate, after: Duration, next: &mut Running) {
    // the moment is drawn; nothing is waited for
    let _ = tokio::time::timeout(after, std::future::pending::<()>()).await;
    match fate {
        Fate::Killed => site.hosts.kill_at_once(FIRST),
        Fate::CutOff => site.hosts.cut(FIRST),
    }
    within(next.line_at_last()).await.unwrap();
}

#[allow(clippy::print_stderr, reason = "how many jobs went on is of interest")]
async fn succession(fate: Fate, after: Duration) {
    let Some(site) = Site::new().await else { return };
    let mut first = site.head(FIRST);
    within(first.line_at_last()).await.unwrap();
    let mut next = site.head(NEXT);
    let jobs: Vec<_> = (0..JOBS).map(|job| site.submit([NEXT, PUBLISHER][job % 2], job)).collect();
    let is_over = AtomicBool::new(false);
    let (published, ()) = tokio::join!(publish(&site, &is_over), async {
        lose(&site, fate, after, &mut next).await;
        is_over.store(true, Ordering::Relaxed);
    });
    fs::write(site.path("go"), "").unwrap();
    let mut gone_on = 0;
    for (job, submitted) in jobs.into_iter().enumerate() {
        let (status, _, err) = submitted.end().await;
        if status.code() == Some(10 + i32::try_from(job).unwrap()) {
            gone_on += 1;
            let ran = site.log();
            let ran: Vec<_> = (0..RANKS).map(|rank| ran.get(&(job, rank)).copied()).collect();
            assert_eq!(ran, [Some(1); RANKS], "job {job}");
        } else {
            assert!(
                err.contains("was being started when the head of the DVM was lost"),
                "job {job}: {status} {err}"
            );
        }
    }
    assert!(site.log().values().all(|count| *count == 1), "{:?}", site.log());
    eprintln!("{fate:?} after {after:?}: {gone_on} of {JOBS} jobs went on, {} keys", published.len());
    // what was published is there
    for keys in published.chunks(100) {
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        let (code, out, err) = run(site.pmix(PUBLISHER, &[&["lookup"], &keys[..]].concat()));
        assert_eq!(code, Some(0), "{err}");
        keys.iter().for_each(|key| assert!(out.contains(*key), "{key} is missing: {out}"));
    }
    if fate == Fate::CutOff {
        let (status, _, err) = first.end().await;
        assert_eq!(status.code(), Some(1), "{err}");
        assert!(err.contains("ending"), "{err}");
        // also its daemon
        until("no pmixd is left on the host of the first head", || {
            let processes = site.hosts.processes_on(FIRST);
            if processes.iter().any(|(_, line)| line.contains("pmixd")) { Err(processes) } else { Ok(()) }
        })
        .await;
        site.hosts.mend(FIRST);
    }
    // the next one takes jobs
    assert_eq!(run(site.pmix(NEXT, &["submit", "-n", "2", "echo", "works"])).1, "works\nworks\n");
    assert_eq!(run(site.pmix(PUBLISHER, &["dvm", "stop"])).0, Some(0));
    let (status, _, err) = next.end().await;
    assert!(status.success(), "{err}");
    nothing_is_left_on(&site.hosts, NEXT..=PUBLISHER, &"after the DVM");
}

/// A head of a DVM of which the nodes `a` and `b` are this host.
async fn head_here(etcd: &TestEtcd) -> TestDvm {
    head_with(etcd, &["--grace", "1"]).await
}

/// The same, with these options.
async fn head_with(etcd: &TestEtcd, options: &[&str]) -> TestDvm {
    let of_etcd = etcd.options();
    let options: Vec<_> = of_etcd.iter().map(String::as_str).chain(options.iter().copied()).collect();
    TestDvm::here("a:4,b:4", NUMBERS, &options).await
}

/// The address of the server of a daemon.
fn server_of(dvm: &TestDvm, node: &str) -> String {
    let (code, out, err) = run({
        let mut command = dvm.command(program("pmix"));
        command.args(["servers", "--json"]);
        command
    });
    assert_eq!(code, Some(0), "{err}");
    let servers: serde_json::Value = serde_json::from_str(&out).unwrap();
    let servers = servers["servers"].as_array().unwrap();
    let server = servers
        .iter()
        .find(|server| server["node"] == node && server["alive"] == true)
        .unwrap_or_else(|| panic!("{out}"));
    server["uri"].as_str().unwrap().to_owned()
}

fn pmix_at(dvm: &TestDvm, uri: &str, words: &[&str], args: &[&str]) -> Command {
    let mut command = dvm.command(program("pmix"));
    command.args(words).args(["--uri", uri]).args(args);
    command
}

/// Kills the head; the next one, which waits for its end.
async fn next_of(dvm: &TestDvm, etcd: &TestEtcd) -> TestDvm {
    next_with(dvm, etcd, &["--grace", "1"]).await
}

/// The same, with these options.
async fn next_with(dvm: &TestDvm, etcd: &TestEtcd, options: &[&str]) -> TestDvm {
    let kill = async {
        dvm.head().kill();
    };
    let (next, ()) = tokio::join!(head_with(etcd, options), kill);
    next
}

#[tokio::test]
async fn a_head_that_reaches_a_minority_of_etcd_alone_declares_no_node_lost_and_ends() {
    let Some(etcd) = TestEtcd::of_three() else { return };
    let dvm = head_with(&etcd, &["--grace", "1", "--head-grace", "2"]).await;
    let mut job = Running::start(dvm.submit(&["-H", "b", "sh", "-c", "echo begun; exec sleep 600"]));
    job.line_with("begun").await;
    etcd.hold_others().await;
    kill_daemon(&dvm, "b");
    let said = dvm.ended_with(1, |_, _| ()).await;
    assert!(said.contains("ending what runs on this side: node b: "), "{said}");
    assert!(!said.contains("node b is lost"), "{said}");
    job.end().await;
}

#[tokio::test]
async fn a_node_that_is_added_while_its_loss_is_not_confirmed_is_there() {
    let Some(etcd) = TestEtcd::plain() else { return };
    let dvm = head_here(&etcd).await;
    etcd.hold().await;
    kill_daemon(&dvm, "b");
    // the head has noticed when it cannot ask there
    until("the head has noticed", || {
        let (_, said, _) = run(dvm.pmix(&["why"], &[]));
        if said.contains("No job is running") { Err(said) } else { Ok(()) }
    })
    .await;
    let add = Running::start(dvm.pmix(&["nodes", "add"], &["b:4"]));
    // meanwhile the request comes
    run(dvm.pmix(&["why"], &[]));
    etcd.go_on();
    let (status, _, err) = add.end().await;
    assert!(status.success(), "{err}");
    let rank = pmix_tests::rank_program();
    let fences = |dvm: &TestDvm| {
        let fence = dvm.submit(&["-n", "8", "-H", "a,b", rank.to_str().unwrap(), "fence"]);
        let (code, out, err) = run(fence);
        assert_eq!(code, Some(0), "{out}{err}");
    };
    fences(&dvm);
    // nor does the next head take it for the one that was lost
    let next = next_of(&dvm, &etcd).await;
    fences(&next);
    let at_b = server_of(&dvm, "b");
    let (code, out, err) = run(pmix_at(&next, &at_b, &["why"], &[]));
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "No job is running.\n", ""));
    next.stop(|_, _| ()).await;
}

#[tokio::test]
async fn a_head_that_has_taken_over_ends_when_all_is_gone_that_the_one_before_has_started() {
    let Some(etcd) = TestEtcd::plain() else { return };
    let options = ["--grace", "4"];
    let first = head_with(&etcd, &options).await;
    let at_a = server_of(&first, "a");
    let pid = first.dir().join("pid");
    let stubborn = "trap '' TERM INT; echo $$ > $1.new; mv $1.new $1; while :; do sleep 1; done";
    let job = ["--detach", "-H", "a", "sh", "-c", stubborn, "sh", pid.to_str().unwrap()];
    let (code, _, err) = run(pmix_at(&first, &at_a, &["submit"], &job));
    assert_eq!(code, Some(0), "{err}");
    until("the job has begun", || pid.exists()).await;
    let next = next_with(&first, &etcd, &options).await;
    for signal in [Signal::INT, Signal::TERM] {
        next.head().signal(signal);
    }
    let said = next.ended_with(0, |_, _| ()).await;
    assert!(said.contains("killing what is left of jobs"), "{said}");
    let pid = fs::read_to_string(pid).unwrap();
    assert!(!PathBuf::from("/proc").join(pid.trim()).exists(), "{said}");
}

#[tokio::test]
async fn whoever_asks_later_is_told_how_a_job_has_ended_by_the_next_head_and_the_one_after_that() {
    let Some(etcd) = TestEtcd::plain() else { return };
    let first = head_here(&etcd).await;
    let at_a = server_of(&first, "a");
    let go = first.dir().join("go");
    let waits = "while ! test -e \"$1\"; do sleep 0.1; done; exit 7";
    let job = ["--detach", "-n", "2", "-H", "a,b", "sh", "-c", waits, "sh", go.to_str().unwrap()];
    let (code, nspace, err) = run(pmix_at(&first, &at_a, &["submit"], &job));
    assert_eq!(code, Some(0), "{err}");
    let nspace = nspace.trim();
    // while it runs, and from a server that is lost
    let waiting = Running::start(pmix_at(&first, &at_a, &["wait"], &[nspace]));
    let second = next_of(&first, &etcd).await;
    fs::write(&go, "").unwrap();
    assert_eq!(waiting.end().await.0.code(), Some(7));
    let ended = |dvm: &TestDvm| run(dvm.pmix(&["wait", "--json"], &[nspace]));
    let (code, report, err) = ended(&second);
    assert_eq!(code, Some(7), "{err}");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["exit_code"], &report["status"]), (&7.into(), &"ERR_JOB_NON_ZERO_TERM".into()));
    let third = next_of(&second, &etcd).await;
    assert_eq!(ended(&third).0, Some(7));
    let (code, _, err) = run(third.pmix(&["wait"], &["no.such.job"]));
    assert_eq!(code, Some(1));
    assert!(err.contains("no server here knows a job no.such.job"), "{err}");
    // its name is not given again
    let (code, next, err) = run(pmix_at(&first, &at_a, &["submit", "--detach"], &["true"]));
    assert_eq!(code, Some(0), "{err}");
    assert_ne!(next.trim(), nspace);
    third.stop(|_, _| ()).await;
}

/// Further moments at which to try it.
fn more() -> u64 {
    std::env::var("PMIX_SUCCESSIONS").ok().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_go_on_under_the_next_head_when_the_host_of_their_head_is_killed_or_cut_off() {
    succession(Fate::Killed, Duration::from_millis(1500)).await;
    succession(Fate::CutOff, Duration::from_millis(1500)).await;
    for number in 0..more() {
        let fate = if number % 2 == 0 { Fate::Killed } else { Fate::CutOff };
        let millis = RandomState::new().hash_one(number) % 2500;
        succession(fate, Duration::from_millis(millis)).await;
    }
}
