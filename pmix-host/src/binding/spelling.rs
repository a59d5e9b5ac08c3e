//! Policies as PRRTE spells them: `core`, `numa:PE=2`, `:OVERSUBSCRIBE`.

use pmix_topology::Level;
use pmix_types::Status;
use thiserror::Error;

use super::{BindTo, BindingPolicy, MapBy, RankBy};

/// A policy that is unknown or not supported.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
#[non_exhaustive]
pub struct BadPolicy(
    /// What is wrong with it.
    pub String,
);

pmix_types::statuses! {
    BadPolicy, "`ERR_BAD_PARAM`", |_this| Status::ERR_BAD_PARAM;
}

const LEVELS: &str = "hwthread, core, l1cache, l2cache, l3cache, numa, package (socket)";

impl BindingPolicy {
    /// Takes a mapping such as `numa` or `core:PE=2`, in upper or lower case.
    ///
    /// Known are `slot`, `node`, and `hwthread`, `core`, `l1cache`, `l2cache`, `l3cache`, `numa`, `package` (or
    /// `socket`), and `ppr:N:node` for at most N processes of an application on each node, with the modifiers `PE=N`,
    /// `OVERSUBSCRIBE` (more processes than slots) and `NOOVERSUBSCRIBE` (no more processes than processors).
    ///
    /// # Errors
    /// [`BadPolicy`] for an unknown policy or modifier.
    pub fn map_by(mut self, text: &str) -> Result<Self, BadPolicy> {
        let lower = text.to_ascii_lowercase();
        let text = match lower.strip_prefix("ppr:") {
            Some(rest) => self.take_per_node(rest)?,
            None => &lower,
        };
        let (object, modifiers) = split(text);
        self.map_by = match object {
            "" => self.map_by,
            "slot" => Some(MapBy::Slot),
            "node" => Some(MapBy::Node),
            object => Some(MapBy::Object(level(object).ok_or_else(|| {
                BadPolicy(format!("cannot map by {object:?}: known are slot, node, {LEVELS}"))
            })?)),
        };
        let (mut may, mut may_not) = (false, false);
        for modifier in modifiers {
            match modifier.split_once('=') {
                Some(("pe", count)) => self.cpus_per_proc = Some(positive(count)?),
                None if modifier == "oversubscribe" => may = true,
                None if modifier == "nooversubscribe" => may_not = true,
                _ => {
                    let known = "PE=N, OVERSUBSCRIBE, NOOVERSUBSCRIBE";
                    return Err(BadPolicy(format!(
                        "unknown modifier {modifier:?} of a mapping: known are {known}"
                    )));
                }
            }
        }
        match (may, may_not) {
            (true, true) => {
                return Err(BadPolicy("OVERSUBSCRIBE and NOOVERSUBSCRIBE exclude each other".to_owned()));
            }
            (false, false) => {}
            (may, may_not) => (self.oversubscribe, self.no_oversubscribe) = (may, may_not),
        }
        Ok(self)
    }

