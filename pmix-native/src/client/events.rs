//! Registrations for events. A server knows one registration of a process for each code, so they are kept here.

use std::collections::BTreeMap;

use pmix_types::message::Failure;
use pmix_types::{Event, EventFilter, ProcId, Status};

use crate::msg::Request as Ask;

/// What the process has registered for.
#[derive(Clone, Debug, Default)]
pub(super) struct Registrations {
    last: u64,
    held: BTreeMap<u64, EventFilter>,
    /// How many registrations each code has at the server; `None` is for all codes.
    users: BTreeMap<Option<Status>, usize>,
}

impl Registrations {
    /// The codes of a registration that the server does not know yet. An empty list of codes stands for all of them, so the
    /// result is `None` if there is nothing to ask.
    pub(super) fn unknown(&self, codes: &[Status]) -> Option<Vec<Status>> {
        if codes.is_empty() {
            return (!self.users.contains_key(&None)).then(Vec::new);
        }
        let unknown: Vec<_> =
            codes.iter().copied().filter(|code| !self.users.contains_key(&Some(*code))).collect();
        (!unknown.is_empty()).then_some(unknown)
    }

    /// Adds one that the server has confirmed, and returns its number.
    pub(super) fn add(&mut self, filter: EventFilter) -> u64 {
        self.last += 1;
        for code in codes_of(&filter) {
            *self.users.entry(code).or_default() += 1;
        }
        self.held.insert(self.last, filter);
        self.last
    }

    /// Ends one. The result has the codes that nobody is registered for any more, with [`Ask::DEFAULT_HANDLERS`] for all codes.
    /// Those that the server is being asked for stay there, as it has one registration for all.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` if there is none with this number.
    pub(super) fn remove(
        &mut self,
        number: u64,
        is_asked_for: impl Fn(Option<Status>) -> bool,
    ) -> Result<Vec<Status>, Failure> {
        let unknown =
            || Failure::new(Status::ERR_BAD_PARAM, format!("there is no registration with number {number}"));
        let filter = self.held.remove(&number).ok_or_else(unknown)?;
        let mut over = Vec::new();
        for code in codes_of(&filter) {
            let Some(users) = self.users.get_mut(&code) else { continue };
            *users -= 1;
            if *users == 0 {
                self.users.remove(&code);
                if !is_asked_for(code) {
                    over.push(code.unwrap_or(Ask::DEFAULT_HANDLERS));
                }
            }
        }
        Ok(over)
    }

    /// The registrations that an event goes to.
    pub(super) fn wanting(&self, event: &Event, me: &ProcId, is_local: impl Fn(&ProcId) -> bool) -> Vec<u64> {
        let wanting = self.held.iter().filter(|(_, filter)| filter.accepts(event, me, &is_local));
        wanting.map(|(number, _)| *number).collect()
    }
}

/// Whether a registration is for a code; `None` is all codes.
pub(super) fn names(filter: &EventFilter, code: Option<Status>) -> bool {
    match code {
        Some(code) => filter.codes().contains(&code),
        None => filter.codes().is_empty(),
    }
}

/// The codes of a registration, each once; `None` for all codes.
fn codes_of(filter: &EventFilter) -> Vec<Option<Status>> {
    let mut codes: Vec<_> = filter.codes().iter().copied().map(Some).collect();
    codes.sort_unstable();
    codes.dedup();
    if codes.is_empty() { vec![None] } else { codes }
}

#[cfg(test)]
mod tests {
    use pmix_types::Directives;

    use super::*;

    fn filter(codes: &[i32]) -> EventFilter {
        EventFilter::new(status(codes), &mut Directives::new()).unwrap()
    }

    fn status(codes: &[i32]) -> Vec<Status> {
        codes.iter().copied().map(Status::from_raw).collect()
    }

    #[test]
    fn the_server_is_told_of_a_code_once_and_of_its_end_once() {
        let mut all = Registrations::default();
        assert_eq!(all.unknown(&status(&[-5, -6])), Some(status(&[-5, -6])));
        let first = all.add(filter(&[-5, -6]));
        assert_eq!(all.unknown(&status(&[-6])), None);
        assert_eq!(all.unknown(&status(&[-6, -7])), Some(status(&[-7])));
        let second = all.add(filter(&[-6, -7]));
        assert_eq!(all.unknown(&[]), Some(vec![]), "the default handlers");
        let default = all.add(filter(&[]));
        assert_eq!(all.unknown(&[]), None);
        assert_eq!(
            all.remove(first, |_| false).unwrap(),
            status(&[-5]),
            "the other code has a second listener"
        );
        assert_eq!(all.remove(default, |_| false).unwrap(), [Ask::DEFAULT_HANDLERS]);
        assert_eq!(all.remove(default, |_| false).unwrap_err().status, Status::ERR_BAD_PARAM);
        assert_eq!(all.remove(second, |_| false).unwrap(), status(&[-7, -6]));
        assert!(all.users.is_empty());
    }

    #[test]
    fn evt_09_an_event_goes_to_those_who_want_it() {
        let mut all = Registrations::default();
        let (one, other, default) = (all.add(filter(&[-5])), all.add(filter(&[-6])), all.add(filter(&[])));
        let event = Event::new(Status::from_raw(-5), ProcId::none());
        assert_eq!(all.wanting(&event, &ProcId::none(), |_| true), [one, default]);
        assert_ne!(one, other);
    }
}
