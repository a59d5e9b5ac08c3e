//! How a client connects, is refused, loses its server and leaves.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use pmix_client::types::message::{
    DeregisterEvents, Failure, Finalize, Identity, Push, Reply, Request, Welcome,
};
use pmix_client::types::{Directives, Event, Info, Status, keys};
use pmix_client::{Client, Error, EventError, EventStream, Scope};
use pmix_proto::EncodedBody;
use pmix_test_wait::{StillClock, within};
use tokio::net::UnixListener;
use tokio::sync::{Notify, mpsc};

use crate::common::{FakeServer, MOMENT, me, proc, server_id};

#[tokio::test]
async fn ini_03_a_client_knows_itself_and_its_job_at_once() {
    let mut server = FakeServer::start();
    let builder = server.builder().directives(Directives::new().with(&keys::PROGRAMMING_MODEL, "mine"));
    let (client, ()) = tokio::join!(builder.init(), async {
        let mut conversation = server.accept().await;
        let hello = conversation.hello().await;
        assert_eq!(hello.identity, Identity::Client(me()));
        assert_eq!(hello.pid.0, i32::try_from(std::process::id()).unwrap());
        assert_eq!(hello.directives.len(), 1);
        conversation.welcome().await;
    });
    let client = client.unwrap();
    assert_eq!((client.proc_id(), client.server_id(), client.hostname()), (&me(), Some(&server_id()), "n0"));
    assert!(!client.is_singleton());
    // the conversation is over already, so nobody could be asked
    assert_eq!(client.job(&me().nspace).get(keys::JOB_SIZE).await.unwrap(), 4);
    assert_eq!(client.get(None, keys::LOCAL_RANK).await.unwrap(), 1);
    assert_eq!(client.get(proc("job", 3), keys::HOSTNAME).await.unwrap(), "n1");
    assert_eq!(client.get(None, keys::UNIV_SIZE).session_info(None).await.unwrap(), 4);
    let absent = client.job(&me().nspace).get(keys::NSDIR).await.unwrap_err();
    assert!(absent.is_not_found(), "{absent}");
}

#[tokio::test]
async fn ini_02_sec_03_a_refused_connection_is_an_error_with_the_servers_words() {
    let mut server = FakeServer::start();
    let builder = server.builder();
    let (refused, ()) = tokio::join!(builder.init(), async {
        let mut conversation = server.accept().await;
        conversation.hello().await;
        conversation.fail(0, Failure::new(Status::ERR_INVALID_CRED, "uid 7 is not the registered 8")).await;
        conversation.end().await;
    });
    let refused = refused.unwrap_err();
    assert_eq!(refused.status(), Status::ERR_INVALID_CRED);
    assert_eq!(refused.to_string(), "init failed: uid 7 is not the registered 8 (ERR_INVALID_CRED)");
}

#[tokio::test]
async fn ini_02_a_server_that_is_not_there_is_an_error_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let connect = || Client::builder().uri(format!("srv.0;unix:{}", path.display())).proc(me()).init();
    let missing = connect().await.unwrap_err();
    assert!(matches!(missing, Error::Transport(_)));
    assert_eq!(missing.status(), Status::ERR_UNREACH);
    assert!(missing.to_string().contains("no such socket"), "{missing}");
    drop(UnixListener::bind(&path).unwrap());
    let stale = connect().await.unwrap_err();
    assert!(stale.to_string().contains("nothing listens"), "{stale}");
}

#[tokio::test]
async fn ini_02_a_server_that_hangs_up_or_talks_nonsense_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    for words in [&b""[..], b"HTTP/1.1 400 Bad Request\r\n\r\n"] {
        let builder = Client::builder().uri(format!("srv.0;unix:{}", path.display())).proc(me());
        let (error, ()) = tokio::join!(within(builder.init()), async {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut socket, words).await.unwrap();
        });
        assert!(matches!(error, Err(Error::Transport(_))), "{error:?}");
    }
}

