use std::fmt;

use pmix_types::AttributeRegistry;
use pmix_types::why::Wait;

use crate::context::Context;
use crate::jobs::psets::Psets;
use crate::record::Recorder;

use super::grouped::Grouping;

/// Whoever knows what waits here: nouns that are built on this one.
pub(crate) trait Waiting: fmt::Debug {
    fn all(&self, cx: &Context) -> Vec<Wait>;
}

/// Other nouns that know answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources<'a> {
    pub(crate) psets: &'a Psets,
    pub(crate) groups: &'a dyn Grouping,
    pub(crate) attributes: &'a AttributeRegistry,
    pub(crate) waits: &'a dyn Waiting,
    pub(crate) recorder: &'a Recorder,
}

/// All that queries are answered from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) cx: &'a Context,
    pub(super) sources: Sources<'a>,
}
