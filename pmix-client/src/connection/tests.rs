use std::pin::pin;
use std::time::Duration;

use pmix_test_wait::{PausedClock, within};
use pmix_types::message::{DeregisterEvents, Fence, IofDeregister, IofPull, RegisterEvents};
use pmix_types::{DataRange, Directives, EventFilter, IofChannels, keys};

use super::*;
use crate::events::{EventError, EventQueue as Queue, Listener};

/// A connection and the transport's end of it, played by the test.
fn pair() -> (Arc<Connection>, TransportEnd) {
    Connection::new(ProcId::new("srv".parse().unwrap(), "0".parse().unwrap()), false, None)
}

/// The queue of an interest in a stream.
fn queue(interest: &Interest) -> &Queue {
    match &interest.listener {
        Listener::Stream(queue) => queue,
        Listener::Handler(handler) => panic!("{handler:?} is no stream"),
    }
}

async fn next(queue: &Queue) -> Option<Result<Event, EventError>> {
    within(std::future::poll_fn(|context| queue.poll_next(context))).await
}

/// The next request whose reply is not awaited.
async fn errand(end: &mut TransportEnd) -> Outgoing {
    match within(end.errands.recv()).await {
        Some(Errand::Ask(request)) => request,
        other => panic!("{other:?}"),
    }
}

fn interest(codes: &[Status], capacity: usize) -> Interest {
    let filter = EventFilter::new(codes.to_vec(), &mut Directives::new()).unwrap();
    Interest { filter, listener: Listener::Stream(Arc::new(Queue::new(capacity))) }
}

fn event(code: i32) -> Event {
    Event::new(Status::from_raw(code), ProcId::none())
}

fn push(registrations: &[u64], code: i32) -> Incoming {
    Incoming::Push(Push::Event { registrations: registrations.to_vec(), event: event(code), is_kept: false })
}

async fn send_registration(
    connection: &Connection,
    request: Request,
    interest: Interest,
) -> PendingReply<'_> {
    connection.slot().await.unwrap().send_with(request, Some(Recipient::Events(interest)))
}

/// Registers a stream under a number, as the server would confirm it.
async fn register(connection: &Connection, end: &mut TransportEnd, number: u64, interest: &Interest) {
    let request = Request::RegisterEvents(RegisterEvents::new(interest.filter.codes().to_vec()));
    let answer = send_registration(connection, request, interest.clone()).await;
    let Outgoing { id, .. } = end.requests.recv().await.unwrap();
    end.deliverer.deliver(Incoming::Reply { id, outcome: Ok(Reply::Registered(number)) });
    assert!(matches!(answer.await, Ok(Reply::Registered(confirmed)) if confirmed == number));
}

#[tokio::test]
async fn replies_find_their_requests_in_any_order() {
    let (connection, mut end) = pair();
    let slot = || async { connection.slot().await.unwrap() };
    let first = slot().await.send(DeregisterEvents::new(1));
    let second = slot().await.send(DeregisterEvents::new(2));
    let ids = [end.requests.recv().await.unwrap().id, end.requests.recv().await.unwrap().id];
    assert_ne!(ids[0], ids[1]);
    let refused = Failure::new(Status::ERR_BAD_PARAM, "no such registration");
    end.deliverer.deliver(Incoming::Reply { id: ids[1], outcome: Err(refused) });
    end.deliverer.deliver(Incoming::Reply { id: ids[0], outcome: Ok(Reply::Done) });
    assert!(matches!(within(first.reply).await, Ok(Reply::Done)));
    let error = within(second.reply).await.unwrap_err();
    assert_eq!(error.to_string(), "deregister events failed: no such registration (ERR_BAD_PARAM)");
}

#[tokio::test]
async fn a_reply_in_the_form_of_another_operation_fails_the_call() {
    let (connection, mut end) = pair();
    let call = connection.slot().await.unwrap().send(DeregisterEvents::new(1));
    let id = end.requests.recv().await.unwrap().id;
    end.deliverer.deliver(Incoming::Reply { id, outcome: Ok(Reply::Registered(1)) });
    let error = within(connection.answer(call)).await.unwrap_err();
    assert!(error.to_string().contains("unexpected reply to deregister events"), "{error}");
    assert!(connection.is_open());
}

