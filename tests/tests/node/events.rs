//! Events: registration, audience, and what is heard when the server goes.

use std::future::poll_fn;
use std::task::Poll;

use pmix_client::types::message::{DeregisterEvents, Hello, Identity, Request};
use pmix_client::types::{DataArray, DataRange, Event, Info, Pid, Status, Value};
use pmix_client::{
    Client, EventError, EventStream, HandlerBuilder, HandlerCall, HandlerOutcome, HandlerRegistration,
    Nspace, ProcId, Rank, keys,
};
use pmix_proto::ServerBody;
use pmix_server::types::job::JobSpec;
use pmix_tests::{RawSession, TestNode, on_both_runtimes, within};
use tokio::sync::mpsc;

const CODE: Status = Status::from_raw(-4242);
const OTHER: Status = Status::from_raw(77);

async fn listen(client: &Client, codes: impl IntoIterator<Item = Status>) -> EventStream {
    within(client.events(codes)).await.unwrap()
}

async fn next(events: &mut EventStream) -> Event {
    within(events.recv()).await.unwrap().unwrap()
}

/// Sends an event that is heard by all who hear anything, so that what comes before it has come.
async fn mark(client: &Client) {
    let mark = Event::new(OTHER, client.proc_id().clone()).with_range(DataRange::GLOBAL);
    within(client.notify(mark)).await.unwrap();
}

/// Reads up to the mark.
async fn heard(events: &mut EventStream) -> Vec<Status> {
    let mut codes = Vec::new();
    loop {
        match next(events).await.code {
            OTHER => return codes,
            code => codes.push(code),
        }
    }
}

#[test]
fn evt_09_evt_18_who_has_registered_hears_of_it() {
    on_both_runtimes(async || {
        let node = TestNode::start(3).await;
        let (a, b, c) = (node.client(0).await, node.client(1).await, node.client(2).await);
        let (mut by_code, mut all) = (listen(&b, [CODE]).await, listen(&b, []).await);
        let mut own = listen(&a, [CODE]).await;
        let mut deaf = listen(&c, [Status::ERR_PROC_ABORTED, OTHER]).await;
        let event =
            Event::new(CODE, a.proc_id().clone()).with_info(Info::new(&keys::EVENT_TEXT_MESSAGE, "hello"));
        within(a.notify(event.clone())).await.unwrap();
        assert_eq!(next(&mut by_code).await, event);
        assert_eq!(next(&mut all).await, event);
        assert_eq!(next(&mut own).await, event, "the one that tells hears it too");
        mark(&a).await;
        assert_eq!(heard(&mut deaf).await, []);
    });
}

#[test]
fn evt_11_an_event_goes_as_far_as_its_range() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let foreign = ProcId::new(Nspace::new("other").unwrap(), Rank::from_raw(0));
        let spec = JobSpec::new(foreign.nspace.clone()).node_map(["n0"]).unwrap().ranks_block(1, 1).unwrap();
        node.add_job(spec, [0]).await;
        let source = node.client(0).await;
        let (peer, other) = (node.client(1).await, node.connect(&foreign).await.unwrap());
        let mut streams = [listen(&source, []).await, listen(&peer, []).await, listen(&other, []).await];

        let only_the_other = Info::new(
            &keys::EVENT_CUSTOM_RANGE,
            DataArray::Proc(vec![ProcId::wildcard(foreign.nspace.clone())]),
        );
        let cases = [
            (DataRange::NAMESPACE, None, [1, 1, 0]),
            (DataRange::LOCAL, None, [1, 1, 1]),
            (DataRange::SESSION, None, [1, 1, 1]),
            (DataRange::GLOBAL, None, [1, 1, 1]),
            (DataRange::PROC_LOCAL, None, [1, 0, 0]),
            (DataRange::RM, None, [0, 0, 0]),
            (DataRange::CUSTOM, Some(only_the_other), [0, 0, 1]),
        ];
        for (range, info, expected) in cases {
            let mut event = Event::new(CODE, source.proc_id().clone()).with_range(range);
            event.info.extend(info);
            within(source.notify(event)).await.unwrap();
            mark(&source).await;
            for (stream, expected) in streams.iter_mut().zip(expected) {
                assert_eq!(heard(stream).await.len(), expected, "{range}");
            }
        }
    });
}

#[test]
fn evt_12_an_event_of_the_host_has_no_source() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let client = node.client(0).await;
        let mut events = listen(&client, [Status::ERR_PROC_TERM_WO_SYNC]).await;
        let event = Event::new(Status::ERR_PROC_TERM_WO_SYNC, ProcId::none())
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, node.proc(1)));
        node.handle().notify_event(event).await.unwrap();
        let heard = next(&mut events).await;
        assert!(heard.source.nspace.is_empty());
        assert_eq!(heard.source.rank, Rank::UNDEF);
        assert_eq!(heard.info.get(&keys::EVENT_AFFECTED_PROC).unwrap(), Some(node.proc(1)));
    });
}

