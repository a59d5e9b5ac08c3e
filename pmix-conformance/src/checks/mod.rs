//! The checks, grouped by operation.

mod connect;
mod data;
mod directives;
mod events;
mod fence;
mod groups;
mod presence;
mod publish;
mod query;
mod requests;
mod spawn;

use std::time::SystemTime;

use futures::future::BoxFuture;

use pmix_types::{Directives, KeyName, Value};

use super::rank::{Checked, Rank, broken, ensure, must};
use super::{Outcome, Verdict};
use pmix_server::host::Upcall;

/// A small parallel program that checks one or more rules of the Standard.
#[non_exhaustive]
pub struct Check {
    /// Its unique name.
    pub name: &'static str,
    /// Ids of the rules that it checks, such as `FEN-02`.
    pub rules: &'static [&'static str],
    /// A short statement of the rules.
    pub title: &'static str,
    /// Whether it needs a second job that also runs it: see [`SecondJob`](super::SecondJob).
    pub both_jobs: bool,
    /// Upcalls that the host must serve for this check.
    pub needs: &'static [Upcall],
    /// Further upcalls that the host must serve if the job spans several nodes.
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

    /// The outcome of this check with its verdict.
    pub fn outcome(&self, verdict: Verdict) -> Outcome {
        let rules = self.rules.iter().map(|rule| (*rule).to_owned()).collect();
        Outcome { check: self.name.to_owned(), rules, title: self.title.to_owned(), verdict }
    }
}

/// Declares the checks of a family: name, rules and title; the upcalls that each check `needs`, and further ones `across`
/// nodes; `| both` marks a check that needs a second job.
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

/// Returns all checks.
pub fn checks() -> &'static [Check] {
    use std::sync::LazyLock;
    static ALL: LazyLock<Vec<Check>> = LazyLock::new(|| {
        let families = [
            data::CHECKS,
            fence::CHECKS,
            publish::CHECKS,
            connect::CHECKS,
            groups::CHECKS,
            query::CHECKS,
            events::CHECKS,
            spawn::CHECKS,
            presence::CHECKS,
            requests::CHECKS,
            directives::CHECKS,
        ];
        families.into_iter().flatten().map(|check| Check { ..*check }).collect()
    });
    &ALL
}

/// Milliseconds by which the clocks of two nodes may differ: half of the time for which a rank is late.
const TOLERANCE: u64 = 75;

/// Milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Fails the check if an operation ended at `left` before the last rank had entered it, as it has committed under `key`.
async fn ensure_left_after(rank: &Rank, key: &str, left: u64, operation: &str) -> Checked {
    let entered = must("get", rank.get(&rank.last(), key, Directives::new()).await?)?;
    ensure(matches!(entered, Value::Uint64(entered) if left + TOLERANCE > entered), || {
        format!("the {operation} ended at {left} ms, but the last participant entered at {entered} ms")
    })
}

/// A key that nobody knows.
fn unknown_key() -> Checked<KeyName> {
    KeyName::new("check.unknown.key").map_err(|error| broken(error.to_string()))
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