    /// Takes `N:node` of `ppr:N:node`; returns the rest, which begins with a colon if there is any.
    fn take_per_node<'a>(&mut self, text: &'a str) -> Result<&'a str, BadPolicy> {
        let (count, rest) = text.split_once(':').unwrap_or((text, ""));
        let modifiers = rest.strip_prefix("node").filter(|rest| rest.is_empty() || rest.starts_with(':'));
        let modifiers = modifiers.ok_or_else(|| {
            BadPolicy("processes can be counted for each node only: write ppr:N:node".to_owned())
        })?;
        let count = count.parse().ok().filter(|count| *count > 0);
        let count = count
            .ok_or_else(|| BadPolicy("ppr:N:node needs a number of processes, at least 1".to_owned()))?;
        (self.per_node, self.map_by) = (Some(count), Some(MapBy::Slot));
        Ok(modifiers)
    }

    /// Takes a way of numbering ranks: `slot`, `fill` or `node`.
    ///
    /// # Errors
    /// [`BadPolicy`] for another one.
    pub fn rank_by(mut self, text: &str) -> Result<Self, BadPolicy> {
        self.rank_by = Some(match text.to_ascii_lowercase().as_str() {
            "" => return Ok(self),
            "slot" => RankBy::Slot,
            "fill" => RankBy::Fill,
            "node" => RankBy::Node,
            other => return Err(BadPolicy(format!("cannot rank by {other:?}: known are slot, fill, node"))),
        });
        Ok(self)
    }

    /// Takes a binding such as `core` or `numa:overload-allowed`.
    ///
    /// Known are `none` and the levels of [`map_by`](Self::map_by), with the modifiers `overload-allowed`, `no-overload`
    /// and `if-supported`.
    ///
    /// # Errors
    /// [`BadPolicy`] for an unknown policy or modifier.
    pub fn bind_to(mut self, text: &str) -> Result<Self, BadPolicy> {
        let text = text.to_ascii_lowercase();
        let (object, modifiers) = split(&text);
        self.bind_to =
            match object {
                "" => self.bind_to,
                "none" => Some(BindTo::None),
                object => Some(BindTo::Object(level(object).ok_or_else(|| {
                    BadPolicy(format!("cannot bind to {object:?}: known are none, {LEVELS}"))
                })?)),
            };
        for modifier in modifiers {
            match modifier {
                "overload-allowed" => self.overload = true,
                "no-overload" => self.overload = false,
                "if-supported" => self.is_required = false,
                _ => {
                    let known = "overload-allowed, no-overload, if-supported";
                    return Err(BadPolicy(format!(
                        "unknown modifier {modifier:?} of a binding: known are {known}"
                    )));
                }
            }
        }
        Ok(self)
    }

    /// What [`map_by`](Self::map_by), [`rank_by`](Self::rank_by) and [`bind_to`](Self::bind_to) make this policy of: all of it but
    /// whether it is required.
    pub(crate) fn spelled(&self) -> [String; 3] {
        let mut map_by = match (self.per_node, self.map_by) {
            (Some(count), _) => format!("ppr:{count}:node"),
            (None, None) => String::new(),
            (None, Some(MapBy::Slot)) => "slot".to_owned(),
            (None, Some(MapBy::Node)) => "node".to_owned(),
            (None, Some(MapBy::Object(level))) => word(level).to_owned(),
        };
        if let Some(count) = self.cpus_per_proc {
            map_by.push_str(&format!(":pe={count}"));
        }
        if self.no_oversubscribe {
            map_by.push_str(":nooversubscribe");
        }
        if self.oversubscribe {
            map_by.push_str(":oversubscribe");
        }
        let rank_by = match self.rank_by {
            None => "",
            Some(RankBy::Slot) => "slot",
            Some(RankBy::Fill) => "fill",
            Some(RankBy::Node) => "node",
        };
        let mut bind_to = match self.bind_to {
            None => "",
            Some(BindTo::None) => "none",
            Some(BindTo::Object(level)) => word(level),
        }
        .to_owned();
        if self.overload {
            bind_to.push_str(":overload-allowed");
        }
        [map_by, rank_by.to_owned(), bind_to]
    }
}

/// What [`level`] reads.
const fn word(level: Level) -> &'static str {
    match level {
        Level::Core => "core",
        Level::L1 => "l1cache",
        Level::L2 => "l2cache",
        Level::L3 => "l3cache",
        Level::Numa => "numa",
        Level::Package => "package",
        _ => "hwthread",
    }
}

/// The object, and the modifiers that follow it after colons or commas.
fn split(text: &str) -> (&str, impl Iterator<Item = &str>) {
    let (object, rest) = text.split_once(':').unwrap_or((text, ""));
    (object, rest.split([':', ',']).filter(|modifier| !modifier.is_empty()))
}

fn level(name: &str) -> Option<Level> {
    Some(match name {
        "hwthread" | "hwt" => Level::Thread,
        "core" => Level::Core,
        "l1cache" => Level::L1,
        "l2cache" => Level::L2,
        "l3cache" => Level::L3,
        "numa" => Level::Numa,
        "package" | "socket" => Level::Package,
        _ => return None,
    })
}

