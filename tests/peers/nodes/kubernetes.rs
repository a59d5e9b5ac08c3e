//! The manifest for Kubernetes, on hosts in place of pods.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use pmix_tests::{Hosts, example, program, run};

use super::hosts::nothing_is_left_on;

/// The script that all pods run, as a manifest has it.
fn script(manifest: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/k8s").join(manifest);
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().skip_while(|line| line.trim() != "- |").skip(1).peekable();
    let first = lines.peek().unwrap();
    let indent = " ".repeat(first.len() - first.trim_start().len());
    lines.map_while(|line| line.strip_prefix(&indent)).map(|line| format!("{line}\n")).collect()
}

/// A host of three, in place of a pod.
fn pod(hosts: &Hosts, index: usize, script: &str) -> Command {
    let bin = program("pmixd").parent().unwrap().to_owned();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = hosts.command(index, "sh");
    command.args(["-c", script]).env("PATH", &path);
    command.env("JOB_COMPLETION_INDEX", index.to_string()).env("PODS", "3").env("SLOTS", "2");
    command
        .env("RUN", "7d1f")
        .env("LINES_OF_RUNS", hosts.shared().join("lines"))
        .env("PMIXRUN_RECORD", "none");
    command.env_remove("RUST_LOG").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn pods_of_an_indexed_job_are_a_dvm() {
    let Some(hosts) = Hosts::with_ssh(3) else { return };
    let script = script("dvm.yaml");
    let mut pods = [2, 1, 0].map(|index| pod(&hosts, index, &script).spawn().unwrap());
    let head = &mut pods[2];
    let mut said = BufReader::new(head.stderr.as_mut().unwrap()).lines();
    let ready = said.by_ref().map_while(Result::ok).find(|line| line.contains("ready with 3 nodes"));
    assert!(ready.is_some(), "the head has ended");
    let pmix = |words: &[&str]| {
        let mut command = hosts.command(0, program("pmix"));
        command.args(words).env_remove("RUST_LOG");
        run(command)
    };
    let probe = hosts.command(0, "test").args(["-e", "/tmp/dvm.uri"]).status().unwrap();
    assert!(probe.success(), "the probe of the manifest finds it ready");
    let (code, out, err) = pmix(&["submit", "-n", "6", "sh", "-c", "echo $PMIX_RANK on $PMIX_HOSTNAME"]);
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        (code, lines),
        (Some(0), ["0 on n0", "1 on n0", "2 on n1", "3 on n1", "4 on n2", "5 on n2"].into()),
        "{err}"
    );
    assert_eq!(pmix(&["dvm", "stop"]), (Some(0), String::new(), String::new()));
    drop(said);
    for pod in pods {
        assert!(pod.wait_with_output().unwrap().status.success());
    }
    nothing_is_left_on(&hosts, 0..3, &"after the DVM");
}

#[test]
fn pods_of_an_indexed_job_run_one_job() {
    let Some(hosts) = Hosts::with_ssh(3) else { return };
    let (pmixrun, ring) = (program("pmixrun"), example("ring"));
    assert_eq!(pmixrun.parent(), program("pmixd").parent());
    let lines = hosts.shared().join("lines");
    let pod = |index: usize| {
        let mut command = pod(&hosts, index, &script("job.yaml"));
        command.arg("hello").arg(&ring);
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
