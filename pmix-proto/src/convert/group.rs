//! Process groups.

use std::sync::Arc;

use pmix_types::ProcId;
use pmix_types::message::{GroupConstruct, GroupDestruct, GroupInvite, GroupJoin, GroupLeave, GroupReply};

use super::array::Element;
use super::records::{all_named, named};
use super::reply::job;
use super::scalar::named_nspace;
use super::{At, ConvertError, Scope, Wire, encode_job, present};
use crate::{modex, v1};

/// Requests with the id of a group, processes and directives.
macro_rules! of_procs {
    ($($request:ident)+) => {$(
        impl Wire for $request {
            type Form = v1::$request;

            fn to_form(&self) -> v1::$request {
                v1::$request {
                    group: self.group.to_form(),
                    procs: self.procs.to_form(),
                    directives: self.directives.to_form(),
                }
            }

            fn from_form(form: v1::$request, scope: &mut Scope) -> Result<Self, ConvertError> {
                let group = named_nspace(&form.group).at("group")?;
                let mut request = Self::new(group, all_named(form.procs).at("procs")?);
                request.directives = Wire::from_form(form.directives, scope).at("directives")?;
                Ok(request)
            }
        }
    )+};
}
of_procs!(GroupConstruct GroupInvite);

impl Wire for GroupJoin {
    type Form = v1::GroupJoin;

    fn to_form(&self) -> v1::GroupJoin {
        v1::GroupJoin {
            group: self.group.to_form(),
            leader: Some(self.leader.to_form()),
            answer: self.answer.to_form(),
            directives: self.directives.to_form(),
        }
    }

    fn from_form(form: v1::GroupJoin, scope: &mut Scope) -> Result<Self, ConvertError> {
        let group = named_nspace(&form.group).at("group")?;
        let answer = Wire::from_form(form.answer, scope).at("answer")?;
        let mut join = Self::new(group, named(form.leader).at("leader")?, answer);
        join.directives = Wire::from_form(form.directives, scope).at("directives")?;
        Ok(join)
    }
}

/// Requests with the id of a group and directives.
macro_rules! of_group {
    ($($request:ident)+) => {$(
        impl Wire for $request {
            type Form = v1::$request;

            fn to_form(&self) -> v1::$request {
                v1::$request { group: self.group.to_form(), directives: self.directives.to_form() }
            }

            fn from_form(form: v1::$request, scope: &mut Scope) -> Result<Self, ConvertError> {
                let mut request = Self::new(named_nspace(&form.group).at("group")?);
                request.directives = Wire::from_form(form.directives, scope).at("directives")?;
                Ok(request)
            }
        }
    )+};
}
of_group!(GroupDestruct GroupLeave);

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
