//! Forwarded output and input.

use pmix_types::message::Output;

use super::records::named;
use super::{At, ConvertError, Scope, Wire};
use crate::v1;

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
