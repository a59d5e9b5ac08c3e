//! A server whose host says what happens to jobs, and `pmix` beside it.

use std::io::{BufRead, BufReader, PipeReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use pmix_server::host::{
    Infos, IofPullRequest, JobControl, QueryRequest, QueryResults, Spawn, ToolConnected,
};
use pmix_server::{
    Capabilities, HostError, HostModule, HostResult, Server, ServerHandle, Upcall, UpcallContext, async_trait,
};
use pmix_test_wait::{LIMIT, block_until};
use pmix_tool::types::job::JobSpec;
use pmix_tool::types::{DataArray, DataRange, IofChannels, JOB_END, Value};
use pmix_tool::{Directives, Event, Info, Nspace, ProcId, ProcInfo, Rank, Status, keys};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};

const HOUR: Duration = Duration::from_secs(3600);

/// A pipe holds 64 KiB, and less of many small pieces.
const FULL: u64 = 60 << 10;

/// The job that runs, with a process of each of these ranks.
pub(crate) const JOB: &str = "job";
/// A job that has ended, and its exit code.
pub(crate) const ENDED: (&str, i32) = ("ended", 6);
/// What the host says if it refuses to control a job: it tries to write on a line of its own, in red.
pub(crate) const REFUSAL: &str = "not today\npmix: \x1b[31mall is well";

/// Starts nothing: what becomes of its jobs is for the test to say.
#[derive(Clone)]
pub(crate) struct Host {
    handle: Arc<OnceLock<ServerHandle>>,
    /// The requests that came, by name.
    asked: Arc<Mutex<Vec<&'static str>>>,
    /// A request of this name is answered no earlier than another one is named here.
    held: watch::Sender<Option<&'static str>>,
    ranks: u32,
}

impl Host {
    fn new(ranks: u32) -> Self {
        let (handle, asked) = Default::default();
        Self { handle, asked, held: watch::Sender::new(None), ranks }
    }

    /// Notes a request, and waits while those of its name are held.
    async fn begin(&self, request: &'static str) {
        self.asked.lock().unwrap().push(request);
        let mut held = self.held.subscribe();
        held.wait_for(|held| *held != Some(request)).await.unwrap();
    }

    pub(crate) fn handle(&self) -> &ServerHandle {
        self.handle.get().unwrap()
    }

    fn value(&self, key: &str, nspace: Option<&str>) -> Option<Value> {
        if key == keys::QUERY_NAMESPACES.name() {
            return Some(JOB.into());
        }
        if key == JOB_END.name() && nspace == Some(ENDED.0) {
            return Some(DataArray::Info(vec![Info::new(&keys::EXIT_CODE, ENDED.1)]).into());
        }
        if key == keys::QUERY_PROC_TABLE.name() && nspace == Some(JOB) {
            let row = |rank| ProcInfo::new(ProcId::new(nspace_of(JOB), Rank::from_raw(rank)));
            return Some(DataArray::ProcInfo((0..self.ranks).map(row).collect()).into());
        }
        None
    }
}

#[async_trait]
impl HostModule for Host {
    fn capabilities(&self) -> Capabilities {
        [Upcall::ToolConnected, Upcall::Spawn, Upcall::Query, Upcall::IofPull, Upcall::JobControl]
            .into_iter()
            .collect()
    }

    fn started(&self, handle: &ServerHandle) {
        self.handle.set(handle.clone()).unwrap();
    }

    async fn tool_connected(&self, cx: &UpcallContext, _: ToolConnected) -> HostResult<ProcId> {
        self.begin("tool").await;
        Ok(ProcId::new(nspace_of(&format!("tool.{}", cx.id)), Rank::from_raw(0)))
    }

    /// A job has the name of its program. One named `early` has ended before its spawn is answered.
    async fn spawn(&self, _: &UpcallContext, req: Spawn) -> HostResult<Nspace> {
        self.begin("spawn").await;
        let name = nspace_of(&req.apps[0].command.to_string_lossy());
        if &*name == "early" {
            let event = Event::new(Status::EVENT_JOB_END, ProcId::none()).with_range(DataRange::GLOBAL);
            let event = event.with_info(Info::new(&keys::NSPACE.text(), &*name));
            self.handle().notify_event(event.with_info(Info::new(&keys::EXIT_CODE, 3))).await.unwrap();
        }
        Ok(name)
    }

