use std::process::Command;

use proptest::prelude::*;

use super::*;

fn of(variables: &[(&str, &str)]) -> Result<Option<Allocation>, String> {
    let found = |name: &str| variables.iter().find(|(known, _)| *known == name);
    Allocation::of(|name| found(name).map(|(_, value)| (*value).to_owned()))
}

fn slots(allocation: &Allocation) -> Vec<(&str, u32)> {
    allocation.hosts().hosts().iter().map(|host| (host.name.as_str(), host.slots)).collect()
}

#[test]
fn an_allocation_of_slurm_has_the_slots_of_its_tasks_else_of_its_processors() {
    let job = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n[2-3],n9")];
    let with = |more: &[(&str, &str)]| of(&[&job, more].concat()).unwrap().unwrap();
    let tasks = ("SLURM_TASKS_PER_NODE", "2(x2),1");
    let cpus = ("SLURM_JOB_CPUS_PER_NODE", "8,4(x2)");
    for (more, expected) in [
        (&[tasks, cpus][..], [("n2", 2), ("n3", 2), ("n9", 1)]),
        (&[cpus], [("n2", 8), ("n3", 4), ("n9", 4)]),
        // those of a step on one node
        (&[("SLURM_TASKS_PER_NODE", "1"), cpus], [("n2", 8), ("n3", 4), ("n9", 4)]),
        (&[("SLURM_TASKS_PER_NODE", "1")], [("n2", 1), ("n3", 1), ("n9", 1)]),
    ] {
        assert_eq!(slots(&with(more)), expected, "{more:?}");
    }
    assert_eq!(with(&[]).name(), "the allocation of Slurm job 7");
    for none in [&job[..1], &job[1..], &[job[0], ("SLURM_JOB_NODELIST", "")]] {
        assert_eq!(of(none), Ok(None), "{none:?}");
    }
    for (name, value, why) in [
        ("SLURM_TASKS_PER_NODE", "2(x", "SLURM_TASKS_PER_NODE: `2(x` is not a list of numbers"),
        ("SLURM_JOB_CPUS_PER_NODE", "0", "SLURM_JOB_CPUS_PER_NODE: `0` is not a list of numbers"),
        (
            "SLURM_TASKS_PER_NODE",
            "1(x65536),1",
            "SLURM_TASKS_PER_NODE: `1(x65536),1` is not a list of numbers",
        ),
    ] {
        assert_eq!(of(&[&job[..], &[(name, value)]].concat()), Err(why.into()));
    }
    let bad = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n[2-")];
    assert_eq!(of(&bad), Err("SLURM_JOB_NODELIST: `n[2-` is not a list of nodes".into()));
}

#[test]
fn an_allocation_of_pbs_has_a_slot_for_each_line_of_its_file() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, b"n2\nn2\nn0.cluster\nn2\n").unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let pbs = [("PBS_NODEFILE", path.as_str()), ("PBS_JOBID", "12.server")];
    let allocation = of(&pbs).unwrap().unwrap();
    assert_eq!(slots(&allocation), [("n2", 3), ("n0.cluster", 1)]);
    assert_eq!((allocation.name(), allocation.of_slurm()), ("the allocation of PBS job 12.server", None));
    let slurm = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n1")];
    let both = of(&[&pbs[..], &slurm].concat()).unwrap().unwrap();
    assert_eq!(both.of_slurm(), Some(vec!["n1".to_owned()]));
    let gone = format!("{path}.gone");
    let error = of(&[("PBS_NODEFILE", &gone)]).unwrap_err();
    assert!(error.starts_with(&format!("PBS_NODEFILE: {gone}: ")), "{error}");
}

#[test]
fn this_node_is_found_by_the_name_that_slurm_gives_it_or_by_its_own() {
    let job = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n[0-1]")];
    let outside = of(&job).unwrap().unwrap();
    assert_eq!(outside.own("n1.cluster.example").as_deref(), Some("n1"));
    assert_eq!(outside.own("n1").as_deref(), Some("n1"));
    assert_eq!(outside.own("login"), None);
    let on_a_node = of(&[job[0], job[1], ("SLURMD_NODENAME", "n0")]).unwrap().unwrap();
    assert_eq!(on_a_node.own("machine").as_deref(), Some("n0"));
}

#[test]
fn lists_that_are_wrong_or_too_long_are_refused() {
    for wrong in [
        "n[",
        "n]",
        "n[]",
        "n[a]",
        "n[3-1]",
        "n[1-2]]",
        "n[,1]",
        "n[1-2-3]",
        "n[0-99999999]",
        "n[+1]",
        "n[1-]",
    ] {
        assert_eq!(hostnames(wrong), Err(format!("`{wrong}` is not a list of nodes")));
    }
    assert!(hostnames("a[0-999]b[0-999]").is_err());
    assert!(hostnames("a[0-40000],b[0-40000]").is_err());
    assert!(hostnames(&format!("{}1", "a[1]".repeat(1000))).is_err());
    assert!(hostnames(&format!("n[{}1]", "0".repeat(1000))).is_err());
    assert_eq!(hostnames(",a,,b,"), Ok(vec!["a".into(), "b".into()]));
    assert_eq!(hostnames("nid[08-11]-x"), Ok(["08", "09", "10", "11"].map(|n| format!("nid{n}-x")).into()));
}

/// What Slurm itself makes of a list, if it is installed.
fn by_scontrol(list: &str) -> Option<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("slurm.conf");
    std::fs::write(&config, "ClusterName=t\nSlurmctldHost=n0\nNodeName=n0\nPartitionName=p Nodes=n0\n")
        .unwrap();
    let mut command = Command::new("scontrol");
    let output = command.args(["show", "hostnames", list]).env("SLURM_CONF", config).output();
    let output = match output {
        Ok(output) => output,
        Err(error) if std::env::var_os("PMIX_REQUIRE_PEERS").is_none() => {
            eprintln!("skipped: scontrol: {error}");
            return None;
        }
        Err(error) => panic!("scontrol (apt-get install slurm-wlm): {error}"),
    };
    assert!(output.status.success(), "{list}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

/// Lists in the forms that Slurm writes.
fn lists() -> impl Strategy<Value = String> {
    let padded = (0..120_u32, 0..12_u32, 1..4_usize).prop_map(|(first, more, width)| match more {
        0 => format!("{first:0width$}"),
        more => format!("{first:0width$}-{:0width$}", first + more),
    });
    let ranges = || proptest::collection::vec(padded.clone(), 1..4).prop_map(|ranges| ranges.join(","));
    let text = "[a-z]{1,6}(-[a-z]{1,3})?";
    let item = prop_oneof![
        "[a-z]{1,6}[0-9]{0,4}(\\.[a-z]{1,3})?",
        (text, ranges()).prop_map(|(text, ranges)| format!("{text}[{ranges}]")),
        (text, ranges(), text, ranges()).prop_map(|(a, b, c, d)| format!("{a}[{b}]{c}[{d}]")),
    ];
    proptest::collection::vec(item, 1..5).prop_map(|items| items.join(","))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn lists_mean_what_slurm_says(list in lists()) {
        if let Some(expected) = by_scontrol(&list) {
            prop_assert_eq!(hostnames(&list).unwrap(), expected, "{}", list);
        }
    }

    #[test]
    fn no_list_makes_trouble(list in "[a-z0-9\\[\\],()x-]{0,40}") {
        let _ = hostnames(&list);
        let _ = counts(&list);
    }
}
