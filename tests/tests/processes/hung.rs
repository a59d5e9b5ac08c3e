//! A server that does not answer any more: `pmixrun`, stopped by a signal.

use std::time::Duration;

use pmix_client::types::{App, DataRange, Directives, Info, Query, Status};
use pmix_client::{Client, Error, Nspace, ProcId, Rank, keys};
use pmix_test_wait::{PausedClock, within};
use pmix_tests::{Running, pmix, pmixrun, processes_of, rank_program, stop};
use pmix_tool::Tool;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// More than a server takes that does not hang, and less than a wait of a test.
const LONG: Duration = Duration::from_secs(100);

/// `pmixrun` with a rank that blocks.
struct Hung {
    run: Running,
    dir: TempDir,
    pid: i32,
    tool: Tool,
}

impl Hung {
    /// Lets a tool in, then stops.
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let rank = rank_program();
        let mut run = Running::start(pmixrun(dir.path(), &[rank.to_str().unwrap(), "block"]));
        run.line_with("blocked").await;
        let tool = Tool::builder().session_root(dir.path()).timeout(LONG).connect();
        let tool = within(tool).await.unwrap();
        let pid = tool.server().unwrap().info().unwrap().pid.try_into().unwrap();
        stop(pid).await;
        Self { run, dir, pid, tool }
    }

    fn goes_on(&self) {
        kill_process(Pid::from_raw(self.pid).unwrap(), Signal::CONT).unwrap();
    }

    fn client(&self) -> Client {
        self.tool.client()
    }

    async fn pmix(&self, args: &[&str]) -> (Option<i32>, String) {
        let (status, _, err) = Running::start(pmix(self.dir.path(), args)).end().await;
        (status.code(), err)
    }

    async fn job(&self) -> Nspace {
        let all = within(self.tool.namespaces()).await.unwrap();
        all.into_iter().find(|nspace| nspace.starts_with("run.")).unwrap()
    }

    /// Goes on, and nothing is left in the end.
    async fn end(self) {
        drop(self.tool);
        self.run.signal(Signal::TERM);
        self.run.end().await;
        assert_eq!(processes_of(self.dir.path()), []);
    }
}

fn limit() -> Directives {
    Directives::new().with(&keys::TIMEOUT, 1)
}

fn is_given_up<T>(what: &str, outcome: Result<T, Error>) {
    let Err(error) = outcome else { panic!("{what} was answered") };
    assert_eq!(error.status(), Status::ERR_TIMEOUT, "{what}: {error}");
    assert!(error.to_string().contains("did not answer within 4s"), "{what}: {error}");
}

