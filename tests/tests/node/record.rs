//! The flight recorder: files of jobs that fail or are ended, and what tools read.

use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_client::types::why::RECORD;
use pmix_client::types::{Query, Scope};
use pmix_host::{JobReport, MemoryExchange, ProcExit, Records, RunningJob, StandardHost};
use pmix_tests::{Running, TestLauncher, TestNode, proc, program, within};
use pmix_tool::Tool;

/// The files of the record of a job, by node: all that come before this many have come.
async fn files(job: &mut RunningJob, count: usize) -> Vec<(String, PathBuf)> {
    let mut files = Vec::new();
    while files.len() < count {
        match within(job.next_report()).await.unwrap() {
            JobReport::Recorded { node, file } => files.push((node, file)),
            JobReport::Done(_) => panic!("the job has left no more than {files:?}"),
            _ => {}
        }
    }
    files
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap()
}

#[tokio::test]
async fn a_rank_that_dies_leaves_its_fence_and_its_loss_on_record() {
    let launcher = TestLauncher::new("n0");
    let (node, _host, mut job) = launcher.node("mortal", 3).await;
    let [waits, dies, lives] = [0, 1, 2].map(|rank| proc("mortal", rank));
    let (waiting, dying) = (node.connect(&waits).await.unwrap(), node.connect(&dies).await.unwrap());
    let _living = node.connect(&lives).await.unwrap();
    dying.put(Scope::GLOBAL, "secret", "hunter2").unwrap();
    within(async { dying.commit().await }).await.unwrap();
    let fence = tokio::spawn(async move { waiting.fence_all().await });
    node.until_waiting(1).await;
    drop(dying);
    within(fence).await.unwrap().unwrap_err();

    let files = files(&mut job, 1).await;
    let (name, file) = &files[0];
    assert_eq!(
        (name.as_str(), file.parent().unwrap()),
        ("n0", &*node.handle().session_dir().join("records"))
    );
    let text = read(file);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "job mortal: it has failed");
    let head = format!("record of server {} on n0, pid {}", node.handle().proc_id(), std::process::id());
    assert_eq!(lines[1], head);
    let entered =
        lines.iter().position(|line| line.contains(" request    mortal:0 #") && line.ends_with(": fence"));
    let lost = lines.iter().position(|line| line.contains(" lost       mortal:1: "));
    let failed = lines
        .iter()
        .position(|line| line.contains(" reply      mortal:0 #") && line.contains(": fence, after "));
    assert!(entered.is_some() && entered < lost && lost < failed, "{text}");
    assert!(
        lines[failed.unwrap()].contains(", failed: ") && lines[failed.unwrap()].contains("mortal:1"),
        "{text}"
    );
    // the time of day begins each entry: this day or, around midnight, the one before
    let (date, _) = lines[entered.unwrap()].split_once('T').unwrap();
    assert!(
        date.len() == 10
            && date.starts_with("20")
            && lines[2].starts_with(&format!("written at {}", &date[..4]))
    );
    assert!(!text.contains("hunter2"), "{text}");
    // the file is in there until the server stops
    let dir = file.parent().unwrap().to_owned();
    launcher.end(&dies, ProcExit::Signal(9)).await;
    drop((job, node));
    drop(dir);
}

#[tokio::test]
async fn a_job_that_hangs_until_it_is_told_to_end_leaves_what_it_waited_for_on_each_node() {
    let names = ["n0", "n1"];
    let launcher = TestLauncher::on(names);
    let place = tempfile::tempdir().unwrap();
    let records = Records::Directory(place.path().join("records"));
    let hosts = StandardHost::cluster(launcher.clone(), MemoryExchange::cluster(names));
    let hosts: Vec<_> = hosts.into_iter().map(|host| host.with_records(records.clone())).collect();
    let mut nodes = Vec::new();
    for (name, host) in names.into_iter().zip(&hosts) {
        nodes.push(TestNode::builder(0).nspace("registered").hostname(name).host(host.clone()).start().await);
    }
    let mut job = launcher.start(&hosts[0], "../hung", 2).await;
    let waiting = nodes[0].connect(&proc("../hung", 0)).await.unwrap();
    let _elsewhere = nodes[1].connect(&proc("../hung", 1)).await.unwrap();
    let fence = tokio::spawn(async move { waiting.fence_all().await });
    nodes[0].until_waiting(2).await;
    job.terminate();
    let files = files(&mut job, 2).await;
    for ((node, file), name) in files.iter().zip(names) {
        assert_eq!((node.as_str(), file.parent().unwrap()), (name, &*place.path().join("records")));
        let begins = format!("record..._hung.{name}.");
        assert!(file.file_name().unwrap().to_str().unwrap().starts_with(&begins), "{}", file.display());
        assert!(read(file).starts_with("job ../hung: it is told to end\n"), "{}", read(file));
    }
    let (here, there) = (read(&files[0].1), read(&files[1].1));
    let (_, waits) = here.split_once("\nwaiting now: 1\n").unwrap();
    assert!(
        waits.starts_with("fence #") && waits.contains("arrived ../hung:0, waits for the host"),
        "{here}"
    );
    assert!(there.ends_with("\nwaiting now: 0\n"), "{there}");
    // one record tells of the end: what comes of it is told by nobody
    while let Some(report) = within(job.next_report()).await {
        assert!(!matches!(report, JobReport::Recorded { .. }), "{report:?}");
    }
    assert_eq!(place.path().join("records").read_dir().unwrap().count(), 2);
    fence.abort();
}

