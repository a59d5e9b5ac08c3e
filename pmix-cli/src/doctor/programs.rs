//! Programs that launches and `pmix stack` use, and what the kernel allows them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::process::geteuid;

use super::finding::Finding;
use super::run::{find, printed};

const CHECK: &str = "programs";
const LIMIT: Duration = Duration::from_secs(3);

/// Programs with the argument that prints their version, and what they are for.
const PROGRAMS: [(&str, &str, &str); 6] = [
    ("mpirun", "--version", "launches programs of its MPI library"),
    ("srun", "--version", "launches in a Slurm allocation"),
    ("ssh", "-V", "reaches the hosts of a host file"),
    ("gdb", "--version", "reads stacks of programs"),
    ("eu-stack", "--version", "reads stacks of programs"),
    ("py-spy", "--version", "reads stacks of Python programs"),
];

pub(super) async fn check() -> Vec<Finding> {
    let programs = PROGRAMS.map(|(name, argument, purpose)| version(name, argument, purpose));
    let mut findings = futures::future::join_all(programs).await;
    if find("gdb").await.is_none() && find("eu-stack").await.is_none() {
        let text = "neither gdb nor eu-stack is in PATH: stacks of hung programs cannot be read";
        findings.push(Finding::warning(CHECK, text, "install gdb or elfutils"));
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    findings.extend(scope.and_then(|scope| ptrace(scope.trim(), geteuid().is_root())));
    findings
}

async fn version(name: &'static str, argument: &str, purpose: &str) -> Finding {
    let Some(path) = find(name).await else {
        return Finding::note(CHECK, format!("{name} is not in PATH; it {purpose}"));
    };
    match printed(LIMIT, &path, &[argument]).await {
        Some(printed) if printed.is_success => {
            Finding::ok(CHECK, format!("{}: {}", path.display(), printed.first))
        }
        Some(printed) if printed.last.contains("configuration source") => Finding::note(
            CHECK,
            format!("{}: this host has no configuration of Slurm; it {purpose}", path.display()),
        ),
        Some(printed) => Finding::warning(
            CHECK,
            format!("{} {argument} fails: {}", path.display(), printed.last),
            format!("reinstall it, or correct PATH and LD_LIBRARY_PATH; it {purpose}"),
        ),
        None => Finding::warning(
            CHECK,
            format!("{} {argument} does not end within {} s", path.display(), LIMIT.as_secs()),
            format!("run it by hand; its file system may hang; it {purpose}"),
        ),
    }
}

/// Whether debuggers may attach.
fn ptrace(scope: &str, is_root: bool) -> Option<Finding> {
    let remedy = "as root: sysctl kernel.yama.ptrace_scope=0, or run the debugger as root";
    match (scope, is_root) {
        ("0", _) | ("1" | "2", true) => {
            Some(Finding::ok(CHECK, format!("debuggers may attach (ptrace_scope {scope})")))
        }
        ("1" | "2", false) => {
            let text = format!(
                "kernel.yama.ptrace_scope is {scope}: this user's debuggers cannot attach to processes"
            );
            Some(Finding::warning(CHECK, text, remedy))
        }
        ("3", _) => {
            let text = "kernel.yama.ptrace_scope is 3: no debugger can attach to processes";
            Some(Finding::warning(
                CHECK,
                text,
                "it can be changed only at boot: kernel.yama.ptrace_scope=0 in sysctl.d",
            ))
        }
        _ => None,
    }
}

/// Whether this user could limit the memory and processors of jobs.
pub(super) fn cgroups() -> Vec<Finding> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let dir = path.map(|path| Path::new("/sys/fs/cgroup").join(path)).filter(|dir| dir.is_dir());
    let text = match dir {
        None => "there is no cgroup of version 2 here".to_owned(),
        Some(dir) => {
            let found = fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
            let is_delegated = access(&dir, Access::WRITE_OK).is_ok();
            let delegated =
                if is_delegated { "is delegated to this user" } else { "is not delegated to this user" };
            let controllers = if found.trim().is_empty() { "none" } else { found.trim() };
            format!("the cgroup {} {delegated}; controllers: {controllers}", dir.display())
        }
    };
    vec![Finding::note("cgroups", text)]
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn what_keeps_debuggers_out_is_a_warning_for_whom_it_concerns() {
        let level = |scope, is_root| ptrace(scope, is_root).map(|finding| finding.level);
        assert_eq!([level("0", false), level("1", true)], [Some(Level::Ok); 2]);
        assert_eq!([level("1", false), level("2", false), level("3", true)], [Some(Level::Warning); 3]);
        assert_eq!(level("?", true), None);
    }

    #[tokio::test]
    async fn a_program_says_its_version_or_is_missing_or_broken() {
        assert_eq!(version("no-such-program", "-V", "does nothing").await.level, Level::Note);
        let broken = version("false", "--nothing", "fails").await;
        assert!(broken.level == Level::Warning && broken.text.contains("fails"), "{broken:?}");
        assert_eq!(version("true", "x", "succeeds").await.level, Level::Ok);
    }
}
