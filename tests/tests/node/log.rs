//! Log: channels, their order, and what becomes of a message when some of them fail.

use std::path::{Path, PathBuf};

use pmix_client::types::{DataArray, Directives, Info, Status, Time, Value};
use pmix_client::{Client, Logged, keys};
use pmix_host::{JobReport, LaunchReport, MemoryExchange, OutputChannel, ProcExit, RunningJob, StandardHost};
use pmix_tests::{TestLauncher, TestNode, executable, on_both_runtimes, proc, within};
use tempfile::TempDir;
use tokio::net::UnixDatagram;

/// A syslog of the test's own.
struct Syslog {
    socket: UnixDatagram,
    dir: TempDir,
}

impl Syslog {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { socket: UnixDatagram::bind(dir.path().join("log")).unwrap(), dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// The next line: its priority, and what stands behind the name of the program.
    async fn line(&self) -> (u32, String) {
        let mut buffer = [0; 512];
        let length = within(self.socket.recv(&mut buffer)).await.unwrap();
        let line = std::str::from_utf8(&buffer[..length]).unwrap();
        let (priority, rest) = line.strip_prefix('<').unwrap().split_once('>').unwrap();
        let (_, said) = rest.split_once("]: ").unwrap();
        (priority.parse().unwrap(), said.to_owned())
    }

    fn is_silent(&self) -> bool {
        self.socket.try_recv(&mut [0; 512]).is_err()
    }
}

/// What the syslog shows of a process of this user.
fn said_by(proc: &str, text: &str) -> String {
    format!("{proc} (uid {}): {text}", rustix::process::geteuid().as_raw())
}

/// Of the user facility.
const fn user(priority: u32) -> u32 {
    8 + priority
}

/// The only rank of a job that was started on one node.
struct Rank {
    client: Client,
    job: RunningJob,
    launcher: TestLauncher,
    _node: TestNode,
}

impl Rank {
    async fn start(syslog: &Path) -> Self {
        let launcher = TestLauncher::new("n0");
        let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0")).with_syslog(syslog);
        let node = launcher.node_of(host.clone()).await;
        let job = launcher.start(&host, "job", 1).await;
        let client = node.connect(&proc("job", 0)).await.unwrap();
        Self { client, job, launcher, _node: node }
    }

    async fn output(&mut self) -> (OutputChannel, String) {
        match within(self.job.next_report()).await.unwrap() {
            JobReport::Proc(LaunchReport::Output { proc, channel, data }) => {
                assert_eq!(proc, *self.client.proc_id());
                (channel, String::from_utf8(data.into()).unwrap())
            }
            other => panic!("{other:?}"),
        }
    }