#[tokio::test]
async fn gen_12_whatever_has_a_limit_ends_although_the_server_hangs() {
    let hung = Hung::start().await;
    let client = hung.client();
    let me = client.proc_id().clone();
    let group = || "group".parse::<Nspace>().unwrap();
    let code = Status::from_raw(4711);
    // a limit of zero is none: it waits until the server goes on
    let patient = client.clone();
    let no_limit = Directives::new().with(&keys::TIMEOUT, 0);
    let patient = tokio::spawn(async move { patient.events([code]).directives(no_limit).await });
    // nothing comes from the server, so that nothing but limits takes time
    tokio::time::pause();
    let clock = PausedClock::start();
    let limited = client.notify(code).range(DataRange::RM);
    let late = within(limited).await.unwrap_err();
    assert_eq!(late.status(), Status::ERR_TIMEOUT);
    assert!(late.to_string().contains("did not answer within 100s"), "{late}");
    assert!(clock.passed() >= LONG, "not before: {:?}", clock.passed());
    let clock = PausedClock::start();
    let second = Duration::from_secs(1);
    within(async {
        tokio::join!(
            async { is_given_up("get", client.get::<u32>(&me, "key").timeout(second).await) },
            async {
                is_given_up("get all", client.get_all(me.with_rank(Rank::WILDCARD)).directives(limit()).await)
            },
            async { is_given_up("fence", client.fence_all().timeout(second).await) },
            async { is_given_up("connect", client.connect([me.clone()]).timeout(second).await) },
            async { is_given_up("publish", client.publish().data("key", 1).timeout(second).await) },
            async { is_given_up("lookup", client.lookup(["key"]).wait_all().timeout(second).await) },
            async { is_given_up("unpublish", client.unpublish(["key"]).timeout(second).await) },
            async { is_given_up("spawn", client.spawn([App::new("true", 1)]).timeout(second).await) },
            async {
                is_given_up("group", client.group_construct(group(), [me.clone()]).timeout(second).await)
            },
            async { is_given_up("destruct", client.group_destruct(group()).timeout(second).await) },
            async { is_given_up("control", client.job_control([me.clone()]).pause().timeout(second).await) },
            async { is_given_up("log", client.log().stderr("text").timeout(second).await) },
            async { is_given_up("output", client.pull_output([me.clone()]).directives(limit()).await) },
            async {
                let mut query = Query::new(&keys::QUERY_NAMESPACES);
                query.qualifiers.push(Info::new(&keys::TIMEOUT, 1));
                is_given_up("query", client.query([query]).await);
            },
        )
    })
    .await;
    assert!(clock.passed() >= Duration::from_secs(4), "not before: {:?}", clock.passed());
    tokio::time::resume();

    assert!(!patient.is_finished());
    hung.goes_on();
    drop(within(patient).await.unwrap().unwrap());
    // what comes late for others is taken for nothing else
    let job = ProcId::wildcard(hung.job().await);
    assert_eq!(within(client.get::<u32>(job, keys::JOB_SIZE)).await.unwrap(), 1);
    hung.end().await;
}

#[tokio::test]
async fn gen_12_ini_07_who_comes_and_goes_with_a_limit_is_not_held_by_a_server_that_hangs() {
    let hung = Hung::start().await;
    let uri = hung.tool.server().unwrap().uri().to_owned();
    let second = Duration::from_secs(1);
    // the system lets it connect, and the server does not welcome it
    let builder = Client::builder().uri(uri).tool(None).timeout(second);
    let error = within(builder.init()).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_TIMEOUT);
    assert!(error.to_string().contains("has not answered within 1s"), "{error}");
    let clone = hung.client().clone();
    is_given_up("finalize", within(clone.finalize().timeout(second).into_future()).await);
    assert_eq!(
        hung.client().lookup(["key"]).await.unwrap_err().status(),
        Status::ERR_INIT,
        "it is finalized"
    );

    for args in
        [&["ps"][..], &["query", "QUERY_NAMESPACES"], &["output", "job"], &["release", "job"], &["attrs"]]
    {
        let (code, err) = hung.pmix(&[args, &["--timeout", "1"]].concat()).await;
        assert_eq!(code, Some(1), "{args:?}: {err}");
        assert!(err.contains("has not answered within"), "{args:?}: {err}");
    }
    hung.goes_on();
    hung.end().await;
}

#[tokio::test]
async fn pmix_attach_ends_when_it_is_told_to_although_its_server_hangs() {
    let dir = tempfile::tempdir().unwrap();
    let ticks = "while echo tick; do sleep 0.05; done";
    let mut run = Running::start(pmixrun(dir.path(), &["-n", "1", "sh", "-c", ticks]));
    run.line_with("tick").await;
    let tool = within(Tool::builder().session_root(dir.path()).connect()).await.unwrap();
    let jobs = within(tool.namespaces()).await.unwrap();
    let job = jobs.into_iter().find(|nspace| nspace.starts_with("run.")).unwrap();
    let mut attach = Running::start(pmix(dir.path(), &["attach", &job, "--timeout", "0"]));
    attach.line_with("tick").await;
    stop(run.pid()).await;
    attach.signal(Signal::INT);
    let (status, _, err) = attach.end().await;
    assert_eq!((status.code(), err.as_str()), (Some(0), ""));
    run.signal(Signal::CONT);
    run.signal(Signal::TERM);
    run.end().await;
}
