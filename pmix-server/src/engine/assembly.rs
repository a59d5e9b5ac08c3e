//! Connect and disconnect: collectives that make processes of several namespaces known to each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use pmix_types::job::JobData;
use pmix_types::message::{Connect, ConnectReply, Disconnect, Failure};
use pmix_types::{Directives, Nspace, ProcId, Rank, Status, keys};

use super::collective::{Entry, Outcome};
use super::signature::{Named, Operation, Signature};
use super::{Asked, Engine, Out};
use crate::blob;
use crate::host::Connected;

/// The sets of processes that are connected, with their ids (CON-04).
#[derive(Debug, Default)]
pub(super) struct Assemblies(BTreeSet<(Option<String>, BTreeMap<Nspace, Named>)>);

/// What all participants of a connect share.
#[derive(Debug)]
pub(super) struct Assembled {
    /// All namespaces that took part.
    jobs: Vec<Arc<JobData>>,
    nspace: Option<Nspace>,
    ranks: Vec<(ProcId, Rank)>,
}

impl Assemblies {
    /// A namespace is gone: nothing of it is connected.
    pub(super) fn forget(&mut self, nspace: &Nspace) {
        self.0.retain(|(_, procs)| !procs.contains_key(nspace));
    }
}

impl Assembled {
    /// Each participant gets the data of the others' namespaces and its own rank (CON-06, CON-08).
    pub(super) fn reply_to(&self, caller: &ProcId) -> ConnectReply {
        let mut reply = ConnectReply::default();
        reply.jobs = self.jobs.iter().filter(|job| *job.nspace() != caller.nspace).cloned().collect();
        reply.nspace.clone_from(&self.nspace);
        reply.rank = self.ranks.iter().find(|(proc, _)| proc == caller).map(|(_, rank)| *rank);
        reply
    }
}

impl Engine {
    pub(super) fn on_connect(&mut self, asked: &Asked, connect: Connect, out: &mut Out) {
        let Connect { procs, directives, .. } = connect;
        self.on_assembly(asked, Operation::Connect, procs, directives, out);
    }

    pub(super) fn on_disconnect(&mut self, asked: &Asked, disconnect: Disconnect, out: &mut Out) {
        let Disconnect { procs, directives, .. } = disconnect;
        self.on_assembly(asked, Operation::Disconnect, procs, directives, out);
    }

    #[expect(clippy::too_many_arguments, reason = "connect and disconnect differ in each of them")]
    fn on_assembly(
        &mut self,
        asked: &Asked,
        operation: impl FnOnce(Option<String>) -> Operation,
        procs: Vec<ProcId>,
        mut directives: Directives,
        out: &mut Out,
    ) {
        match directives.take(&keys::CONNECT_ID) {
            Ok(id) => self.on_enter(asked, Entry { operation: operation(id), procs, directives }, out),
            Err(error) => self.reply(asked.to, Err(error.into()), out),
        }
    }

    /// Only who is connected can disconnect (CON-14).
    pub(super) fn check_assembly(&self, signature: &Signature) -> Result<(), Failure> {
        let Operation::Disconnect(id) = &signature.operation else { return Ok(()) };
        if self.collectives.assemblies.0.contains(&(id.clone(), signature.procs.clone())) {
            return Ok(());
        }
        Err(Failure::new(Status::ERR_INVALID_OPERATION, "disconnect: these processes are not connected"))
    }

    pub(super) fn connected(&mut self, signature: &Signature, host: Connected) -> Outcome {
        if let Operation::Connect(id) = &signature.operation {
            self.collectives.assemblies.0.insert((id.clone(), signature.procs.clone()));
        }
        let jobs = signature.procs.keys().filter_map(|nspace| self.jobs.get(nspace));
        let jobs = jobs.map(|job| job.data.clone()).collect();
        Outcome::Connected(Arc::new(Assembled { jobs, nspace: host.nspace, ranks: host.ranks }))
    }

    /// Data of the namespaces stays until they are deregistered (CON-16).
    pub(super) fn disconnected(&mut self, signature: &Signature) -> Outcome {
        if let Operation::Disconnect(id) = &signature.operation {
            self.collectives.assemblies.0.remove(&(id.clone(), signature.procs.clone()));
        }
        Outcome::Disconnected
    }

    /// Data of the participating namespaces that this server can tell the others of.
    pub(super) fn local_jobs(&self, signature: &Signature) -> Bytes {
        let jobs = signature.procs.keys().filter_map(|nspace| self.jobs.get(nspace));
        blob::encode_jobs(jobs.map(|job| &*job.data))
    }

    /// Takes over what other servers tell of namespaces that are not known here.
    pub(super) fn adopt_jobs(&mut self, data: &Bytes, out: &mut Out) -> Result<(), Failure> {
        for job in blob::decode_jobs(data.clone())? {
            if !self.jobs.contains_key(job.nspace()) {
                self.adopt_job(job, out);
            }
        }
        Ok(())
    }
}
