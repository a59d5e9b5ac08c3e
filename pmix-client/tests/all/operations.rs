//! What the operations send, and what they make of the answers.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use pmix_client::types::message::{
    Commit, Failure, Fence, Fenced, Get, GetReply, IofDeregister, IofPull, IofPush, NotifyEvent, Push,
    QueryInfo, QueryReply, Reply, Request, ResolveNodes, ResolvePeers,
};
use pmix_client::types::{
    AllocDirective, App, DataArray, DataRange, Directives, Event, Info, IofChannels, Query, Status, keys,
};
use pmix_client::{Client, Error, EventStream, OutputError, ProcId, Procs, Scope, Value};
use pmix_test_wait::{StillClock, within};

use crate::common::{FakeServer, HOUR, MOMENT, entry, job, me, modex, proc};

fn is_send_sync<T: Send + Sync>() {}

fn is_send<T: Send>(value: T) -> T {
    value
}

#[tokio::test]
async fn put_02_put_03_puts_that_cannot_be_are_refused() {
    let mut server = FakeServer::start();
    let (client, _conversation) = server.connected().await;
    for reserved in ["pmix.mine", "pmixer"] {
        let refused = client.put(Scope::GLOBAL, reserved, 1).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_BAD_PARAM);
        assert!(refused.to_string().contains(reserved), "{refused}");
    }
    assert_eq!(client.put(Scope::GLOBAL, "", 1).unwrap_err().status(), Status::ERR_BAD_PARAM);
    for scope in [Scope::UNDEF, Scope::DEL_LOCAL, Scope::DEL_GLOBAL, Scope::from_raw(77)] {
        assert!(client.put(scope, "k", 1).unwrap_err().is_not_supported());
    }
    for scope in [Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL, Scope::INTERNAL] {
        client.put(scope, "k", 1).unwrap();
    }
    let no_process = ProcId::none();
    assert_eq!(client.store_internal(&no_process, "k", 1).unwrap_err().status(), Status::ERR_BAD_PARAM);
}

#[tokio::test]
async fn a_separator_that_an_envar_cannot_hold_is_refused() {
    let mut server = FakeServer::start();
    let (client, _conversation) = server.connected().await;
    let spawn = || client.spawn([App::new("solver", 1)]);
    let asked = ['\u{e9}', '\u{ff1b}'].map(|separator| {
        [
            spawn().prepend_envar("PATH", "/opt/bin", separator),
            spawn().append_envar("PATH", "/opt/bin", separator),
            spawn().first_envar("PATH", "/opt/bin", separator),
        ]
    });
    for asked in asked.into_iter().flatten() {
        let refused = within(asked.into_future()).await.unwrap_err();
        assert_eq!(refused.status(), Status::ERR_BAD_PARAM);
        assert!(refused.to_string().contains("for PATH is not an ASCII character"), "{refused}");
    }
}

#[tokio::test]
async fn put_06_put_07_a_commit_sends_what_changed_and_nothing_if_nothing_did() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    client.commit().await.unwrap();
    client.put(Scope::INTERNAL, "secret", 1).unwrap();
    client.store_internal(proc("far", 1), "k", 1).unwrap();
    client.commit().await.unwrap();

    client.put(Scope::GLOBAL, "k", 1).unwrap();
    let refuse = Failure::new(Status::ERR_NOMEM, "full");
    let (refused, ()) = tokio::join!(client.commit(), async {
        let (id, request) = conversation.request().await;
        assert_eq!(request, Request::Commit(Commit::new(vec![entry("k", 1)])));
        conversation.fail(id, refuse).await;
    });
    assert_eq!(refused.unwrap_err().status(), Status::ERR_NOMEM);

    // nothing is lost by a failure
    client.put(Scope::GLOBAL, "l", 2).unwrap();
    let (committed, ()) = tokio::join!(client.commit(), async {
        let (id, request) = conversation.request().await;
        assert_eq!(request, Request::Commit(Commit::new(vec![entry("k", 1), entry("l", 2)])));
        conversation.reply(id, Reply::Done).await;
    });
    committed.unwrap();
    client.commit().await.unwrap();
    drop(client);
    conversation.end().await;
}