    async fn query(&self, _: &UpcallContext, req: QueryRequest) -> HostResult<QueryResults> {
        self.begin("query").await;
        let mut found = Vec::new();
        for query in &req.queries {
            let nspace: Option<String> = query.qualifiers.get(&keys::NSPACE.text()).ok().flatten();
            for key in &query.keys {
                let value = self.value(key, nspace.as_deref());
                found.extend(value.map(|value| Info::dynamic(key.clone(), value)));
            }
        }
        if found.is_empty() {
            return Err(Status::ERR_NOT_FOUND.into());
        }
        Ok(QueryResults::complete(vec![Info::new(&keys::QUERY_RESULTS, DataArray::Info(found))]))
    }

    async fn iof_pull(&self, _: &UpcallContext, _: IofPullRequest) -> HostResult<()> {
        self.begin("pull").await;
        Ok(())
    }

    async fn job_control(&self, _: &UpcallContext, _: JobControl) -> HostResult<Infos> {
        self.begin("control").await;
        Err(HostError::new(Status::ERR_NO_PERMISSIONS, REFUSAL))
    }
}

fn nspace_of(name: &str) -> Nspace {
    name.parse().unwrap()
}

/// A server in a thread of its own.
pub(crate) struct Rig {
    pub(crate) root: Arc<TempDir>,
    pub(crate) host: Host,
    server: Option<Server>,
    runtime: Handle,
    /// While this is here, a thread of the runtime is busy, and time that is paused passes only when a test says so.
    _busy: Option<mpsc::Sender<()>>,
    /// Ends the thread.
    _end: oneshot::Sender<()>,
}

impl Rig {
    pub(crate) fn start() -> Self {
        Self::below(Arc::new(tempfile::tempdir().unwrap()), "srv", 2, HOUR)
    }

    /// With so many ranks in the job, and for a server of this patience, whose time passes only by [`pass`](Self::pass).
    pub(crate) fn with(ranks: u32, patience: Duration) -> Self {
        let mut rig = Self::below(Arc::new(tempfile::tempdir().unwrap()), "srv", ranks, patience);
        let (busy, over) = mpsc::channel::<()>();
        rig.block_on(async {
            tokio::task::spawn_blocking(move || over.recv());
            tokio::time::pause();
        });
        rig._busy = Some(busy);
        rig
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.block_on(async { tokio::spawn(tokio::time::advance(time)).await.unwrap() });
    }

    /// One more server in the same place.
    pub(crate) fn beside(&self, name: &str) -> Self {
        Self::below(Arc::clone(&self.root), name, 2, HOUR)
    }

    fn below(root: Arc<TempDir>, name: &str, ranks: u32, patience: Duration) -> Self {
        let host = Host::new(ranks);
        let alone = Builder::new_current_thread().enable_all().build().unwrap();
        let runtime = alone.handle().clone();
        let (_end, ended) = oneshot::channel::<()>();
        thread::spawn(move || drop(alone.block_on(ended)));
        let server = Server::builder()
            .host(host.clone())
            .hostname("n0")
            .nspace(name)
            .unread_timeout(patience)
            .session_root(root.path())
            .tool_support(true);
        let server = runtime.block_on(server.start()).unwrap();
        let spec = JobSpec::new(nspace_of(JOB)).node_map(["n0"]).unwrap().ranks_block(1, ranks).unwrap();
        runtime.block_on(server.handle().register_nspace(spec)).unwrap();
        Self { root, host, server: Some(server), runtime, _busy: None, _end }
    }

    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    pub(crate) fn stop(&mut self) {
        self.runtime.block_on(self.server.take().unwrap().stop());
    }

    /// Answers no request of this name from now on; without one, all.
    pub(crate) fn hold(&self, request: Option<&'static str>) {
        self.host.held.send_replace(request);
    }

    /// How many requests of this name have come.
    pub(crate) fn asked(&self, request: &str) -> usize {
        self.host.asked.lock().unwrap().iter().filter(|asked| **asked == request).count()
    }

    /// Waits until so many have.
    pub(crate) fn until_asked(&self, request: &str, count: usize) {
        block_until(format!("{count} requests: {request}"), || self.asked(request) >= count);
    }

    /// A rank of the job writes this.
    pub(crate) fn write(&self, text: impl Into<bytes::Bytes>) {
        let source = ProcId::new(nspace_of(JOB), Rank::from_raw(0));
        let (channel, info) = (IofChannels::STDOUT, Directives::new());
        self.block_on(self.host.handle().iof_deliver(&source, channel, text.into(), info)).unwrap();
    }