#[tokio::test]
async fn evt_09_a_filter_on_the_affected_process() {
    let node = TestNode::start(1).await;
    let client = node.client(0).await;
    let mut about_two =
        within(client.events([CODE, OTHER]).directive(keys::EVENT_AFFECTED_PROC, node.proc(2)))
            .await
            .unwrap();
    let about = |code, rank| {
        Event::new(code, client.proc_id().clone())
            .with_info(Info::new(&keys::EVENT_AFFECTED_PROC, node.proc(rank)))
    };
    for event in [about(CODE, 1), Event::new(CODE, client.proc_id().clone()), about(CODE, 2), about(OTHER, 2)]
    {
        within(client.notify(event)).await.unwrap();
    }
    assert_eq!(heard(&mut about_two).await, [CODE]);
}

#[tokio::test]
async fn evt_15_nothing_comes_after_the_end_of_a_registration() {
    let node = TestNode::start(1).await;
    let client = node.client(0).await;
    let closed = listen(&client, [CODE]).await;
    let dropped = listen(&client, [CODE]).await;
    within(closed.close()).await.unwrap();
    drop(dropped);
    let mut fresh = listen(&client, []).await;
    within(client.notify(Event::new(CODE, client.proc_id().clone()))).await.unwrap();
    mark(&client).await;
    assert_eq!(heard(&mut fresh).await, [CODE]);
}

#[tokio::test]
async fn evt_16_only_the_own_registrations_can_be_ended() {
    let node = TestNode::start(2).await;
    let bystander = node.client(1).await;
    let mut events = listen(&bystander, [CODE, OTHER]).await;
    let hello = Hello::new(Identity::Client(node.proc(0)), Pid(1));
    let mut session = RawSession::open(&node.socket(), pmix_proto::encode_hello(&hello)).await.unwrap();
    assert!(matches!(session.next().await, Ok(Some((0, ServerBody::Welcome { .. })))));
    for number in 0..20 {
        for message in
            pmix_proto::encode_request(number + 1, &Request::DeregisterEvents(DeregisterEvents::new(number)))
        {
            session.outgoing.send(message).unwrap();
        }
        let Ok(Some((_, ServerBody::Failure(failure)))) = session.next().await else {
            panic!("registration {number} was ended");
        };
        assert_eq!(failure.status, Status::ERR_BAD_PARAM, "{failure}");
    }
    within(bystander.notify(Event::new(CODE, bystander.proc_id().clone()))).await.unwrap();
    assert_eq!(next(&mut events).await.code, CODE);
}

#[tokio::test]
async fn gen_13_nobody_can_speak_in_the_name_of_another() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    let mut events = listen(&b, [CODE]).await;
    within(a.notify(Event::new(CODE, node.proc(1)))).await.unwrap();
    assert_eq!(next(&mut events).await.source, node.proc(0));
}

#[tokio::test]
async fn evt_17_order_is_kept_and_notify_does_not_wait_for_readers() {
    let node = TestNode::start(2).await;
    let (a, b) = (node.client(0).await, node.client(1).await);
    let mut events = listen(&b, []).await;
    for number in 1..=200 {
        let event = Event::new(Status::from_raw(number + 1000), a.proc_id().clone());
        within(a.notify(event)).await.unwrap();
    }
    for number in 1..=200 {
        assert_eq!(next(&mut events).await.code.to_raw(), number + 1000);
    }
}

