//! Forwarding of output and input, with real processes.

use std::io::Write;
use std::process::Command;

use pmix_client::types::{App, Directives, Info, IofChannels, keys};
use pmix_client::{Client, InputSink, OutputChunk, OutputError, OutputStream, ProcId, Rank, Status};
use pmix_host::{JobReport, JobStart, LaunchReport, MemoryExchange, OutputChannel, RunningJob, StandardHost};
use pmix_launch::LocalLauncher;
use pmix_server::Server;
use pmix_test_wait::within;
use pmix_tests::{EndsProcesses, Running, TestNode, pmix, pmixrun, program};
use pmix_tool::Tool;
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::Signal;

/// Writes what it reads to both channels.
const ECHO: &str = r#"while read line; do echo "$line"; echo "$line!" >&2; done"#;

/// A node whose host starts processes.
struct Rig {
    node: TestNode,
    host: StandardHost,
    _ends: EndsProcesses,
}

impl Rig {
    async fn start() -> Self {
        let host = StandardHost::new(LocalLauncher::new("n0"), MemoryExchange::single("n0"));
        let node = TestNode::builder(1).host(host.clone()).server(|server| server.tool_support(true));
        let node = node.start().await;
        Self { host, _ends: EndsProcesses::of(node.root()), node }
    }

    async fn tool(&self) -> Tool {
        within(Tool::builder().uri(self.node.handle().uri()).connect()).await.unwrap()
    }

    /// A job of a shell script that takes input.
    async fn job(&self, name: &str, script: &str, ranks: u32) -> RunningJob {
        self.start_job(job(name, script, ranks).stdin(Rank::WILDCARD)).await
    }

    async fn start_job(&self, start: JobStart) -> RunningJob {
        within(self.host.start_job(start)).await.unwrap()
    }
}

fn job(name: &str, script: &str, ranks: u32) -> JobStart {
    JobStart::new(name.parse().unwrap(), vec![App::new("sh", ranks).args(["-c", script])])
}

fn all_of(job: &RunningJob) -> ProcId {
    ProcId::wildcard(job.nspace().clone())
}

fn rank(job: &RunningJob, rank: u32) -> ProcId {
    ProcId::new(job.nspace().clone(), Rank::from_raw(rank))
}

async fn pull(tool: &Tool, procs: impl IntoIterator<Item = ProcId>) -> OutputStream {
    within(tool.pull_output(procs).copy()).await.unwrap()
}

async fn say(input: &mut InputSink, text: &str) {
    within(input.write(text.to_owned())).await.unwrap();
}

async fn next(output: &mut OutputStream) -> OutputChunk {
    within(output.recv()).await.unwrap().unwrap()
}

/// What the owner of a job sees next on a channel; `None` when the job is over. Lines that are stolen never come to it.
async fn owner_sees(job: &mut RunningJob, wanted: OutputChannel) -> Option<String> {
    loop {
        match within(job.next_report()).await? {
            JobReport::Proc(LaunchReport::Output { channel, data, .. }) => {
                let text = String::from_utf8(data.to_vec()).unwrap();
                assert!(channel != OutputChannel::Stdout || !text.contains("stolen"), "{text}");
                if channel == wanted && !text.is_empty() {
                    return Some(text);
                }
            }
            JobReport::Done(_) => return None,
            _ => {}
        }
    }
}

/// Speaks to an echo that is redirected, until its owner reads it again, after what was written before.
async fn until_restored(job: &mut RunningJob, input: &mut InputSink, seen: &mut OutputStream) {
    loop {
        say(input, "probe\n").await;
        tokio::select! {
            text = owner_sees(job, OutputChannel::Stdout) => {
                if text.unwrap().contains("probe") {
                    return;
                }
            }
            // lines may come together
            chunk = next(seen) => assert!(chunk.data.ends_with(b"probe\n")),
        }
    }
}

