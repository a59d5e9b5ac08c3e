use pmix_types::AttributeRegistry;

use crate::context::Context;
use crate::jobs::psets::Psets;

/// Other nouns that know answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources<'a> {
    pub(crate) psets: &'a Psets,
    pub(crate) attributes: &'a AttributeRegistry,
}

/// All that queries are answered from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) cx: &'a Context,
    pub(super) sources: Sources<'a>,
}