#[tokio::test]
async fn get_20_get_33_answers_are_kept_so_that_later_gets_ask_nobody() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let far = proc("far", 2);
    let asked = client.get::<i32>(&far, "k").immediate().timeout(HOUR - Duration::from_millis(500));
    let (value, ()) = tokio::join!(within(asked.into_future()), async {
        let (id, request) = conversation.request().await;
        let mut get = Get::new(far.clone(), Some("k".parse().unwrap()));
        get.directives = Directives::new().with(&keys::IMMEDIATE, true).with(&keys::TIMEOUT, 3600);
        assert_eq!(request, Request::Get(get));
        let mut reply = GetReply::value(7.into());
        reply.modex = modex(far.clone(), vec![entry("k", 7), entry("l", 8)]);
        reply.job = Some(job("far"));
        conversation.reply(id, Reply::Get(reply)).await;
    });
    assert_eq!(value.unwrap(), 7);
    assert_eq!(client.get::<i32>(&far, "k").await.unwrap(), 7);
    assert_eq!(client.get::<i32>(&far, "l").await.unwrap(), 8);
    assert_eq!(client.job(&far.nspace).get(keys::JOB_SIZE).await.unwrap(), 4);
    drop(client);
    conversation.end().await;
}

#[tokio::test]
async fn gen_12_a_limit_below_a_second_is_kept_by_a_get_and_refused_by_what_concerns_others() {
    let clock = StillClock::start();
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let limit = Duration::from_millis(20);
    let late = tokio::spawn(client.get::<i32>(&proc("far", 2), "k").timeout(limit).into_future());
    let (_, request) = conversation.request().await;
    let Request::Get(get) = request else { panic!("{request:?}") };
    assert_eq!(get.directives, Directives::new().with(&keys::TIMEOUT, 1));
    clock.pass(limit - MOMENT).await;
    assert!(!late.is_finished());
    clock.pass(MOMENT).await;
    let late = within(late).await.unwrap().unwrap_err();
    assert!(late.is_timeout() && late.to_string().contains("20ms"), "{late}");

    for refused in [
        client.fence_all().timeout(limit).await,
        client.publish().data("k", 1).timeout(limit).await,
        client.spawn([]).job_timeout(limit).await.map(drop),
        client.monitor_heartbeat(Duration::from_millis(1200)).await.map(drop),
        client.allocate(AllocDirective::NEW).time(Duration::from_millis(1500)).await.map(drop),
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.status(), Status::ERR_BAD_PARAM, "{refused}");
        assert!(refused.to_string().contains("not a whole number of seconds"), "{refused}");
    }
    // nothing was sent but the get
    drop(client);
    conversation.end().await;
}

#[tokio::test]
async fn builders_own_what_they_need_so_that_tasks_can_carry_them() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let fence = tokio::spawn(client.fence_all().into_future());
    let get = tokio::spawn(client.job(&me().nspace).get(keys::JOB_SIZE).into_future());
    drop(client);
    let (id, request) = conversation.request().await;
    assert!(matches!(request, Request::Fence(_)), "{request:?}");
    conversation.reply(id, Reply::Fence(Default::default())).await;
    within(fence).await.unwrap().unwrap();
    assert_eq!(within(get).await.unwrap().unwrap(), 4);
    // the last builder was the last to hold the connection
    conversation.end().await;
}

#[tokio::test]
async fn processes_are_named_alike_whatever_holds_them() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let (a, b) = (me(), proc("far", 1));
    let both = vec![a.clone(), b.clone()];
    let fences = [
        client.fence(&both),
        client.fence(both.as_slice()),
        client.fence([a.clone(), b.clone()]),
        client.fence([&a, &b]),
        client.fence(both.iter()),
        client.fence(both.clone()),
        client.fence(Procs::from(&both)),
    ];
    for fence in fences {
        let (done, ()) = tokio::join!(fence.into_future(), async {
            let (id, request) = conversation.request().await;
            assert_eq!(request, Request::Fence(Fence::new(Some(vec![me(), proc("far", 1)]))));
            conversation.reply(id, Reply::Fence(Default::default())).await;
        });
        done.unwrap();
    }
    for abort in [
        client.abort(1, "").procs(&b),
        client.abort(1, "").procs(b.clone()),
        client.abort(1, "").procs(&both[1..]),
    ] {
        let (done, ()) = tokio::join!(abort.into_future(), async {
            let (id, request) = conversation.request().await;
            let Request::Abort(abort) = request else { panic!("{request:?}") };
            assert_eq!(abort.procs, [proc("far", 1)]);
            conversation.reply(id, Reply::Done).await;
        });
        done.unwrap();
    }
    // others must be told whose namespace is meant
    let (output, ()) = tokio::join!(client.pull_output(Procs::own_nspace()).into_future(), async {
        let (id, request) = conversation.request().await;
        let Request::IofPull(pull) = request else { panic!("{request:?}") };
        assert_eq!(pull.procs, [ProcId::wildcard(me().nspace)]);
        conversation.reply(id, Reply::Registered(1)).await;
    });
    drop(output.unwrap());
}