#[tokio::test]
async fn iof_01a_iof_09_iof_10_what_is_pushed_comes_out_where_it_is_pulled() {
    let rig = Rig::start().await;
    let (tool, mut echo) = (rig.tool().await, rig.job("echo", ECHO, 2).await);
    let mut output = pull(&tool, [all_of(&echo)]).await;
    // who is named twice reads it once
    let mut input = tool.push_stdin([rank(&echo, 1), rank(&echo, 1)]);
    say(&mut input, "one\n").await;
    let mut heard = [next(&mut output).await, next(&mut output).await];
    heard.sort_by_key(|chunk| chunk.channels);
    for (chunk, channels, text) in
        [(&heard[0], IofChannels::STDOUT, "one\n"), (&heard[1], IofChannels::STDERR, "one!\n")]
    {
        assert_eq!((&chunk.source, chunk.channels), (&rank(&echo, 1), channels));
        assert_eq!((&chunk.data[..], chunk.is_complete), (text.as_bytes(), false));
    }
    // a copy leaves the owner what it had
    assert_eq!(owner_sees(&mut echo, OutputChannel::Stdout).await.unwrap(), "one\n");

    // many pieces, all in order
    let mut all = tool.push_stdin([all_of(&echo)]);
    let lines: String = (0..200).map(|number| format!("{number}\n")).collect();
    for line in lines.split_inclusive('\n') {
        say(&mut all, line).await;
    }
    within(all.close()).await.unwrap();
    let owner =
        tokio::spawn(async move { while owner_sees(&mut echo, OutputChannel::Stdout).await.is_some() {} });
    let mut by_rank = [String::new(), String::new()];
    let mut complete = Vec::new();
    loop {
        let chunk = next(&mut output).await;
        if chunk.is_complete {
            complete.push((chunk.source.rank, chunk.channels));
            if chunk.source.rank.is_wildcard() {
                break;
            }
        } else if chunk.channels == IofChannels::STDOUT {
            by_rank[chunk.source.rank.to_raw() as usize] += std::str::from_utf8(&chunk.data).unwrap();
        }
    }
    assert_eq!(by_rank, [lines.clone(), lines]);
    // each channel is closed once, and in the end the namespace ends (IOF-08)
    let (out, err) = (IofChannels::STDOUT, IofChannels::STDERR);
    let last = complete.pop();
    complete.sort_unstable();
    let [first, second] = [0, 1].map(Rank::from_raw);
    assert_eq!(complete, [(first, out), (first, err), (second, out), (second, err)]);
    assert_eq!(last, Some((Rank::WILDCARD, out | err)));
    within(owner).await.unwrap();
}

#[tokio::test]
async fn iof_03a_redirected_output_is_given_back_when_the_stream_is_dropped() {
    let rig = Rig::start().await;
    let (tool, mut echo) = (rig.tool().await, rig.job("echo", ECHO, 1).await);
    let mut copy =
        within(tool.pull_output([all_of(&echo)]).copy().channels(IofChannels::STDOUT)).await.unwrap();
    let mut taken = within(tool.pull_output([rank(&echo, 0)]).channels(IofChannels::STDOUT)).await.unwrap();
    // one that takes it away is enough, even if others copy it
    let _late = within(tool.pull_output([all_of(&echo)]).copy().channels(IofChannels::STDOUT)).await.unwrap();
    let mut input = tool.push_stdin([rank(&echo, 0)]);
    for line in ["stolen one\n", "stolen two\n"] {
        say(&mut input, line).await;
        assert_eq!(next(&mut taken).await.data, line);
        assert_eq!(next(&mut copy).await.data, line);
    }
    // the other channel was not taken away, and comes after what was
    assert!(owner_sees(&mut echo, OutputChannel::Stderr).await.unwrap().starts_with("stolen one!\n"));
    drop(taken);
    until_restored(&mut echo, &mut input, &mut copy).await;
    within(input.close()).await.unwrap();
    while owner_sees(&mut echo, OutputChannel::Stdout).await.is_some() {}
}

