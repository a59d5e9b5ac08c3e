//! Whom a get of job data is about.

use super::*;

const OWN: Requester<'static> = Requester::new(Some(Rank::from_raw(3)), "n0");
const OTHER: Requester<'static> = Requester::new(None, "n0");
const ALL: Rank = Rank::WILDCARD;

fn plain<T>(key: &Key<T>, rank: Rank) -> Target<'static> {
    static NONE: Directives = Directives::new();
    target_of(key.name(), rank, &NONE, &OWN).unwrap()
}

#[test]
fn get_40_keys_have_a_realm_by_default() {
    assert_eq!(plain(&keys::UNIV_SIZE, ALL), Target::Session(None));
    assert_eq!(plain(&keys::JOB_SIZE, ALL), Target::Job);
    assert_eq!(plain(&keys::JOB_SIZE, rank(1)), Target::Job);
    assert_eq!(plain(&keys::APP_SIZE, rank(1)), Target::AppOf(rank(1)));
    assert_eq!(plain(&keys::LOCAL_RANK, rank(1)), of(1));
    assert_eq!(plain(&Key::<u32>::new("own", crate::DataType::UINT32), rank(1)), of(1));
    assert_eq!(plain(&keys::LOCAL_RANK, ALL), Target::Job);
    assert_eq!(plain(&keys::NODE_SIZE, ALL), on("n0"));
    assert_eq!(plain(&keys::HOSTNAME, ALL), on("n0"));
    assert_eq!(plain(&keys::HOSTNAME, rank(1)), Target::Node(NodeRef::Of(rank(1))));
}

#[test]
fn get_40_job_values_of_a_node_are_those_of_the_callers_node() {
    let keys = [
        keys::LOCAL_PEERS.name(),
        keys::LOCAL_CPUSETS.name(),
        keys::LOCAL_SIZE.name(),
        keys::LOCALLDR.name(),
    ];
    let none = Directives::new();
    for key in keys.into_iter().chain([keys::LOCAL_PROCS.name()]) {
        assert_eq!(target_of(key, ALL, &none, &OWN), Ok(on("n0")), "{key}");
        let of_rank = target_of(key, rank(9), &none, &OWN);
        assert_eq!(of_rank, Ok(Target::Node(NodeRef::Of(rank(9)))), "{key}");
    }
}

#[test]
fn get_41a_get_41b_get_41c_session_info_ignores_the_process() {
    let own = Directives::new().with(&keys::SESSION_INFO, true);
    let other = own.clone().with(&keys::SESSION_ID, 7u32);
    for rank in [ALL, rank(2)] {
        let question = |directives| target_of(keys::MAX_PROCS.name(), rank, directives, &OWN);
        assert_eq!(question(&own), Ok(Target::Session(None)));
        assert_eq!(question(&other), Ok(Target::Session(Some(7))));
    }
}

#[test]
fn get_42_job_info_takes_the_job() {
    let directives = Directives::new().with(&keys::JOB_INFO, true);
    assert_eq!(target_of(keys::NODE_SIZE.name(), rank(2), &directives, &OWN), Ok(Target::Job));
}

#[test]
fn get_43_app_info_picks_an_app() {
    let directives = Directives::new().with(&keys::APP_INFO, true);
    let question = |rank, requester| target_of(keys::MAX_PROCS.name(), rank, &directives, requester);
    assert_eq!(question(rank(2), &OWN), Ok(Target::AppOf(rank(2))));
    assert_eq!(question(ALL, &OWN), Ok(Target::AppOf(rank(3))));
    assert_eq!(question(ALL, &OTHER), Ok(Target::App(0)));
    let numbered = directives.clone().with(&keys::APPNUM, 5u32);
    assert_eq!(target_of(keys::MAX_PROCS.name(), rank(2), &numbered, &OWN), Ok(Target::App(5)));
}

#[test]
fn get_44_node_info_picks_a_node() {
    let local = Directives::new().with(&keys::NODE_INFO, true);
    let question = |directives| target_of(keys::MAX_PROCS.name(), rank(2), directives, &OTHER);
    assert_eq!(question(&local), Ok(on("n0")));
    let named = local.clone().with(&keys::HOSTNAME, "n5");
    assert_eq!(question(&named), Ok(on("n5")));
    let numbered = local.clone().with(&keys::NODEID, 5u32);
    assert_eq!(question(&numbered), Ok(Target::Node(NodeRef::Id(5))));
}

#[test]
fn gen_07b_a_target_needs_clear_directives() {
    let two = Directives::new().with(&keys::NODE_INFO, true).with(&keys::APP_INFO, true);
    let question = |directives| target_of(keys::MAX_PROCS.name(), ALL, directives, &OWN);
    assert!(matches!(question(&two), Err(DirectiveError::Contradiction { .. })));
    let off = Directives::new().with(&keys::NODE_INFO, false).with(&keys::APP_INFO, true);
    assert_eq!(question(&off), Ok(Target::AppOf(rank(3))));
    let mut wrong = Directives::new().with(&keys::NODE_INFO, true);
    wrong.push(Info::dynamic(keys::HOSTNAME.key_name(), 5));
    assert!(matches!(question(&wrong), Err(DirectiveError::Value { .. })));
}