#[tokio::test]
async fn a_value_of_another_type_is_an_error_that_names_the_key() {
    let mut server = FakeServer::start();
    let (client, _conversation) = server.connected().await;
    client.put(Scope::GLOBAL, "k", "text").unwrap();
    let error = client.get::<u32>(None, "k").await.unwrap_err();
    assert!(matches!(error, Error::Value(_)));
    assert_eq!(error.status(), Status::ERR_TYPE_MISMATCH);
    assert!(error.to_string().starts_with(r#"value of "k""#), "{error}");
    let value: Value = client.get(None, "k").await.unwrap();
    assert_eq!(value, "text".into());
}

#[tokio::test]
async fn get_failures_say_whose_key_and_why() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let (error, ()) = tokio::join!(client.get::<u32>(proc("job", 3), "k"), async {
        let (id, _) = conversation.request().await;
        let failure =
            Failure::new(Status::ERR_TIMEOUT, "rank 3 has not committed it").with_procs(vec![proc("job", 3)]);
        conversation.fail(id, failure).await;
    });
    let error = error.unwrap_err();
    assert!(error.is_timeout());
    assert_eq!(error.procs(), [proc("job", 3)]);
    assert_eq!(
        error.to_string(),
        r#"get of "k" for job:3 failed: rank 3 has not committed it (ERR_TIMEOUT)"#
    );
    // found here, so without the server
    let optional = client.get::<u32>(proc("job", 3), "k").optional().await.unwrap_err();
    assert!(optional.is_not_found());
}

#[tokio::test]
async fn get_08_refresh_updates_the_cache_and_survives_a_server_that_has_nothing() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let peer = proc("job", 0);
    for round in 1..=2 {
        let (value, ()) = tokio::join!(client.get::<i32>(&peer, "k").refresh_cache(), async {
            let (id, request) = conversation.request().await;
            assert!(
                matches!(request, Request::Get(get) if get.directives.contains(&keys::GET_REFRESH_CACHE))
            );
            let mut reply = GetReply::default();
            reply.modex = modex(peer.clone(), vec![entry("k", round)]);
            conversation.reply(id, Reply::Get(reply)).await;
        });
        assert_eq!(value.unwrap(), round);
    }
    for (key, found) in [("k", true), ("absent", false)] {
        let (value, ()) = tokio::join!(client.get::<i32>(&peer, key).refresh_cache(), async {
            let (id, _) = conversation.request().await;
            conversation.fail(id, Failure::new(Status::ERR_NOT_FOUND, "nothing new")).await;
        });
        assert_eq!(value.map_err(|error| error.is_not_found()), if found { Ok(2) } else { Err(true) });
    }
}

#[tokio::test]
async fn fen_06_an_answer_that_is_read_after_a_fence_does_not_replace_what_that_has_brought() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let peer = proc("job", 0);
    let mut get = pin!(client.get::<i32>(&peer, "z").into_future());
    assert!(get.as_mut().now_or_never().is_none());
    let (asked, _) = conversation.request().await;
    let mut reply = GetReply::value(1.into());
    reply.modex = modex(peer.clone(), vec![entry("k", 1), entry("z", 1)]);
    conversation.reply(asked, Reply::Get(reply)).await;
    let (fenced, ()) = tokio::join!(within(client.fence_all().collect_data().into_future()), async {
        let (id, _) = conversation.request().await;
        let modex = modex(peer.clone(), vec![entry("k", 2)]);
        conversation.reply(id, Reply::Fence(Fenced::new(modex))).await;
    });
    fenced.unwrap();
    assert_eq!(within(get).await.unwrap(), 1);
    for (key, value) in [("k", 2), ("z", 1)] {
        assert_eq!(client.get::<i32>(&peer, key).optional().await.unwrap(), value, "{key}");
    }
}

