//! Process sets: the host defines and deletes them, processes hear of it and find them.

use pmix_client::types::job::JobSpec;
use pmix_client::types::{DataArray, Event, Query, Status};
use pmix_client::{Client, EventStream, ProcId, keys};
use pmix_tests::{TestNode, on_both_runtimes, within};

const CHANGES: [Status; 2] = [Status::PROCESS_SET_DEFINE, Status::PROCESS_SET_DELETE];

async fn heard(events: &mut EventStream) -> Event {
    within(events.recv()).await.unwrap().unwrap()
}

async fn names_of(client: &Client, proc: &ProcId) -> Result<Vec<String>, Status> {
    match within(client.get(proc, keys::PSET_NAMES)).await {
        Ok(DataArray::String(names)) => Ok(names),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.status()),
    }
}

#[test]
fn pst_01_pst_02_local_processes_hear_of_sets_and_sets_do_not_change() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let other = JobSpec::new("other".parse().unwrap()).node_map(["n0"]).unwrap().proc_map("0").unwrap();
        node.add_job(other, [0]).await;
        let clients = [
            node.client(0).await,
            node.client(1).await,
            node.connect(&ProcId::new("other".parse().unwrap(), node.proc(0).rank)).await.unwrap(),
        ];
        let mut streams = Vec::new();
        for client in &clients {
            streams.push(within(client.events(CHANGES)).await.unwrap());
        }
        let members = vec![node.proc(1), clients[2].proc_id().clone()];
        node.handle().define_process_set("io", members.clone()).await.unwrap();
        for events in &mut streams {
            let event = heard(events).await;
            assert_eq!(event.code, Status::PROCESS_SET_DEFINE);
            assert_eq!(event.info.get(&keys::PSET_NAME).unwrap().as_deref(), Some("io"));
            assert_eq!(event.info.get(&keys::PSET_MEMBERS).unwrap(), Some(DataArray::Proc(members.clone())));
        }
        // once more is no news, other members are refused, and so is what is no set
        let handle = node.handle();
        handle.define_process_set("io", members.clone()).await.unwrap();
        let refused = [
            handle.define_process_set("io", [node.proc(0)]).await,
            handle.define_process_set("", members.clone()).await,
            handle.define_process_set("a,b", members).await,
            handle.define_process_set("nobody", []).await,
            handle.delete_process_set("unknown").await,
        ];
        let statuses = refused.map(|refused| refused.unwrap_err().status);
        let bad = Status::ERR_BAD_PARAM;
        assert_eq!(statuses, [Status::ERR_EXISTS, bad, bad, bad, Status::ERR_NOT_FOUND]);

        handle.delete_process_set("io").await.unwrap();
        for events in &mut streams {
            let event = heard(events).await;
            assert_eq!(event.code, Status::PROCESS_SET_DELETE, "nothing else was told");
            assert_eq!(event.info.get(&keys::PSET_NAME).unwrap().as_deref(), Some("io"));
        }
        // its members live on
        assert!(clients.iter().all(Client::is_connected));
    });
}

#[test]
fn pst_01_pst_03_sets_are_found_by_get_and_by_query() {
    on_both_runtimes(async || {
        let node = TestNode::start(3).await;
        let client = node.client(0).await;
        assert_eq!(names_of(&client, &node.proc(0)).await, Err(Status::ERR_NOT_FOUND));

        // a process may be in many, and a set may be all of a job
        node.handle().define_process_set("all", [node.job()]).await.unwrap();
        node.handle().define_process_set("even", [node.proc(0), node.proc(2)]).await.unwrap();
        assert_eq!(names_of(&client, &node.proc(0)).await.unwrap(), ["all", "even"]);
        assert_eq!(names_of(&client, &node.proc(1)).await.unwrap(), ["all"]);

        let ask = [
            Query::new(&keys::QUERY_NUM_PSETS).key(&keys::QUERY_PSET_NAMES),
            Query::new(&keys::QUERY_PSET_MEMBERSHIP).qualifier(&keys::PSET_NAME, "even"),
        ];
        let found = within(client.query(ask)).await.unwrap();
        assert_eq!(found.get(keys::QUERY_NUM_PSETS).unwrap(), Some(2));
        assert_eq!(found.get(keys::QUERY_PSET_NAMES).unwrap().as_deref(), Some("all,even"));
        let members = DataArray::Proc(vec![node.proc(0), node.proc(2)]);
        assert_eq!(found.get(keys::QUERY_PSET_MEMBERSHIP).unwrap(), Some(members));

        let members_of = |name: &str| {
            let ask = Query::new(&keys::QUERY_PSET_MEMBERSHIP);
            within(client.query([if name.is_empty() { ask } else { ask.qualifier(&keys::PSET_NAME, name) }]))
        };
        assert_eq!(members_of("odd").await.unwrap_err().status(), Status::ERR_NOT_FOUND);
        assert_eq!(members_of("").await.unwrap_err().status(), Status::ERR_BAD_PARAM);

        node.handle().delete_process_set("all").await.unwrap();
        assert_eq!(names_of(&client, &node.proc(0)).await.unwrap(), ["even"]);
        assert_eq!(names_of(&client, &node.proc(1)).await, Err(Status::ERR_NOT_FOUND));
    });
}

#[test]
fn pst_03_sets_that_came_with_the_job_stay_beside_those_defined_later() {
    on_both_runtimes(async || {
        let given = DataArray::String(vec!["launched".into()]);
        let spec = JobSpec::new("job".parse().unwrap()).node_map(["n0"]).unwrap().proc_map("0-1").unwrap();
        let spec = spec.proc_info(pmix_client::Rank::from_raw(0), &keys::PSET_NAMES, given);
        let node = TestNode::builder(2).job(spec, 0..2).start().await;
        let client = node.client(1).await;
        node.handle().define_process_set("later", [node.job()]).await.unwrap();
        // a name that the host has given twice is one
        node.handle().define_process_set("launched", [node.proc(0)]).await.unwrap();
        assert_eq!(names_of(&client, &node.proc(0)).await.unwrap(), ["launched", "later"]);
        assert_eq!(names_of(&client, &node.proc(1)).await.unwrap(), ["later"]);
    });
}
