//! The checks, by family.

mod connect;
mod data;
mod events;
mod fence;
mod publish;
mod query;

use futures::future::BoxFuture;

use super::rank::{Checked, Rank};
use super::{Outcome, Verdict};
use pmix_server::host::Upcall;

/// A small parallel program that shows whether some rules are kept.
#[non_exhaustive]
pub struct Check {
    /// Its name, unique among all.
    pub name: &'static str,
    /// The rules it shows, as `FEN-02`.
    pub rules: &'static [&'static str],
    /// What they say, in a few words.
    pub title: &'static str,
    /// Whether it needs a second job, beside its own, that runs it too: see [`SecondJob`](super::SecondJob).
    pub both_jobs: bool,
    /// Entries of the host module that it cannot do without.
    pub needs: &'static [Upcall],
    /// The same for a job on several nodes.
    pub needs_across_nodes: &'static [Upcall],
    program: Program,
}

type Program = for<'a> fn(&'a Rank) -> BoxFuture<'a, Checked>;

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check").field("name", &self.name).field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl Check {
    pub(super) async fn run(&self, rank: &Rank) -> Checked {
        (self.program)(rank).await
    }

    /// The check with what it found.
    pub fn outcome(&self, verdict: Verdict) -> Outcome {
        let rules = self.rules.iter().map(|rule| (*rule).to_owned()).collect();
        Outcome { check: self.name.to_owned(), rules, title: self.title.to_owned(), verdict }
    }
}

/// Declares the checks of a family: name, rules and title; which entries of the host it needs, and which more `across`
/// nodes; `| both` for those that need a second job.
macro_rules! family {
    ($($name:ident $rules:expr, $title:literal
        $(, needs [$($upcall:ident),*])? $(, across [$($across:ident),*])? $(| $both:ident)?;)+) => {
        pub(super) const CHECKS: &[Check] = &[$(Check {
            name: stringify!($name),
            rules: &$rules,
            title: $title,
            both_jobs: family!(@ $($both)?),
            needs: &[$($(pmix_server::host::Upcall::$upcall),*)?],
            needs_across_nodes: &[$($(pmix_server::host::Upcall::$across),*)?],
            program: |rank| Box::pin($name(rank)),
        },)+];
    };
    (@ both) => { true };
    (@) => { false };
}
use family;

/// All checks.
pub fn checks() -> &'static [Check] {
    use std::sync::LazyLock;
    static ALL: LazyLock<Vec<Check>> = LazyLock::new(|| {
        let families =
            [data::CHECKS, fence::CHECKS, publish::CHECKS, connect::CHECKS, query::CHECKS, events::CHECKS];
        families.into_iter().flatten().map(|check| Check { ..*check }).collect()
    });
    &ALL
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_unique_and_rules_look_like_rules() {
        let mut names: Vec<_> = super::checks().iter().map(|check| check.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), super::checks().len());
        for rule in super::checks().iter().flat_map(|check| check.rules) {
            let (family, number) = rule.split_once('-').unwrap();
            assert!(family.len() == 3 && number.parse::<u8>().is_ok(), "{rule}");
        }
    }
}