#[tokio::test]
async fn get_08_a_refresh_gives_what_it_was_answered_although_a_fence_has_ended_meanwhile() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let peer = proc("job", 0);
    let mut refresh = pin!(client.get::<i32>(&peer, "k").refresh_cache().into_future());
    assert!(refresh.as_mut().now_or_never().is_none());
    let (asked, _) = conversation.request().await;
    let (fenced, ()) = tokio::join!(within(client.fence_all().collect_data().into_future()), async {
        let (id, _) = conversation.request().await;
        let collected = modex(peer.clone(), vec![entry("k", 1)]);
        conversation.reply(id, Reply::Fence(Fenced::new(collected))).await;
    });
    fenced.unwrap();
    let mut reply = GetReply::default();
    reply.modex = modex(peer.clone(), vec![entry("k", 2)]);
    conversation.reply(asked, Reply::Get(reply)).await;
    assert_eq!(within(refresh).await.unwrap(), 2);
}

#[tokio::test]
async fn all_keys_of_a_peer_come_from_the_server() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    for entries in [vec![], vec![entry("k", 1), entry("l", 2)]] {
        let (all, ()) = tokio::join!(client.get_all(proc("job", 0)), async {
            let (id, request) = conversation.request().await;
            assert_eq!(request, Request::Get(Get::new(proc("job", 0), None)));
            let mut reply = GetReply::default();
            reply.modex = modex(proc("job", 0), entries.clone());
            conversation.reply(id, Reply::Get(reply)).await;
        });
        let all: Vec<_> = all.unwrap().into_iter().map(|info| info.key).collect();
        assert_eq!(all, entries.into_iter().map(|entry| entry.key).collect::<Vec<_>>());
    }
    // named by what only the server knows
    let (all, ()) = tokio::join!(client.get_all(proc("group", 0)), async {
        let (id, _) = conversation.request().await;
        let mut reply = GetReply::default();
        reply.modex = modex(proc("job", 1), vec![entry("m", 3)]);
        conversation.reply(id, Reply::Get(reply)).await;
    });
    assert_eq!(all.unwrap().into_iter().map(|info| info.value).collect::<Vec<_>>(), [3.into()]);
    // the server knows it and has nothing of it
    let (all, ()) = tokio::join!(client.get_all(proc("job", 2)), async {
        let (id, _) = conversation.request().await;
        conversation.reply(id, Reply::Get(GetReply::default())).await;
    });
    assert_eq!(all.unwrap(), []);
}

#[tokio::test]
async fn fen_01_fen_06_a_fence_brings_the_data_it_collects() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let fence = client.fence_all().collect_data().timeout(HOUR);
    let (fenced, ()) = tokio::join!(within(fence.into_future()), async {
        let (id, request) = conversation.request().await;
        let Request::Fence(fence) = request else { panic!("{request:?}") };
        assert_eq!(fence.procs, None);
        assert_eq!(
            fence.directives,
            Directives::new().with(&keys::COLLECT_DATA, true).with(&keys::TIMEOUT, 3600)
        );
        conversation
            .reply(id, Reply::Fence(Fenced::new(modex(proc("job", 0), vec![entry("k", "here")]))))
            .await;
    });
    fenced.unwrap();
    let value: String = client.get(proc("job", 0), "k").await.unwrap();
    assert_eq!(value, "here");
    drop(client);
    conversation.end().await;
}

#[tokio::test]
async fn fen_05_an_empty_set_is_refused_and_the_reasons_of_a_failure_are_named() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let empty = client.fence(Vec::<ProcId>::new()).await.unwrap_err();
    assert_eq!(empty.status(), Status::ERR_BAD_PARAM);
    let set = Procs::from([me(), proc("job", 3)]);
    let (failed, ()) = tokio::join!(client.fence(set), async {
        let (id, request) = conversation.request().await;
        assert!(matches!(request, Request::Fence(fence) if fence.procs == Some(vec![me(), proc("job", 3)])));
        let failure =
            Failure::new(Status::ERR_PARTIAL_SUCCESS, "rank 3 has died").with_procs(vec![proc("job", 3)]);
        conversation.fail(id, failure).await;
    });
    assert_eq!(failed.unwrap_err().procs(), [proc("job", 3)]);
}