    /// Ends the job; what it has said must have been looked at.
    async fn end(mut self) {
        let proc = self.client.proc_id().clone();
        within(self.client.finalize()).await.unwrap();
        self.launcher.end(&proc, ProcExit::Code(0)).await;
        while let Some(report) = within(self.job.next_report()).await {
            assert!(!matches!(report, JobReport::Proc(LaunchReport::Output { .. })), "{report:?}");
        }
    }
}

/// Where no machine has a socket.
const NOWHERE: &str = "/dev/null/log";

#[test]
fn log_01_log_03_channels_are_written_to_in_order_and_directives_shape_the_text() {
    on_both_runtimes(async || {
        let syslog = Syslog::new();
        let mut rank = Rank::start(&syslog.path()).await;
        // nobody can write entries of others into a syslog
        let log = rank.client.log().stderr("one").syslog("two\n<0>forged\n").stdout("three\n").priority(4);
        assert_eq!(within(log).await.unwrap(), Logged::Fully);
        assert_eq!(rank.output().await, (OutputChannel::Stderr, "one\n".into()));
        assert_eq!(rank.output().await, (OutputChannel::Stdout, "three\n".into()));
        assert_eq!(syslog.line().await, (user(4), said_by("job:0", r"two\n<0>forged")));

        let log = rank.client.log().stdout("four").tag_output().timestamp(Time(86_400)).timestamp_output();
        within(log.source(proc("other", 7))).await.unwrap();
        let shaped = "1970-01-02T00:00:00Z [other,7]<stdout>: four\n";
        assert_eq!(rank.output().await, (OutputChannel::Stdout, shaped.into()));
        within(rank.client.log().stderr("mine").tag_output()).await.unwrap();
        assert_eq!(rank.output().await, (OutputChannel::Stderr, "[job,0]<stderr>: mine\n".into()));
        // the time of writing, if none is given
        within(rank.client.log().stdout("five").timestamp_output()).await.unwrap();
        let (_, line) = rank.output().await;
        assert!(line.starts_with("20") && line.ends_with("Z five\n"), "{line}");

        for bad in [8, -1] {
            let error = within(rank.client.log().syslog("six").priority(bad)).await.unwrap_err();
            assert_eq!(error.status(), Status::ERR_BAD_PARAM);
        }
        rank.end().await;
    });
}

#[test]
fn log_02a_log_02b_no_channel_means_all_and_once_the_first_that_works() {
    on_both_runtimes(async || {
        let syslog = Syslog::new();
        let mut rank = Rank::start(&syslog.path()).await;
        assert_eq!(within(rank.client.log().message("all")).await.unwrap(), Logged::Fully);
        assert_eq!(rank.output().await, (OutputChannel::Stdout, "all\n".into()));
        assert_eq!(rank.output().await, (OutputChannel::Stderr, "all\n".into()));
        assert_eq!(syslog.line().await.1, said_by("job:0", "all"));
        let bytes = Info::dynamic(keys::LOG_BLOB.key_name(), Value::ByteObject("blob".into()));
        within(rank.client.log().data([bytes])).await.unwrap();
        assert_eq!(rank.output().await, (OutputChannel::Stdout, "blob\n".into()));
        assert_eq!(rank.output().await, (OutputChannel::Stderr, "blob\n".into()));
        assert_eq!(syslog.line().await.1, said_by("job:0", "blob"));

        within(rank.client.log().stderr("first").syslog("second").once()).await.unwrap();
        assert_eq!(rank.output().await, (OutputChannel::Stderr, "first\n".into()));
        within(rank.client.log().message("any").once()).await.unwrap();
        assert_eq!(rank.output().await, (OutputChannel::Stdout, "any\n".into()));
        assert!(syslog.is_silent());
        rank.end().await;

        let mut rank = Rank::start(Path::new(NOWHERE)).await;
        let log = rank.client.log().syslog("lost").stdout("found").stderr("not needed").once();
        assert_eq!(within(log).await.unwrap(), Logged::Fully);
        assert_eq!(rank.output().await, (OutputChannel::Stdout, "found\n".into()));
        rank.end().await;
    });
}

#[test]
fn log_05_some_channels_may_fail_but_not_all_and_not_a_required_one() {
    on_both_runtimes(async || {
        let mut rank = Rank::start(Path::new(NOWHERE)).await;
        let log = rank.client.log().syslog("lost").stdout("written");
        assert_eq!(within(log).await.unwrap(), Logged::Partially);
        assert_eq!(rank.output().await, (OutputChannel::Stdout, "written\n".into()));

        let error = within(rank.client.log().syslog("lost").local_syslog("too")).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_UNREACH);

        let required = Info::required(&keys::LOG_SYSLOG, "lost");
        let error = within(rank.client.log().data([required]).stdout("written")).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_UNREACH);
        rank.output().await;

        // a channel that nobody knows, and nothing at all
        let mail = Info::required(&keys::LOG_JOB_RECORD, true);
        let error = within(rank.client.log().data([mail]).stdout("written")).await.unwrap_err();
        assert!(error.is_not_supported(), "{error}");
        rank.output().await;
        for nothing in [rank.client.log(), rank.client.log().data([Info::new(&keys::LOG_ONCE, true)])] {
            let error = within(nothing).await.unwrap_err();
            assert_eq!(error.status(), Status::ERR_BAD_PARAM);
        }
        // bytes are a text, or nothing that can be written
        let bytes = |bytes: &'static [u8]| {
            Info::dynamic(keys::LOG_STDOUT.key_name(), Value::ByteObject(bytes.into()))
        };
        within(rank.client.log().data([bytes(b"text\0")])).await.unwrap();
        assert_eq!(rank.output().await, (OutputChannel::Stdout, "text\n".into()));
        for binary in [&b"a\0b"[..], b"\xff"] {
            let error = within(rank.client.log().data([bytes(binary)])).await.unwrap_err();
            assert!(error.is_not_supported(), "{error}");
        }
        let xml = Directives::new().require(&keys::LOG_XML_OUTPUT, true);
        let error = within(rank.client.log().stdout("none").directives(xml)).await.unwrap_err();
        assert!(error.is_not_supported(), "{error}");
        rank.end().await;
    });
}

