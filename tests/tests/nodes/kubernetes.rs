//! The manifest for Kubernetes, on hosts in place of pods.

use std::fs;
use std::process::{Command, Stdio};

use pmix_tests::{Hosts, example, program};

use super::hosts::nothing_is_left_on;

/// The script that all pods run, as the manifest has it.
fn script() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/k8s/job.yaml");
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().skip_while(|line| line.trim() != "- |").skip(1).peekable();
    let first = lines.peek().unwrap();
    let indent = " ".repeat(first.len() - first.trim_start().len());
    lines.map_while(|line| line.strip_prefix(&indent)).map(|line| format!("{line}\n")).collect()
}

#[test]
fn pods_of_an_indexed_job_run_one_job() {
    let Some(hosts) = Hosts::with_ssh(3) else { return };
    let (pmixrun, ring) = (program("pmix-rm", "pmixrun"), example("ring"));
    let bin = program("pmix-rm", "pmixd").parent().unwrap().to_owned();
    assert_eq!(pmixrun.parent(), Some(&*bin));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let lines = hosts.shared().join("lines");
    let pod = |index: usize| -> Command {
        let mut command = hosts.command(index, "sh");
        command.args(["-c", &script(), "hello"]).arg(&ring).env("PATH", &path);
        command.env("JOB_COMPLETION_INDEX", index.to_string()).env("PODS", "3").env("SLOTS", "2");
        command.env("RUN", "7d1f").env("LINES_OF_RUNS", &lines).env("PMIXRUN_RECORD", "none");
        command.env_remove("RUST_LOG").stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    // in any order
    let others = [2, 1].map(|index| pod(index).spawn().unwrap());
    let output = pod(0).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    for rank in 0..6 {
        let line = format!("rank {rank} of 6 on n{}: values right, publish right", rank / 2);
        assert!(out.contains(&line), "{line}\n{out}{err}");
    }
    assert!(out.contains("spawn right"), "{out}");
    for pod in others {
        let output = pod.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    assert!(!lines.exists(), "it was made for the run");
    nothing_is_left_on(&hosts, 0..3, &"after the run");
}
