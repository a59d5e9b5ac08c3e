//! What processes use, as a server of one of their nodes tells: on all nodes.

use std::time::Duration;

use pmix_client::types::Query;
use pmix_client::types::usage::{ProcUsage, USAGE};
use pmix_client::{Client, Error, Status, keys};
use pmix_test_wait::until_async;
use pmix_tests::{TestCluster, on_both_runtimes, within};

async fn usage(by: &Client, query: Query) -> Result<Vec<ProcUsage>, Error> {
    let results = within(by.query([query])).await?;
    Ok(ProcUsage::read_all(results.get_value(USAGE).unwrap()))
}

/// That of the ranks of the job, as soon as both nodes have answered in time.
async fn usage_of_four(by: &Client) -> Vec<ProcUsage> {
    until_async("all ranks are in the answer", async || {
        let all = usage(by, of("job")).await.unwrap();
        let is_whole = all.iter().map(|one| one.proc.rank.to_raw()).eq(0..4);
        if is_whole { Ok(all) } else { Err(all) }
    })
    .await
}

fn of(name: &str) -> Query {
    Query::new(&USAGE).qualifier(&keys::NSPACE.text(), name)
}

#[test]
fn processes_of_all_nodes_tell_what_they_use_and_how_long_they_have_waited() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(2, 2).await;
        let clients = cluster.clients().await;
        let waiting: Vec<_> = clients[..3]
            .iter()
            .cloned()
            .map(|client| tokio::spawn(async move { client.fence_all().await.map(drop) }))
            .collect();
        cluster.node(0).until_waiting(3).await;
        cluster.node(1).until_waiting(1).await;
        let all = usage_of_four(&clients[3]).await;
        // they are tasks of this process
        assert!(all.iter().all(|one| one.rss > Some(1_000_000) && one.cpu_time.is_some()));
        let entered: Vec<_> = all.iter().map(|one| one.collectives).collect();
        assert_eq!(entered, [Some(1), Some(1), Some(1), Some(0)]);
        assert!(all[..3].iter().all(|one| one.waited > Some(Duration::ZERO)));
        within(clients[3].fence_all()).await.unwrap();
        for one in waiting {
            within(one).await.unwrap().unwrap();
        }
        let after = usage_of_four(&clients[0]).await;
        assert!(after.iter().all(|one| one.collectives == Some(1)));
        assert!(after[2].waited > after[3].waited, "{after:?}");
        let local = usage(&clients[2], of("job").qualifier(&keys::QUERY_LOCAL_ONLY, true)).await.unwrap();
        assert_eq!(local.iter().map(|one| one.proc.rank.to_raw()).collect::<Vec<_>>(), [2, 3]);
        for (query, status) in
            [(Query::new(&USAGE), Status::ERR_BAD_PARAM), (of("strange"), Status::ERR_INVALID_NAMESPACE)]
        {
            assert_eq!(usage(&clients[0], query).await.unwrap_err().status(), status);
        }
    });
}