#[tokio::test]
async fn requests_under_way_at_once_get_their_own_answers_in_any_order() {
    const COUNT: u32 = 50;
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let gets: Vec<_> = (0..COUNT)
        .map(|rank| {
            let client = client.clone();
            tokio::spawn(async move { client.get::<u32>(proc("far", rank), "k").await })
        })
        .collect();
    let mut open = Vec::new();
    for _ in 0..COUNT {
        let (id, request) = conversation.request().await;
        let Request::Get(get) = request else { panic!("{request:?}") };
        open.push((id, get.proc.rank.to_raw()));
    }
    for (id, rank) in open.into_iter().rev() {
        conversation.reply(id, Reply::Get(GetReply::value(rank.into()))).await;
    }
    for (rank, get) in (0..).zip(gets) {
        assert_eq!(within(get).await.unwrap().unwrap(), rank);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multi_threaded_runtime_will_do() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let answering = tokio::spawn(async move {
        for _ in 0..400 {
            let (id, request) = conversation.request().await;
            let Request::Get(get) = request else { panic!("{request:?}") };
            conversation.reply(id, Reply::Get(GetReply::value(get.proc.rank.to_raw().into()))).await;
        }
    });
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let client = client.clone();
            tokio::spawn(async move {
                for get in 0..50 {
                    let rank = task * 100 + get;
                    assert_eq!(client.get::<u32>(proc("far", rank), "k").await.unwrap(), rank);
                }
            })
        })
        .collect();
    for task in tasks {
        within(task).await.unwrap();
    }
    within(answering).await.unwrap();
}

#[tokio::test]
async fn a_dropped_call_leaves_the_connection_in_order() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let given_up = async {
        tokio::select! {
            answer = client.get::<u32>(proc("far", 1), "k").into_future() => panic!("{answer:?}"),
            request = conversation.request() => request.0,
        }
    };
    let late = given_up.await;
    let (value, ()) = tokio::join!(client.get::<u32>(proc("far", 2), "k"), async {
        let (id, _) = conversation.request().await;
        conversation.reply(late, Reply::Get(GetReply::value(1u32.into()))).await;
        conversation.reply(id, Reply::Get(GetReply::value(2u32.into()))).await;
    });
    assert_eq!(value.unwrap(), 2);
}

#[tokio::test]
async fn large_values_travel_in_parts_both_ways() {
    let large = |byte: u8, mib: usize| Bytes::from(vec![byte; (mib << 20) + 17]);
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    client.put(Scope::GLOBAL, "big", large(1, 6)).unwrap();
    let (committed, ()) = tokio::join!(within(client.commit()), async {
        let (id, request) = conversation.request().await;
        assert_eq!(request, Request::Commit(Commit::new(vec![entry("big", large(1, 6))])));
        conversation.reply(id, Reply::Done).await;
    });
    committed.unwrap();
    let (value, ()) = tokio::join!(within(client.get::<Bytes>(proc("far", 0), "big").into_future()), async {
        let (id, _) = conversation.request().await;
        let mut reply = GetReply::default();
        reply.modex = modex(proc("far", 0), vec![entry("big", large(2, 9))]);
        conversation.reply(id, Reply::Get(reply)).await;
    });
    assert_eq!(value.unwrap(), large(2, 9));
}

#[tokio::test]
async fn a_reply_of_the_wrong_kind_fails_its_call_only() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let (wrong, ()) = tokio::join!(client.fence_all(), async {
        let (id, _) = conversation.request().await;
        conversation.reply(id, Reply::Registered(1)).await;
    });
    assert!(matches!(wrong, Err(Error::Protocol(_))), "{wrong:?}");
    assert!(client.is_connected());
}

