//! What the server writes out, a client of the wire reads back: with no loss that a process could notice.

use pmix_native::client::job_data;
use pmix_native::msg::Entry;
use pmix_native::{Dialect, Version};
use pmix_types::job::JobSpec;
use pmix_types::{RankSet, Realm};
use proptest::prelude::*;

use super::*;

/// A job of up to eight ranks on up to three nodes, with values of all realms.
#[derive(Clone, Debug)]
struct Job {
    /// The node and the app of each rank.
    ranks: Vec<(usize, u32)>,
    nodes: usize,
    has_maps: bool,
    session: Option<u32>,
    values: Vec<u32>,
}

fn job() -> impl Strategy<Value = Job> {
    let parts = (1..4_usize).prop_flat_map(|nodes| {
        let ranks = prop::collection::vec((0..nodes, 0..2_u32), 1..9);
        (ranks, Just(nodes), any::<bool>(), prop::option::of(1..9_u32), prop::collection::vec(1..99_u32, 6))
    });
    parts.prop_map(|(ranks, nodes, has_maps, session, values)| Job {
        ranks,
        nodes,
        has_maps,
        session,
        values,
    })
}

impl Job {
    fn name(node: usize) -> String {
        format!("n{node}")
    }

    fn of(&self, is: impl Fn(&(usize, u32)) -> bool) -> RankSet {
        let numbered = (0..).map(Rank::from_raw).zip(&self.ranks);
        numbered.filter(|(_, place)| is(place)).map(|(rank, _)| rank).collect()
    }

    fn register(&self) -> JobData {
        let names = (0..self.nodes).map(Self::name);
        let mut spec = JobSpec::new("job".parse().unwrap()).node_map(names).unwrap();
        if self.has_maps {
            let lists: Vec<_> =
                (0..self.nodes).map(|node| self.of(|(on, _)| *on == node).to_list_string()).collect();
            spec = spec.proc_map(&lists.join(";")).unwrap();
        } else {
            spec = spec.info(&keys::JOB_SIZE, u32::try_from(self.ranks.len()).unwrap());
        }
        let [a, b, c, d, e, f] = self.values[..] else { panic!("six values") };
        if let Some(id) = self.session {
            spec = spec.session(id).session_info(&keys::UNIV_SIZE, a);
        }
        for app in [0, 1] {
            let ranks = self.of(|(_, of_app)| *of_app == app);
            if !ranks.is_empty() {
                spec = spec.app_ranks(app, ranks).app_info(app, &keys::APP_ARGV, format!("./{b} {app}"));
            }
        }
        spec = spec.info(&keys::JOBID, c.to_string()).info(&keys::JOB_NUM_APPS, 2u32);
        spec = spec.node_info("n0", &keys::NODE_SIZE, d);
        spec = spec.proc_info(Rank::from_raw(0), &keys::REINCARNATION, e);
        spec = spec.raw(Info::dynamic("acme.own".parse().unwrap(), f));
        let mut job = JobData::new(spec.nspace().clone());
        job.register(&spec.into_infos(), "n0").unwrap();
        job
    }
}

/// The way over the wire.
fn sent(job: &JobData, encoding: Encoding) -> JobData {
    let server = ProcId::new("srv".parse().unwrap(), Rank::from_raw(0));
    let context = Context::new(encoding, Version::new(4, 2, 2));
    let bytes = Reply::from(Body::Job(spell_out(job, &server))).encode(&context).unwrap();
    let reply = Reply::decode(&context, pmix_native::msg::Command::REQ, &bytes).unwrap();
    let Body::Job(data) = reply.body else { panic!("{reply:?}") };
    job_data(None, data, "n0")
}

/// All questions that a process may have, which is all keys of each target.
fn questions(job: &Job) -> Vec<(Target<'static>, String)> {
    const NAMES: [&str; 3] = ["n0", "n1", "n2"];
    let mut targets = vec![Target::Job, Target::Session(None), Target::App(0), Target::App(1)];
    targets.extend((0..job.nodes).map(|node| Target::Node(NodeRef::Name(NAMES[node]))));
    for rank in Rank::first(u32::try_from(job.ranks.len()).unwrap()) {
        targets.extend([Target::Proc(rank), Target::Node(NodeRef::Of(rank)), Target::AppOf(rank)]);
    }
    let keys = keys::all().iter().map(|key| key.name.to_owned()).chain(["acme.own".to_owned()]);
    let keys: Vec<_> = keys.collect();
    targets.into_iter().flat_map(|target| keys.iter().map(move |key| (target, key.clone()))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_the_server_spells_out_answers_the_same_questions(job in job(), described: bool, v3: bool) {
        let dialect = if v3 { Dialect::V3 } else { Dialect::V41 };
        let ours = job.register();
        let theirs = sent(&ours, Encoding { dialect, described });
        for (target, key) in questions(&job) {
            let (asked, found) = (ours.lookup(&key, &target), theirs.lookup(&key, &target));
            // programs in C need more than hosts have to say
            let is_added = [keys::SERVER_NSPACE.name(), keys::SERVER_RANK.name(), keys::MAX_PROCS.name(), keys::NODE_RANK.name()]
                .contains(&&*key);
            // nobody asks a node for what is of a process
            let is_odd = matches!(target, Target::Node(NodeRef::Of(_))) && Realm::default_for(&key) == Realm::Proc;
            // no dialect up to v41 carries maps: that of the job comes back from what its nodes say
            let is_map = [keys::NODE_MAP.name(), keys::PROC_MAP.name()].contains(&&*key) && target != Target::Job;
            if is_odd || is_map || is_added && asked.is_none() {
                continue;
            }
            prop_assert_eq!(found, asked, "{} of {:?}", key, target);
        }
        prop_assert_eq!(theirs.size(), ours.size());
        prop_assert_eq!(theirs.node_map(), ours.node_map());
        for node in 0..job.nodes {
            prop_assert_eq!(theirs.local_ranks(&Job::name(node)), ours.local_ranks(&Job::name(node)));
        }
    }
}

#[test]
fn get_40_all_apps_that_a_host_describes_are_written_out() {
    let spec = JobSpec::new("job".parse().unwrap()).node_map(["n0"]).unwrap().ranks_block(1, 2).unwrap();
    let spec = spec.app_ranks(0, "0".parse().unwrap()).app_ranks(1, "1".parse().unwrap());
    let spec = spec.app_info(1, &keys::APP_ARGV, "./second");
    let mut job = JobData::new(spec.nspace().clone());
    job.register(&spec.into_infos(), "n0").unwrap();
    let theirs = sent(&job, Encoding::plain(Dialect::V41));
    assert_eq!(theirs.lookup(keys::APP_ARGV.name(), &Target::App(1)), Some("./second".into()));
}

#[test]
fn reg_20_keys_that_a_release_of_the_c_library_refuses_are_left_out() {
    let spec = JobSpec::new("job".parse().unwrap())
        .info(&keys::JOB_SIZE, 1_u32)
        .info(&keys::PROC_NUM_THREADS, 2_u16)
        .info(&keys::JOBID, "7");
    let mut job = JobData::new("job".parse().unwrap());
    job.register(&spec.into_infos(), "n0").unwrap();
    let entries = spell_out(&job, &ProcId::new("srv".parse().unwrap(), Rank::new(0).unwrap())).entries;
    let is_there =
        |key: &str| entries.iter().any(|entry| matches!(entry, Entry::Pair(pair) if pair.key == *key));
    assert!(is_there(keys::JOBID.name()));
    assert!(!is_there(keys::PROC_NUM_THREADS.name()));
}
