//! Chooses processors for processes.

use std::collections::BTreeMap;

use pmix_topology::{Level, Processors, Topology};
use pmix_types::Status;
use thiserror::Error;

use super::{BindTo, BindingPolicy, Bound, MapBy, RankBy};

/// The processors of a machine, as available to a job.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "who starts processes fills it in")]
pub struct AvailableProcessors<'a> {
    /// Its hardware.
    pub topology: &'a Topology,
    /// The processors that the job may use.
    pub allowed: &'a Processors,
    /// The allowed processors to which processes of other jobs are bound.
    pub busy: &'a Processors,
    /// Whether it has more processes than processors, with those of this job.
    pub is_oversubscribed: bool,
}

/// Why processes cannot be bound as requested.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
#[non_exhaustive]
pub struct Unbindable(
    /// The reason, and what to do.
    pub String,
);

pmix_types::statuses! {
    Unbindable, "`ERR_JOB_FAILED_TO_MAP`", |_this| Status::ERR_JOB_FAILED_TO_MAP;
}

impl BindingPolicy {
    /// Chooses processors for the processes of a job on a machine, in rank order; `None` for those that are not bound. The
    /// whole job has `all` processes, of which `here` are on this machine.
    ///
    /// Processors to which other jobs are bound are not used, unless overload is allowed.
    ///
    /// # Errors
    /// [`Unbindable`] if the policy is required and cannot be met. If it is not required, the processes stay unbound.
    pub fn choose(
        &self,
        machine: AvailableProcessors<'_>,
        here: usize,
        all: usize,
    ) -> Result<Vec<Option<Bound>>, Unbindable> {
        if self.no_oversubscribe && machine.is_oversubscribed {
            let message = format!(
                "there are fewer processors than processes, and NOOVERSUBSCRIBE forbids that: the job may use \
                 the processors {}",
                machine.allowed
            );
            return Err(Unbindable(message));
        }
        let unbound = || vec![None; here];
        let BindTo::Object(level) = self.target(all) else { return Ok(unbound()) };
        if !self.binds(all, machine.is_oversubscribed) {
            return Ok(unbound());
        }
        let is_asked_for = self.asks_for_binding();
        match self.dealt(level, machine, here) {
            Ok(bound) => Ok(bound.into_iter().map(Some).collect()),
            // slots and nodes are dealt as well to processes that are not bound
            Err(reason)
                if self.is_required && (is_asked_for || matches!(self.map_by, Some(MapBy::Object(_)))) =>
            {
                Err(reason)
            }
            Err(reason) => {
                tracing::debug!(%reason, "processes are not bound");
                Ok(unbound())
            }
        }
    }

    /// Deals the processes to objects, and binds each to the least used object of this level there.
    fn dealt(
        &self,
        level: Level,
        machine: AvailableProcessors<'_>,
        here: usize,
    ) -> Result<Vec<Bound>, Unbindable> {
        let free = match self.overload {
            true => machine.allowed.clone(),
            false => machine.allowed.difference(machine.busy),
        };
        let part = |level: Level| -> Vec<(u32, Processors)> {
            let objects = (0..).zip(machine.topology.objects(level));
            let parts = objects.map(|(number, set)| (number, set.intersection(&free)));
            parts.filter(|(_, set)| !set.is_empty()).collect()
        };
        let map = match self.map_by {
            Some(MapBy::Object(level)) => level,
            Some(_) => Level::Core,
            // threads are dealt to cores first, so that they share none without need
            None if level == Level::Thread => Level::Core,
            None => level,
        };
        let (places, targets, cores) = (part(map), part(level), part(Level::Core));
        for (level, objects) in [(map, &places), (level, &targets)] {
            if objects.is_empty() {
                return Err(Unbindable(format!(
                    "there is no free {} for the job: it may use the processors {}, and others are bound to {}",
                    name(level),
                    shown(machine.allowed),
                    shown(machine.busy)
                )));
            }
        }
        let width = self.cpus_per_proc.map_or(1, |count| usize::try_from(count).unwrap_or(usize::MAX));
        let is_unit = matches!(level, Level::Core | Level::Thread);
        if width > 1 && !is_unit {
            let message = "several CPUs per process (PE=N) are counted in cores or hardware threads: bind to core or hwthread, or leave the binding out";
            return Err(Unbindable(message.to_owned()));
        }
        let mut used = BTreeMap::<u32, usize>::new();
        let mut bound = Vec::with_capacity(here);
        for process in 0..here {
            let place = match self.rank_by {
                Some(RankBy::Fill) => process * places.len() / here,
                _ => process % places.len(),
            };
            let Some((_, place)) = places.get(place) else { continue };
            let uses = |number: &u32| used.get(number).copied().unwrap_or_default();
            let has_room = |(number, set): &(u32, Processors)| {
                let room = match is_unit {
                    true => 1,
                    false => cores.iter().filter(|(_, core)| core.intersects(set)).count(),
                };
                uses(number) < room
            };
            let mut near: Vec<&(u32, Processors)> = targets.iter().collect();
            // those that have room elsewhere come before those here that have none
            near.sort_by_key(|target @ (number, set)| {
                (!has_room(target), !set.intersects(place), uses(number), *number)
            });
            near.truncate(width);
            if near.len() < width || !(self.overload || near.iter().all(|target| has_room(target))) {
                return Err(Unbindable(format!(
                    "there are not enough processors to bind {here} processes to {width} {} each: the job may use \
                     {}, and others are bound to {}; bind to none, or add the modifier overload-allowed",
                    plural(level, width),
                    shown(machine.allowed),
                    shown(machine.busy)
                )));
            }
            let numbers: Processors = near.iter().map(|(number, _)| *number).collect();
            let processors = near.iter().fold(Processors::new(), |all, (_, set)| all.union(set));
            for number in numbers.iter() {
                *used.entry(number).or_default() += 1;
            }
            let locality = machine.topology.locality_string(&processors).unwrap_or_default();
            let place = format!("{} {numbers}", plural(level, width));
            bound.push(Bound { processors, place, locality, is_exclusive: is_unit });
        }
        Ok(bound)
    }
}

fn shown(set: &Processors) -> String {
    if set.is_empty() { "none".to_owned() } else { set.to_string() }
}

const fn name(level: Level) -> &'static str {
    match level {
        Level::Package => "package",
        Level::Numa => "NUMA node",
        Level::L3 => "L3 cache",
        Level::L2 => "L2 cache",
        Level::L1 => "L1 cache",
        Level::Core => "core",
        _ => "hardware thread",
    }
}

fn plural(level: Level, count: usize) -> String {
    format!("{}{}", name(level), if count == 1 { "" } else { "s" })
}
