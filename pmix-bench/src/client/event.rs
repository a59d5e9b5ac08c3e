//! An event of one rank that all others receive.

use std::sync::atomic::Ordering::SeqCst;

use pmix_client::HandlerOutcome;
use pmix_client::types::{DataRange, Status};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::rank::{Bench, Unit, wrong};
use crate::page::{stamp, wait, wake};
use crate::{Result, clock};

/// The first events are not counted.
const WARM: usize = 3;
/// How long all handlers may take, in nanoseconds.
const LIMIT: u64 = 5_000_000_000;

/// Nanoseconds from before an event was told.
#[derive(Default)]
struct Times {
    /// To the first line of each handler.
    each: Vec<u64>,
    /// To that of the last.
    last: Vec<u64>,
    /// To the return of the call.
    call: Vec<u64>,
}

impl Bench {
    pub(super) async fn event(&self) -> Result<()> {
        let events = if self.n >= 32 { 30 } else { 100 };
        let code = Status::from_raw(Status::EXTERNAL_ERR_BASE.to_raw() - 17);
        let (heard, mut hearing) = unbounded_channel();
        let (page, slot) = (self.page, self.slot());
        let handler = move |_| {
            stamp(&slot.event);
            // this rank first, as it may be what the last of all waits for
            let _ = heard.send(());
            page.events.fetch_add(1, SeqCst);
            wake(&page.events);
            std::future::ready(HandlerOutcome::action_complete())
        };
        let registration = self.client.on_event([code]).handle(handler).await?;
        page.barrier();
        if self.is_first() {
            let times = self.tell(code, events, &mut hearing).await?;
            self.print("event_last_handler", 0, Unit::Micros, times.last.into_iter())?;
            self.print("event_each_handler", 0, Unit::Micros, times.each.into_iter())?;
            self.print("event_notify_call", 0, Unit::Micros, times.call.into_iter())?;
        } else {
            // handlers run on this thread, so that it must not block before the last of them
            for _ in 0..WARM + events {
                hearing.recv().await;
            }
        }
        page.barrier();
        registration.deregister().await?;
        page.barrier();
        Ok(())
    }

    async fn tell(&self, code: Status, events: usize, hearing: &mut UnboundedReceiver<()>) -> Result<Times> {
        let mut times = Times::default();
        for round in 0..WARM + events {
            self.page.events.store(0, SeqCst);
            let slots = &self.page.slots[..self.n as usize];
            slots.iter().for_each(|slot| slot.event.store(0, SeqCst));
            let begin = clock::now();
            self.client.notify(code).range(DataRange::NAMESPACE).await?;
            let told = clock::now();
            hearing.recv().await;
            self.until_all_have_heard(begin)?;
            if round < WARM {
                continue;
            }
            let others = slots.iter().skip(1).map(|slot| slot.event.load(SeqCst).saturating_sub(begin));
            times.last.push(others.clone().max().unwrap_or(0));
            times.each.extend(others);
            times.call.push(told - begin);
        }
        Ok(times)
    }

    fn until_all_have_heard(&self, begin: u64) -> Result<()> {
        loop {
            let heard = self.page.events.load(SeqCst);
            if heard >= self.n {
                return Ok(());
            }
            wait(&self.page.events, heard);
            if clock::now() - begin > LIMIT {
                return wrong(format!("only {heard} of {} handlers ran", self.n));
            }
        }
    }
}
