//! What servers send each other of put data.

use pmix_types::RankSet;
use pmix_types::message::Changes;

use super::scalar::named_nspace;
use super::{At, ConvertError, Reason, Scope, Wire};
use crate::modex::{FORMAT, other_format};
use crate::v1;

impl Wire for Changes {
    type Form = v1::Changes;

    fn to_form(&self) -> v1::Changes {
        let others = self.others.iter();
        v1::Changes {
            format: FORMAT,
            server: self.server,
            since: self.since,
            generation: self.generation,
            procs: self.procs.to_form(),
            others: others
                .map(|(nspace, ranks)| v1::Ranks { nspace: nspace.to_form(), ranks: ranks.to_string() })
                .collect(),
        }
    }

    fn from_form(form: v1::Changes, scope: &mut Scope) -> Result<Self, ConvertError> {
        if form.format != FORMAT {
            return Err(ConvertError::new(Reason::Invalid(other_format(form.format)))).at("format");
        }
        let mut changes = Self::new(form.server, form.since, form.generation);
        changes.procs = Wire::from_form(form.procs, scope).at("procs")?;
        for v1::Ranks { nspace, ranks } in form.others {
            let nspace = named_nspace(&nspace).at("others")?;
            let ranks = ranks.parse::<RankSet>().map_err(|error| Reason::Invalid(error.to_string()));
            let ranks = ranks.map_err(ConvertError::new).at("others")?;
            let held = changes.others.entry(nspace).or_default();
            *held = &*held | &ranks;
        }
        Ok(changes)
    }
}