#[tokio::test]
async fn abt_01_an_abort_names_status_message_and_processes() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let (aborted, ()) = tokio::join!(client.abort(3, "enough").procs([proc("job", 2)]), async {
        let (id, request) = conversation.request().await;
        let Request::Abort(abort) = request else { panic!("{request:?}") };
        assert_eq!((abort.status, abort.message.as_str(), abort.procs), (3, "enough", vec![proc("job", 2)]));
        conversation.fail(id, Status::ERR_NOT_SUPPORTED.into()).await;
    });
    assert!(aborted.unwrap_err().is_not_supported());
}

#[tokio::test]
async fn qry_03_a_query_that_is_answered_in_part_succeeds() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let asked = Query::new(&keys::QUERY_NAMESPACES).key(&keys::QUERY_QUEUE_LIST);
    let (results, ()) = tokio::join!(client.query([asked.clone()]), async {
        let (id, request) = conversation.request().await;
        assert_eq!(request, Request::QueryInfo(QueryInfo::new(vec![asked.clone()])));
        let found = vec![Info::new(&keys::QUERY_NAMESPACES, "job")];
        let found = Info::dynamic(keys::QUERY_RESULTS.key_name(), found);
        conversation.reply(id, Reply::Query(QueryReply::new(Status::ERR_PARTIAL_SUCCESS, vec![found]))).await;
    });
    let results = results.unwrap();
    assert_eq!(results.get(keys::QUERY_NAMESPACES).unwrap().unwrap(), "job");
    assert_eq!(results.missing(), [keys::QUERY_QUEUE_LIST.key_name()]);
    assert_eq!(client.query([]).await.unwrap_err().status(), Status::ERR_BAD_PARAM);
}

#[tokio::test]
async fn evt_11_evt_17_an_event_goes_to_the_server_unless_it_is_for_this_process_alone() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let mut events = conversation.events(&client, 1).await;
    let event = Event::new(Status::from_raw(5), me());
    let local = event.clone().with_range(DataRange::PROC_LOCAL);
    client.notify(local.clone()).await.unwrap();
    assert_eq!(within(events.recv()).await, Some(Ok(local)));
    let (notified, ()) = tokio::join!(client.notify(event.clone()).into_future(), async {
        let (id, request) = conversation.request().await;
        assert_eq!(request, Request::NotifyEvent(NotifyEvent::new(event.clone())));
        conversation.reply(id, Reply::Done).await;
    });
    notified.unwrap();
}

/// A source of input that fails.
struct Broken;

impl tokio::io::AsyncRead for Broken {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Err(std::io::Error::other("broken")))
    }
}

#[tokio::test]
async fn iof_10_input_that_cannot_be_read_is_ended_with_all_directives() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let sink = client.push_stdin([proc("job", 1)]).directive(keys::IOF_PUSH_STDIN, true);
    let mut end = IofPush::new(vec![proc("job", 1)], Bytes::new());
    end.directives = Directives::new().with(&keys::IOF_PUSH_STDIN, true).with(&keys::IOF_COMPLETE, true);
    let (copied, ()) = within(async {
        tokio::join!(sink.copy_from(Broken), async {
            let (id, request) = conversation.request().await;
            assert_eq!(request, Request::IofPush(end));
            conversation.reply(id, Reply::Done).await;
        })
    })
    .await;
    assert_eq!(copied.unwrap().unwrap_err().to_string(), "broken");
}

#[tokio::test]
async fn iof_05_iof_06_a_buffering_time_is_told_in_whole_seconds_and_where_output_is_missing() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let fraction = client.pull_output([proc("job", 1)]).buffer_time(Duration::from_millis(1500));
    assert_eq!(fraction.await.unwrap_err().status(), Status::ERR_BAD_PARAM);
    let pull = client.pull_output([proc("job", 1)]).buffer_time(Duration::from_secs(2));
    let (output, ()) = tokio::join!(pull.into_future(), async {
        let (id, request) = conversation.request().await;
        let Request::IofPull(pull) = request else { panic!("{request:?}") };
        assert_eq!(pull.directives, Directives::new().with(&keys::IOF_BUFFERING_TIME, 2u32));
        conversation.reply(id, Reply::Registered(7)).await;
    });
    let mut output = output.unwrap();
    conversation.push(Push::OutputLost { registration: 7, bytes: 5 }).await;
    let lost = within(output.recv()).await.unwrap().unwrap_err();
    assert_eq!(lost, OutputError::Lagged { bytes: 5 });
}