#[tokio::test]
async fn a_version_nobody_here_speaks_is_named_in_one_line_with_ours() {
    let mut server = FakeServer::start();
    let builder = server.builder();
    let (error, ()) = tokio::join!(builder.init(), async {
        let mut conversation = server.accept().await;
        conversation.hello().await;
        let welcome = Welcome::new(me(), server_id(), "n0".into());
        conversation.say(0, &EncodedBody::welcome(&welcome, 77, None)).await;
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("version 77") && error.contains("speaks version 1"), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[tokio::test]
async fn a_server_that_takes_the_client_for_another_is_refused() {
    let mut server = FakeServer::start();
    let builder = server.builder();
    let (error, ()) = tokio::join!(builder.init(), async {
        let mut conversation = server.accept().await;
        conversation.hello().await;
        let welcome = Welcome::new(proc("job", 2), server_id(), "n0".into());
        conversation.say(0, &EncodedBody::welcome(&welcome, pmix_proto::VERSION, None)).await;
    });
    assert!(matches!(error, Err(Error::Protocol(_))), "{error:?}");
}

#[tokio::test]
async fn ini_07_gen_12_init_waits_for_the_welcome_but_not_beyond_its_limit() {
    let clock = StillClock::start();
    let mut server = FakeServer::start();
    let (moment, second) = (Duration::from_millis(20), Duration::from_secs(1));
    let directive = Directives::from(vec![Info::new(&keys::TIMEOUT, 1)]);
    for (builder, limit) in [
        (server.builder().timeout(moment), moment),
        // which is no limit, and so not the shorter one
        (server.builder().timeout(Duration::ZERO).directives(directive), second),
    ] {
        let init = tokio::spawn(builder.init());
        let mut conversation = server.accept().await;
        conversation.hello().await;
        clock.pass(limit - MOMENT).await;
        assert!(!init.is_finished());
        clock.pass(MOMENT).await;
        let error = within(init).await.unwrap().unwrap_err();
        conversation.end().await;
        assert!(error.is_timeout());
        assert!(error.to_string().contains(&server.path().display().to_string()), "{error}");
        assert!(error.to_string().contains(&format!("within {limit:?} ")), "{error}");
    }
}

#[tokio::test]
async fn gen_12_a_limit_of_zero_is_none_for_init_as_well() {
    let mut server = FakeServer::start();
    let builder = server.builder().timeout(Duration::ZERO);
    let (client, ()) = tokio::join!(within(builder.init()), async {
        let mut conversation = server.accept().await;
        conversation.hello().await;
        conversation.welcome().await;
    });
    assert_eq!(client.unwrap().proc_id(), &me());
}

#[tokio::test]
async fn a_socket_may_have_a_path_of_any_length() {
    let mut server = FakeServer::start_at(&format!("{}/{}/s", "d".repeat(100), "e".repeat(100)));
    assert!(server.path().as_os_str().len() > 200);
    let (client, _conversation) = server.connected().await;
    assert!(client.is_connected());
}

#[tokio::test]
async fn evt_21_the_loss_of_the_server_fails_what_waits_and_what_comes_and_is_an_event() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let mut events = conversation.events(&client, 1).await;
    let (waiting, ()) = tokio::join!(within(client.fence_all().into_future()), async {
        let (_, request) = conversation.request().await;
        assert!(matches!(request, Request::Fence(_)));
        conversation.hang_up().await;
    });
    let waiting = waiting.unwrap_err();
    assert!(waiting.is_lost_connection(), "{waiting}");
    assert_eq!(waiting.status(), Status::ERR_LOST_CONNECTION);
    assert!(waiting.to_string().contains("srv.host:0"), "{waiting}");
    assert!(!client.is_connected());

    client.put(Scope::GLOBAL, "k", 1).unwrap();
    assert!(within(client.commit()).await.unwrap_err().is_lost_connection());
    assert!(
        within(client.get::<u32>(proc("job", 0), "k").into_future()).await.unwrap_err().is_lost_connection()
    );
    assert!(within(client.events([]).into_future()).await.unwrap_err().is_lost_connection());
    // what is held here stays readable
    assert_eq!(client.job(&me().nspace).get(keys::JOB_SIZE).await.unwrap(), 4);

    let lost = within(events.next()).await.unwrap().unwrap();
    assert_eq!(lost.code, Status::ERR_LOST_CONNECTION);
    assert_eq!(within(events.next()).await, Some(Err(EventError::Disconnected)));
    assert_eq!(within(events.next()).await, None);
}

#[tokio::test]
async fn evt_15_after_a_loss_handlers_that_are_ended_are_not_called_for_what_still_waits() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let code = Status::from_raw(7);
    let (started, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (signal, wait) = (started.clone(), go.clone());
    let (called, mut calls) = mpsc::unbounded_channel();
    let says = |name| {
        let called = called.clone();
        move |_| {
            called.send(name).unwrap();
            std::future::ready(())
        }
    };
    let (handlers, ()) = tokio::join!(
        async {
            let slow = client.on_event([code]).first().handle(move |_| {
                let (signal, wait) = (signal.clone(), wait.clone());
                async move {
                    signal.notify_one();
                    wait.notified().await;
                }
            });
            (
                slow.await.unwrap(),
                client.on_event([code]).handle(says("dropped")).await.unwrap(),
                client.on_event([code]).handle(says("deregistered")).await.unwrap(),
                client.on_event([code]).last().handle(says("last")).await.unwrap(),
            )
        },
        async {
            for number in 1..=4 {
                let (id, _) = conversation.request().await;
                conversation.reply(id, Reply::Registered(number)).await;
            }
        }
    );
    let (_slow, dropped, deregistered, _last) = handlers;
    let event = Event::new(code, proc("far", 0));
    conversation.push(Push::Event { registrations: (1..=4).collect(), event, is_kept: false }).await;
    within(started.notified()).await;
    let (lost, ()) = tokio::join!(within(client.fence_all().into_future()), conversation.hang_up());
    assert!(lost.unwrap_err().is_lost_connection());
    drop(dropped);
    assert!(within(deregistered.deregister()).await.unwrap_err().is_lost_connection());
    go.notify_one();
    assert_eq!(within(calls.recv()).await, Some("last"));
}

#[tokio::test]
async fn gen_10_ini_07_finalize_waits_for_the_server_and_clones_get_err_init() {
    finalize_with(false).await;
}

#[tokio::test]
async fn ini_06_a_barrier_comes_before_the_goodbye_if_asked_for() {
    finalize_with(true).await;
}

async fn finalize_with(with_barrier: bool) {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let clone = client.clone();
    let finalize = client.finalize().directive(keys::TIMEOUT, 3600);
    let finalize = if with_barrier { finalize.embed_barrier() } else { finalize };
    let (finalized, ()) = tokio::join!(within(finalize.into_future()), async {
        if with_barrier {
            let (id, request) = conversation.request().await;
            let Request::Fence(fence) = request else { panic!("no fence but {request:?}") };
            // the limit is that of all of it
            assert_eq!((fence.procs, fence.directives.get(&keys::TIMEOUT)), (None, Ok(Some(3600))));
            conversation.reply(id, Reply::Fence(Default::default())).await;
        }
        let (id, request) = conversation.request().await;
        let timeout = Directives::from(vec![Info::new(&keys::TIMEOUT, 3600)]);
        assert_eq!(request, Request::Finalize(Finalize::new().with_directives(timeout)));
        assert_eq!(clone.commit().await.unwrap_err().status(), Status::ERR_INIT);
        conversation.reply(id, Reply::Done).await;
    });
    finalized.unwrap();
    conversation.end().await;
    assert!(!clone.is_connected());
    assert_eq!(clone.put(Scope::GLOBAL, "k", 1).unwrap_err().status(), Status::ERR_INIT);
    assert_eq!(clone.get(None, keys::RANK).await.unwrap_err().status(), Status::ERR_INIT);
    assert_eq!(clone.fence_all().await.unwrap_err().status(), Status::ERR_INIT);
    assert_eq!(clone.resolve_nodes(None).await.unwrap_err().status(), Status::ERR_INIT);
    assert_eq!(clone.finalize().await.unwrap_err().status(), Status::ERR_INIT);
}

#[tokio::test]
async fn gen_10_a_finalize_that_nobody_waits_for_closes_the_connection() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let clone = client.clone();
    let (events, ()) = tokio::join!(clone.events([]), async {
        let (id, _) = conversation.request().await;
        conversation.reply(id, Reply::Registered(1)).await;
    });
    tokio::select! {
        biased;
        finalized = client.finalize().into_future() => panic!("nobody has answered: {finalized:?}"),
        (_, request) = conversation.request() => assert!(matches!(request, Request::Finalize(_)), "{request:?}"),
    }
    assert_eq!(within(events.unwrap().recv()).await, None);
    conversation.end().await;
}

#[tokio::test]
async fn ini_06_who_fails_at_the_barrier_is_finalized_and_told() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let clone = client.clone();
    let finalize = client.finalize().embed_barrier();
    let (finalized, ()) = tokio::join!(within(finalize.into_future()), async {
        let (id, _) = conversation.request().await;
        conversation.fail(id, Failure::new(Status::ERR_PROC_TERM_WO_SYNC, "somebody has died")).await;
        let (id, request) = conversation.request().await;
        assert_eq!(request, Request::Finalize(Finalize::new()));
        conversation.reply(id, Reply::Done).await;
    });
    assert_eq!(finalized.unwrap_err().status(), Status::ERR_PROC_TERM_WO_SYNC);
    conversation.end().await;
    assert_eq!(clone.commit().await.unwrap_err().status(), Status::ERR_INIT);
}