#[tokio::test]
async fn iof_03a_redirected_output_is_given_back_when_the_tool_is_killed() {
    let rig = Rig::start().await;
    let (tool, mut echo) = (rig.tool().await, rig.job("echo", ECHO, 1).await);
    let mut copy =
        within(tool.pull_output([all_of(&echo)]).copy().channels(IofChannels::STDOUT)).await.unwrap();
    let mut input = tool.push_stdin([rank(&echo, 0)]);

    let mut command = Command::new(program("pmix"));
    command.args(["output", "echo:0", "--redirect", "--rank", "--uri", rig.node.handle().uri()]);
    let mut thief = Running::start(command);
    let stolen = 'thief: loop {
        say(&mut input, "line\n").await;
        loop {
            tokio::select! {
                biased;
                // first what the owner has: it is read nowhere else, and before the thief is there, it may be much
                said = owner_sees(&mut echo, OutputChannel::Stdout) => assert!(said.unwrap().ends_with("line\n")),
                stolen = thief.line() => break 'thief stolen.unwrap(),
                chunk = next(&mut copy) => {
                    assert!(chunk.data.ends_with(b"line\n"));
                    break;
                }
            }
        }
    };
    assert_eq!(stolen, "[0]<stdout>: line");
    // nothing comes to the owner of what is written from now on
    say(&mut input, "stolen\n").await;
    while !next(&mut copy).await.data.ends_with(b"stolen\n") {}
    thief.kill();
    until_restored(&mut echo, &mut input, &mut copy).await;
    within(input.close()).await.unwrap();
    while owner_sees(&mut echo, OutputChannel::Stdout).await.is_some() {}
}

#[tokio::test]
async fn iof_07_after_the_end_only_what_was_collected_is_read() {
    let rig = Rig::start().await;
    let (tool, echo) = (rig.tool().await, rig.job("echo", ECHO, 1).await);
    let wish = tool.pull_output([all_of(&echo)]).channels(IofChannels::STDOUT);
    let mut collected = within(wish.copy().buffer(1000)).await.unwrap();
    let mut seen =
        within(tool.pull_output([all_of(&echo)]).copy().channels(IofChannels::STDOUT)).await.unwrap();
    let mut input = tool.push_stdin([rank(&echo, 0)]);
    for line in ["one\n", "two\n"] {
        say(&mut input, line).await;
        assert_eq!(next(&mut seen).await.data, line);
    }
    within(collected.stop()).await.unwrap();
    say(&mut input, "three\n").await;
    assert_eq!(next(&mut seen).await.data, "three\n");
    assert_eq!(next(&mut collected).await.data, "one\ntwo\n");
    assert_eq!(within(collected.recv()).await, None);
    within(collected.stop()).await.unwrap();
}

#[tokio::test]
async fn iof_06_collected_output_comes_when_there_is_enough_and_at_the_end_of_its_channel() {
    let rig = Rig::start().await;
    let (tool, echo) = (rig.tool().await, rig.job("echo", ECHO, 1).await);
    let wish = tool.pull_output([all_of(&echo)]).channels(IofChannels::STDOUT);
    let mut output = within(wish.buffer(10)).await.unwrap();
    let mut input = tool.push_stdin([rank(&echo, 0)]);
    for line in ["one\n", "two\n", "three\n", "four\n"] {
        say(&mut input, line).await;
    }
    let first = next(&mut output).await.data;
    assert!(first.len() >= 10 && b"one\ntwo\nthree\nfour\n".starts_with(&first), "{first:?}");
    within(input.close()).await.unwrap();
    let mut rest = first.to_vec();
    while !next_into(&mut output, &mut rest).await {}
    assert_eq!(rest, b"one\ntwo\nthree\nfour\n");
}

/// Adds a piece; whether it was the last of its channel.
async fn next_into(output: &mut OutputStream, text: &mut Vec<u8>) -> bool {
    let chunk = next(output).await;
    text.extend_from_slice(&chunk.data);
    chunk.is_complete
}

#[tokio::test]
async fn iof_04_only_what_a_job_was_started_with_can_be_had() {
    let rig = Rig::start().await;
    let tool = rig.tool().await;
    let quiet = rig.start_job(job("quiet", "exec sleep 1000", 1).forwarded(IofChannels::STDERR)).await;
    let status = |outcome: Result<OutputStream, pmix_client::Error>| outcome.unwrap_err().status();
    let wish = |proc: ProcId, channels| tool.pull_output([proc]).channels(channels);
    let refused = within(wish(all_of(&quiet), IofChannels::STDOUT)).await;
    assert_eq!(status(refused), Status::ERR_NOT_SUPPORTED);
    drop(within(wish(all_of(&quiet), IofChannels::STDERR)).await.unwrap());
    for stranger in [rank(&quiet, 1), ProcId::wildcard("nobody".parse().unwrap())] {
        assert_eq!(status(within(wish(stranger, IofChannels::STDERR)).await), Status::ERR_NOT_FOUND);
    }
    quiet.kill();
}