    /// No output of the job is to come.
    pub(crate) fn end_output(&self) {
        let source = ProcId::wildcard(nspace_of(JOB));
        let info = Directives::new().with(&keys::IOF_COMPLETE, true);
        let channels = IofChannels::STDOUT | IofChannels::STDERR;
        self.block_on(self.host.handle().iof_deliver(&source, channels, bytes::Bytes::new(), info)).unwrap();
    }

    /// Notifies tools of an event with a text.
    pub(crate) fn tell(&self, code: Status, text: &str) {
        let event = Event::new(code, ProcId::none()).with_range(DataRange::SESSION);
        let event = event.with_info(Info::new(&keys::EVENT_TEXT_MESSAGE, text));
        self.block_on(self.host.handle().notify_event(event)).unwrap();
    }

    /// How many events have been delivered.
    pub(crate) fn delivered(&self) -> u64 {
        self.block_on(self.host.handle().stats()).events_delivered
    }

    fn command(&self, args: &[&str]) -> Command {
        crate::run::command(self.root.path(), args)
    }

    pub(crate) fn pmix(&self, args: &[&str]) -> Running {
        Running::start(self.command(args))
    }

    /// The same with a pipe of its own, as soon as that has hardly any room left.
    pub(crate) fn with_full_pipe(&self, args: &[&str]) -> (Running, PipeReader) {
        let (reader, writer) = std::io::pipe().unwrap();
        let running = self.pmix_into(writer, args);
        block_until("a full pipe", || rustix::io::ioctl_fionread(&reader).unwrap() > FULL);
        (running, reader)
    }

    /// The same with this as standard output.
    pub(crate) fn pmix_into(&self, output: impl Into<Stdio>, args: &[&str]) -> Running {
        let mut command = self.command(args);
        Running::of(command.stdout(output).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Its exit code if nobody reads what it writes.
    pub(crate) fn without_reader(&self, args: &[&str]) -> Option<i32> {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        self.command(args).stdout(writer).status().unwrap().code()
    }
}

/// A command that runs; killed when dropped.
pub(crate) struct Running {
    child: Child,
    out: Lines,
    err: Lines,
}

impl Running {
    fn start(mut command: Command) -> Self {
        Self::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Without standard output if that is one of the test.
    fn of(mut child: Child) -> Self {
        let out = child.stdout.take().map_or_else(Lines::none, |pipe| Lines::Unread(Box::new(pipe)));
        let err = Lines::Unread(Box::new(child.stderr.take().unwrap()));
        Self { child, out, err }
    }

    /// The next line that it prints, empty at the end. Nothing is read before the first call.
    pub(crate) fn line(&mut self) -> String {
        self.out.next()
    }

    /// The next message.
    pub(crate) fn message(&mut self) -> String {
        self.err.next()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Its exit code, and what it has printed and told meanwhile.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        self.out.read();
        let (err, out) = (self.err.rest(), self.out.rest());
        block_until("the end", || self.child.try_wait().unwrap().is_some());
        (self.child.wait().unwrap().code(), out, err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // it may have ended
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What comes out of a pipe.
enum Lines {
    Unread(Box<dyn Read + Send>),
    Read(mpsc::Receiver<String>),
}

impl Lines {
    fn none() -> Self {
        Self::Unread(Box::new(std::io::empty()))
    }

    /// Has a thread read them.
    fn read(&mut self) -> &mpsc::Receiver<String> {
        if let Self::Unread(pipe) = self {
            let (lines, received) = mpsc::channel();
            let mut pipe = BufReader::new(std::mem::replace(pipe, Box::new(std::io::empty())));
            thread::spawn(move || {
                let mut line = Vec::new();
                while pipe.read_until(b'\n', &mut line).unwrap() > 0 {
                    // a test that has failed reads no more
                    let _ = lines.send(String::from_utf8_lossy(&std::mem::take(&mut line)).into_owned());
                }
            });
            *self = Self::Read(received);
        }
        match self {
            Self::Read(lines) => lines,
            Self::Unread(_) => unreachable!("it has been replaced"),
        }
    }

    fn next(&mut self) -> String {
        match self.read().recv_timeout(LIMIT) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => String::new(),
            Err(RecvTimeoutError::Timeout) => panic!("no line comes"),
        }
    }

    fn rest(&mut self) -> String {
        let mut all = String::new();
        loop {
            match self.next() {
                line if line.is_empty() => return all,
                line => all += &line,
            }
        }
    }
}