#[tokio::test]
async fn a_second_or_foreign_reply_does_no_harm() {
    let (connection, mut end) = pair();
    let answer = connection.slot().await.unwrap().send(DeregisterEvents::new(1));
    let id = end.requests.recv().await.unwrap().id;
    for id in [id, id, 4711] {
        end.deliverer.deliver(Incoming::Reply { id, outcome: Ok(Reply::Done) });
    }
    assert!(within(answer.reply).await.is_ok());
    assert!(connection.is_open());
}

#[tokio::test]
async fn evt_21_a_lost_connection_fails_waiting_and_later_calls_and_is_an_event() {
    let (connection, mut end) = pair();
    let all = interest(&[], 4);
    let this = interest(&[Status::ERR_LOST_CONNECTION], 4);
    let other = interest(&[Status::from_raw(7)], 4);
    for (number, interest) in [&all, &this, &other].into_iter().enumerate() {
        register(&connection, &mut end, number as u64, interest).await;
    }
    let waiting = connection.slot().await.unwrap().send(DeregisterEvents::new(1));
    end.deliverer.close("the server closed the connection");

    let error = within(waiting.reply).await.unwrap_err();
    assert!(error.is_lost_connection());
    assert_eq!(error.status(), Status::ERR_LOST_CONNECTION);
    assert_eq!(error.to_string(), "the connection to server srv:0 is lost: the server closed the connection");
    let later =
        within(connection.request(Request::DeregisterEvents(DeregisterEvents::new(2)))).await.unwrap_err();
    assert!(later.is_lost_connection());
    assert!(!connection.is_open());
    for heard in [&all, &this] {
        let lost = next(queue(heard)).await.unwrap().unwrap();
        assert_eq!((lost.code, &lost.source), (Status::ERR_LOST_CONNECTION, connection.server()));
    }
    for ended in [all, this, other] {
        assert_eq!(next(queue(&ended)).await, Some(Err(EventError::Disconnected)));
        assert_eq!(next(queue(&ended)).await, None);
    }
}

#[tokio::test]
async fn evt_21_a_transport_that_just_goes_away_is_a_lost_connection() {
    let (connection, end) = pair();
    let waiting = connection.slot().await.unwrap().send(DeregisterEvents::new(1));
    drop(end);
    assert!(within(waiting.reply).await.unwrap_err().is_lost_connection());
    assert!(
        within(connection.request(Request::DeregisterEvents(DeregisterEvents::new(2))))
            .await
            .unwrap_err()
            .is_lost_connection()
    );
}

#[tokio::test]
async fn gen_10_after_finish_waiting_and_later_calls_give_err_init_and_streams_end() {
    let (connection, mut end) = pair();
    let all = interest(&[], 4);
    register(&connection, &mut end, 1, &all).await;
    let waiting = connection.slot().await.unwrap().send(DeregisterEvents::new(1));
    connection.finish();
    assert_eq!(within(waiting.reply).await.unwrap_err().status(), Status::ERR_INIT);
    assert_eq!(
        within(connection.request(Request::DeregisterEvents(DeregisterEvents::new(1))))
            .await
            .unwrap_err()
            .status(),
        Status::ERR_INIT
    );
    assert_eq!(next(queue(&all)).await, None);
    // the request under way is still sent, then the conversation ends
    assert!(end.requests.recv().await.is_some());
    assert!(end.requests.recv().await.is_none() && end.errands.recv().await.is_none());
    // the end of the connection that follows is no loss
    drop(end);
    assert_eq!(
        within(connection.request(Request::DeregisterEvents(DeregisterEvents::new(1))))
            .await
            .unwrap_err()
            .status(),
        Status::ERR_INIT
    );
}

#[tokio::test]
async fn evt_15_events_right_behind_the_confirmation_arrive() {
    let (connection, mut end) = pair();
    let all = interest(&[], 4);
    let request = Request::RegisterEvents(RegisterEvents::new(vec![]));
    let answer = send_registration(&connection, request, all.clone()).await;
    let id = end.requests.recv().await.unwrap().id;
    // before it is confirmed there is nobody to hear it
    end.deliverer.deliver(push(&[5], 1));
    end.deliverer.deliver(Incoming::Reply { id, outcome: Ok(Reply::Registered(5)) });
    end.deliverer.deliver(push(&[5], 2));
    end.deliverer.deliver(push(&[6], 3));
    assert!(within(answer).await.is_ok());
    assert_eq!(next(queue(&all)).await, Some(Ok(event(2))));
    connection.retire(5);
    end.deliverer.deliver(push(&[5], 4));
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(queue(&all).poll_next(&mut context).is_pending());
}