#[tokio::test]
async fn iof_04_iof_10_a_spawned_job_is_forwarded_as_its_spawn_says() {
    let rig = Rig::start().await;
    let client = rig.node.client(0).await;
    let app = App::new("sh", 1).args(["-c", ECHO]);
    let directives = Directives::new().with(&keys::FWD_STDOUT, true).with(&keys::FWD_STDIN, true);
    let nspace = within(client.spawn([app]).directives(directives)).await.unwrap();
    let child = ProcId::wildcard(nspace);
    let error = within(client.pull_output([child.clone()])).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "its standard error was not asked for");
    let message = error.to_string();
    assert!(message.contains(" (STDERR) is not forwarded") && message.contains("FWD_STDERR"), "{message}");
    let mut output = within(client.pull_output([child.clone()]).channels(IofChannels::STDOUT)).await.unwrap();
    let mut input = client.push_stdin([child]);
    say(&mut input, "hello\n").await;
    assert_eq!(next(&mut output).await.data, "hello\n");
    within(input.close()).await.unwrap();
    while !next(&mut output).await.source.rank.is_wildcard() {}

    // only the rank that is named takes input
    let app = App::new("sh", 2).args(["-c", ECHO]);
    let mut directives = Directives::new().with(&keys::FWD_STDOUT, true);
    directives.push(Info::dynamic(keys::FWD_STDIN.key_name(), Rank::from_raw(1)));
    let nspace = within(client.spawn([app]).directives(directives)).await.unwrap();
    let other = ProcId::new(nspace.clone(), Rank::from_raw(0));
    let error = within(client.push_stdin([other]).write("hello\n")).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "{error}");
    let child = ProcId::wildcard(nspace);
    let mut output = within(client.pull_output([child.clone()]).channels(IofChannels::STDOUT)).await.unwrap();
    let mut input = client.push_stdin([child]);
    say(&mut input, "hello\n").await;
    within(input.close()).await.unwrap();
    let mut heard = Vec::new();
    loop {
        let chunk = next(&mut output).await;
        if chunk.source.rank.is_wildcard() {
            break;
        }
        if !chunk.data.is_empty() {
            heard.push((chunk.source.rank, chunk.data));
        }
    }
    assert_eq!(heard, [(Rank::from_raw(1), "hello\n".into())]);

    let app = App::new("sh", 1).args(["-c", "read go; echo out; echo err >&2"]);
    let spawn =
        client.spawn([app]).forward_output().directives(Directives::new().with(&keys::FWD_STDIN, true));
    let child = ProcId::wildcard(within(async { spawn.await }).await.unwrap());
    let mut output = within(client.pull_output([child.clone()])).await.unwrap();
    say(&mut client.push_stdin([child]), "go\n").await;
    let mut heard = Vec::new();
    loop {
        let chunk = next(&mut output).await;
        if chunk.source.rank.is_wildcard() {
            break;
        }
        heard.extend((!chunk.data.is_empty()).then_some((chunk.channels, chunk.data)));
    }
    heard.sort_by_key(|(_, data)| data.clone());
    assert_eq!(heard, [(IofChannels::STDERR, "err\n".into()), (IofChannels::STDOUT, "out\n".into())]);

    let sleep = App::new("sleep", 1).args(["1000"]);
    let silent = ProcId::wildcard(within(client.spawn([sleep])).await.unwrap());
    for channels in [IofChannels::STDOUT, IofChannels::STDERR] {
        let error = within(client.pull_output([silent.clone()]).channels(channels)).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
    }
    let error = within(client.push_stdin([silent]).write("hello\n")).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "{error}");
}

