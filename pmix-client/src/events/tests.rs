//! Chains: what runs, in which order, and what a handler can do to others.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use pmix_types::{Directives, Event, EventFilter, ProcId, Status, keys};
use tokio::sync::{Notify, mpsc};

use super::handler::Handler;
use super::placement::{Order, Placement};
use super::*;

const CODE: Status = Status::from_raw(7);

/// What has been called, as `name` or `name(names of the earlier ones)`.
type Log = Arc<Mutex<Vec<String>>>;

#[derive(Default)]
struct World {
    router: Router,
    registrations: u64,
    log: Log,
}

impl World {
    /// A handler under the next registration number.
    fn handler(
        &mut self,
        name: &str,
        codes: &[Status],
        order: Order,
        outcome: impl Fn() -> HandlerOutcome + Send + 'static,
    ) -> Arc<Handler> {
        let log = self.log.clone();
        let own = name.to_owned();
        self.add(name, codes, order, move |call: HandlerCall| {
            let earlier: Vec<_> = call.earlier.iter().map(|result| result.name.clone()).collect();
            log.lock().unwrap().push(format!("{own}({})", earlier.join(",")));
            let outcome = outcome();
            async move { outcome }
        })
    }

    fn add<F, R>(
        &mut self,
        name: &str,
        codes: &[Status],
        order: Order,
        function: impl FnMut(HandlerCall) -> F + Send + 'static,
    ) -> Arc<Handler>
    where
        F: Future<Output = R> + Send + 'static,
        R: Into<HandlerOutcome> + 'static,
    {
        let placement = Placement { name: name.into(), order };
        let id = self.router.seat(codes.len(), &placement, || Box::new(|_| Box::pin(async {}))).unwrap();
        let handler = Arc::new(Handler::new(id, name.into(), function));
        let filter = EventFilter::new(codes.to_vec(), &mut Directives::new()).unwrap();
        self.registrations += 1;
        let interest = Interest { filter, listener: Listener::Handler(handler.clone()) };
        self.router.add(self.registrations, interest);
        handler
    }

    /// Adds a handler that runs last and says when it has.
    fn last(&mut self) -> mpsc::UnboundedReceiver<HandlerCall> {
        let (done, is_done) = mpsc::unbounded_channel();
        self.add("last", &[], Order::Last, move |call| {
            done.send(call).unwrap();
            async {}
        });
        is_done
    }