#[test]
fn a_reader_that_is_too_slow_is_told_how_much_it_missed() {
    on_both_runtimes(async || {
        let node = TestNode::start(1).await;
        let client = node.client(0).await;
        let mut small = within(client.events([CODE]).capacity(2)).await.unwrap();
        let mut all = listen(&client, [CODE]).await;
        for number in 0..5 {
            let event = Event::new(CODE, client.proc_id().clone())
                .with_info(Info::new(&keys::EVENT_TEXT_MESSAGE, number.to_string()));
            within(client.notify(event)).await.unwrap();
        }
        for _ in 0..5 {
            next(&mut all).await;
        }
        let (mut events, mut missed) = (0, 0);
        while events + missed < 5 {
            match within(small.recv()).await.unwrap() {
                Ok(_) => events += 1,
                Err(EventError::Lagged { missed: some }) => missed += some,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((events, missed), (2, 3));
    });
}

#[test]
fn evt_21_when_the_server_stops_pending_and_later_calls_fail_and_listeners_hear_of_it() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let client = node.client(0).await;
        let server = node.handle().proc_id().clone();
        client.put(pmix_client::Scope::GLOBAL, "key", 1).unwrap();
        let mut lost = listen(&client, [Status::ERR_LOST_CONNECTION]).await;
        let mut unaware = listen(&client, [CODE]).await;
        let fence = {
            let client = client.clone();
            tokio::spawn(async move { client.fence_all().await })
        };
        let get = {
            let (client, proc) = (client.clone(), node.proc(1));
            tokio::spawn(async move { client.get::<Value>(proc, "key").await })
        };
        node.until_waiting(2).await;
        node.stop().await;

        let pending = [within(fence).await.unwrap().unwrap_err(), within(get).await.unwrap().unwrap_err()];
        let later = [
            within(client.fence_all()).await.unwrap_err(),
            within(client.commit()).await.unwrap_err(),
            within(client.events([CODE])).await.unwrap_err(),
        ];
        for error in pending.iter().chain(&later) {
            assert!(error.is_lost_connection(), "{error:?}");
            assert_eq!(error.status(), Status::ERR_LOST_CONNECTION);
            assert!(error.to_string().contains(&server.to_string()), "{error}");
        }
        assert!(!client.is_connected());
        let event = next(&mut lost).await;
        assert_eq!((event.code, event.source), (Status::ERR_LOST_CONNECTION, server));
        for stream in [&mut lost, &mut unaware] {
            assert_eq!(within(stream.recv()).await, Some(Err(EventError::Disconnected)));
            assert_eq!(within(stream.recv()).await, None);
        }
        // what it holds stays readable
        assert_eq!(client.get::<i32>(None, "key").await.unwrap(), 1);
        assert_eq!(client.job(&client.proc_id().nspace).get(keys::JOB_SIZE).await.unwrap(), 2);
        assert!(within(client.finalize()).await.unwrap_err().is_lost_connection());
    });
}

#[test]
fn evt_13_evt_14_each_who_listens_later_hears_what_was_told_once() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let (a, b) = (node.client(0).await, node.client(1).await);
        for number in [3, 1, 2] {
            within(a.notify(Status::from_raw(number))).await.unwrap();
        }
        within(a.notify(CODE).do_not_cache()).await.unwrap();
        let mut late = listen(&b, []).await;
        let mut later = listen(&b, []).await;
        mark(&a).await;
        for events in [&mut late, &mut later] {
            assert_eq!(heard(events).await, [3, 1, 2].map(Status::from_raw));
        }
    });
}

#[tokio::test]
async fn evt_10_evt_11_the_builder_says_for_whom_an_event_is() {
    let node = TestNode::start(3).await;
    let clients = node.clients().await;
    let mut named = Vec::new();
    let mut all = Vec::new();
    for client in &clients {
        named.push(listen(client, [CODE, OTHER]).await);
        all.push(listen(client, []).await);
    }
    let event = clients[0].notify(CODE).custom_range([node.proc(1)]).non_default();
    within(event.affected_procs([node.proc(2)]).info(keys::EVENT_TEXT_MESSAGE, "psst")).await.unwrap();
    let event = next(&mut named[1]).await;
    assert_eq!((event.code, &event.source), (CODE, clients[0].proc_id()));
    assert_eq!(event.affected_procs(), [node.proc(2)]);
    assert_eq!(event.info.get(&keys::EVENT_TEXT_MESSAGE).unwrap().as_deref(), Some("psst"));
    mark(&clients[0]).await;
    for stream in named.iter_mut().chain(&mut all) {
        assert_eq!(heard(stream).await, []);
    }
}

#[tokio::test]
async fn evt_09_a_stream_of_what_certain_processes_tell() {
    let node = TestNode::start(3).await;
    let clients = node.clients().await;
    let mut of_two = within(clients[0].events([]).sources([node.proc(2)])).await.unwrap();
    let mut own = within(clients[0].events([]).source_range(DataRange::PROC_LOCAL)).await.unwrap();
    for (client, code) in clients.iter().zip([10, 11, 12]) {
        within(client.notify(Status::from_raw(code))).await.unwrap();
    }
    assert_eq!(next(&mut of_two).await.code, Status::from_raw(12));
    assert_eq!(next(&mut own).await.code, Status::from_raw(10));
}

/// A handler that passes on what it is called with, if anybody wants to know.
async fn handle(
    handler: HandlerBuilder,
    outcome: HandlerOutcome,
) -> (HandlerRegistration, mpsc::UnboundedReceiver<HandlerCall>) {
    let (calls, called) = mpsc::unbounded_channel();
    let registration = within(handler.handle(move |call| {
        let _ = calls.send(call);
        let outcome = outcome.clone();
        async move { outcome }
    }));
    (registration.await.unwrap(), called)
}

fn names(call: &HandlerCall) -> Vec<&str> {
    call.earlier.iter().map(|result| result.name.as_str()).collect()
}

