//! Processes that ask for jobs, with hosts that start them.

use std::fs;
use std::path::Path;

use pmix_client::types::{App, Directives, Event, Info, Status, keys};
use pmix_client::{Client, Error, EventStream, Nspace, ProcId, Rank};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_launch::LocalLauncher;
use pmix_server::NativeWire;
use pmix_test_wait::within;
use tempfile::TempDir;

use crate::commands::EndsProcesses;
use crate::node::TestNode;

/// Nodes whose hosts start processes, and one process on the first which asks for jobs.
#[derive(Debug)]
pub struct Spawner {
    _ends: Vec<EndsProcesses>,
    nodes: Vec<TestNode>,
    /// The process.
    pub client: Client,
    /// What it is told of the ends of its jobs.
    pub ends: EventStream,
    out: TempDir,
}

impl Spawner {
    /// On nodes of these names.
    pub async fn start(nodes: &[&str]) -> Self {
        let hosts = StandardHost::cluster(
            LocalLauncher::simulating(nodes.iter().copied()),
            MemoryExchange::cluster(nodes.iter().copied()),
        );
        let mut started = Vec::new();
        for (number, (host, node)) in hosts.into_iter().zip(nodes).enumerate() {
            let builder = TestNode::builder(u32::from(number == 0)).nspace(&format!("parent{number}"));
            let builder = builder.server(|server| server.native_wire(NativeWire::On).tool_support(true));
            started.push(builder.hostname(node).host(host).start().await);
        }
        let ends_processes = started.iter().map(|node| EndsProcesses::of(node.root())).collect();
        let client = started[0].client(0).await;
        let ends = within(async { client.events([Status::EVENT_JOB_END]).await }).await.unwrap();
        Self { _ends: ends_processes, nodes: started, client, ends, out: tempfile::tempdir().unwrap() }
    }

    /// The nodes.
    pub fn nodes(&self) -> &[TestNode] {
        &self.nodes
    }

    /// A directory for what processes write.
    pub fn out(&self) -> &Path {
        self.out.path()
    }

    /// The end of a job.
    pub async fn next_end(&mut self) -> Event {
        next_event(&mut self.ends).await
    }

    /// A shell script, in which `$OUT` is a file of its rank's own.
    pub fn script(&self, script: &str, ranks: u32) -> App {
        let script = format!("OUT={}/$PMIX_NAMESPACE.$PMIX_RANK\n{script}", self.out().display());
        App::new("sh", ranks).args(["-c", &script])
    }

