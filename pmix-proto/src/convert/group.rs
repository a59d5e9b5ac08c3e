//! Process groups.

use std::sync::Arc;

use pmix_types::ProcId;
use pmix_types::message::GroupReply;

use super::array::Element;
use super::reply::job;
use super::{At, ConvertError, Scope, Wire, encode_job, present};
use crate::{modex, v1};

impl Wire for GroupReply {
    type Form = v1::GroupReply;

    fn to_form(&self) -> v1::GroupReply {
        v1::GroupReply {
            members: Some(ProcId::to_column(&self.members)),
            context_id: self.context_id,
            partial: self.partial,
            modex: modex::encode(&self.modex),
            jobs: self.jobs.iter().map(|job| encode_job(job)).collect(),
        }
    }

    fn from_form(form: v1::GroupReply, scope: &mut Scope) -> Result<Self, ConvertError> {
        let mut reply = Self::default();
        reply.members = ProcId::from_column(present(form.members).at("members")?, scope).at("members")?;
        reply.context_id = form.context_id;
        reply.partial = form.partial;
        reply.modex = Arc::new(modex::decode(form.modex).at("modex")?);
        let jobs = form.jobs.into_iter().enumerate().map(|(index, bytes)| job(bytes).at_index(index));
        reply.jobs = jobs.collect::<Result<_, _>>().at("jobs")?;
        Ok(reply)
    }
}