#[tokio::test]
async fn a_job_that_ends_well_leaves_no_record_nor_does_one_of_a_host_without_records() {
    let launcher = TestLauncher::new("n0");
    let (node, host, mut job) = launcher.node("well", 1).await;
    within(node.connect(&proc("well", 0)).await.unwrap().finalize()).await.unwrap();
    launcher.end(&proc("well", 0), ProcExit::Code(0)).await;
    while let Some(report) = within(job.next_report()).await {
        assert!(!matches!(report, JobReport::Recorded { .. }), "{report:?}");
    }
    assert!(!node.handle().session_dir().join("records").exists());
    drop((node, host));

    let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0")).with_records(Records::Off);
    let node = launcher.node_of(host.clone()).await;
    let mut job = launcher.start(&host, "badly", 1).await;
    launcher.end(&proc("badly", 0), ProcExit::Code(3)).await;
    while let Some(report) = within(job.next_report()).await {
        assert!(!matches!(report, JobReport::Recorded { .. }), "{report:?}");
    }
    assert!(!node.handle().session_dir().join("records").exists());
}

#[tokio::test]
async fn a_tool_reads_the_record_of_its_server_and_the_command_writes_it() {
    let launcher = TestLauncher::new("n0");
    let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0"));
    let node = TestNode::builder(0).nspace("registered").hostname("n0").host(host.clone());
    let node = node.server(|server| server.tool_support(true).record(8)).start().await;
    let _job = launcher.start(&host, "asked", 1).await;
    let rank = node.connect(&proc("asked", 0)).await.unwrap();
    for _ in 0..20 {
        within(async { rank.commit().await }).await.unwrap();
    }
    let tool = within(Tool::builder().uri(node.handle().uri()).connect()).await.unwrap();
    let text = within(tool.record()).await.unwrap();
    assert!(text.starts_with("record of server ") && text.contains("\nwritten at 20"), "{text}");
    assert!(text.contains(": the last 8 of ") && text.contains(&format!(": {}\n", tool.proc_id())), "{text}");
    // it looks, and leaves no trace
    let entries = |text: &str| {
        text.lines().filter(|line| line.starts_with("20")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(entries(&text).len(), 8);
    assert_eq!(entries(&within(node.handle().record()).await), entries(&text));
    // a process of the server's user may read it, too
    let answer = within(rank.query([Query::new(&RECORD)])).await.unwrap();
    assert_eq!(answer.get(RECORD).unwrap().map(|text| entries(&text)), Some(entries(&text)));

    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("record");
    let pmix = async |to: &str| {
        let mut command = Command::new(program("pmix"));
        command.args(["why", "--record", to, "--uri", node.handle().uri()]);
        Running::start(command).end().await
    };
    let (status, out, err) = pmix(file.to_str().unwrap()).await;
    assert!(status.success() && out.is_empty() && err.is_empty(), "{out}{err}");
    assert!(
        read(&file).starts_with("record of server ") && read(&file).ends_with("waiting now: 0\n"),
        "{}",
        read(&file)
    );
    let (status, out, err) = pmix("-").await;
    assert!(status.success() && err.is_empty() && out.starts_with("record of server "), "{out}{err}");
    let (status, _, err) = pmix(place.path().join("none/record").to_str().unwrap()).await;
    assert_eq!(status.code(), Some(1));
    assert!(
        err.starts_with("pmix: --record ") && err.ends_with("record: No such file or directory\n"),
        "{err}"
    );
}
