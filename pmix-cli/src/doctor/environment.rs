//! Variables that change what PMIx and MPI libraries do, and those of Slurm.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::run::which;

const CHECK: &str = "environment";
/// Names that are printed of one family.
const NAMED: usize = 3;
/// Hosts that are counted of a node list.
const MOST_HOSTS: usize = 100_000;

/// What makes a library take a process for one that was launched: exact names, or beginnings of names that end with `*`.
const FAMILIES: [(&str, &[&str]); 5] = [
    ("PMIx", &["PMIX_NAMESPACE", "PMIX_RANK", "PMIX_SERVER_URI*", "PMIX_SECURITY_MODE"]),
    ("PMI", &["PMI_RANK", "PMI_SIZE", "PMI_FD", "PMI_PORT", "PMI_ID", "PMI_JOBID", "PMI_SPAWNED"]),
    ("Open MPI", &["OMPI_COMM_WORLD_*", "OMPI_UNIVERSE_SIZE", "OMPI_APP_CTX_NUM_PROCS"]),
    ("PRRTE", &["PRTE_LAUNCHED", "PRTE_MCA_ess_*"]),
    ("Slurm step", &["SLURM_STEP_ID", "SLURM_STEPID", "SLURM_PROCID", "SLURM_LOCALID"]),
];

type Variables = BTreeMap<String, String>;

pub(super) fn check() -> Vec<Finding> {
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let variables: Variables = std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    judge(&variables, &node, which("srun").is_some())
}

fn judge(variables: &Variables, node: &str, has_srun: bool) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        FAMILIES.iter().filter_map(|(family, patterns)| stray(variables, family, patterns)).collect();
    let settings: Vec<&str> = named(variables, &["PMIX_MCA_*", "OMPI_MCA_*", "PRTE_MCA_*"]);
    if !settings.is_empty() {
        let text = format!("{} change what the libraries of Open MPI and PMIx do", listed(&settings));
        findings.push(Finding::note(CHECK, text));
    }
    findings.extend(slurm(variables, node, has_srun));
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, "no variable of a launcher is set"));
    }
    findings
}

fn stray(variables: &Variables, family: &str, patterns: &[&str]) -> Option<Finding> {
    let names = named(variables, patterns);
    (!names.is_empty()).then(|| {
        let are_set = if names.len() == 1 { "is set" } else { "are set" };
        let text = format!(
            "{} {are_set} ({family}), so libraries take what starts here for a process of that job",
            listed(&names)
        );
        let wildcards: Vec<&str> = patterns.iter().filter_map(|pattern| pattern.strip_suffix('*')).collect();
        let plain = names.iter().filter(|name| !wildcards.iter().any(|start| name.starts_with(start)));
        let mut words: Vec<String> = plain.map(|name| (*name).to_owned()).collect();
        let is_used = |start: &&&str| names.iter().any(|name| name.starts_with(**start));
        words.extend(wildcards.iter().filter(is_used).map(|start| format!("${{!{start}@}}")));
        Finding::warning(CHECK, text, format!("outside of such a job: unset {}", words.join(" ")))
    })
}

fn named<'a>(variables: &'a Variables, patterns: &[&str]) -> Vec<&'a str> {
    let matches = |name: &&str| {
        patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern,
        })
    };
    variables.keys().map(String::as_str).filter(matches).collect()
}

/// The first few names.
fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Whether the variables of an allocation fit each other and this node.
fn slurm(variables: &Variables, node: &str, has_srun: bool) -> Vec<Finding> {
    let get = |names: [&str; 2]| names.iter().find_map(|name| variables.get(*name)).map(String::as_str);
    let job = get(["SLURM_JOB_ID", "SLURM_JOBID"]);
    let nodes = get(["SLURM_JOB_NODELIST", "SLURM_NODELIST"]);
    let again = "start from a new shell of the allocation (srun --pty, salloc), or unset ${!SLURM_@}";
    let (job, nodes) = match (job, nodes) {
        (None, None) => return Vec::new(),
        (Some(job), None) => {
            let text = format!("SLURM_JOB_ID is {job}, but SLURM_JOB_NODELIST is not set");
            return vec![Finding::warning(CHECK, text, again)];
        }
        (None, Some(_)) => {
            let text = "SLURM_JOB_NODELIST is set, but SLURM_JOB_ID is not";
            return vec![Finding::warning(CHECK, text, again)];
        }
        (Some(job), Some(nodes)) => (job, nodes),
    };
    let mut findings = Vec::new();
    match expand(nodes) {
        None => {
            let text = format!("SLURM_JOB_NODELIST of job {job} is not a list of hosts");
            findings.push(Finding::warning(CHECK, text, again));
        }
        Some(hosts) => {
            let stated =
                get(["SLURM_JOB_NUM_NODES", "SLURM_NNODES"]).and_then(|count| count.parse::<usize>().ok());
            if let Some(stated) = stated.filter(|stated| *stated != hosts.len()) {
                let text = format!(
                    "Slurm job {job} has {stated} nodes by SLURM_JOB_NUM_NODES, but SLURM_JOB_NODELIST names {}",
                    hosts.len()
                );
                findings.push(Finding::warning(CHECK, text, again));
            }
            let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
            if hosts.iter().any(|host| short(host) == short(node)) {
                findings.push(Finding::ok(
                    CHECK,
                    format!("this node is one of {} of Slurm job {job}", hosts.len()),
                ));
            } else {
                let text =
                    format!("this node, {node}, is none of Slurm job {job}: launches go to other nodes");
                findings.push(Finding::note(CHECK, text));
            }
        }
    }
    if !has_srun {
        let text = format!("this is Slurm job {job}, but srun is not in PATH");
        findings.push(Finding::warning(
            CHECK,
            text,
            "load the module of Slurm, or add its bin directory to PATH",
        ));
    }
    findings
}

