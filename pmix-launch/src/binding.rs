//! Binds processes to processors.

use std::io;

use pmix_host::{AvailableProcessors, BindRequest, Bound, Unbindable};
use pmix_topology::{Processors, Topology};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Chooses processors for those processes of a job that are on this machine. Those of `busy` belong to processes that run.
pub(crate) fn choose(
    request: &BindRequest,
    topology: &Topology,
    busy: &Processors,
    is_oversubscribed: bool,
) -> Result<Vec<Option<Bound>>, Unbindable> {
    // if the system does not report it, as with more processors than the call knows, none can be bound
    let allowed = sched_getaffinity(None).map_or_else(|_| Processors::new(), |set| listed(&set));
    let machine = AvailableProcessors { topology, allowed: &allowed, busy, is_oversubscribed };
    request.policy.choose(machine, request.nodes.len(), request.all)
}

fn listed(set: &CpuSet) -> Processors {
    let all = (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor));
    all.filter_map(|processor| u32::try_from(processor).ok()).collect()
}

/// Starts a process bound to these processors, and with it its descendants.
///
/// # Errors
/// That of the start, or of binding; nothing is started then.
pub(crate) fn on<T>(processors: Option<&Processors>, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(processors) = processors else { return start() };
    let failed = |error: io::Error| {
        let reason = format!("cannot bind it to the processors {processors}: {error}");
        io::Error::new(error.kind(), reason)
    };
    let before = sched_getaffinity(None).map_err(|error| failed(error.into()))?;
    let mut set = CpuSet::new();
    for processor in processors.iter() {
        let processor = usize::try_from(processor).unwrap_or(usize::MAX);
        if processor >= CpuSet::MAX_CPU {
            return Err(failed(io::ErrorKind::Unsupported.into()));
        }
        set.set(processor);
    }
    sched_setaffinity(None, &set).map_err(|error| failed(error.into()))?;
    let started = start();
    // the binding is that of the thread, which starts other processes, too
    if let Err(error) = sched_setaffinity(None, &before) {
        tracing::warn!(%processors, %error, "cannot undo a binding: processes started from now on are bound, too");
    }
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_starts_a_bound_process_is_not_bound_after_it() {
        let all = sched_getaffinity(None).unwrap();
        let last = listed(&all).iter().last().unwrap();
        let one = Processors::from_iter([last]);
        let inside = || Ok(listed(&sched_getaffinity(None)?));
        assert_eq!(on(Some(&one), inside).unwrap(), one);
        assert_eq!(sched_getaffinity(None).unwrap(), all);
        assert_eq!(on(None, inside).unwrap(), listed(&all));
    }

    #[test]
    fn what_cannot_be_bound_is_not_started() {
        let all = sched_getaffinity(None).unwrap();
        for list in ["1023", "1024", "65535", ""] {
            let mut is_started = false;
            let start = || {
                is_started = true;
                Ok(())
            };
            let error = on(Some(&list.parse().unwrap()), start).unwrap_err();
            assert!(!is_started && error.to_string().contains("cannot bind it"), "{error}");
            assert_eq!(sched_getaffinity(None).unwrap(), all);
        }
    }
}
