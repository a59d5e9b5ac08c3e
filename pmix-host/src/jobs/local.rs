//! A node whose server is in this process.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_server::Account;
use pmix_server::host::HostResult;
use pmix_types::{Directives, Event, Gid, Info, IofChannels, Nspace, ProcId, Uid, keys};

use super::directories::Directories;
use super::error::StartError;
use super::node::{Node, NodeJob, ProcEnvironment};
use super::record::RecordFiles;
use crate::collective::Collectives;
use crate::internode::Site;
use crate::publish::Publishing;

/// A node whose server is in this process. Notifications to a server that has stopped are dropped.
pub(crate) struct LocalNode {
    site: Arc<Site>,
    /// What it is also called.
    aliases: String,
    published: Arc<Publishing>,
    collectives: Collectives,
    records: Arc<RecordFiles>,
    directories: Directories,
}

impl LocalNode {
    pub(crate) fn new(
        site: Arc<Site>,
        mut aliases: Vec<String>,
        published: Arc<Publishing>,
        collectives: Collectives,
        records: Arc<RecordFiles>,
    ) -> Self {
        aliases.retain(|alias| alias != site.node());
        let aliases = aliases.join(",");
        Self { site, aliases, published, collectives, records, directories: Directories::default() }
    }

    /// Makes what a process may use from now on: it is about to be let in.
    pub(crate) async fn let_in(&self, proc: &ProcId) -> HostResult<()> {
        self.directories.make(&proc.nspace).await
    }
}

#[async_trait]
impl Node for LocalNode {
    fn name(&self) -> &str {
        self.site.node()
    }

    fn check(&self) -> HostResult<()> {
        self.site.server().map(drop)
    }

    async fn knows(&self, nspace: &Nspace) -> bool {
        self.site.job(nspace).await.is_some()
    }

    async fn register_job(
        &self,
        number: u32,
        job: NodeJob,
        user: Option<&Account>,
    ) -> Result<(), StartError> {
        let server = self.site.server()?;
        let mut spec = self.directories.plan(server, number, job, user);
        if !self.aliases.is_empty() {
            spec = spec.node_info(self.site.node(), &keys::HOSTNAME_ALIASES, self.aliases.as_str());
        }
        Ok(server.register_nspace(spec).await?)
    }

    async fn set_up_local(&self, nspace: &Nspace, needed: Vec<Info>) -> HostResult<()> {
        Ok(self.site.server()?.setup_local_support(nspace, needed).await?)
    }

    async fn register_proc(&self, proc: &ProcId, uid: Uid, gid: Gid) -> Result<ProcEnvironment, StartError> {
        let server = self.site.server()?;
        server.register_client(proc, uid, gid, None).await?;
        let environment = server.setup_fork(proc).await?;
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let defaults = environment.defaults().map(owned).collect();
        let changes = environment.changes().to_vec();
        let pmi1 = environment.pmi1().cloned();
        Ok(ProcEnvironment { changes, defaults, pmi1, variables: environment.into_vec() })
    }

    async fn work_dir(&self, number: u32, user: Option<&Account>) -> HostResult<String> {
        self.directories.work_dir(self.site.server()?, number, user).await
    }

    async fn proc_started(&self, proc: &ProcId, pid: i32) {
        if let Ok(server) = self.site.server() {
            let _ = server.client_started(proc, pid).await;
        }
    }

    async fn proc_ended(&self, proc: &ProcId, reason: String) {
        if let Ok(server) = self.site.server() {
            let _ = server.client_ended(proc, reason).await;
        }
    }

    async fn end_job(&self, nspace: &Nspace) {
        if let Ok(server) = self.site.server() {
            let _ = server.deregister_nspace(nspace).await;
            self.directories.remove(nspace).await;
        }
        self.published.forget_job(nspace);
        self.collectives.forget_job(nspace);
    }

    async fn keep_record(&self, nspace: &Nspace, why: &str) -> Option<PathBuf> {
        self.records.write(self.site.server().ok()?, nspace, why).await
    }

    async fn notify(&self, event: &Event) {
        if let Ok(server) = self.site.server() {
            let _ = server.notify_event(event.clone()).await;
        }
    }

    async fn deliver(&self, source: &ProcId, channels: IofChannels, data: Bytes, info: Directives) {
        if let Ok(server) = self.site.server() {
            let _ = server.iof_deliver(source, channels, data, info).await;
        }
    }
}
