//! Small jobs in a DVM: `pmix submit --stage` with so many lines of `true`. Prints the rate, beside that of a shell that starts `true` as
//! often, and what the head takes of the system after each thousand jobs or so.
//!
//! ```text
//! cargo bench -p pmix-tests --bench stage                  # 5,000 jobs on this node
//! cargo bench -p pmix-tests --bench stage -- 10000 4       # so many, over so many hosts by ssh
//! cargo bench -p pmix-tests --bench stage -- 5000 1 32     # on this node, 32 at a time instead of one for each processor
//! ```

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

use pmix_tests::{Hosts, TestDvm, run};

/// In how many parts the jobs are run, so that growth shows.
const PARTS: usize = 5;

fn main() {
    const SEARCHED: &str = "LD_LIBRARY_PATH";
    // cargo sets it, and each `true` would look there for its libraries
    if std::env::var_os(SEARCHED).is_some() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        panic!("{}", again.args(std::env::args_os().skip(1)).env_remove(SEARCHED).exec());
    }
    measure();
}

#[tokio::main(flavor = "current_thread")]
async fn measure() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let jobs = numbers.first().copied().unwrap_or(5000);
    let hosts = numbers.get(1).copied().filter(|count| *count > 1);
    let at_a_time = numbers.get(2).map(usize::to_string);
    let at_a_time: Vec<_> = at_a_time.iter().flat_map(|count| ["--jobs", count]).collect();
    let mut dvm = match hosts {
        None => TestDvm::alone().await,
        Some(count) => {
            let hosts = Hosts::with_ssh(count).unwrap();
            let list: Vec<_> = (0..count).map(|host| format!("n{host}:4")).collect();
            TestDvm::on(hosts, &["--host", &list.join(",")]).await
        }
    };
    let nodes = dvm.nodes().len();
    let dir = tempfile::Builder::new().prefix("stage-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("stage");
    fs::write(&file, "true\n".repeat(jobs / PARTS)).unwrap();
    // the first ones find nothing warm
    let few = dir.path().join("few");
    fs::write(&few, "true\n".repeat(100)).unwrap();
    stage(&dvm, &few, &at_a_time);
    let head = head_of(&mut dvm, hosts.is_some());
    for part in 1..=PARTS {
        let floor = shell(jobs / PARTS);
        let rate = stage(&dvm, &file, &at_a_time);
        let (resident, files) = footprint(head);
        println!(
            r#"{{"metric":"small_jobs","nodes":{nodes},"jobs":{},"per_second":{rate:.0},"shell_per_second":{floor:.0},"head_resident_kib":{resident},"head_files":{files}}}"#,
            part * (jobs / PARTS)
        );
    }
    dvm.stop(|_, _| ()).await;
}

/// Jobs a second.
fn stage(dvm: &TestDvm, file: &std::path::Path, at_a_time: &[&str]) -> f64 {
    let began = Instant::now();
    let (code, out, err) = run(dvm.submit(&[&["--stage", file.to_str().unwrap()], at_a_time].concat()));
    let took = began.elapsed().as_secs_f64();
    assert_eq!(code, Some(0), "{err}");
    out.lines().count() as f64 / took
}

/// How many times a second a shell starts it, one after the other.
fn shell(count: usize) -> f64 {
    let began = Instant::now();
    let script = format!("i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done");
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    count as f64 / began.elapsed().as_secs_f64()
}

fn head_of(dvm: &mut TestDvm, is_elsewhere: bool) -> i32 {
    if !is_elsewhere {
        return dvm.head().pid();
    }
    let is_head = |(_, line): &&(i32, String)| line.contains("/pmixd --head ");
    dvm.hosts().processes_on(0).iter().find(is_head).map(|(pid, _)| *pid).unwrap()
}

/// The resident set in KiB, and the open files, of a process.
fn footprint(pid: i32) -> (u64, usize) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident = resident.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    (resident, fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count())
}