#[tokio::test]
async fn gen_12_a_finalize_with_a_directive_that_makes_no_sense_goes_on_without_it() {
    let mut server = FakeServer::start();
    for (is_limit, problem) in [(true, "not a whole number of seconds"), (false, "pmix.embed.barrier")] {
        let (client, mut conversation) = server.connected().await;
        let finalize = client.finalize();
        let finalize = if is_limit {
            finalize.timeout(Duration::from_millis(1500))
        } else {
            finalize.directives(vec![Info::dynamic(keys::EMBED_BARRIER.key_name(), "soon")].into())
        };
        let (finalized, ()) = tokio::join!(within(finalize.into_future()), async {
            let (id, request) = conversation.request().await;
            assert_eq!(request, Request::Finalize(Finalize::new()));
            conversation.reply(id, Reply::Done).await;
            conversation.end().await;
        });
        let refused = finalized.unwrap_err();
        assert_eq!(refused.status(), Status::ERR_BAD_PARAM);
        assert!(refused.to_string().contains(problem), "{refused}");
    }
}

#[tokio::test]
async fn ini_08_a_process_that_finalized_may_connect_again() {
    let mut server = FakeServer::start();
    for _ in 0..2 {
        let (client, mut conversation) = server.connected().await;
        let (finalized, ()) = tokio::join!(within(client.finalize().into_future()), async {
            let (id, _) = conversation.request().await;
            conversation.reply(id, Reply::Done).await;
            conversation.end().await;
        });
        finalized.unwrap();
    }
}