fn positive(count: &str) -> Result<u32, BadPolicy> {
    let count = count.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| BadPolicy("PE=N needs a number of cores, at least 1".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> BindingPolicy {
        BindingPolicy { is_required: true, ..BindingPolicy::default() }
    }

    #[test]
    fn policies_are_spelled_as_for_prrte() {
        let numa = policy().map_by("NUMA:PE=2:OVERSUBSCRIBE").unwrap();
        assert_eq!((numa.map_by, numa.cpus_per_proc), (Some(MapBy::Object(Level::Numa)), Some(2)));
        assert_eq!(policy().map_by("socket").unwrap().map_by, Some(MapBy::Object(Level::Package)));
        assert!(numa.oversubscribe && !numa.no_oversubscribe);
        let per_node = policy().map_by("PPR:4:node:pe=2").unwrap();
        assert_eq!((per_node.per_node, per_node.cpus_per_proc), (Some(4), Some(2)));
        let only = policy().map_by(":nooversubscribe").unwrap();
        assert_eq!((only.map_by, only.no_oversubscribe), (None, true));
        let core = policy().bind_to("core:overload-allowed,if-supported").unwrap();
        assert_eq!(core.bind_to, Some(BindTo::Object(Level::Core)));
        assert_eq!((core.overload, core.is_required), (true, false));
        assert_eq!(policy().bind_to("none").unwrap().bind_to, Some(BindTo::None));
        assert_eq!(policy().rank_by("fill").unwrap().rank_by, Some(RankBy::Fill));
        // nothing said, as with a NULL text
        let nothing = |text| policy().map_by(text)?.rank_by(text)?.bind_to(text);
        assert_eq!(nothing("").unwrap(), policy());
    }

    #[test]
    fn a_policy_is_spelled_as_it_is_read() {
        let levels = ["", "hwthread", "core", "l1cache", "l2cache", "l3cache", "numa", "package"];
        let more =
            ["slot", "node", "core:PE=3:NOOVERSUBSCRIBE", "ppr:3:node", "ppr:1:node:PE=2:OVERSUBSCRIBE"];
        let maps = levels.into_iter().chain(more);
        let binds = || levels.into_iter().chain(["none", "numa:overload-allowed"]);
        for (map, bind) in maps.flat_map(|map| binds().map(move |bind| (map, bind))) {
            for rank in ["", "slot", "fill", "node"] {
                let read = |[map, rank, bind]: [&str; 3]| policy().map_by(map)?.rank_by(rank)?.bind_to(bind);
                let given = read([map, rank, bind]).unwrap();
                assert_eq!(read(given.spelled().each_ref().map(String::as_str)).unwrap(), given);
            }
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for text in [
            "ppr:2:numa",
            "ppr:2",
            "ppr:0:node",
            "ppr:x:node",
            "ppr:1:nodes",
            "ppr",
            "seq",
            "rankfile:file=x",
            "core:span",
            "core:PE=0",
            "core:oversubscribe:nooversubscribe",
            "core:PE=x",
            "core:pe",
        ] {
            assert!(policy().map_by(text).is_err(), "{text}");
        }
        for text in ["board", "core:ordered", "node"] {
            assert!(policy().bind_to(text).is_err(), "{text}");
        }
        assert!(policy().rank_by("span").is_err());
    }

    #[test]
    fn ranks_go_to_nodes_in_turn_if_that_is_how_they_are_mapped_or_numbered() {
        let deals = |map: &str, rank: &str| {
            let policy = policy().map_by(map).unwrap();
            let policy = if rank.is_empty() { Ok(policy) } else { policy.rank_by(rank) };
            policy.unwrap().deals_to_nodes()
        };
        assert!(deals("node", "") && deals("core", "node") && deals("node", "node"));
        assert!(!deals("slot", "") && !deals("node", "slot") && !deals("core", ""));
    }
}