#[tokio::test]
async fn iof_02_iof_12_what_is_not_supported_is_said() {
    let node = TestNode::with_standard_host(1).await;
    let client = node.client(0).await;
    for channels in [IofChannels::STDIN, IofChannels::ALL] {
        let error = within(client.pull_output([node.job()]).channels(channels)).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
    }
    let both = client.pull_output([node.job()]).copy().directive(keys::IOF_REDIRECT, true);
    assert_eq!(within(both).await.unwrap_err().status(), Status::ERR_BAD_PARAM);
    let error = within(client.push_stdin([node.job()]).write("hello")).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "its launcher takes no input");
    let error = within(client.push_stdin(Vec::<ProcId>::new()).write("hello")).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    let alone = Client::singleton().await.unwrap();
    let error = within(alone.pull_output([node.job()])).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_UNREACH);
}

#[tokio::test]
async fn iof_10_input_for_who_does_not_take_it_is_refused() {
    let rig = Rig::start().await;
    let client = rig.node.client(0).await;
    let one = rig.start_job(job("one", ECHO, 2).stdin(Rank::from_raw(1))).await;
    let status = async |target: ProcId| match within(client.push_stdin([target]).write("x\n")).await {
        Ok(()) => Status::SUCCESS,
        Err(error) => error.status(),
    };
    assert_eq!(status(rank(&one, 0)).await, Status::ERR_NOT_SUPPORTED);
    assert_eq!(status(rank(&one, 1)).await, Status::SUCCESS);
    assert_eq!(status(all_of(&one)).await, Status::SUCCESS);
    assert_eq!(status(rank(&one, 2)).await, Status::ERR_NOT_SUPPORTED);
    assert_eq!(status(ProcId::wildcard("nobody".parse().unwrap())).await, Status::ERR_NOT_FOUND);
    one.kill();
}

#[tokio::test]
async fn iof_10_own_standard_input_is_read_to_its_end() {
    let rig = Rig::start().await;
    let tool = rig.tool().await;
    let count = rig.job("count", "wc -c", 1).await;
    let mut output = pull(&tool, [all_of(&count)]).await;
    let long = vec![b'x'; 300_000];
    within(tool.push_stdin([rank(&count, 0)]).copy_from(&long[..])).await.unwrap().unwrap();
    let said = next(&mut output).await.data;
    assert_eq!(std::str::from_utf8(&said).unwrap().trim(), "300000");
}