/// Two nodes with a syslog each, and a rank of a registered job on each.
async fn two_nodes(gateway: &Path, other: &Path) -> (Vec<TestNode>, Vec<Client>) {
    let (mut nodes, mut clients) = (Vec::new(), Vec::new());
    let ends = MemoryExchange::cluster(["n0", "n1"]);
    for ((exchange, syslog), (name, nspace)) in
        ends.into_iter().zip([gateway, other]).zip([("n0", "a"), ("n1", "b")])
    {
        let host = StandardHost::new(TestLauncher::new(name), exchange).with_syslog(syslog);
        let node = TestNode::builder(1).hostname(name).nspace(nspace).host(host).start().await;
        clients.push(node.client(0).await);
        nodes.push(node);
    }
    (nodes, clients)
}

#[test]
fn log_06a_log_06b_log_06c_hst_08_the_first_node_is_the_gateway_and_is_not_asked_through_the_library() {
    on_both_runtimes(async || {
        let (gateway, other) = (Syslog::new(), Syslog::new());
        let (nodes, clients) = two_nodes(&gateway.path(), &other.path()).await;
        let log = clients[1].log().local_syslog("here").global_syslog("there").syslog("anywhere");
        assert_eq!(within(log).await.unwrap(), Logged::Fully);
        assert_eq!(other.line().await, (user(3), said_by("b:0", "here")));
        assert_eq!(gateway.line().await, (user(3), said_by("b:0", "there")));
        assert_eq!(gateway.line().await, (user(3), said_by("b:0", "anywhere")));
        assert!(gateway.is_silent() && other.is_silent());
        // its own process has connected; nothing else was asked of its host
        assert_eq!(nodes[0].stats().await.upcalls, 1);

        within(clients[0].log().global_syslog("mine").priority(6)).await.unwrap();
        assert_eq!(gateway.line().await, (user(6), said_by("a:0", "mine")));
        within(clients[1].log().global_syslog("far").priority(6)).await.unwrap();
        assert_eq!(gateway.line().await, (user(6), said_by("b:0", "far")));
    });
}

#[test]
fn log_06b_without_a_global_syslog_a_message_goes_to_that_of_the_node() {
    on_both_runtimes(async || {
        let other = Syslog::new();
        let (_nodes, clients) = two_nodes(Path::new(NOWHERE), &other.path()).await;
        within(clients[1].log().syslog("saved")).await.unwrap();
        assert_eq!(other.line().await.1, said_by("b:0", "saved"));
        let error = within(clients[1].log().global_syslog("lost")).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_UNREACH);
        assert!(error.to_string().contains("n0"), "{error}");
        assert!(other.is_silent());
    });
}

/// A mail program that keeps what it is told: its arguments, and what it reads.
struct MailProgram(TempDir);

impl MailProgram {
    fn new(rest: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = Self(dir);
        let out = program.0.path().display().to_string();
        let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > {out}/args\ncat > {out}/mail\n{rest}\n");
        executable(&program.path(), &script);
        program
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("sendmail")
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).unwrap()
    }
}

#[test]
fn log_04_log_05_log_06b_mails_are_sent_by_the_program_of_the_first_node() {
    on_both_runtimes(async || {
        let mails = MailProgram::new("");
        let (mut nodes, mut clients) = (Vec::new(), Vec::new());
        for (exchange, (name, job)) in
            MemoryExchange::cluster(["n0", "n1"]).into_iter().zip([("n0", "a"), ("n1", "b")])
        {
            let mut host = StandardHost::new(TestLauncher::new(name), exchange).with_syslog(NOWHERE);
            if name == "n0" {
                host = host.with_mail_program(mails.path());
            }
            let node = TestNode::builder(1).hostname(name).nspace(job).host(host).start().await;
            clients.push(node.client(0).await);
            nodes.push(node);
        }
        for (client, proc) in clients.iter().zip(["a:0", "b:0"]) {
            let mail = client.log().mail("ops@example, root", "out of paper", "Printer 3 is\n.\nempty");
            let mail = mail.timestamp(Time(86_400)).timestamp_output().tag_output();
            assert_eq!(within(mail).await.unwrap(), Logged::Fully);
            assert_eq!(mails.read("args"), "-i\n--\nops@example\nroot\n");
            let uid = rustix::process::geteuid().as_raw();
            let tag = proc.replace(':', ",");
            let due = format!(
                "To: <ops@example>, <root>\nSubject: out of paper\nX-PMIx-Process: {proc} (uid {uid})\n\
                 Date: Fri, 2 Jan 1970 00:00:00 +0000\nMIME-Version: 1.0\nContent-Type: text/plain; charset=\"utf-8\"\n\
                 Content-Transfer-Encoding: 7bit\n\n1970-01-02T00:00:00Z [{tag}]<email>: Printer 3 is\n.\nempty\n"
            );
            let mail = mails.read("mail");
            let (ids, others): (Vec<_>, Vec<_>) =
                mail.split_inclusive('\n').partition(|line| line.starts_with("Message-ID: <"));
            assert_eq!((ids.len(), others.concat()), (1, due));
            // one failure among several, in the order that was asked for
            let several = client.log().syslog("lost").mail("root", "", "sent");
            assert_eq!(within(several).await.unwrap(), Logged::Partially);
            assert!(mails.read("mail").ends_with("\n\nsent\n"));
            let once = client.log().mail("root", "", "first").mail("nobody", "", "second").once();
            assert_eq!(within(once).await.unwrap(), Logged::Fully);
            assert_eq!(mails.read("args"), "-i\n--\nroot\n");
            for (address, subject) in
                [("-Xroot", ""), ("root\nBcc: all", ""), ("", ""), ("root", "a\nBcc: all")]
            {
                let error = within(client.log().mail(address, subject, "text")).await.unwrap_err();
                assert_eq!(error.status(), Status::ERR_BAD_PARAM);
            }
            assert!(mails.read("mail").ends_with("first\n"), "nothing else has been sent");
        }
    });
}

