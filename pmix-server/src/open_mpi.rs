//! The variables that Open MPI's own launchers set, for programs that read these and do not use PMIx.

use pmix_types::job::{JobData, NodeRef, Target};
use pmix_types::{Key, Rank, Value, ValueType, keys};

/// The place of a process in its job, as far as known: the variables that `mpirun` of both Open MPI 4 and 5 sets. Scripts,
/// wrappers and libraries use them to choose files, devices and builds. Open MPI itself reads none of them.
pub(crate) fn place(job: &JobData, rank: Rank) -> Vec<(String, String)> {
    let proc = Target::Proc(rank);
    let local_rank = number(job, &keys::LOCAL_RANK, &proc);
    // with one job on the node it is the local rank
    let node_rank = number(job, &keys::NODE_RANK, &proc).or(local_rank);
    let values = [
        ("OMPI_COMM_WORLD_RANK", job.contains(rank).then(|| rank.to_raw())),
        ("OMPI_COMM_WORLD_SIZE", job.size()),
        ("OMPI_COMM_WORLD_LOCAL_RANK", local_rank.map(u32::from)),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", number(job, &keys::LOCAL_SIZE, &Target::Node(NodeRef::Of(rank)))),
        ("OMPI_COMM_WORLD_NODE_RANK", node_rank.map(u32::from)),
    ];
    let known = values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.to_string())));
    known.collect()
}

/// Parameters for the processes of a node, unless users have set others. Only its launcher can tell Open MPI 4 that
/// processes share processors; it then yields the processor while it waits.
pub(crate) fn parameters(job: &JobData, node: &str) -> Option<(String, String)> {
    let target = Target::Node(NodeRef::Name(node));
    let is_oversubscribed = job.lookup(keys::NODE_OVERSUBSCRIBED.name(), &target) == Some(Value::Bool(true));
    is_oversubscribed.then(|| ("OMPI_MCA_mpi_oversubscribe".to_owned(), "1".to_owned()))
}

fn number<T: ValueType>(job: &JobData, key: &Key<T>, target: &Target<'_>) -> Option<T> {
    job.lookup(key.name(), target)?.get().ok()
}

#[cfg(test)]
mod tests {
    use pmix_types::job::JobSpec;

    use super::*;

    fn job(change: impl Fn(JobSpec) -> JobSpec) -> JobData {
        let mut data = JobData::new("job".parse().unwrap());
        let spec = JobSpec::new("job".parse().unwrap());
        let spec = spec.node_map(["n0", "n1"]).unwrap().proc_map("0-2;3-4").unwrap();
        data.register(&change(spec).into_infos(), "n1").unwrap();
        data
    }

    #[test]
    fn a_process_learns_its_place_by_the_names_of_open_mpi() {
        let told = |job: &JobData, rank| -> Vec<String> {
            place(job, Rank::from_raw(rank))
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect()
        };
        let expected = |values: [u32; 5]| -> Vec<String> {
            let names = ["RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "NODE_RANK"];
            names.iter().zip(values).map(|(name, value)| format!("OMPI_COMM_WORLD_{name}={value}")).collect()
        };
        assert_eq!(told(&job(|spec| spec), 4), expected([4, 5, 1, 2, 1]));
        assert_eq!(told(&job(|spec| spec), 1), expected([1, 5, 1, 3, 1]));
        let beside_others = job(|spec| spec.proc_info(Rank::from_raw(4), &keys::NODE_RANK, 7u16));
        assert_eq!(told(&beside_others, 4), expected([4, 5, 1, 2, 7]));
        assert_eq!(told(&JobData::new("bare".parse().unwrap()), 0), [] as [&str; 0]);
    }

    #[test]
    fn open_mpi_4_is_told_of_nodes_with_too_few_processors_only() {
        for (said, due) in [(None, false), (Some(false), false), (Some(true), true)] {
            let job = job(|spec| match said {
                Some(said) => spec.node_info("n1", &keys::NODE_OVERSUBSCRIBED, said),
                None => spec,
            });
            assert_eq!(parameters(&job, "n1").is_some(), due, "{said:?}");
            assert_eq!(parameters(&job, "n0"), None);
        }
    }
}