#[tokio::test]
async fn a_slow_reader_holds_nobody_back_and_learns_what_it_has_missed() {
    const BYTES: u64 = 8_000_000;
    let rig = Rig::start().await;
    let tool = rig.tool().await;
    let mut flood = rig.job("flood", &format!("read go; head -c {BYTES} /dev/zero"), 1).await;
    let wish = tool.pull_output([all_of(&flood)]).channels(IofChannels::STDOUT);
    let mut output = within(wish.capacity(100_000)).await.unwrap();
    say(&mut tool.push_stdin([rank(&flood, 0)]), "go\n").await;
    while !matches!(within(flood.next_report()).await, None | Some(JobReport::Done(_))) {}
    let (mut read, mut lost) = (0, 0);
    loop {
        match within(output.recv()).await.unwrap() {
            Ok(chunk) if chunk.source.rank.is_wildcard() => break,
            Ok(chunk) => read += chunk.data.len() as u64,
            Err(OutputError::Lagged { bytes }) => lost += bytes,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(read + lost, BYTES);
    assert!(lost > 0, "it was not slow");
}

#[tokio::test]
async fn a_server_that_stops_ends_the_stream_with_a_word_and_pmix_output_in_peace() {
    let rig = Rig::start().await;
    let tool = rig.tool().await;
    let echo = rig.job("echo", ECHO, 1).await;
    let mut output = pull(&tool, [all_of(&echo)]).await;
    let mut command = Command::new(program("pmix"));
    command.args(["output", "echo:0", "--uri", rig.node.handle().uri()]);
    let mut tail = Running::start(command);
    // before it has asked, it gets nothing
    let mut input = tool.push_stdin([rank(&echo, 0)]);
    let talk = async {
        loop {
            say(&mut input, "again\n").await;
        }
    };
    tokio::select! {
        _ = tail.line_with("again") => {}
        () = talk => {}
    }
    rig.node.stop().await;
    let last = within(async {
        loop {
            if let Some(Err(error)) = output.recv().await {
                break error;
            }
        }
    });
    assert_eq!(last.await, OutputError::Stopped);
    assert_eq!(within(output.recv()).await, None);
    let (status, _, err) = tail.end().await;
    assert!(status.success(), "{err}");
    echo.kill();
}

#[tokio::test]
async fn iof_01a_iof_01b_iof_03b_iof_08_iof_11_pmix_output_follows_a_job_of_pmixrun_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let script =
        format!("echo ready; while read line; do echo \"$line\"; done < {}; echo end >&2", fifo.display());
    let mut job = Running::start(pmixrun(dir.path(), &["sh", "-c", &script]));
    job.line_with("ready").await;
    let node = rustix::system::uname();
    let nspace = format!("run.{}.{}", node.nodename().to_string_lossy(), job.pid());

    let (status, _, err) = Running::start(pmix(dir.path(), &["output", "nobody"])).end().await;
    assert_eq!((status.code(), err.contains("nobody")), (Some(1), true), "{err}");

    // another server, which does not have the job
    let mut other = Running::start(pmixrun(dir.path(), &["sh", "-c", "echo ready; exec sleep 1000"]));
    other.line_with("ready").await;

    let mut tail = Running::start(pmix(dir.path(), &["output", &nspace, "--rank"]));
    let path = fifo.clone();
    let open = move || std::fs::OpenOptions::new().write(true).open(path);
    let mut input = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
    let mut number = 0;
    let first = loop {
        number += 1;
        writeln!(input, "line {number}").unwrap();
        tokio::select! {
            line = tail.line() => break line.unwrap(),
            line = job.line() => assert!(line.unwrap().starts_with("line ")),
        }
    };
    let first: u32 = first.strip_prefix("[0]<stdout>: line ").unwrap().parse().unwrap();
    writeln!(input, "last").unwrap();
    drop(input);
    let (status, out, err) = tail.end().await;
    assert!(status.success(), "{err}");
    let expected: String =
        (first + 1..=number).map(|number| format!("[0]<stdout>: line {number}\n")).collect();
    assert_eq!(out, expected + "[0]<stdout>: last\n");
    assert_eq!(err, "[0]<stderr>: end\n");
    let (status, out, _) = job.end().await;
    assert!(status.success() && out.ends_with("last\n"), "a copy leaves pmixrun its output: {out}");
    other.signal(Signal::TERM);
    other.end().await;
}

#[tokio::test]
async fn iof_05_output_and_input_of_processes_on_other_nodes_pass_through_the_server_of_the_tool() {
    let dir = tempfile::tempdir().unwrap();
    let _ends = EndsProcesses::of(dir.path());
    let nodes = ["n0", "n1"];
    let hosts = StandardHost::cluster(LocalLauncher::simulating(nodes), MemoryExchange::cluster(nodes));
    let mut servers = Vec::new();
    for (host, node) in hosts.iter().zip(nodes) {
        let server = Server::builder().host(host.clone()).hostname(node).session_root(dir.path());
        servers.push(server.tool_support(true).start().await.unwrap());
    }
    let echo = within(hosts[0].start_job(job("echo", ECHO, 2).stdin(Rank::WILDCARD))).await.unwrap();
    let tool = within(Tool::builder().uri(servers[1].handle().uri()).connect()).await.unwrap();
    let wish = tool.pull_output([all_of(&echo)]).channels(IofChannels::STDOUT);
    let mut output = within(wish.copy()).await.unwrap();
    for number in [0, 1] {
        say(&mut tool.push_stdin([rank(&echo, number)]), "here\n").await;
        let chunk = next(&mut output).await;
        assert_eq!((chunk.source, &chunk.data[..]), (rank(&echo, number), &b"here\n"[..]));
    }
    within(tool.push_stdin([all_of(&echo)]).close()).await.unwrap();
    while !next(&mut output).await.source.rank.is_wildcard() {}
}