    /// What a rank has written to `$OUT`.
    ///
    /// # Panics
    /// If it has not written there.
    pub fn written(&self, job: &Nspace, rank: u32) -> String {
        let file = self.out().join(format!("{job}.{rank}"));
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// Starts a job, whose end will be told.
    pub async fn spawn(&self, apps: Vec<App>, directives: Directives) -> Nspace {
        let spawn = self.client.spawn(apps).notify_completion().directives(directives);
        within(async { spawn.await }).await.unwrap()
    }

    /// Starts a job and waits for its end.
    pub async fn run(&mut self, apps: Vec<App>, directives: Directives) -> (Nspace, Event) {
        let job = self.spawn(apps, directives).await;
        (job, self.next_end().await)
    }

    /// Starts a job that ends well; what each of its ranks wrote.
    pub async fn output(&mut self, apps: Vec<App>, directives: Directives) -> Vec<String> {
        let ranks = apps.iter().map(|app| u32::try_from(app.max_procs).unwrap()).sum();
        let (job, end) = self.run(apps, directives).await;
        assert_eq!(term_status(&end), Status::SUCCESS);
        (0..ranks).map(|rank| self.written(&job, rank).trim_end().to_owned()).collect()
    }

    /// Asks for a job that cannot be, and of which no node knows anything afterwards.
    ///
    /// # Panics
    /// If it is started.
    pub async fn refused(&self, apps: Vec<App>, directives: Directives) -> Error {
        let spawn = self.client.spawn(apps).directives(directives);
        let error = within(async { spawn.await }).await.unwrap_err();
        for number in 0..9 {
            let name = Nspace::new(format!("parent0.{number}")).unwrap();
            for node in &self.nodes {
                assert!(node.handle().job_data(&name).await.is_err(), "{name} is known: {error}");
            }
        }
        error
    }

    /// Nodes of a job's ranks, as the parent sees them.
    pub async fn hosts_of(&self, job: &Nspace, ranks: u32) -> Vec<String> {
        let mut hosts = Vec::new();
        for rank in (0..ranks).map(Rank::from_raw) {
            let proc = ProcId::new(job.clone(), rank);
            hosts.push(within(async { self.client.get(proc, keys::HOSTNAME).await }).await.unwrap());
        }
        hosts
    }

    /// Waits for the ends of so many jobs, all of which end well.
    ///
    /// # Panics
    /// If one does not.
    pub async fn ended(&mut self, jobs: usize) {
        for _ in 0..jobs {
            let end = self.next_end().await;
            assert_eq!(term_status(&end), Status::SUCCESS, "{end:?}");
        }
    }

    /// A daemon of a debugger: writes where it is, and looks at processes until [`look_no_more`](Self::look_no_more).
    pub fn daemon(&self) -> App {
        let done = self.out().join("done");
        let wait = format!("until [ -e {} ]; do sleep 0.02; done", done.display());
        self.script(&format!("echo $PMIX_HOSTNAME > $OUT; {wait}"), 1)
    }

    /// Has all daemons end.
    pub fn look_no_more(&self) {
        fs::write(self.out().join("done"), "").unwrap();
    }

    /// Releases these ranks once each has said that it waits.
    pub async fn release(&self, ready: &mut EventStream, job: &Nspace, ranks: &[u32]) {
        let mut waiting = Vec::new();
        while waiting.len() < ranks.len() {
            let event = next_event(ready).await;
            assert_eq!(&event.source.nspace, job);
            waiting.push(event.source);
        }
        waiting.sort();
        let procs: Vec<_> =
            ranks.iter().map(|rank| ProcId::new(job.clone(), Rank::from_raw(*rank))).collect();
        assert_eq!(waiting, procs);
        let release = self.client.notify(Status::DEBUGGER_RELEASE).custom_range(procs).non_default();
        within(async { release.await }).await.unwrap();
    }
}

/// Spawns three processes together with daemons that look at them; these of the three stop in init.
pub async fn spawned_with_daemons(applications: Vec<App>, stopping: &[u32]) {
    let mut rig = Spawner::start(&["n0", "n1", "n2"]).await;
    let mut ready = within(async { rig.client.events([Status::READY_FOR_DEBUG]).await }).await.unwrap();
    let mut daemon = rig.daemon();
    daemon.info.push(Info::required(&keys::DEBUGGER_DAEMONS, true));
    daemon.info.push(Info::required(&keys::DEBUG_DAEMONS_PER_NODE, 2_u16));
    let mut apps = vec![daemon];
    apps.extend(applications);
    for app in &mut apps[1..] {
        app.info.push(Info::required(&keys::HOST, "n2,n1"));
    }
    let job = rig.spawn(apps, Directives::new()).await;
    assert_eq!(rig.hosts_of(&job, 3).await, ["n2", "n2", "n1"]);
    let size = within(async { rig.client.get(ProcId::wildcard(job.clone()), keys::JOB_SIZE).await }).await;
    assert_eq!(size.unwrap(), 3, "its daemons are none of its processes");

    // the job started after this one by the same process
    let (parent, number) = job.as_str().rsplit_once('.').unwrap();
    let daemons: Nspace = format!("{parent}.{}", number.parse::<u32>().unwrap() + 1).parse().unwrap();
    assert_eq!(rig.hosts_of(&daemons, 4).await, ["n1", "n1", "n2", "n2"]);
    let all = ProcId::wildcard(daemons.clone());
    let target = within(async { rig.client.get(all, keys::DEBUG_TARGET).await }).await.unwrap();
    assert_eq!(target, ProcId::wildcard(job.clone()));
    rig.look_no_more();
    rig.release(&mut ready, &job, stopping).await;
    rig.ended(2).await;
    for (rank, node) in ["n1", "n1", "n2", "n2"].into_iter().enumerate() {
        assert_eq!(rig.written(&daemons, u32::try_from(rank).unwrap()).trim_end(), node);
    }
}

/// The next of these events.
pub async fn next_event(events: &mut EventStream) -> Event {
    within(events.recv()).await.unwrap().unwrap()
}

/// The status with which a job has ended.
///
/// # Panics
/// If the event does not tell it.
pub fn term_status(event: &Event) -> Status {
    event.info.get(&keys::JOB_TERM_STATUS).unwrap().unwrap()
}