#[test]
fn evt_01_evt_04_evt_07_evt_08_the_handlers_of_a_process_run_in_the_order_of_the_chain() {
    on_both_runtimes(async || {
        let node = TestNode::start(2).await;
        let (a, b) = (node.client(0).await, node.client(1).await);
        let seen = HandlerOutcome::partial_action_taken().with_result(&keys::EVENT_TEXT_MESSAGE, "seen");
        let ok = HandlerOutcome::from(());
        let (_last, mut last) = handle(b.on_event([CODE]).name("last").last(), ok.clone()).await;
        let (_all, _) = handle(b.on_event([]).name("all"), seen.clone()).await;
        let (_two, _) = handle(b.on_event([CODE]).name("two"), seen.clone()).await;
        let (_one, _) = handle(b.on_event([CODE]).name("one").before("two"), seen.clone()).await;
        let (_three, _) = handle(b.on_event([CODE]).name("three").append(), seen.clone()).await;
        let (_deaf, mut deaf) = handle(b.on_event([Status::ERR_PROC_ABORTED]).first(), ok).await;
        let mut stream = listen(&b, [CODE]).await;
        within(a.notify(CODE)).await.unwrap();
        let call = within(last.recv()).await.unwrap();
        assert_eq!(names(&call), ["one", "two", "three", "all"]);
        assert!(call.earlier.iter().all(|result| result.status == Status::EVENT_PARTIAL_ACTION_TAKEN));
        assert_eq!(call.earlier[0].results, seen.results);
        assert_eq!(call.event.source, node.proc(0));
        assert_eq!(next(&mut stream).await, call.event, "streams stand beside the chain");
        assert!(deaf.try_recv().is_err());
    });
}

#[tokio::test]
async fn evt_03_evt_05_a_place_and_a_name_are_free_again_with_the_end_of_the_registration() {
    let node = TestNode::start(1).await;
    let client = node.client(0).await;
    let wish = || client.on_event([CODE]).name("n").first();
    let (first, _) = handle(wish(), ().into()).await;
    assert_eq!(first.name(), "n");
    for refused in [client.on_event([]).name("n"), client.on_event([]).first()] {
        let error = within(refused.handle(|_| async {})).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_EVENT_REGISTRATION, "{error}");
    }
    within(first.deregister()).await.unwrap();
    let (second, mut called) = handle(wish(), ().into()).await;
    within(client.notify(CODE).do_not_cache()).await.unwrap();
    within(called.recv()).await.unwrap();
    drop(second);
    let (_third, mut called) = handle(wish(), ().into()).await;
    within(client.notify(CODE)).await.unwrap();
    assert_eq!(names(&within(called.recv()).await.unwrap()), [""; 0]);
}

#[tokio::test]
async fn evt_03_a_registration_that_the_server_refuses_or_nobody_waits_for_frees_its_place() {
    let node = TestNode::start(1).await;
    let client = node.client(0).await;
    let too_many = client.on_event((0..2000).map(Status::from_raw)).first();
    let error = within(too_many.handle(|_| async {})).await.unwrap_err();
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
    {
        let mut dropped = std::pin::pin!(client.on_event([]).first().handle(|_| async {}));
        let polled = poll_fn(|context| Poll::Ready(dropped.as_mut().poll(context).is_pending()));
        assert!(polled.await);
    }
    let (_first, mut called) = handle(client.on_event([]).first(), ().into()).await;
    within(client.notify(CODE).range(DataRange::PROC_LOCAL)).await.unwrap();
    assert_eq!(within(called.recv()).await.unwrap().event.source, node.proc(0));
}

#[tokio::test]
async fn evt_15_evt_22_a_handler_owns_what_it_needs_and_may_call_the_client() {
    let node = TestNode::start(1).await;
    let client = node.client(0).await;
    let (answers, mut answered) = mpsc::unbounded_channel();
    let own = client.clone();
    let mut object = vec!["object"];
    let registration = within(client.on_event([CODE]).handle(move |_| {
        object.push("called");
        let (own, answers, seen) = (own.clone(), answers.clone(), object.clone());
        async move {
            own.notify(OTHER).await.unwrap();
            answers.send(seen).unwrap();
            HandlerOutcome::action_complete()
        }
    }));
    let registration = registration.await.unwrap();
    let mut others = listen(&client, [OTHER]).await;
    within(client.notify(CODE)).await.unwrap();
    assert_eq!(within(answered.recv()).await.unwrap(), ["object", "called"]);
    assert_eq!(next(&mut others).await.code, OTHER);
    within(registration.deregister()).await.unwrap();
    within(client.notify(CODE)).await.unwrap();
    mark(&client).await;
    assert_eq!(within(answered.recv()).await, None, "the closure is gone with its registration");
}
