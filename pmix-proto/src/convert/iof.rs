//! Forwarded output and input.

use pmix_types::message::{IofPull, IofPush, Output};

use super::records::{all_named, named};
use super::{At, ConvertError, Scope, Wire};
use crate::v1;

impl Wire for IofPull {
    type Form = v1::IofPull;

    fn to_form(&self) -> v1::IofPull {
        v1::IofPull {
            procs: self.procs.to_form(),
            channels: self.channels.to_form(),
            directives: self.directives.to_form(),
        }
    }

    fn from_form(form: v1::IofPull, scope: &mut Scope) -> Result<Self, ConvertError> {
        let procs = all_named(form.procs).at("procs")?;
        let mut pull = Self::new(procs, Wire::from_form(form.channels, scope).at("channels")?);
        pull.directives = Wire::from_form(form.directives, scope).at("directives")?;
        Ok(pull)
    }
}

impl Wire for IofPush {
    type Form = v1::IofPush;

    fn to_form(&self) -> v1::IofPush {
        v1::IofPush {
            targets: self.targets.to_form(),
            data: self.data.clone(),
            directives: self.directives.to_form(),
        }
    }

    fn from_form(form: v1::IofPush, scope: &mut Scope) -> Result<Self, ConvertError> {
        let mut push = Self::new(all_named(form.targets).at("targets")?, form.data);
        push.directives = Wire::from_form(form.directives, scope).at("directives")?;
        Ok(push)
    }
}

pub(super) fn output_push(registration: u64, output: &Output) -> v1::OutputPush {
    v1::OutputPush {
        registration,
        source: Some(output.source.to_form()),
        channels: output.channels.to_form(),
        data: output.data.clone(),
        info: output.info.to_form(),
    }
}

pub(super) fn output(form: v1::OutputPush, scope: &mut Scope) -> Result<Output, ConvertError> {
    let channels = Wire::from_form(form.channels, scope).at("channels")?;
    let mut output = Output::new(named(form.source).at("source")?, channels, form.data);
    output.info = Wire::from_form(form.info, scope).at("info")?;
    Ok(output)
}
