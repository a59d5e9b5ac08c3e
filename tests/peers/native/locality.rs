//! Where processes of the C library run, and what the library makes of what our server tells them.

use std::collections::BTreeMap;

use pmix_client::topology::{Level, Processors, Topology, relative_locality};
use pmix_client::types::BindEnvelope;
use pmix_tests::{Mpi, Peer, pmixrun, run};

/// The words of each line that begins with the rank of its writer and this word.
fn lines<'a>(out: &'a str, word: &str) -> BTreeMap<(usize, usize), Vec<&'a str>> {
    let mut found = BTreeMap::new();
    for (number, line) in out.lines().enumerate() {
        let (rank, rest) = line.strip_prefix('[').unwrap().split_once("]<stdout>: ").unwrap();
        if let Some(rest) = rest.strip_prefix(word) {
            found.insert((rank.parse().unwrap(), number), rest.split_whitespace().collect());
        }
    }
    found
}

/// What the library writes with hwloc is what we write without, and it reads it like we do.
fn told(library: Peer, options: &[&str], ranks: usize) {
    let Some(program) = library.program("pmix_locality") else { return };
    let dir = tempfile::tempdir().unwrap();
    let count = ranks.to_string();
    let args = [&["--tag-output", "-n", &count], options, &[program.to_str().unwrap()]].concat();
    let (code, out, err) = run(pmixrun(dir.path(), &args));
    assert_eq!(code, Some(0), "{options:?}: {out}{err}");
    let selves = lines(&out, "self ");
    assert_eq!(selves.len(), ranks, "{out}");
    let mut cpusets = Vec::new();
    for ((rank, _), words) in &selves {
        let [found, registered, made, locality, "lcpus", local] = words[..] else { panic!("{out}") };
        match locality {
            "NULL" => {
                assert_eq!(registered, "-", "{rank} is not bound: {out}");
                cpusets.push("UNBOUND".to_owned());
            }
            locality => {
                // what hwloc finds in the process is what was registered, and makes the same text
                assert_eq!((found, made), (registered, locality), "{out}");
                cpusets.push(Processors::from_cpuset_string(registered).unwrap().to_string());
            }
        }
        assert_eq!(local.split(':').count(), ranks, "{out}");
    }
    let local = cpusets.join(":");
    assert!(selves.values().all(|words| words[5] == local), "{local}: {out}");
    for ((rank, _), words) in lines(&out, "peer ") {
        let [peer, its] = [words[0], words[1]];
        let Some(shared) = words.get(2) else {
            assert_eq!(its, "NULL", "{out}");
            continue;
        };
        let mine = selves.iter().find(|((self_rank, _), _)| *self_rank == rank).unwrap().1[3];
        let ours = relative_locality(mine, its).unwrap().bits();
        assert_eq!(u16::from_str_radix(shared, 16).unwrap(), ours, "{rank} and {peer}: {out}");
    }
}

fn as_hwloc_tells_it(library: Peer) {
    // more than a process may use: nobody is bound
    let processors = Processors::bound(BindEnvelope::THREAD).unwrap();
    told(library, &[], processors.len() + 1);
    told(library, &[], 1);
    told(library, &["--bind-to", "none"], 2);
    told(library, &["--bind-to", "numa"], 1);
    if cores_of(&processors) >= 2 {
        told(library, &[], 2);
        told(library, &["--bind-to", "hwthread"], 2);
        told(library, &["--map-by", "core:PE=2"], 1);
    }
}

fn cores_of(processors: &Processors) -> usize {
    let topology = Topology::read();
    topology.objects(Level::Core).iter().filter(|core| core.intersects(processors)).count()
}

#[test]
fn reg_21b_a_c_program_is_told_what_its_library_finds_with_hwloc() {
    as_hwloc_tells_it(Peer::Libpmix);
}

#[test]
fn reg_21b_a_program_of_libpmix_5_is_told_what_its_library_finds_with_hwloc() {
    as_hwloc_tells_it(Peer::Libpmix5);
}

#[test]
fn open_mpi_shares_memory_whether_ranks_are_bound_or_not() {
    for peer in [Peer::OpenMpi, Peer::OpenMpi5] {
        for policy in ["core:if-supported", "numa", "none"] {
            Mpi::new(peer).bound(policy, 2);
        }
    }
}

#[test]
fn ranks_are_bound_like_those_of_mpirun_if_nobody_says_otherwise() {
    let processors = Processors::bound(BindEnvelope::THREAD).unwrap();
    let pair = if cores_of(&processors) < 2 { 1 } else { 2 };
    for peer in [Peer::OpenMpi, Peer::OpenMpi5] {
        Mpi::new(peer).default_binding(1, false);
        Mpi::new(peer).default_binding(pair, false);
        Mpi::new(peer).default_binding(processors.len() + 1, true);
    }
}