#[tokio::test]
async fn ini_04_the_last_clone_closes_the_connection_when_it_is_dropped() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let mut events = conversation.events(&client, 1).await;
    let clone = client.clone();
    drop(client);
    assert!(clone.is_connected());
    drop(clone);
    conversation.end().await;
    assert_eq!(within(events.recv()).await, None);
    events.close().await.unwrap();
}

#[test]
fn a_client_may_be_dropped_after_its_runtime_and_outside_of_any() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (mut client, events, mut conversation, server) = runtime.block_on(async {
        let mut server = FakeServer::start();
        let (client, mut conversation) = server.connected().await;
        let events = conversation.events(&client, 1).await;
        (client, events, conversation, server)
    });
    drop(events);
    runtime.block_on(async {
        let (_, request) = conversation.request().await;
        assert_eq!(request, Request::DeregisterEvents(DeregisterEvents::new(1)));
        // a client whose runtime ends loses its connection
        (client, conversation) = {
            let mut server = server;
            server.connected().await
        };
    });
    drop(conversation);
    drop(runtime);
    assert!(!client.is_connected());
    let other = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(other.block_on(client.fence_all().into_future()).unwrap_err().is_lost_connection());
    drop(client);
}

#[tokio::test]
async fn events_of_a_registration_arrive_in_order_until_it_is_dropped() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let event = |code| Event::new(Status::from_raw(code), proc("job", 0));
    let push = |code| Push::Event { registrations: vec![3], event: event(code), is_kept: false };
    let wanted = [Status::from_raw(1), Status::from_raw(2)];
    let (events, ()) = tokio::join!(client.events(wanted).directive(keys::EVENT_HDLR_NAME, "mine"), async {
        let (id, request) = conversation.request().await;
        let Request::RegisterEvents(register) = request else { panic!("{request:?}") };
        assert_eq!(register.codes, wanted);
        assert_eq!(register.directives.len(), 1);
        conversation.reply(id, Reply::Registered(3)).await;
        conversation.push(push(1)).await;
        conversation.push(push(2)).await;
        conversation.push(Push::Lagged { missed: 6 }).await;
    });
    let mut events: EventStream = events.unwrap();
    assert_eq!(within(events.recv()).await, Some(Ok(event(1))));
    assert_eq!(within(events.next()).await, Some(Ok(event(2))));
    assert_eq!(within(events.next()).await, Some(Err(EventError::Lagged { missed: 6 })));
    drop(events);
    let (_, request) = conversation.request().await;
    assert_eq!(request, Request::DeregisterEvents(DeregisterEvents::new(3)));
}

#[tokio::test]
async fn evt_16_closing_a_stream_reports_what_the_server_says() {
    let mut server = FakeServer::start();
    let (client, mut conversation) = server.connected().await;
    let events = conversation.events(&client, 3).await;
    let (closed, ()) = tokio::join!(events.close(), async {
        let (id, request) = conversation.request().await;
        assert_eq!(request, Request::DeregisterEvents(DeregisterEvents::new(3)));
        conversation.fail(id, Failure::new(Status::ERR_BAD_PARAM, "no registration 3")).await;
    });
    assert_eq!(closed.unwrap_err().status(), Status::ERR_BAD_PARAM);
}