/// The hosts of a list such as `n[01-03,7],login`; `None` if it is none, or of too many.
fn expand(list: &str) -> Option<Vec<String>> {
    let mut hosts = Vec::new();
    let mut depth = 0_usize;
    let split = |at: char| {
        match at {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at == ',' && depth == 0
    };
    for part in list.split(split) {
        let mut some = vec![String::new()];
        let mut rest = part;
        while let Some((before, ranges)) = rest.split_once('[') {
            let (ranges, after) = ranges.split_once(']')?;
            let numbers = numbers(ranges)?;
            if some.len().checked_mul(numbers.len())? > MOST_HOSTS {
                return None;
            }
            some = some
                .iter()
                .flat_map(|start| numbers.iter().map(move |number| format!("{start}{before}{number}")))
                .collect();
            rest = after;
        }
        hosts.extend(some.iter().map(|start| format!("{start}{rest}")));
        if rest.contains(']') || hosts.iter().any(String::is_empty) || hosts.len() > MOST_HOSTS {
            return None;
        }
    }
    Some(hosts)
}

/// Numbers of `01-03,7`, as wide as their first.
fn numbers(ranges: &str) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if high < low || high - low >= MOST_HOSTS || first.len() > 20 {
            return None;
        }
        numbers.extend((low..=high).map(|number| format!("{number:0width$}", width = first.len())));
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn judged(variables: &[(&str, &str)]) -> Vec<Finding> {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        judge(&variables, "n2.site", true)
    }

    #[test]
    fn variables_of_a_launch_are_named_without_their_values() {
        let found = judged(&[
            ("PMIX_RANK", "3"),
            ("PMIX_SERVER_URI41", "secret"),
            ("PMIX_SERVER_URI4", "secret"),
            ("PMIX_SERVER_TMPDIR", "/x"),
        ]);
        let [one] = &found[..] else { panic!("{found:?}") };
        assert!(
            one.text.starts_with("PMIX_RANK, PMIX_SERVER_URI4, PMIX_SERVER_URI41 are set (PMIx)"),
            "{one:?}"
        );
        let remedy = one.remedy.as_deref().unwrap();
        assert_eq!(remedy, "outside of such a job: unset PMIX_RANK ${!PMIX_SERVER_URI@}");
        assert!(!format!("{one:?}").contains("secret"));
        let many =
            judged(&[("PMI_RANK", ""), ("PMI_SIZE", ""), ("PMI_FD", ""), ("PMI_ID", ""), ("PMI_PORT", "")]);
        assert!(many[0].text.contains("and 2 more"), "{many:?}");
        assert_eq!(judged(&[("PATH", "/bin")])[0].level, Level::Ok);
        assert_eq!(judged(&[("OMPI_MCA_btl", "tcp")])[0].level, Level::Note);
    }

    #[test]
    fn an_allocation_must_fit_itself_and_this_node() {
        let job = ("SLURM_JOB_ID", "7");
        let texts = |variables: &[(&str, &str)]| -> Vec<(Level, String)> {
            judged(variables).into_iter().map(|finding| (finding.level, finding.text)).collect()
        };
        assert!(texts(&[job])[0].1.contains("SLURM_JOB_NODELIST is not set"));
        assert!(texts(&[("SLURM_JOB_NODELIST", "n1")])[0].1.contains("SLURM_JOB_ID is not"));
        let good = texts(&[job, ("SLURM_JOB_NODELIST", "n[1-3]"), ("SLURM_JOB_NUM_NODES", "3")]);
        assert_eq!(good, [(Level::Ok, "this node is one of 3 of Slurm job 7".into())]);
        let other = texts(&[job, ("SLURM_JOB_NODELIST", "m[1-3]"), ("SLURM_JOB_NUM_NODES", "4")]);
        assert_eq!(other.iter().map(|(level, _)| *level).collect::<Vec<_>>(), [Level::Warning, Level::Note]);
        assert!(other[0].1.contains("has 4 nodes") && other[0].1.contains("names 3"), "{other:?}");
        assert_eq!(texts(&[job, ("SLURM_JOB_NODELIST", "n[1-")])[0].0, Level::Warning);
        let without = judge(
            &[("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n2")].map(|(a, b)| (a.into(), b.into())).into(),
            "n2",
            false,
        );
        assert!(without.iter().any(|finding| finding.text.contains("srun is not in PATH")), "{without:?}");
    }

    #[test]
    fn node_lists_expand() {
        let all = |list| expand(list).map(|hosts| hosts.join(" "));
        assert_eq!(all("n[01-03,7],login").as_deref(), Some("n01 n02 n03 n7 login"));
        assert_eq!(all("r[1-2]n[8-9]x").as_deref(), Some("r1n8x r1n9x r2n8x r2n9x"));
        let bad = ["", "n[", "n]", "n[2-1]", "n[a]", "a,,b", "n[0-99999999999]", "n[0-999]m[0-999]"];
        assert!(bad.iter().all(|list| expand(list).is_none()));
    }
}