    fn deliver(&self) {
        self.router.deliver(&(1..=self.registrations).collect::<Vec<_>>(), &event());
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

fn event() -> Event {
    Event::new(CODE, ProcId::none())
}

fn ok() -> HandlerOutcome {
    ().into()
}

#[tokio::test]
async fn evt_01_evt_07_evt_08_each_handler_sees_what_those_before_it_have_said() {
    let mut world = World::default();
    let mut last = world.last();
    world.handler("default", &[], Order::Front, ok);
    world.handler("single", &[CODE], Order::Front, || {
        HandlerOutcome::partial_action_taken().with_result(&keys::EVENT_TEXT_MESSAGE, "half")
    });
    world.handler("", &[CODE], Order::Front, HandlerOutcome::no_action_taken);
    world.handler("multi", &[CODE, Status::SUCCESS], Order::Front, ok);
    world.handler("first", &[CODE], Order::First, ok);
    world.deliver();
    let call = last.recv().await.unwrap();
    assert_eq!(
        world.log(),
        ["first()", "(first)", "single(first,)", "multi(first,,single)", "default(first,,single,multi)"]
    );
    assert_eq!(call.event, event());
    let statuses: Vec<_> = call.earlier.iter().map(|result| result.status).collect();
    assert_eq!(
        statuses[..3],
        [Status::SUCCESS, Status::EVENT_NO_ACTION_TAKEN, Status::EVENT_PARTIAL_ACTION_TAKEN]
    );
    assert_eq!(call.earlier[2].results.get(&keys::EVENT_TEXT_MESSAGE).unwrap().as_deref(), Some("half"));
}

#[tokio::test]
async fn evt_06_action_complete_ends_the_chain() {
    let mut world = World::default();
    let mut last = world.last();
    world.handler("after", &[], Order::Front, ok);
    world.handler("ends", &[CODE], Order::Front, HandlerOutcome::action_complete);
    world.deliver();
    // only to know when it is over
    world.router.deliver(&[1], &event());
    assert_eq!(last.recv().await.unwrap().earlier, [], "the last one was not run for the first event");
    assert_eq!(world.log(), ["ends()"]);
}

#[tokio::test]
async fn a_handler_that_panics_has_failed_and_the_chain_goes_on() {
    let mut world = World::default();
    let mut last = world.last();
    world.add("at once", &[CODE], Order::Front, |_| -> std::future::Ready<()> { panic!("at once") });
    world.add("later", &[CODE], Order::Front, |call| async move {
        pmix_test_wait::turn().await;
        assert_ne!(call.event.code, CODE);
    });
    for _ in 0..2 {
        world.deliver();
        let call = last.recv().await.unwrap();
        let said: Vec<_> = call.earlier.iter().map(|result| (result.name.as_str(), result.status)).collect();
        assert_eq!(said, [("later", Status::ERROR), ("at once", Status::ERROR)]);
    }
}

#[tokio::test]
async fn gen_17_a_handler_that_never_returns_holds_up_no_stream_and_what_waits_is_bounded() {
    let mut world = World::default();
    let started = Arc::new(Notify::new());
    let signal = started.clone();
    let stuck = world.add("stuck", &[CODE], Order::Front, move |_| {
        signal.notify_one();
        pending::<()>()
    });
    let queue = Arc::new(EventQueue::new(2000));
    world.registrations += 1;
    let filter = EventFilter::default();
    world.router.add(2, Interest { filter, listener: Listener::Stream(queue.clone()) });
    world.deliver();
    started.notified().await;
    for _ in 0..1000 {
        world.deliver();
    }
    assert_eq!(stuck.missed(), 1000 - 512);
    let mut heard = 0;
    std::future::poll_fn(|context| {
        while let Poll::Ready(Some(Ok(_))) = queue.poll_next(context) {
            heard += 1;
        }
        Poll::Ready(())
    })
    .await;
    assert_eq!(heard, 1001);
}

#[tokio::test]
async fn evt_15_a_handler_that_is_deregistered_is_not_called_for_what_still_waits() {
    let mut world = World::default();
    let mut last = world.last();
    let (go, started) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (wait, signal) = (go.clone(), started.clone());
    world.add("slow", &[CODE], Order::First, move |_| {
        let (wait, signal) = (wait.clone(), signal.clone());
        async move {
            signal.notify_one();
            wait.notified().await;
        }
    });
    world.handler("gone", &[CODE], Order::Front, ok);
    world.deliver();
    started.notified().await;
    world.router.remove(3);
    go.notify_one();
    last.recv().await.unwrap();
    assert_eq!(world.log(), [""; 0]);
}

#[tokio::test]
async fn evt_21_handlers_hear_of_the_lost_connection_however_much_waits() {
    let mut world = World::default();
    let mut last = world.last();
    world.handler("unaware", &[CODE], Order::Front, ok);
    for _ in 0..600 {
        world.router.deliver(&[1], &event());
    }
    world.router.lose(&Event::from(Status::ERR_LOST_CONNECTION));
    let mut heard = Vec::new();
    while let Some(call) = last.recv().await {
        heard.push(call.event.code);
    }
    assert_eq!(heard.len(), 513);
    assert_eq!(heard.pop(), Some(Status::ERR_LOST_CONNECTION));
    assert_eq!(world.log(), [""; 0]);
}

#[tokio::test]
async fn evt_11_events_of_the_process_itself_are_filtered_and_ordered_like_others() {
    let mut world = World::default();
    let mut last = world.last();
    world.handler("other", &[Status::SUCCESS], Order::Front, ok);
    world.handler("single", &[CODE], Order::Front, ok);
    world.router.deliver_local(&event());
    last.recv().await.unwrap();
    assert_eq!(world.log(), ["single()"]);
}

#[test]
fn a_handler_that_finds_no_runtime_takes_no_place() {
    let mut world = World::default();
    let outside = std::panic::AssertUnwindSafe(|| world.handler("only", &[CODE], Order::First, ok));
    assert!(std::panic::catch_unwind(outside).is_err());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { world.handler("only", &[CODE], Order::First, ok) });
}

#[test]
fn handlers_run_again_though_the_runtime_of_the_first_has_ended() {
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut world = World::default();
    let first = runtime();
    first.block_on(async { world.handler("first", &[CODE], Order::Front, ok) });
    drop(first);
    runtime().block_on(async {
        let mut last = world.last();
        world.deliver();
        assert!(last.recv().await.is_some());
        assert_eq!(world.log(), ["first()"]);
    });
}
