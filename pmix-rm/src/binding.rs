//! Binds ranks to processors if there are as many of each.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors for the ranks of a job, by rank; empty unless there are as many ranks as processors available to the
/// launcher.
///
/// Ranks that spin while they wait must not share a processor while another is idle, and with exactly one processor per rank
/// the system takes long to separate them. Fewer ranks spread out by themselves, and more ranks have to share anyway.
pub(crate) fn one_for_each(ranks: usize) -> Vec<usize> {
    let Ok(all) = sched_getaffinity(None) else { return Vec::new() };
    if all.count() as usize != ranks || ranks == 1 {
        return Vec::new();
    }
    (0..CpuSet::MAX_CPU).filter(|processor| all.is_set(*processor)).collect()
}

/// Starts a process bound to this processor, and with it its descendants. If binding fails, the process is not bound.
pub(crate) fn on<T>(processor: Option<usize>, start: impl FnOnce() -> T) -> T {
    let Some((processor, all)) = processor.zip(sched_getaffinity(None).ok()) else { return start() };
    let mut one = CpuSet::new();
    if processor < CpuSet::MAX_CPU {
        one.set(processor);
    }
    if let Err(error) = sched_setaffinity(None, &one) {
        tracing::debug!(processor, %error, "cannot bind a process");
    }
    let started = start();
    // the binding is that of the thread, which starts other processes, too
    if let Err(error) = sched_setaffinity(None, &all) {
        tracing::warn!(processor, %error, "cannot undo a binding: processes started from now on are bound, too");
    }
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_a_processor_each_if_they_are_as_many() {
        let all = sched_getaffinity(None).unwrap();
        let count = all.count() as usize;
        assert!(one_for_each(count + 1).is_empty() && one_for_each(count - 1).is_empty());
        let mut own = one_for_each(count);
        own.dedup();
        assert_eq!(own.len(), if count == 1 { 0 } else { count });
        assert!(own.iter().all(|processor| all.is_set(*processor)));
    }

    #[test]
    fn who_starts_a_bound_process_is_not_bound_after_it() {
        let all = sched_getaffinity(None).unwrap();
        let last = (0..CpuSet::MAX_CPU).rfind(|processor| all.is_set(*processor)).unwrap();
        let inside = on(Some(last), || sched_getaffinity(None).unwrap());
        assert_eq!((inside.count(), inside.is_set(last)), (1, true));
        assert_eq!(sched_getaffinity(None).unwrap(), all);
        assert_eq!(on(None, || sched_getaffinity(None).unwrap()), all);
    }
}