#[tokio::test]
async fn a_registration_whose_caller_gave_up_is_taken_back() {
    let (connection, mut end) = pair();
    let request = Request::RegisterEvents(RegisterEvents::new(vec![]));
    drop(send_registration(&connection, request, interest(&[], 4)).await);
    let id = end.requests.recv().await.unwrap().id;
    end.deliverer.deliver(Incoming::Reply { id, outcome: Ok(Reply::Registered(9)) });
    let errand = errand(&mut end).await;
    assert_eq!(errand.request, Request::DeregisterEvents(DeregisterEvents::new(9)));
    // its reply is expected, and nobody reads it
    end.deliverer.deliver(Incoming::Reply { id: errand.id, outcome: Ok(Reply::Done) });
    assert!(connection.pending.is_empty());
}

#[tokio::test]
async fn a_registration_that_was_confirmed_before_its_caller_gave_up_is_taken_back() {
    let (connection, mut end) = pair();
    let request = Request::RegisterEvents(RegisterEvents::new(vec![]));
    let unread = send_registration(&connection, request, interest(&[], 4)).await;
    let id = end.requests.recv().await.unwrap().id;
    end.deliverer.deliver(Incoming::Reply { id, outcome: Ok(Reply::Registered(9)) });
    drop(unread);
    assert_eq!(errand(&mut end).await.request, Request::DeregisterEvents(DeregisterEvents::new(9)));

    let output = Recipient::Output(Arc::new(OutputQueue::new(4)));
    let pull = Request::IofPull(IofPull::new(vec![], IofChannels::STDOUT));
    let unread = connection.slot().await.unwrap().send_with(pull, Some(output));
    let id = end.requests.recv().await.unwrap().id;
    end.deliverer.deliver(Incoming::Reply { id, outcome: Ok(Reply::Registered(10)) });
    drop(unread);
    assert_eq!(errand(&mut end).await.request, Request::IofDeregister(IofDeregister::new(10)));
}

#[tokio::test]
async fn a_slow_reader_learns_where_and_how_many_events_are_missing() {
    let (connection, mut end) = pair();
    let slow = interest(&[], 2);
    register(&connection, &mut end, 1, &slow).await;
    for code in 1..=4 {
        end.deliverer.deliver(push(&[1], code));
    }
    assert_eq!(next(queue(&slow)).await, Some(Ok(event(1))));
    assert_eq!(next(queue(&slow)).await, Some(Ok(event(2))));
    end.deliverer.deliver(push(&[1], 5));
    assert_eq!(next(queue(&slow)).await, Some(Err(EventError::Lagged { missed: 2 })));
    assert_eq!(next(queue(&slow)).await, Some(Ok(event(5))));
    end.deliverer.deliver(Incoming::Push(Push::Lagged { missed: 40 }));
    end.deliverer.deliver(Incoming::Push(Push::Lagged { missed: 2 }));
    assert_eq!(next(queue(&slow)).await, Some(Err(EventError::Lagged { missed: 42 })));
}

#[tokio::test]
async fn evt_10_evt_11_local_events_reach_streams_by_code() {
    let (connection, mut end) = pair();
    let (all, this, other) =
        (interest(&[], 4), interest(&[Status::from_raw(7)], 4), interest(&[Status::SUCCESS], 4));
    for (number, interest) in [&all, &this, &other].into_iter().enumerate() {
        register(&connection, &mut end, number as u64, interest).await;
    }
    let plain = event(7).with_range(DataRange::PROC_LOCAL);
    let quiet = plain.clone().with_info(Info::new(&keys::EVENT_NON_DEFAULT, true));
    connection.router().deliver_local(&plain);
    connection.router().deliver_local(&quiet);
    connection.finish();
    assert_eq!(next(queue(&this)).await, Some(Ok(plain.clone())));
    assert_eq!(next(queue(&this)).await, Some(Ok(quiet)));
    assert_eq!(next(queue(&all)).await, Some(Ok(plain)));
    assert_eq!(next(queue(&all)).await, None);
    assert_eq!(next(queue(&other)).await, None);
}

