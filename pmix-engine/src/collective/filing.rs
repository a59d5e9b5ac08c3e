//! What other nodes have sent with the end of a collective: filed before anybody is told of it.

use bytes::Bytes;
use pmix_types::Status;
use pmix_types::message::{Failure, ProcData};

use super::signature::Operation;
use crate::upcall::{Connected, Grouped};
use crate::{Answer, Engine};

/// What the host says has come of a collective.
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

impl Engine {
    /// Files what comes with the host's answer.
    pub(crate) fn file_outcome(
        &mut self,
        operation: &Operation,
        answer: Answer,
    ) -> Result<HostOutcome, Failure> {
        match (operation, answer) {
            (Operation::Fence, Answer::Blob(blob)) => Ok(HostOutcome::Fenced(self.file_modex(blob)?)),
            (Operation::Connect(_), Answer::Connected(connected)) => {
                self.adopt_jobs(&connected.data)?;
                Ok(HostOutcome::Connected(connected))
            }
            (Operation::Disconnect(_), Answer::Done) => Ok(HostOutcome::Disconnected),
            (Operation::Construct(_), Answer::Grouped(mut grouped)) => {
                self.adopt_jobs(&grouped.jobs)?;
                let remote = self.file_modex(std::mem::take(&mut grouped.data))?;
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
    fn file_modex(&mut self, blob: Bytes) -> Result<Vec<ProcData>, Failure> {
        let modex = self.cx.config.codec.read_modex(blob)?;
        let mut remote = Vec::new();
        for data in modex.procs {
            // this node's own part comes back with the rest
            if self.cx.jobs.get(&data.proc.nspace).is_some_and(|job| job.is_local(data.proc.rank)) {
                continue;
            }
            self.file_remote(&data);
            remote.push(data);
        }
        Ok(remote)
    }

    /// Takes over what other servers tell of namespaces that are not known here.
    fn adopt_jobs(&mut self, data: &Bytes) -> Result<(), Failure> {
        for job in self.cx.config.codec.read_jobs(data.clone())? {
            if !self.cx.jobs.contains_key(job.nspace()) {
                self.adopt_job(job);
            }
        }
        Ok(())
    }
}