#[tokio::test]
async fn log_04_log_05_a_mail_that_cannot_be_sent_is_a_failure() {
    let (refusing, deaf) = (MailProgram::new("echo 'no such\u{1b} user' >&2; exit 67"), MailProgram::new(""));
    std::fs::remove_file(deaf.path()).unwrap();
    for (program, status, said) in [
        (None, Status::ERR_NOT_SUPPORTED, "no mail program"),
        (Some(refusing.path()), Status::ERR_UNREACH, "no such"),
        (Some(deaf.path()), Status::ERR_UNREACH, "No such file"),
    ] {
        let mut host = StandardHost::new(TestLauncher::new("n0"), MemoryExchange::single("n0"));
        if let Some(program) = program {
            host = host.with_mail_program(program);
        }
        let node = TestNode::with_host(1, host).await;
        let client = node.client(0).await;
        let error = within(client.log().mail("root", "", "text")).await.unwrap_err();
        assert_eq!(error.status(), status);
        assert!(error.to_string().contains(said) && !error.to_string().contains('\u{1b}'), "{error}");
        let shapeless = Info::dynamic(keys::LOG_EMAIL.key_name(), "root");
        let error = within(client.log().data([shapeless])).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    }
}

#[tokio::test]
async fn log_01_log_03_a_time_is_generated_when_the_message_is_logged() {
    let mails = MailProgram::new("");
    let host = StandardHost::new(TestLauncher::new("n0"), MemoryExchange::single("n0"));
    let node = TestNode::with_host(1, host.with_mail_program(mails.path())).await;
    let client = node.client(0).await;
    within(client.log().mail("root", "", "text").generate_timestamp()).await.unwrap();
    assert!(mails.read("mail").contains("\nDate: "));
    // the library has stamped it, so that a time that was given is kept
    within(client.log().mail("root", "", "text").generate_timestamp().timestamp(Time(0))).await.unwrap();
    assert!(mails.read("mail").contains("\nDate: Thu, 1 Jan 1970 00:00:00 +0000\n"));
    // also for a library that leaves it to its server, and what cannot be done is refused if it is required
    let raw = node.handle().client();
    let log = || raw.log().channel(keys::LOG_EMAIL, mail_to_root());
    within(log().directive(keys::LOG_GENERATE_TIMESTAMP, true)).await.unwrap();
    assert!(mails.read("mail").contains("\nDate: ") && mails.read("mail").contains(" (uid "));
    for key in [&keys::LOG_AGG, &keys::LOG_XML_OUTPUT] {
        assert!(within(log().directive(key, true)).await.is_ok());
        let refused = within(log().directives(Directives::new().require(key, true))).await.unwrap_err();
        assert_eq!(refused.status, Status::ERR_NOT_SUPPORTED);
    }
    for channel in [Info::new(&keys::LOG_GLOBAL_DATASTORE, true), Info::new(&keys::LOG_JOB_RECORD, true)] {
        let error = within(client.log().data([channel])).await.unwrap_err();
        assert!(error.is_not_supported(), "{error}");
    }
}

fn mail_to_root() -> DataArray {
    DataArray::Info(vec![Info::new(&keys::LOG_EMAIL_ADDR, "root"), Info::new(&keys::LOG_EMAIL_MSG, "text")])
}
