//! [`Submitter`](pmix_tool::Submitter) against a server whose host says what happens to jobs, and when.

use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pmix_server::host::{IofPullRequest, QueryRequest, QueryResults, Spawn, ToolConnected};
use pmix_server::{
    Capabilities, HostModule, HostResult, Server, ServerHandle, Upcall, UpcallContext, async_trait,
};
use pmix_test_wait::within;
use pmix_tool::types::{App, DataArray, DataRange, JOB_END, Query};
use pmix_tool::{
    Directives, Error, Event, Info, IofChannels, JobUpdate, Nspace, ProcId, Rank, Status, SubmittedJob, Tool,
    keys,
};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

/// Starts nothing: what becomes of its jobs is for the test to say.
#[derive(Clone, Default)]
struct Host {
    handle: Arc<OnceLock<ServerHandle>>,
    /// Jobs that run.
    running: Arc<Mutex<Vec<String>>>,
    /// A job that is slow has been asked for, and may start.
    slow: Arc<[Notify; 2]>,
}

/// A job whose exit code the host remembers.
const REMEMBERED: (&str, i32) = ("remembered", 6);

#[async_trait]
impl HostModule for Host {
    fn capabilities(&self) -> Capabilities {
        [Upcall::ToolConnected, Upcall::Spawn, Upcall::Query, Upcall::IofPull].into_iter().collect()
    }

    fn started(&self, handle: &ServerHandle) {
        self.handle.set(handle.clone()).unwrap();
    }

    async fn tool_connected(&self, cx: &UpcallContext, _: ToolConnected) -> HostResult<ProcId> {
        Ok(ProcId::new(nspace(&format!("tool.{}", cx.id)), Rank::from_raw(0)))
    }

    /// A job has the name of its program. One named `early` has ended before its spawn is answered, and one named `slow` starts
    /// when the test says so.
    async fn spawn(&self, _: &UpcallContext, req: Spawn) -> HostResult<Nspace> {
        let name = req.apps[0].command.to_string_lossy().into_owned();
        match &*name {
            "early" => self.tell_end(&name, 3).await,
            "slow" => {
                self.slow[0].notify_one();
                self.slow[1].notified().await;
            }
            _ => self.running.lock().unwrap().push(name.clone()),
        }
        Ok(nspace(&name))
    }

    async fn query(&self, _: &UpcallContext, req: QueryRequest) -> HostResult<QueryResults> {
        let of_remembered = Info::new(&keys::NSPACE.text(), REMEMBERED.0);
        let asks = |query: &Query| {
            query.keys.iter().any(|key| *key == *JOB_END.name())
                && query.qualifiers.iter().any(|info| info.value == of_remembered.value)
        };
        if req.queries.iter().any(asks) {
            let end = DataArray::Info(vec![Info::new(&keys::EXIT_CODE, REMEMBERED.1)]);
            let found = DataArray::Info(vec![Info::new(&JOB_END, end)]);
            return Ok(QueryResults::complete(vec![Info::new(&keys::QUERY_RESULTS, found)]));
        }
        let names = self.running.lock().unwrap().join(",");
        let found = DataArray::Info(vec![Info::new(&keys::QUERY_NAMESPACES, names)]);
        Ok(QueryResults::complete(vec![Info::new(&keys::QUERY_RESULTS, found)]))
    }

    async fn iof_pull(&self, _: &UpcallContext, _: IofPullRequest) -> HostResult<()> {
        Ok(())
    }
}

impl Host {
    fn handle(&self) -> &ServerHandle {
        self.handle.get().unwrap()
    }

    /// The job does not run any more, without a word.
    fn end_silently(&self, name: &str) {
        self.running.lock().unwrap().retain(|running| running != name);
    }

    async fn tell_end(&self, name: &str, exit_code: i32) {
        self.tell(Event::new(Status::EVENT_JOB_END, ProcId::none()), name, exit_code).await;
    }

    async fn tell(&self, event: Event, name: &str, exit_code: i32) {
        let event = event
            .with_range(DataRange::GLOBAL)
            .with_info(Info::new(&keys::NSPACE.text(), name))
            .with_info(Info::new(&keys::EXIT_CODE, exit_code));
        self.handle().notify_event(event).await.unwrap();
    }
}

