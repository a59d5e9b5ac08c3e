//! What publish, lookup and unpublish send, and what is made of the answers.

use pmix_client::types::message::{Failure, LookupReply, Publish, Reply, Request, Unpublish};
use pmix_client::types::{
    DataArray, DataRange, Directives, Info, KeyName, Pdata, Persistence, Status, Value, keys,
};
use pmix_client::{Client, Error};
use pmix_types::{Gid, Uid};

use crate::common::{FakeServer, HOUR, me, proc};

fn key(name: &str) -> KeyName {
    name.parse().unwrap()
}

#[tokio::test]
async fn pub_02_data_and_directives_go_to_the_server_apart() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let publish = client.publish().data("k", 1u32).data(key("l"), "text").range(DataRange::GLOBAL);
    let publish = publish.persistence(Persistence::PROC).access([Uid::new(7)], [Gid::new(8)]).timeout(HOUR);
    let (published, ()) = tokio::join!(publish, async {
        let (id, request) = conversation.request().await;
        let mut sent = Publish::new(vec![Info::dynamic(key("k"), 1u32), Info::dynamic(key("l"), "text")]);
        let permissions = vec![
            Info::new(&keys::ACCESS_USERIDS, DataArray::Uint32(vec![7])),
            Info::new(&keys::ACCESS_GRPIDS, DataArray::Uint32(vec![8])),
        ];
        sent.directives = Directives::new()
            .with(&keys::RANGE, DataRange::GLOBAL)
            .with(&keys::PERSISTENCE, Persistence::PROC)
            .with(&keys::ACCESS_PERMISSIONS, DataArray::Info(permissions))
            .with(&keys::TIMEOUT, 3600);
        assert_eq!(request, Request::Publish(sent));
        conversation.fail(id, Failure::new(Status::ERR_DUPLICATE_KEY, "k is published already")).await;
    });
    let error = published.unwrap_err();
    assert_eq!(error.status(), Status::ERR_DUPLICATE_KEY);
    assert_eq!(error.to_string(), "publish failed: k is published already (ERR_DUPLICATE_KEY)");
}

#[tokio::test]
async fn pub_11_pub_12_partial_success_is_a_value_with_publishers_and_missing_keys() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let lookup = client.lookup(["a", "b", "c"]).custom_range([proc("far", 1)]).wait(2);
    let (found, ()) = tokio::join!(lookup, async {
        let (id, request) = conversation.request().await;
        let Request::Lookup(lookup) = request else { panic!("{request:?}") };
        assert_eq!(lookup.keys, [key("a"), key("b"), key("c")]);
        let directives = Directives::new()
            .with(&keys::RANGE, DataRange::CUSTOM)
            .with(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![proc("far", 1)]))
            .with(&keys::WAIT, 2);
        assert_eq!(lookup.directives, directives);
        let data = |name, value| Pdata::new(proc("far", 1), key(name), value);
        let found = vec![data("c", 5u32.into()), data("b", "text".into()), data("a", Value::Undef)];
        conversation.reply(id, Reply::Lookup(LookupReply::new(Status::ERR_PARTIAL_SUCCESS, found))).await;
    });
    let found = found.unwrap();
    assert_eq!(found.status(), Status::ERR_PARTIAL_SUCCESS);
    assert_eq!(found.missing(), [key("a")]);
    assert_eq!((found.get::<u32>("a").unwrap(), found.publisher("a")), (None, None));
    assert_eq!(found.get("c").unwrap(), Some(5u32));
    assert_eq!(found.publisher("c"), Some(&proc("far", 1)));
    assert_eq!(found.get_value("b"), Some(&"text".into()));
    assert_eq!(found.found().len(), 2);
    let mistyped = found.get::<u32>("b").unwrap_err();
    assert!(matches!(&mistyped, Error::Value(_)), "{mistyped}");
    assert!(mistyped.to_string().contains(r#""b""#), "{mistyped}");
    assert_eq!(found.get::<u32>("").unwrap_err().status(), Status::ERR_BAD_PARAM);
}

#[tokio::test]
async fn pub_15_unpublish_names_keys_or_means_all() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let some = client.unpublish(["a", "b"]).range(DataRange::GLOBAL);
    let (some, all, ()) = tokio::join!(some, client.unpublish_all(), async {
        let (id, request) = conversation.request().await;
        let mut sent = Unpublish::new(vec![key("a"), key("b")]);
        sent.directives = Directives::new().with(&keys::RANGE, DataRange::GLOBAL);
        assert_eq!(request, Request::Unpublish(sent));
        conversation.reply(id, Reply::Done).await;
        let (id, request) = conversation.request().await;
        assert_eq!(request, Request::Unpublish(Unpublish::new(Vec::new())));
        conversation.reply(id, Reply::Done).await;
    });
    some.and(all).unwrap();
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_without_asking_the_server() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let none: [&str; 0] = [];
    let refused = [
        client.publish().await.unwrap_err(),
        client.publish().data("", 1).data("k", 1).await.unwrap_err(),
        client.lookup(none).await.unwrap_err(),
        client.lookup(["k", ""]).await.unwrap_err(),
        client.unpublish(none).await.unwrap_err(),
        client.unpublish([""]).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{error}");
    }
    drop(client);
    conversation.end().await;
}

#[tokio::test]
async fn replies_of_another_kind_and_calls_after_finalize_are_errors() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let (found, ()) = tokio::join!(client.lookup(["k"]), async {
        let (id, _) = conversation.request().await;
        conversation.reply(id, Reply::Done).await;
    });
    assert!(matches!(found.unwrap_err(), Error::Protocol(_)));
    let clone = client.clone();
    let (finalized, ()) = tokio::join!(client.finalize(), async {
        let (id, _) = conversation.request().await;
        conversation.reply(id, Reply::Done).await;
    });
    finalized.unwrap();
    let refused = [
        clone.publish().data("k", 1).await.unwrap_err(),
        clone.lookup(["k"]).await.unwrap_err(),
        clone.unpublish(["k"]).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.status(), Status::ERR_INIT, "{error}");
    }
}

#[tokio::test]
async fn a_process_alone_has_nobody_to_publish_to() {
    let client = Client::singleton().await.unwrap();
    assert_ne!(client.proc_id(), &me());
    let refused = [
        client.publish().data("k", 1).await.unwrap_err(),
        client.lookup(["k"]).wait_all().await.unwrap_err(),
        client.unpublish_all().await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.status(), Status::ERR_UNREACH);
        assert!(error.to_string().contains("no server"), "{error}");
    }
}
