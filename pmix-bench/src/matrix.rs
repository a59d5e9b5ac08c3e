//! The steps that are run, the same on every side.

/// One run of a host, and what it measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) work: Work,
    /// Host and ranks on one processor: no wake-up crosses processors, so that figures are steady.
    pub(crate) one_cpu: bool,
}

/// What a host does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Init(u32),
    Regex(u32),
    JobData(u32),
    Launch {
        n: u32,
        total: u32,
        repeats: u32,
        /// With the figures of the start, seen from outside.
        has_stats: bool,
        phases: Vec<String>,
    },
}

const INIT: &[&str] = &["server_init", "rss_server_idle", "server_finalize"];
const REGEX: &[&str] = &[
    "generate_regex",
    "generate_regex_in_len",
    "generate_regex_out_len",
    "generate_ppn",
    "generate_ppn_in_len",
    "generate_ppn_out_len",
];
const JOB_DATA: &[&str] =
    &["jobdata_host_build", "jobdata_host_build_rss", "register_nspace", "register_nspace_rss_growth"];
const START: &[&str] = &[
    "server_init_in_launch",
    "client_init",
    "client_finalize",
    "fork_to_main",
    "launch_fork_to_last_init",
    "register_nspace_in_launch",
    "register_client",
    "rss_client",
    "uss_client",
    "rss_server",
    "uss_server",
];

/// Phases without a library.
const FLOORS: [&str; 2] = ["barrier", "frames"];

/// What a phase measures, with the host's part in collectives and without.
const PHASES: &[(&str, bool, &[&str])] = &[
    ("init", false, &[]),
    ("barrier", false, &["barrier_futex"]),
    ("frames", false, &["fence_frames"]),
    ("get", false, &["get_job_level", "get_proc_level", "clock_read"]),
    ("put", false, &["put", "commit_500_keys"]),
    ("commit", false, &["commit_1_key"]),
    ("fence", false, &["fence", "fence_span", "fence_aligned", "fence_aligned_span"]),
    ("fence", true, &["fence_host", "fence_host_span", "fence_host_aligned", "fence_host_aligned_span"]),
    (
        "collect",
        false,
        &["fence_collect", "fence_collect_span", "modex_put_commit", "peer_get_first", "peer_get_second"],
    ),
    (
        "collect",
        true,
        &[
            "fence_host_collect",
            "fence_host_collect_span",
            "modex_host_put_commit",
            "peer_get_host_first",
            "peer_get_host_second",
        ],
    ),
    ("dmodex", false, &["dmodex_get_local_peer"]),
    ("getwait", false, &["get_waiting_for_commit"]),
    ("pub", false, &["publish", "publish_rate", "lookup", "lookup_rate", "unpublish", "unpublish_rate"]),
    ("query", false, &["query_namespaces", "query_namespaces_default", "query_proc_table"]),
    ("event", false, &["event_last_handler", "event_each_handler", "event_notify_call"]),
    ("connect", false, &["connect", "connect_span", "disconnect", "disconnect_span"]),
    ("resolve", false, &["resolve_peers", "resolve_nodes"]),
];

impl Step {
    const fn of(work: Work) -> Self {
        Self { work, one_cpu: false }
    }

    fn launch(n: u32, total: u32, phases: &str) -> Self {
        let phases = phases.split_whitespace().map(str::to_owned).collect();
        Self::of(Work::Launch { n, total, repeats: 1, has_stats: false, phases })
    }

    fn starts(n: u32, total: u32, repeats: u32) -> Self {
        Self::of(Work::Launch { n, total, repeats, has_stats: true, phases: vec!["init".to_owned()] })
    }

    fn one_cpu(n: u32, total: u32, phases: &str) -> Self {
        Self { one_cpu: true, ..Self::launch(n, total, phases) }
    }

    /// The metrics that come of it.
    pub(crate) fn metrics(&self) -> Vec<String> {
        let names: Vec<&str> = match &self.work {
            Work::Init(_) => INIT.to_vec(),
            Work::Regex(_) => REGEX.to_vec(),
            Work::JobData(_) => JOB_DATA.to_vec(),
            Work::Launch { n, total, has_stats, phases, .. } => {
                let start = if *has_stats { START } else { &[] };
                let of_phases = phases.iter().flat_map(|phase| of_phase(phase, total > n));
                start.iter().chain(of_phases).copied().collect()
            }
        };
        let suffix = self.suffix();
        names.into_iter().map(|name| format!("{name}{suffix}")).collect()
    }

    /// What is added to the names of its metrics.
    pub(crate) const fn suffix(&self) -> &'static str {
        if self.one_cpu { "_1cpu" } else { "" }
    }

    /// Whether ranks take part, so that it matters of which kind they are.
    pub(crate) const fn has_ranks(&self) -> bool {
        matches!(self.work, Work::Launch { .. })
    }

    /// Whether it measures no library but what none can beat, which one side does for all.
    pub(crate) fn is_floor(&self) -> bool {
        matches!(&self.work, Work::Launch { phases, .. } if phases.iter().all(|phase| FLOORS.contains(&phase.as_str())))
    }

    /// The arguments of its host, without those of the ranks' program.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mode = |mode: &str, number: &u32| vec![mode.to_owned(), number.to_string()];
        match &self.work {
            Work::Init(count) => mode("init", count),
            Work::Regex(count) => mode("regex", count),
            Work::JobData(total) => mode("jobdata", total),
            Work::Launch { n, total, repeats, .. } => {
                let arguments = format!("launch -n {n} -t {total} -r {repeats} -T 50 --");
                arguments.split(' ').map(str::to_owned).collect()
            }
        }
    }
}

