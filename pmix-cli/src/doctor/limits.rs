//! Limits of resources: what they are, and what they limit.

use std::fs;

use rustix::process::{Resource, Rlimit, geteuid, getrlimit};

use super::files::bytes;
use super::finding::Finding;

const CHECK: &str = "limits";
const MIB: u64 = 1 << 20;

pub(super) fn check() -> Vec<Finding> {
    let has_rdma = fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some());
    vec![
        open_files(getrlimit(Resource::Nofile)),
        processes(getrlimit(Resource::Nproc), geteuid().is_root()),
        locked_memory(getrlimit(Resource::Memlock), has_rdma),
        stack(getrlimit(Resource::Stack)),
    ]
}

/// A rank takes about five of its launcher: a connection, three pipes and a pidfd.
fn open_files(limit: Rlimit) -> Finding {
    let Some(count) = limit.current else { return Finding::ok(CHECK, "open files are not limited") };
    let text =
        format!("{count} open files, enough for about {} ranks on this node", count.saturating_sub(64) / 5);
    if count < 1024 {
        Finding::warning(CHECK, format!("only {text}"), raise('n', limit, 4096))
    } else {
        Finding::ok(CHECK, text)
    }
}

fn processes(limit: Rlimit, is_root: bool) -> Finding {
    let Some(count) = limit.current else { return Finding::ok(CHECK, "processes are not limited") };
    let text = format!("{count} processes and threads of this user; each rank takes one and its threads");
    if count < 1024 && !is_root {
        Finding::warning(CHECK, format!("only {text}"), raise('u', limit, 4096))
    } else {
        Finding::ok(CHECK, text)
    }
}

fn locked_memory(limit: Rlimit, has_rdma: bool) -> Finding {
    let Some(count) = limit.current else { return Finding::ok(CHECK, "locked memory is not limited") };
    let text = format!("{} of locked memory; only RDMA networks such as InfiniBand need more", bytes(count));
    if has_rdma && count < 64 * MIB {
        let remedy =
            "set memlock to unlimited in /etc/security/limits.conf, and for slurmd (LimitMEMLOCK=infinity)";
        let text = format!(
            "only {} of locked memory, but the InfiniBand network of this node registers more",
            bytes(count)
        );
        Finding::warning(CHECK, text, remedy)
    } else {
        Finding::ok(CHECK, text)
    }
}

fn stack(limit: Rlimit) -> Finding {
    let Some(count) = limit.current else { return Finding::ok(CHECK, "the stack is not limited") };
    let text = format!("{} of stack for the main thread of each rank", bytes(count));
    if count < 8 * MIB {
        let remedy = raise('s', Rlimit { maximum: limit.maximum.map(|most| most / 1024), ..limit }, 8 * 1024);
        Finding::warning(CHECK, format!("only {text}; larger arrays crash it"), remedy)
    } else {
        Finding::ok(CHECK, text)
    }
}

/// How to raise a limit, in units of the shell.
fn raise(option: char, limit: Rlimit, wanted: u64) -> String {
    match limit.maximum {
        Some(most) if most < wanted => {
            format!(
                "the hard limit is {most}: raise it in /etc/security/limits.conf, or ask the administrator"
            )
        }
        _ => format!("raise it: ulimit -{option} {wanted}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn limit(current: u64, maximum: u64) -> Rlimit {
        Rlimit { current: Some(current), maximum: Some(maximum) }
    }

    #[test]
    fn a_small_limit_says_its_number_and_how_to_raise_it() {
        let few = open_files(limit(256, 9999));
        assert_eq!((few.level, few.remedy.as_deref()), (Level::Warning, Some("raise it: ulimit -n 4096")));
        assert!(few.text.contains("256 open files, enough for about 38 ranks"), "{few:?}");
        assert!(open_files(limit(256, 512)).remedy.unwrap().contains("hard limit is 512"));
        assert_eq!(open_files(limit(1024, 1024)).level, Level::Ok);
        assert_eq!(stack(limit(MIB, 64 * MIB)).remedy.as_deref(), Some("raise it: ulimit -s 8192"));
        assert!(stack(limit(MIB, 2 * MIB)).remedy.unwrap().contains("hard limit is 2048"));
    }

    #[test]
    fn limits_that_bind_nobody_are_in_order() {
        assert_eq!(processes(limit(10, 10), true).level, Level::Ok);
        assert_eq!(processes(limit(10, 10), false).level, Level::Warning);
        assert_eq!(locked_memory(limit(MIB, MIB), false).level, Level::Ok);
        assert_eq!(locked_memory(limit(MIB, MIB), true).level, Level::Warning);
        let none = Rlimit { current: None, maximum: None };
        assert!([open_files(none), stack(none)].iter().all(|finding| finding.level == Level::Ok));
    }
}