#[tokio::test]
async fn iof_07_a_stream_can_be_stopped_again_after_the_first_call_was_given_up() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let mut streams = Vec::new();
    for number in [7, 8] {
        let (output, ()) = tokio::join!(client.pull_output([proc("job", 1)]).into_future(), async {
            let (id, _) = conversation.request().await;
            conversation.reply(id, Reply::Registered(number)).await;
        });
        streams.push(output.unwrap());
    }
    let unknown = || Failure::new(Status::ERR_BAD_PARAM, "no output subscription");
    let [mut given_up, mut other] = <[_; 2]>::try_from(streams).unwrap();
    assert!(pin!(given_up.stop()).now_or_never().is_none());
    let (id, request) = conversation.request().await;
    assert_eq!(request, Request::IofDeregister(IofDeregister::new(7)));
    conversation.reply(id, Reply::Done).await;
    let (stopped, ()) = tokio::join!(within(given_up.stop()), async {
        let (id, request) = conversation.request().await;
        assert_eq!(request, Request::IofDeregister(IofDeregister::new(7)));
        conversation.fail(id, unknown()).await;
    });
    stopped.unwrap();
    assert_eq!(within(given_up.recv()).await, None);
    // to a first call the server should know it
    let (refused, ()) = tokio::join!(within(other.stop()), async {
        let (id, _) = conversation.request().await;
        conversation.fail(id, unknown()).await;
    });
    assert_eq!(refused.unwrap_err().status(), Status::ERR_BAD_PARAM);
}

#[tokio::test]
async fn grp_02_the_last_members_that_a_leader_adds_count() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let add = client.group_bootstrap("g", 2).add_members([proc("a", 0)]).add_members([proc("b", 0)]);
    let (refused, ()) = tokio::join!(within(add.into_future()), async {
        let (id, request) = conversation.request().await;
        let Request::GroupConstruct(construct) = request else { panic!("{request:?}") };
        let added = construct.directives.get(&keys::GROUP_ADD_MEMBERS).unwrap();
        assert_eq!(added, Some(DataArray::Proc(vec![proc("b", 0)])));
        conversation.fail(id, Status::ERR_NOT_SUPPORTED.into()).await;
    });
    assert!(refused.unwrap_err().is_not_supported());
}

#[tokio::test]
async fn evt_15_a_raw_pull_that_is_given_up_ends_no_registration_of_events_with_its_number() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let mut events = conversation.events(&client, 1).await;
    {
        let pull = IofPull::new(vec![proc("job", 1)], IofChannels::STDOUT);
        let mut asked = pin!(client.request(Request::IofPull(pull)));
        assert!(asked.as_mut().now_or_never().is_none());
        let (id, _) = conversation.request().await;
        conversation.reply(id, Reply::Registered(1)).await;
        // behind the answer to this one, the other has come as well
        let (nodes, ()) = tokio::join!(client.resolve_nodes(None), async {
            let (id, _) = conversation.request().await;
            conversation.reply(id, Reply::Nodes(vec![])).await;
        });
        nodes.unwrap();
    }
    assert_eq!(conversation.request().await.1, Request::IofDeregister(IofDeregister::new(1)));
    let event = Event::new(Status::from_raw(7), proc("far", 0));
    conversation.push(Push::Event { registrations: vec![1], event: event.clone(), is_kept: false }).await;
    assert_eq!(within(events.recv()).await, Some(Ok(event)));
}

#[tokio::test]
async fn res_03_a_connected_client_asks_its_server() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let nspace = me().nspace;
    let (peers, ()) = tokio::join!(client.resolve_peers(Some("n7"), Some(&nspace)), async {
        let (id, request) = conversation.request().await;
        let ask = ResolvePeers::new(Some("n7".into()), Some(me().nspace));
        assert_eq!(request, Request::ResolvePeers(ask));
        conversation.reply(id, Reply::Procs(vec![proc("far", 3)])).await;
    });
    assert_eq!(peers.unwrap(), [proc("far", 3)]);
    for asked in [None, Some(&nspace)] {
        let (nodes, ()) = tokio::join!(client.resolve_nodes(asked), async {
            let (id, request) = conversation.request().await;
            assert_eq!(request, Request::ResolveNodes(ResolveNodes::new(asked.cloned())));
            conversation.reply(id, Reply::Nodes(vec!["n9".into()])).await;
        });
        assert_eq!(nodes.unwrap(), ["n9"]);
    }
    let (peers, ()) = tokio::join!(client.resolve_peers(None, None), async {
        let (id, _) = conversation.request().await;
        conversation.reply(id, Reply::Done).await;
    });
    assert!(matches!(peers, Err(Error::Protocol(_))), "{peers:?}");
}

