//! Data that other nodes have sent with the end of a collective; it is stored before participants learn of the end.

use bytes::Bytes;
use pmix_types::Status;
use pmix_types::message::Failure;

use super::entry::{Operation, Signature};
use crate::Answer;
use crate::context::Context;
use crate::data::{Data, Filed};
use crate::jobs::psets::Psets;
use crate::participants::Ranks;
use crate::upcall::{Connected, Grouped};

/// How a collective has ended, as the host reports it.
#[derive(Debug)]
pub(crate) enum HostOutcome {
    /// These participants on other nodes have told what they have put.
    Fenced(Ranks),
    Connected(Connected),
    Disconnected,
    /// These members on other nodes have told what they have put.
    Constructed(Grouped, Ranks),
    Destructed,
}

/// Files the data that other nodes have sent along.
#[derive(Debug)]
pub(crate) struct Filing<'a> {
    pub(crate) data: &'a mut Data,
    pub(crate) psets: &'a Psets,
}

impl Filing<'_> {
    /// Returns also of which processes it lacks data: those whose changes build on what is not here.
    pub(crate) fn file(
        &mut self,
        signature: &Signature,
        answer: Answer,
        cx: &mut Context,
    ) -> Result<(HostOutcome, Ranks), Failure> {
        let Signature { operation, procs, .. } = signature;
        let outcome = match (operation, answer) {
            (Operation::Fence, Answer::Blob(blob)) => {
                let Filed { told, lacking } = self.data.file_remote(blob, procs, cx)?;
                return Ok((HostOutcome::Fenced(told), lacking));
            }
            (Operation::Connect(_), Answer::Connected(connected)) => {
                self.jobs(&connected.data, cx)?;
                HostOutcome::Connected(connected)
            }
            (Operation::Disconnect(_), Answer::Done) => HostOutcome::Disconnected,
            (Operation::Construct(_), Answer::Grouped(mut grouped)) => {
                self.jobs(&grouped.jobs, cx)?;
                let Filed { told, lacking } =
                    self.data.file_remote(std::mem::take(&mut grouped.data), procs, cx)?;
                return Ok((HostOutcome::Constructed(grouped, told), lacking));
            }
            (Operation::Destruct(_), Answer::Grouped(_)) => HostOutcome::Destructed,
            (operation, other) => {
                let message = format!("the host answered a {} with {other:?}", operation.name());
                return Err(Failure::new(Status::ERROR, message));
            }
        };
        Ok((outcome, Ranks::new()))
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
