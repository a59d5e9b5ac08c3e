//! What the levels report when they are queried for attribute support (ATT-05), which tests compare with their code.

use std::collections::{BTreeMap, BTreeSet};

use pmix_client::types::{AttributeLevel, Query};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_tool::Tool;

use crate::{NullLauncher, TestNode, within};

/// By function and level the names of attributes, without `PMIX_`.
#[derive(Debug, Default)]
pub(super) struct Reports(BTreeMap<String, BTreeMap<AttributeLevel, BTreeSet<String>>>);

impl Reports {
    /// Starts a server under a `StandardHost` in this process, and asks it for these functions.
    pub(super) async fn ask<'a>(functions: impl IntoIterator<Item = &'a str>) -> Self {
        let functions: Vec<_> = functions.into_iter().collect();
        let host = StandardHost::new(NullLauncher, MemoryExchange::single("n0"));
        let node = TestNode::builder(1).host(host).server(|server| server.tool_support(true)).start().await;
        let tool = within(Tool::builder().uri(node.handle().uri()).connect()).await.unwrap();
        let query = || [Query::attributes(functions.iter().copied())];
        // a tool has its own level beside that of a client
        let found = within(tool.query(query())).await.unwrap();
        let mut reports = Self::default();
        for function in &functions {
            for level in AttributeLevel::ALL {
                let Some(attributes) = found.attributes(function, level) else { continue };
                let names =
                    attributes.iter().map(|attribute| attribute.name.trim_start_matches("PMIX_").to_owned());
                reports.0.entry((*function).to_owned()).or_default().insert(level, names.collect());
            }
        }
        within(tool.finalize()).await.unwrap();
        node.stop().await;
        reports
    }

    /// Who reads an attribute of one of these functions.
    pub(super) fn levels<'a>(
        &'a self,
        functions: &[&str],
        attribute: &str,
    ) -> impl Iterator<Item = &'static str> + use<'a> {
        let levels: BTreeSet<AttributeLevel> = functions
            .iter()
            .filter_map(|function| self.0.get(*function))
            .flatten()
            .filter(|(_, names)| names.contains(attribute))
            .map(|(level, _)| *level)
            .collect();
        levels.into_iter().map(|level| match level {
            AttributeLevel::Client => "client",
            AttributeLevel::Server => "server",
            AttributeLevel::Tool => "tool",
            _ => "`StandardHost`",
        })
    }

    /// Whether the host serves a function.
    pub(super) fn has_host(&self, function: &str) -> bool {
        self.0.get(function).is_some_and(|levels| levels.contains_key(&AttributeLevel::Host))
    }
}
