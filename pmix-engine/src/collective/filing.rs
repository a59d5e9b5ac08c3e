//! Data that other nodes have sent with the end of a collective; it is stored before participants learn of the end.

use bytes::Bytes;
use pmix_types::Status;
use pmix_types::message::{Failure, ProcData};

use super::entry::Operation;
use crate::Answer;
use crate::context::Context;
use crate::data::Data;
use crate::jobs::psets::Psets;
use crate::upcall::{Connected, Grouped};

/// How a collective has ended, as the host reports it.
#[derive(Debug)]
pub(crate) enum HostOutcome {
    /// With what participants on other nodes have put.
    Fenced(Vec<ProcData>),
    Connected(Connected),
    Disconnected,
    /// With what members on other nodes have put.
    Constructed(Grouped, Vec<ProcData>),
    Destructed,
}

/// Files the data that other nodes have sent along.
#[derive(Debug)]
pub(crate) struct Filing<'a> {
    pub(crate) data: &'a mut Data,
    pub(crate) psets: &'a Psets,
}

impl Filing<'_> {
    pub(crate) fn file(
        &mut self,
        operation: &Operation,
        answer: Answer,
        cx: &mut Context,
    ) -> Result<HostOutcome, Failure> {
        match (operation, answer) {
            (Operation::Fence, Answer::Blob(blob)) => Ok(HostOutcome::Fenced(self.modex(blob, cx)?)),
            (Operation::Connect(_), Answer::Connected(connected)) => {
                self.jobs(&connected.data, cx)?;
                Ok(HostOutcome::Connected(connected))
            }
            (Operation::Disconnect(_), Answer::Done) => Ok(HostOutcome::Disconnected),
            (Operation::Construct(_), Answer::Grouped(mut grouped)) => {
                self.jobs(&grouped.jobs, cx)?;
                let remote = self.modex(std::mem::take(&mut grouped.data), cx)?;
                Ok(HostOutcome::Constructed(grouped, remote))
            }
            (Operation::Destruct(_), Answer::Grouped(_)) => Ok(HostOutcome::Destructed),
            (operation, other) => {
                let message = format!("the host answered a {} with {other:?}", operation.name());
                Err(Failure::new(Status::ERROR, message))
            }
        }
    }

    /// Files what other nodes have sent; returns it.
    fn modex(&mut self, blob: Bytes, cx: &mut Context) -> Result<Vec<ProcData>, Failure> {
        let modex = cx.config.codec.read_modex(blob)?;
        let mut remote = Vec::new();
        for data in modex.procs {
            // this node's own part comes back with the rest
            if cx.jobs.get(&data.proc.nspace).is_some_and(|job| job.is_local(data.proc.rank)) {
                continue;
            }
            self.data.file_remote(&data, cx);
            remote.push(data);
        }
        Ok(remote)
    }

    /// Takes over what other servers tell of namespaces that are not known here.
    fn jobs(&mut self, data: &Bytes, cx: &mut Context) -> Result<(), Failure> {
        for job in cx.config.codec.read_jobs(data.clone())? {
            if !cx.jobs.contains_key(job.nspace()) {
                self.data.adopt_job(job, self.psets, cx);
            }
        }
        Ok(())
    }
}
