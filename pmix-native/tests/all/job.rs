//! Job data as servers of others write it, read back.

use crate::common::{Direction, vectors};
use pmix_native::msg::{Body, Entry, NspaceData, RankData, Reply as Answer};
use pmix_types::{Info, KeyVal, Rank, Value, keys};

#[test]
fn ini_03_job_data_of_real_servers_answers_what_processes_ask() {
    let mut seen = 0;
    for vector in vectors().into_iter().filter(|one| one.direction == Direction::Reply && one.name == "REQ") {
        let answer = Answer::decode(&vector.context, vector.command(), &vector.bytes).unwrap();
        let Body::Job(data) = answer.body else { panic!("{vector:?}") };
        // a tool has none
        if data.entries.len() < 3 {
            continue;
        }
        let (nspace, ranks) =
            (data.nspace.clone(), data.entries.iter().filter(|one| matches!(one, Entry::Rank(_))).count());
        let hostname = data.entries.iter().find_map(|entry| match entry {
            Entry::Rank(RankData { pairs, .. }) => {
                pairs.iter().find(|pair| pair.key == *keys::HOSTNAME.name()).cloned()
            }
            _ => None,
        });
        let hostname =
            hostname.map_or_else(|| "vm".to_owned(), |pair| pair.value.as_str().unwrap().to_owned());
        let job = pmix_native::client::job_data(None, data, &hostname);
        use pmix_types::job::{NodeRef, Target};
        let size: u32 = job.lookup(keys::JOB_SIZE.name(), &Target::Job).unwrap().get().unwrap();
        assert_eq!((job.nspace(), size as usize), (&nspace, ranks), "{}", vector.source);
        assert_eq!(job.size(), Some(size));
        let mine = Target::Node(NodeRef::Name(&hostname));
        let peers = job.lookup(keys::LOCAL_PEERS.name(), &mine).unwrap_or_else(|| panic!("{job:?}"));
        assert_eq!(peers.as_str().unwrap().split(',').count(), ranks, "all of these jobs are on one node");
        for rank in Rank::first(size) {
            let of_rank = |key: &str| job.lookup(key, &Target::Proc(rank));
            assert_eq!(
                of_rank(keys::LOCAL_RANK.name()),
                Some(Value::Uint16(rank.to_raw().try_into().unwrap()))
            );
            assert_eq!(of_rank(keys::HOSTNAME.name()), Some(hostname.as_str().into()), "{}", vector.source);
        }
        assert_eq!(job.node_map().map(|map| map.to_raw()), Some(hostname));
        assert!(job.placement().is_some(), "{}", vector.source);
        seen += 1;
    }
    assert!(seen >= 15, "{seen}");
}

#[test]
fn job_data_that_makes_no_sense_is_left_out_and_the_rest_is_kept() {
    let mut data = NspaceData::new("job".parse().unwrap());
    let mut pair = |key, value| data.entries.push(Entry::from(KeyVal { key, value }));
    pair(keys::JOB_SIZE.key_name(), 2u32.into());
    pair(keys::NUM_NODES.key_name(), "many".into());
    let app = vec![Info::new(&keys::APPNUM, 3u32), Info::dynamic(keys::APPLDR.key_name(), 1i32)];
    pair(keys::APP_INFO_ARRAY.key_name(), app.into());
    // without the id of the session, and without the name of the node
    pair(keys::SESSION_INFO_ARRAY.key_name(), vec![Info::new(&keys::UNIV_SIZE, 8u32)].into());
    pair(keys::NODE_INFO_ARRAY.key_name(), vec![Info::new(&keys::LOCAL_SIZE, 2u32)].into());
    let node = vec![Info::new(&keys::HOSTNAME, "n1"), Info::dynamic(keys::LOCAL_PEERS.key_name(), "1,x")];
    pair(keys::NODE_INFO_ARRAY.key_name(), node.into());
    pair("pmix.mblob".parse().unwrap(), Value::ByteObject(vec![1, 2, 3].into()));
    pair("pmix.jobid".parse().unwrap(), Value::CompressedString("4711".into()));
    let job = pmix_native::client::job_data(None, data, "n0");
    use pmix_types::job::{NodeRef, Target};
    assert_eq!(job.size(), Some(2));
    assert_eq!(job.lookup(keys::NUM_NODES.name(), &Target::Job), None);
    assert_eq!(job.lookup(keys::UNIV_SIZE.name(), &Target::Session(None)), Some(8u32.into()));
    assert_eq!(job.lookup(keys::LOCAL_SIZE.name(), &Target::Node(NodeRef::Name("n0"))), Some(2u32.into()));
    let leader = job.lookup(keys::APPLDR.name(), &Target::App(3));
    assert_eq!(leader, Some(Value::Rank(Rank::from_raw(1))), "Slurm gives it as a number");
    assert_eq!(job.lookup(keys::JOBID.name(), &Target::Job), Some("4711".into()), "expanded");
}
