//! Namespaces and processes as the host registers them.

use std::sync::Arc;

use pmix_types::job::{JobData, JobError, Target};
use pmix_types::message::Failure;
use pmix_types::{Directives, Gid, Info, Nspace, ProcId, Rank, Status, Uid, keys};

use super::{Client, Job, PutData, Stage};
use crate::Config;
use crate::context::Context;
use crate::jobs::setup::Setup;
use crate::upcall::HostObject;

/// A namespace as the host describes it.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) nspace: Nspace,
    pub(crate) local_procs: Option<u32>,
    pub(crate) infos: Vec<Info>,
}

impl Registration {
    /// Registers the namespace, or adds to what is known of it.
    pub(crate) fn carry_out(self, setup: &Setup, cx: &mut Context) -> Result<(), Failure> {
        let Self { nspace, local_procs, infos } = self;
        let no_data = Directives::from(infos.clone()).flag(&keys::REGISTER_NODATA)?;
        // what the host says replaces what another server has said
        let known = cx.jobs.get(&nspace).filter(|job| job.registered || no_data);
        let mut data = known.map_or_else(|| JobData::new(nspace.clone()), |job| (*job.data).clone());
        if !no_data {
            data.register(&infos, &cx.config.hostname)
                .and_then(|()| name_server(&mut data, &cx.config))
                .map_err(|error| {
                    Failure::new(error.status(), format!("register_nspace of {nspace}: {error}"))
                })?;
        }
        setup.add_to(&mut data, &cx.config.hostname)?;
        // those that were registered before their namespace
        for rank in cx.jobs.get(&nspace).into_iter().flat_map(|job| job.clients.keys()) {
            check_place(&data, *rank, &cx.config.hostname).map_err(|problem| {
                let message = format!(
                    "register_nspace of {nspace}, whose rank {rank} is already registered: {problem}"
                );
                Failure::new(Status::ERR_BAD_PARAM, message)
            })?;
        }
        let local_ranks = data.local_ranks(&cx.config.hostname);
        if let (Some(given), Some(ranks)) = (local_procs, &local_ranks)
            && u64::from(given) != ranks.len()
        {
            let message = format!(
                "register_nspace of {nspace}: {given} local processes were given, but the process map puts {} on {} ({ranks})",
                ranks.len(),
                cx.config.hostname,
            );
            return Err(Failure::new(Status::ERR_BAD_PARAM, message));
        }
        let job = cx.jobs.entry(nspace.clone()).or_insert_with(|| Job::new(nspace));
        job.data = Arc::new(data);
        job.registered = true;
        job.local_procs = local_procs.or(job.local_procs);
        job.local_ranks = local_ranks;
        Ok(())
    }
}

/// Takes over the data of a namespace that another server knows (GET-32). It counts as registered only when
/// the host registers it here; that replaces the data.
pub(crate) fn adopt(data: JobData, cx: &mut Context) {
    let nspace = data.nspace().clone();
    let job = cx.jobs.entry(nspace.clone()).or_insert_with(|| Job::new(nspace));
    job.local_ranks = data.local_ranks(&cx.config.hostname);
    job.data = Arc::new(data);
}

/// The host has started a process. Once it has connected, the pid that the kernel reports counts; on the native wire it reports
/// none.
pub(crate) fn client_started(proc: &ProcId, pid: i32, cx: &mut Context) -> Result<(), Failure> {
    let Some(client) = cx.client_mut(proc) else {
        let message = format!("client_started of {proc}: it is not registered");
        return Err(Failure::new(Status::ERR_NOT_FOUND, message));
    };
    if client.conns.is_empty() || client.pid == 0 {
        client.pid = pid;
    }
    Ok(())
}

/// A process that may connect. Its namespace may be registered later.
pub(crate) fn register_client(
    proc: &ProcId,
    uid: Uid,
    gid: Gid,
    object: Option<HostObject>,
    cx: &mut Context,
) -> Result<(), Failure> {
    if !proc.rank.is_valid() {
        let message = format!("register_client of {proc}: {} is not the rank of one process", proc.rank);
        return Err(Failure::new(Status::ERR_BAD_PARAM, message));
    }
    if let Some(job) = cx.jobs.get(&proc.nspace) {
        check_place(&job.data, proc.rank, &cx.config.hostname).map_err(|problem| {
            Failure::new(Status::ERR_BAD_PARAM, format!("register_client of {proc}: {problem}"))
        })?;
    }
    // a client may be registered before its namespace is: the namespace is then known without data
    let job = cx.jobs.entry(proc.nspace.clone()).or_insert_with(|| Job::new(proc.nspace.clone()));
    job.seen.insert(proc.rank);
    // it was on another node before: other nodes are told by the next fence that this is gone
    if job.put.get(proc.rank).is_some_and(PutData::is_remote) {
        job.put.remove(proc.rank);
        cx.changes.next();
    }
    let client = job.clients.entry(proc.rank).or_insert_with(|| Client::new(uid, gid));
    (client.uid, client.gid, client.object) = (uid, gid, object);
    // registered again: it is started anew
    if client.conns.is_empty() {
        (client.departed, client.stage, client.pid) = (None, Stage::Registered, 0);
        client.model.clear();
        job.departed.remove(proc.rank);
    }
    Ok(())
}

/// Adds this server as the job's own, unless the host has named one (CLI-09).
fn name_server(data: &mut JobData, Config { server, hostname, .. }: &Config) -> Result<(), JobError> {
    let given = |name| data.lookup(name, &Target::Job).is_some();
    if given(keys::SERVER_NSPACE.name()) || given(keys::SERVER_RANK.name()) {
        return Ok(());
    }
    let named = [
        Info::new(&keys::SERVER_NSPACE, server.nspace.to_string()),
        Info::new(&keys::SERVER_RANK, server.rank),
    ];
    data.register(&named, hostname)
}

/// Why a process cannot be on this node, by what is said of its job.
fn check_place(data: &JobData, rank: Rank, hostname: &str) -> Result<(), String> {
    if let (Some(size), false) = (data.size(), data.contains(rank)) {
        return Err(format!("the job has {size} ranks, and {rank} is not one of them"));
    }
    let (Some(map), Some(placement)) = (data.node_map(), data.placement()) else { return Ok(()) };
    let place = placement.node_of(rank).and_then(|node| map.get(node as usize));
    match place {
        Some(place) if place != hostname => Err(format!(
            "its map puts it on node {place}, and this server is that of node {hostname}: register it there, or name \
             this server's node by ServerBuilder::hostname"
        )),
        _ => Ok(()),
    }
}