#[test]
fn retiring_and_dropping_need_no_runtime() {
    let (connection, mut end) = pair();
    let all = interest(&[], 4);
    connection.router().add(1, all.clone());
    connection.retire(1);
    assert!(end.errands.try_recv().is_ok());
    connection.router().add(2, all.clone());
    drop(connection);
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert_eq!(queue(&all).poll_next(&mut context), Poll::Ready(None));
    assert!(end.abandoned.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
}

/// A fence with a limit of so many seconds.
fn limited(seconds: i32) -> Request {
    let mut fence = Fence::new(None);
    fence.directives = Directives::new().with(&keys::TIMEOUT, seconds);
    Request::Fence(fence)
}

/// After what time a server is given up that has been asked with this limit.
fn patience_for(seconds: u64) -> Duration {
    Duration::from_secs(seconds) + patience::SLACK
}

fn is_ready<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    match future.poll(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[tokio::test(start_paused = true)]
async fn gen_12_a_server_that_says_nothing_is_given_up_some_time_after_the_limit() {
    let (connection, mut end) = pair();
    let clock = PausedClock::start();
    let error = connection.request(limited(3)).await.unwrap_err();
    assert_eq!(clock.passed(), patience_for(3));
    assert_eq!(error.status(), Status::ERR_TIMEOUT);
    let expected = "fence failed: server srv:0 did not answer within 6s: it may hang, and may still carry out the request \
                    (ERR_TIMEOUT)";
    assert_eq!(error.to_string(), expected);
    assert!(connection.is_open());

    // the server wakes up: what it says to the first question is no answer to the second
    let late = end.requests.recv().await.unwrap().id;
    let mut second = pin!(connection.request(limited(3)));
    assert!(is_ready(second.as_mut()).is_none());
    let asked = end.requests.recv().await.unwrap().id;
    assert_ne!(asked, late);
    let refused = Failure::new(Status::ERR_BAD_PARAM, "the first");
    end.deliverer.deliver(Incoming::Reply { id: late, outcome: Err(refused) });
    assert!(is_ready(second.as_mut()).is_none());
    end.deliverer.deliver(Incoming::Reply { id: asked, outcome: Ok(Reply::Done) });
    assert!(matches!(second.await, Ok(Reply::Done)));
    assert!(connection.pending.is_empty());
}

#[tokio::test(start_paused = true)]
async fn gen_12_an_answer_at_the_last_moment_counts() {
    let (connection, mut end) = pair();
    let mut answer = pin!(connection.request(limited(1)));
    assert!(is_ready(answer.as_mut()).is_none());
    let id = end.requests.recv().await.unwrap().id;
    tokio::time::advance(patience_for(1)).await;
    end.deliverer.deliver(Incoming::Reply { id, outcome: Ok(Reply::Done) });
    assert!(matches!(is_ready(answer.as_mut()), Some(Ok(Reply::Done))));
}

#[tokio::test(start_paused = true)]
async fn gen_12_a_server_that_takes_no_request_is_given_up_as_well() {
    let (connection, mut end) = pair();
    for number in 0..QUEUED_REQUESTS as u64 {
        drop(connection.slot().await.unwrap().send(DeregisterEvents::new(number)));
    }
    let clock = PausedClock::start();
    assert_eq!(connection.request(limited(2)).await.unwrap_err().status(), Status::ERR_TIMEOUT);
    assert_eq!(clock.passed(), patience_for(2));
    // it was not sent, and is not sent later
    for number in 0..QUEUED_REQUESTS as u64 {
        assert_eq!(
            end.requests.recv().await.unwrap().request,
            Request::DeregisterEvents(DeregisterEvents::new(number))
        );
    }
    assert!(end.requests.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn gen_12_a_call_without_a_limit_has_that_of_the_connection() {
    let limit = Duration::from_secs(5);
    let (connection, _end) = Connection::new(ProcId::none(), false, Some(limit));
    let clock = PausedClock::start();
    let asked = connection.request(Request::DeregisterEvents(DeregisterEvents::new(1))).await;
    assert_eq!((asked.unwrap_err().status(), clock.passed()), (Status::ERR_TIMEOUT, limit));
    let in_order = connection.slot().await.unwrap().send(DeregisterEvents::new(1));
    let asked = connection.answer(in_order).await;
    assert_eq!((asked.unwrap_err().status(), clock.passed()), (Status::ERR_TIMEOUT, 2 * limit));
    assert!(connection.is_open());
    // nor does it wait for room for longer
    while let Ok(slot) = connection.slot_in_time("commit").await {
        drop(slot.send(DeregisterEvents::new(1)));
    }
    assert_eq!(clock.passed(), 3 * limit);
    let mut unlimited = pin!(connection.request(limited(0)));
    tokio::time::advance(Duration::from_secs(1_000_000)).await;
    assert!(is_ready(unlimited.as_mut()).is_none());
}

#[tokio::test(start_paused = true)]
async fn gen_12_without_a_limit_the_wait_has_no_end() {
    let (connection, mut end) = pair();
    let mut answers = [
        pin!(connection.request(limited(0))),
        pin!(connection.request(Request::DeregisterEvents(DeregisterEvents::new(1)))),
    ];
    for answer in &mut answers {
        assert!(is_ready(answer.as_mut()).is_none());
    }
    tokio::time::advance(Duration::from_secs(1_000_000)).await;
    for mut answer in answers {
        assert!(is_ready(answer.as_mut()).is_none());
        let id = end.requests.recv().await.unwrap().id;
        end.deliverer.deliver(Incoming::Reply { id, outcome: Ok(Reply::Done) });
        assert!(answer.await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_was_given_up_is_taken_back_when_the_server_wakes_up() {
    let (connection, mut end) = pair();
    let mut request = RegisterEvents::new(vec![]);
    request.directives = Directives::new().with(&keys::TIMEOUT, 1);
    let given_up = connection.register(request, interest(&[], 4)).await;
    assert_eq!(given_up.unwrap_err().status(), Status::ERR_TIMEOUT);
    let id = end.requests.recv().await.unwrap().id;
    end.deliverer.deliver(Incoming::Reply { id, outcome: Ok(Reply::Registered(9)) });
    assert_eq!(errand(&mut end).await.request, Request::DeregisterEvents(DeregisterEvents::new(9)));
    assert!(lock(&connection.given_up).is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_any_more_is_forgotten() {
    let server = || ProcId::new("srv".parse().unwrap(), "0".parse().unwrap());
    let (connection, mut end) = Connection::new(server(), true, None);
    let mut given_up = Vec::new();
    for number in 0..3 {
        if number == 0 {
            // in whatever way
            drop(connection.slot().await.unwrap().send(DeregisterEvents::new(1)));
        } else {
            assert!(connection.request(limited(1)).await.unwrap_err().is_timeout());
        }
        given_up.push(end.requests.recv().await.unwrap().id);
        assert!(connection.pending.is_empty());
        let Some(Errand::GiveUp(id)) = end.errands.recv().await else { panic!("the transport is not told") };
        assert_eq!(id, given_up[number]);
        assert!(!end.deliverer.is_awaited(id));
    }
    for id in given_up {
        end.deliverer.deliver(Incoming::Reply { id, outcome: Ok(Reply::Done) });
    }

    // a registration is kept, to be taken back, but not any number
    let ask = || Request::RegisterEvents(RegisterEvents::new(vec![]));
    for number in 0..MAX_GIVEN_UP + 3 {
        drop(send_registration(&connection, ask(), interest(&[], 1)).await);
        let id = end.requests.recv().await.unwrap().id;
        assert!(end.deliverer.is_awaited(id));
        let forgotten = end.errands.try_recv();
        assert_eq!(forgotten.is_ok(), number >= MAX_GIVEN_UP, "{forgotten:?}");
    }
    assert_eq!((connection.pending.len(), lock(&connection.given_up).len()), (MAX_GIVEN_UP, MAX_GIVEN_UP));
    // one that is answered is not given up
    let answer = connection.slot().await.unwrap().send(DeregisterEvents::new(1));
    let id = end.requests.recv().await.unwrap().id;
    end.deliverer.deliver(Incoming::Reply { id, outcome: Ok(Reply::Done) });
    assert!(answer.reply.await.is_ok() && end.errands.try_recv().is_err());
}