fn nspace(name: &str) -> Nspace {
    name.parse().unwrap()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A server in a thread of its own, and a tool that does nothing while its runtime does not run.
struct Rig {
    root: TempDir,
    host: Host,
    _server: Server,
    of_server: Runtime,
    of_tool: Runtime,
}

impl Rig {
    fn start() -> Self {
        let (root, host) = (tempfile::tempdir().unwrap(), Host::default());
        let of_server = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server =
            Server::builder().host(host.clone()).hostname("n0").session_root(root.path()).tool_support(true);
        let _server = of_server.block_on(server.start()).unwrap();
        Self { root, host, _server, of_server, of_tool: runtime() }
    }

    async fn tool(&self) -> Tool {
        within(Tool::builder().session_root(self.root.path()).connect()).await.unwrap()
    }
}

async fn next(job: &mut SubmittedJob) -> Result<JobUpdate, Error> {
    within(job.next()).await.unwrap()
}

fn exit_code(news: Result<JobUpdate, Error>) -> i32 {
    match news {
        Ok(JobUpdate::Ended(end)) => end.exit_code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_end_of_a_job_that_ends_before_its_spawn_is_answered_is_known() {
    let rig = Rig::start();
    rig.of_tool.block_on(async {
        let submitter = within(rig.tool().await.submitter()).await.unwrap();
        let app = vec![App::new("early", 1)];
        let mut job = within(submitter.submit(app, Directives::new(), IofChannels::NONE)).await.unwrap();
        assert_eq!(exit_code(next(&mut job).await), 3);
        assert!(within(job.next()).await.is_none());
    });
}

/// A server counts whole seconds, and from a later time on.
#[test]
fn a_job_that_the_server_still_starts_in_time_is_followed() {
    let rig = Rig::start();
    rig.of_tool.block_on(async {
        let limit = Duration::from_millis(3_599_500);
        let tool = Tool::builder().session_root(rig.root.path()).timeout(limit);
        let submitter = within(within(tool.connect()).await.unwrap().submitter()).await.unwrap();
        let app = vec![App::new("slow", 1)];
        let mut submitted = pin!(submitter.submit(app, Directives::new(), IofChannels::NONE));
        tokio::select! {
            early = &mut submitted => panic!("{early:?}"),
            () = within(rig.host.slow[0].notified()) => {}
        }
        // the tool's limit passes, but not the next whole second
        tokio::time::pause();
        tokio::time::advance(limit + Duration::from_millis(100)).await;
        tokio::time::resume();
        let until_now = tokio::time::timeout(Duration::from_millis(10), &mut submitted).await;
        assert!(until_now.is_err(), "{until_now:?}");
        rig.host.slow[1].notify_one();
        assert_eq!(&**within(submitted).await.unwrap().nspace(), "slow");
    });
}

/// A server says that it has dropped an event only with the next one, which may never come.
#[test]
fn the_end_of_a_job_that_nothing_tells_of_is_noticed_when_events_are_silent() {
    let rig = Rig::start();
    rig.of_tool.block_on(async {
        let submitter = within(rig.tool().await.submitter()).await.unwrap();
        for (name, code) in [("gone", None), (REMEMBERED.0, Some(REMEMBERED.1))] {
            let app = vec![App::new(name, 1)];
            let mut job = within(submitter.submit(app, Directives::new(), IofChannels::NONE)).await.unwrap();
            rig.host.end_silently(name);
            let end = next(&mut job).await;
            match code {
                Some(code) => assert_eq!(exit_code(end), code),
                None => assert!(matches!(end, Err(Error::UnknownEnd(_)))),
            }
            assert!(within(job.next()).await.is_none());
        }
    });
}

#[test]
fn when_events_are_lost_jobs_that_are_gone_are_reported_and_others_followed_on() {
    let rig = Rig::start();
    let (mut gone, mut goes, mut runs) = rig.of_tool.block_on(async {
        let submitter = within(rig.tool().await.submitter()).await.unwrap();
        let submit = async |name: &str| {
            let app = vec![App::new(name, 1)];
            within(submitter.submit(app, Directives::new(), IofChannels::NONE)).await.unwrap()
        };
        (submit("gone").await, submit("goes").await, submit("runs").await)
    });
    // nobody reads on the side of the tool
    rig.host.end_silently("gone");
    rig.of_server.block_on(async {
        for number in 0..200 {
            let large = Info::new(&keys::EVENT_TEXT_MESSAGE, "x".repeat(256 << 10));
            let event = Event::new(Status::EVENT_JOB_END, ProcId::none()).with_info(large);
            rig.host.tell(event, &format!("other.{number}"), 0).await;
        }
    });
    rig.of_tool.block_on(async {
        let error = next(&mut gone).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
        assert!(
            error.to_string().starts_with("job gone has ended, but its exit status is unknown"),
            "{error}"
        );
        // it is looked for again
        rig.host.end_silently("goes");
        assert!(matches!(next(&mut goes).await, Err(Error::UnknownEnd(_))));
        rig.host.tell_end("runs", 4).await;
        assert_eq!(exit_code(next(&mut runs).await), 4);
    });
}

#[test]
fn a_job_ends_although_its_server_does_not_tell_the_end_of_its_output() {
    let rig = Rig::start();
    rig.of_tool.block_on(async {
        let submitter = within(rig.tool().await.submitter()).await.unwrap();
        let app = vec![App::new("quiet", 1)];
        let mut job = within(submitter.submit(app, Directives::new(), IofChannels::STDOUT)).await.unwrap();
        rig.host.tell_end("quiet", 0).await;
        let source = ProcId::new(nspace("quiet"), Rank::from_raw(0));
        let deliver = async |text: &'static str| {
            let delivered =
                rig.host.handle().iof_deliver(&source, IofChannels::STDOUT, text.into(), Directives::new());
            delivered.await.unwrap();
        };
        for text in ["one", "two"] {
            deliver(text).await;
            match next(&mut job).await {
                Ok(JobUpdate::Output(chunk)) => assert_eq!(chunk.data, text),
                other => panic!("{other:?}"),
            }
        }
        deliver("last").await;
        rig.host.end_silently("quiet");
        assert!(matches!(next(&mut job).await, Ok(JobUpdate::Output(chunk)) if chunk.data == "last"));
        assert_eq!(exit_code(next(&mut job).await), 0);
    });
}