fn of_phase(phase: &str, has_remote: bool) -> &'static [&'static str] {
    let name = phase.split(':').next().unwrap_or_default();
    let fits = |(phase, remote, _): &&(&str, bool, &[&str])| *phase == name && *remote == has_remote;
    let of_all = |(phase, _, _): &&(&str, bool, &[&str])| *phase == name;
    // most phases measure the same with remote ranks
    let found = PHASES.iter().find(fits).or_else(|| PHASES.iter().find(of_all));
    found.map_or(&[], |(_, _, metrics)| metrics)
}

/// Everything, as `run.sh` of the C programs had it; the job of a million ranks takes 7 GB of the C library.
pub(crate) fn full(has_million: bool) -> Vec<Step> {
    let mut steps = vec![Step::of(Work::Init(10))];
    let launches = [(1, 20), (2, 15), (8, 8), (32, 5), (64, 5)];
    steps.extend(launches.map(|(n, repeats)| Step::starts(n, n, repeats)));
    steps.extend(
        [(1_000, 3), (10_000, 3), (100_000, 1)].map(|(total, repeats)| Step::starts(2, total, repeats)),
    );
    steps.extend([1, 1_000, 10_000, 100_000].map(|total| Step::launch(1, total, "get resolve")));
    for n in [1, 2, 64] {
        steps.extend(["commit", "put"].map(|phase| Step::launch(n, n, phase)));
    }
    for n in [2, 8, 32, 64] {
        steps.extend(collectives(n, &[64, 1024, 16_384]));
    }
    steps.push(Step::launch(2, 2, "getwait"));
    steps.extend([1, 2, 8, 32, 64].map(|n| Step::launch(n, n, "pub")));
    steps.push(Step::launch(1, 1, "query"));
    steps.extend(["commit", "put", "get resolve", "pub query"].map(|phases| Step::one_cpu(1, 1, phases)));
    steps.extend(["getwait", "dmodex"].map(|phase| Step::one_cpu(2, 2, phase)));
    for n in [2, 8, 64] {
        steps.extend(["fence", "event"].map(|phase| Step::one_cpu(n, n, phase)));
        steps.push(Step::one_cpu(n, 2 * n, "collect:1024"));
    }
    steps.extend(server_side(&[1_000, 10_000, 100_000]));
    if has_million {
        steps.push(Step::of(Work::JobData(1_000_000)));
    }
    steps
}

/// Every metric, with fewer ranks and sizes.
pub(crate) fn quick() -> Vec<Step> {
    let mut steps = vec![Step::of(Work::Init(3))];
    steps.extend([(1, 5), (8, 2), (64, 1)].map(|(n, repeats)| Step::starts(n, n, repeats)));
    steps.push(Step::starts(2, 10_000, 1));
    steps.push(Step::launch(1, 1_000, "get resolve"));
    steps.extend([1, 8].map(|n| Step::launch(n, n, "commit put")));
    for n in [2, 8] {
        steps.extend(collectives(n, &[1024]));
    }
    steps.extend(["fence", "collect:1024"].map(|phase| Step::launch(64, 64, phase)));
    steps.push(Step::launch(2, 2, "getwait"));
    steps.extend([1, 8].map(|n| Step::launch(n, n, "pub")));
    steps.push(Step::launch(1, 1, "query"));
    steps.push(Step::one_cpu(1, 1, "commit put get resolve pub query"));
    steps.push(Step::one_cpu(2, 2, "getwait dmodex fence event"));
    steps.push(Step::one_cpu(2, 4, "collect:1024"));
    steps.extend(server_side(&[10_000]));
    steps
}

fn collectives(n: u32, sizes: &[usize]) -> Vec<Step> {
    let mut steps = vec![Step::launch(n, n, "fence"), Step::launch(n, 2 * n, "fence")];
    steps.extend(["barrier frames", "connect", "event", "dmodex"].map(|phase| Step::launch(n, n, phase)));
    for bytes in sizes {
        steps.extend([n, 2 * n].map(|total| Step::launch(n, total, &format!("collect:{bytes}"))));
    }
    steps
}

fn server_side(counts: &[u32]) -> Vec<Step> {
    counts.iter().flat_map(|count| [Work::Regex(*count), Work::JobData(*count)]).map(Step::of).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_quick_matrix_leaves_no_metric_out() {
        let of = |steps: Vec<Step>| steps.iter().flat_map(Step::metrics).collect::<BTreeSet<_>>();
        let (full, quick) = (of(full(true)), of(quick()));
        assert_eq!(full.difference(&quick).collect::<Vec<_>>(), Vec::<&String>::new());
        let all = PHASES.iter().flat_map(|(_, _, metrics)| *metrics).chain(INIT).chain(REGEX);
        for metric in all.chain(JOB_DATA).chain(START) {
            assert!(full.contains(*metric), "{metric}");
        }
    }

    #[test]
    fn a_step_is_told_by_the_arguments_of_both_hosts() {
        let step = Step::launch(8, 16, "collect:64");
        assert_eq!(step.arguments().join(" "), "launch -n 8 -t 16 -r 1 -T 50 --");
        assert!(step.metrics().contains(&"fence_host_collect".to_owned()));
        assert_eq!(Step::one_cpu(2, 2, "getwait").metrics(), ["get_waiting_for_commit_1cpu"]);
    }
}