#[tokio::test]
async fn res_01_res_02_without_a_connection_the_own_data_answers() {
    let mut server = FakeServer::start();
    let (client, conversation) = server.connected().await;
    let mut events = {
        let mut conversation = conversation;
        let (events, ()) = tokio::join!(client.events([Status::ERR_LOST_CONNECTION]), async {
            let (id, _) = conversation.request().await;
            conversation.reply(id, Reply::Registered(1)).await;
        });
        events.unwrap()
    };
    within(events.recv()).await;
    assert!(!client.is_connected());
    assert_eq!(client.resolve_peers(None, None).await.unwrap(), [proc("job", 0), proc("job", 1)]);
    assert_eq!(client.resolve_nodes(Some(&me().nspace)).await.unwrap(), ["n0", "n1"]);
    let alone = Client::singleton().await.unwrap();
    assert_eq!(alone.resolve_peers(None, None).await.unwrap(), [alone.proc_id().clone()]);
}

#[tokio::test]
async fn a_process_alone_does_all_that_needs_nobody_else() {
    let client = Client::singleton().await.unwrap();
    let me = client.proc_id().clone();
    assert!(client.is_singleton() && !client.is_connected() && client.server_id().is_none());
    assert!(me.nspace.starts_with("singleton.") && me.nspace.ends_with(&std::process::id().to_string()));
    client.put(Scope::GLOBAL, "k", 5).unwrap();
    client.commit().await.unwrap();
    client.fence_all().collect_data().await.unwrap();
    assert_eq!(client.get::<i32>(&me, "k").await.unwrap(), 5);
    assert_eq!(client.job(&me.nspace).get(keys::JOB_SIZE).await.unwrap(), 1);
    assert_eq!(client.get(None, keys::HOSTNAME).await.unwrap(), client.hostname());
    assert!(client.get::<i32>(&me, "absent").await.unwrap_err().is_not_found());
    let refused = client.get::<i32>(&me, "k").directives(Directives::new().require(&keys::WAIT, 1)).await;
    assert!(refused.unwrap_err().is_not_supported());

    let unreachable = [
        client.get::<i32>(proc("far", 0), "k").await.unwrap_err(),
        client.fence([me.clone(), proc("far", 0)]).await.unwrap_err(),
        client.abort(1, "").await.unwrap_err(),
        client.query([Query::new(&keys::QUERY_NAMESPACES)]).await.unwrap_err(),
        client.events([]).await.unwrap_err(),
        client.notify(Event::new(Status::SUCCESS, me.clone())).await.unwrap_err(),
    ];
    for error in unreachable {
        assert_eq!(error.status(), Status::ERR_UNREACH, "{error}");
    }
    let outsider = client.fence([proc("far", 0)]).await.unwrap_err();
    assert_eq!(outsider.status(), Status::ERR_NOT_A_MEMBER);
    let clone = client.clone();
    client.finalize().embed_barrier().await.unwrap();
    assert_eq!(clone.put(Scope::GLOBAL, "k", 6).unwrap_err().status(), Status::ERR_INIT);
}

#[tokio::test]
async fn futures_and_handles_can_cross_threads() {
    is_send_sync::<Client>();
    is_send_sync::<Error>();
    is_send_sync::<EventStream>();
    let client = Client::singleton().await.unwrap();
    drop(is_send(client.get::<u32>(None, "k").into_future()));
    drop(is_send(client.fence_all().into_future()));
    drop(is_send(client.commit()));
    drop(is_send(client.events([]).into_future()));
    drop(is_send(client.query([])));
    drop(is_send(client.notify(Event::new(Status::SUCCESS, me())).into_future()));
    drop(is_send(client.on_event([]).handle(|_| async {})));
    drop(is_send(Client::from_env().init()));
    drop(is_send(client.finalize().into_future()));
}
