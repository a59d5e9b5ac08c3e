//! What pages are told. Nothing is queued for a page that is slow: it gets the last state, and is told how many events it has missed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use futures::Stream;
use tokio::sync::{broadcast, watch};

/// Events that a page is told at the beginning, and that one may be behind.
const MAX_BEHIND: usize = 128;

/// News of a kind, as a line of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct News {
    pub(super) kind: &'static str,
    pub(super) json: Arc<str>,
}

/// The last of what is known, and those who are told.
#[derive(Debug)]
pub(super) struct Hub {
    state: watch::Sender<Arc<str>>,
    waits: watch::Sender<Arc<str>>,
    events: broadcast::Sender<Arc<str>>,
    recent: Mutex<VecDeque<Arc<str>>>,
}

/// One who is told.
#[derive(Debug)]
struct Subscriber {
    /// Events from before.
    earlier: VecDeque<Arc<str>>,
    state: watch::Receiver<Arc<str>>,
    waits: watch::Receiver<Arc<str>>,
    events: broadcast::Receiver<Arc<str>>,
}

impl Default for Hub {
    fn default() -> Self {
        let nothing = || watch::Sender::new(Arc::from(""));
        Self {
            state: nothing(),
            waits: nothing(),
            events: broadcast::Sender::new(MAX_BEHIND),
            recent: Mutex::default(),
        }
    }
}

impl Hub {
    /// Jobs and processes.
    pub(super) fn tell_state(&self, json: String) {
        self.state.send_replace(json.into());
    }

    /// What waits.
    pub(super) fn tell_waits(&self, json: String) {
        self.waits.send_replace(json.into());
    }

    /// Something that has happened.
    pub(super) fn tell_event(&self, json: String) {
        let json: Arc<str> = json.into();
        // with this lock, a new reader has each once
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() >= MAX_BEHIND {
            recent.pop_front();
        }
        recent.push_back(Arc::clone(&json));
        // nobody may be there
        let _ = self.events.send(json);
    }

    /// Whether anybody is told.
    pub(super) fn has_readers(&self) -> bool {
        self.state.receiver_count() > 0
    }

    /// All that is known, then all that comes.
    pub(super) fn read(&self) -> impl Stream<Item = News> + Send + use<> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reader = Subscriber {
            earlier: recent.clone(),
            state: self.state.subscribe(),
            waits: self.waits.subscribe(),
            events: self.events.subscribe(),
        };
        drop(recent);
        reader.state.mark_changed();
        reader.waits.mark_changed();
        futures::stream::unfold(reader, |mut reader| async move {
            let news = reader.next().await?;
            Some((news, reader))
        })
    }
}

impl Subscriber {
    /// The next news; `None` if there will be no more.
    async fn next(&mut self) -> Option<News> {
        let (kind, json) = loop {
            if let Some(json) = self.earlier.pop_front() {
                break ("event", json);
            }
            let news = tokio::select! {
                biased;
                changed = self.state.changed() => {
                    changed.ok()?;
                    ("state", self.state.borrow_and_update().clone())
                }
                changed = self.waits.changed() => {
                    changed.ok()?;
                    ("waits", self.waits.borrow_and_update().clone())
                }
                event = self.events.recv() => match event {
                    Ok(json) => ("event", json),
                    Err(broadcast::error::RecvError::Lagged(missed)) => ("event", super::state::missed(missed).into()),
                    Err(broadcast::error::RecvError::Closed) => return None,
                },
            };
            // before the first answer there is nothing to tell
            if !news.1.is_empty() {
                break news;
            }
        };
        Some(News { kind, json })
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::StreamExt;

    use super::*;

    fn news(kind: &'static str, json: &str) -> Option<News> {
        Some(News { kind, json: json.into() })
    }

    #[tokio::test]
    async fn who_comes_late_is_told_what_is_known_and_who_is_slow_the_last_of_it() {
        let hub = Hub::default();
        assert!(!hub.has_readers());
        hub.tell_event("e1".to_owned());
        hub.tell_state("s1".to_owned());
        let mut page = pin!(hub.read());
        assert!(hub.has_readers());
        assert_eq!(page.next().await, news("event", "e1"));
        assert_eq!(page.next().await, news("state", "s1"));
        for number in 2..10_000 {
            hub.tell_state(format!("s{number}"));
            hub.tell_waits(format!("w{number}"));
            hub.tell_event(format!("e{number}"));
        }
        assert_eq!(page.next().await, news("state", "s9999"));
        assert_eq!(page.next().await, news("waits", "w9999"));
        let missed = page.next().await.unwrap();
        assert!(missed.json.contains("\"missed\":9870"), "{missed:?}");
        assert_eq!(page.next().await, news("event", "e9872"));
        // a later page begins with the same number of events
        let later: Vec<_> = hub.read().take(MAX_BEHIND + 1).collect().await;
        assert_eq!((later[0].json.as_ref(), later[MAX_BEHIND].kind), ("e9872", "state"));
        drop(hub);
        let rest: Vec<_> = page.collect().await;
        assert!(rest.len() <= MAX_BEHIND, "it ends with the hub");
    }
}
