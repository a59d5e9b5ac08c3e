//! MPI programs from Debian, over hosts that are reached by ssh, with all traffic by TCP.

use std::path::PathBuf;

use pmix_tests::{Hosts, Running, TestDvm, on_path, program, run};

use super::hosts::{nothing_is_left_on, pmixrun_on};

/// What a program prints that has a rank on each of so many hosts.
fn said(hosts: &Hosts, count: usize, program_and_args: &[&str]) -> String {
    program("pmixd");
    let names: Vec<_> = (0..count).map(|host| format!("n{host}")).collect();
    let directory = hosts.shared().to_str().unwrap();
    let mut command = pmixrun_on(hosts, 0, &["--host", &names.join(","), "--wdir", directory]);
    command.args(program_and_args);
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{out}{err}");
    nothing_is_left_on(hosts, 0..count, &"after the run");
    out
}

#[test]
fn the_hpc_challenge_of_debian_passes_its_own_checks_on_four_hosts() {
    let Some(hpcc) = on_path("hpcc", "apt-get install hpcc") else { return };
    let Some(hosts) = Hosts::with_ssh(4) else { return };
    // a small system of equations, on a grid of two by two ranks
    let values = "\n\nHPL.out\n8\n1\n100\n1\n80\n0\n1\n2\n2\n16.0\n1\n2\n1\n4\n1\n2\n1\n1\n1\n1\n1\n0\n2\n64\n0\n0\n1\n8\n\n0\n\n0\n\n";
    std::fs::write(hosts.shared().join("hpccinf.txt"), values).unwrap();
    said(&hosts, 4, &[hpcc.to_str().unwrap()]);
    let report = std::fs::read_to_string(hosts.shared().join("hpccoutf.txt")).unwrap();
    assert!(report.lines().any(|line| line == "Success=1"), "{report}");
    assert!(report.contains("PASSED") && !report.contains("FAILED"), "{report}");
}

#[test]
fn netpipe_of_debian_measures_messages_between_two_hosts() {
    let Some(netpipe) = on_path("NPopenmpi", "apt-get install netpipe-openmpi") else { return };
    let Some(hosts) = Hosts::with_ssh(2) else { return };
    said(&hosts, 2, &[netpipe.to_str().unwrap(), "-u", "64", "-o", "messages"]);
    let measured = std::fs::read_to_string(hosts.shared().join("messages")).unwrap();
    let sizes = measured.lines().filter_map(|line| line.split_whitespace().next()?.parse::<u32>().ok());
    let sizes: Vec<_> = sizes.collect();
    assert!(sizes.starts_with(&[1, 2, 3]) && sizes.contains(&64), "{measured}");
}

#[test]
fn ranks_of_mpi4py_of_debian_are_where_they_should_be() {
    let python = PathBuf::from("/usr/bin/python3");
    let is_there = std::path::Path::new("/usr/lib/python3/dist-packages/mpi4py").exists();
    if !is_there {
        return pmix_tests::skipped("mpi4py (apt-get install python3-mpi4py)");
    }
    let Some(hosts) = Hosts::with_ssh(4) else { return };
    let out = said(&hosts, 4, &[python.to_str().unwrap(), "-m", "mpi4py.bench", "helloworld"]);
    let expected: String =
        (0..4).map(|rank| format!("Hello, World! I am process {rank} of 4 on n{rank}.\n")).collect();
    assert_eq!(out, expected);
    let out = said(&hosts, 4, &[python.to_str().unwrap(), "-m", "mpi4py.bench", "ringtest", "-n", "1000"]);
    assert!(out.contains("(4 processes, 1000 bytes)"), "{out}");
}

#[tokio::test]
async fn mpi_jobs_of_debian_run_side_by_side_in_a_dvm() {
    let Some(netpipe) = on_path("NPopenmpi", "apt-get install netpipe-openmpi") else { return };
    if !std::path::Path::new("/usr/lib/python3/dist-packages/mpi4py").exists() {
        return pmix_tests::skipped("mpi4py (apt-get install python3-mpi4py)");
    }
    let Some(hosts) = Hosts::with_ssh(2) else { return };
    let shared = hosts.shared().to_owned();
    let mut dvm = TestDvm::on(hosts, &["--host", "n0:4,n1:4"]).await;
    let dir = shared.to_str().unwrap();
    let messages = [
        "-n",
        "2",
        "--map-by",
        "node",
        "--wdir",
        dir,
        netpipe.to_str().unwrap(),
        "-u",
        "64",
        "-o",
        "messages",
    ];
    let mut measuring = dvm.submit(&messages);
    pmix_tests::allow_root(&mut measuring);
    let measuring = Running::start(measuring);
    for _ in 0..2 {
        let hello = ["-n", "4", "--map-by", "node", "/usr/bin/python3", "-m", "mpi4py.bench", "helloworld"];
        let (code, out, err) = run(dvm.submit(&hello));
        assert_eq!(code, Some(0), "{out}{err}");
        let expected = (0..4).map(|rank| format!("Hello, World! I am process {rank} of 4 on n{}.", rank % 2));
        // those of another node may come a little later
        let mut lines: Vec<_> = out.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, expected.collect::<Vec<_>>());
    }
    // however long it takes beside other jobs
    let mut measuring = measuring;
    while measuring.line_at_last().await.is_some() {}
    let (status, out, err) = measuring.end().await;
    assert!(status.success(), "{out}{err}");
    let measured = std::fs::read_to_string(shared.join("messages")).unwrap();
    assert!(measured.lines().count() > 10, "{measured}");
    assert_eq!(dvm.hosts().count(), 2);
    dvm.stop(|_, hosts| nothing_is_left_on(hosts.unwrap(), 0..2, &"after the DVM")).await;
}
