use crate::message::Failure;
use crate::{DataArray, DataRange, Directives, Event, Key, Memory, ProcId, Status, keys};

/// Which events a registration receives: by their codes, the processes that they are about, and their sources.
///
/// Client and server apply the same rules, so an event that does not leave its process is filtered like any other.
///
/// # Standard
/// The directives of `PMIx_Register_event_handler`; rules EVT-09, EVT-10.
///
/// # Examples
/// ```
/// use pmix_types::{Directives, Event, EventFilter, Info, ProcId, Status, keys};
/// let (me, peer): (ProcId, ProcId) =
///     (ProcId::new("job".parse()?, "0".parse()?), ProcId::new("job".parse()?, "1".parse()?));
/// let mut directives = Directives::new().with(keys::EVENT_AFFECTED_PROC, peer.clone());
/// let filter = EventFilter::new(vec![Status::ERR_PROC_TERM_WO_SYNC], &mut directives)?;
///
/// let event = Event::new(Status::ERR_PROC_TERM_WO_SYNC, ProcId::none());
/// assert!(!filter.accepts(&event, &me, |_| true));
/// let event = event.with_info(Info::new(keys::EVENT_AFFECTED_PROC, peer));
/// assert!(filter.accepts(&event, &me, |_| true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Sorted, each once.
    codes: Vec<Status>,
    /// Sorted, as are those of [`Source::These`]: a list may name very many, and so may an event.
    affected: Option<Vec<ProcId>>,
    source: Option<Source>,
}

/// The selected sources of events, relative to the receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Host,
    Node,
    Nspace,
    Process,
    These(Vec<ProcId>),
}

impl EventFilter {
    /// The filter of a registration: codes (empty for all, a default handler), and the directives
    /// `EVENT_AFFECTED_PROC`, `EVENT_AFFECTED_PROCS`, `RANGE` and `EVENT_CUSTOM_RANGE`, which are marked as
    /// carried out. An empty list of processes selects no events. `EVENT_CUSTOM_RANGE` alone means the range `CUSTOM`;
    /// beside another range it is not carried out.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a directive of the wrong type, for one that is given twice with different values, and for
    /// the range `CUSTOM` without processes; `ERR_PARAM_VALUE_NOT_SUPPORTED` for an unknown range.
    pub fn new(mut codes: Vec<Status>, directives: &mut Directives) -> Result<Self, Failure> {
        codes.sort_unstable();
        codes.dedup();
        let one = directives.take(&keys::EVENT_AFFECTED_PROC)?;
        let several = procs_of(directives.take(&keys::EVENT_AFFECTED_PROCS)?, &keys::EVENT_AFFECTED_PROCS)?;
        let affected = match (one, several) {
            (None, None) => None,
            (one, several) => Some(sorted(one.into_iter().chain(several.unwrap_or_default()).collect())),
        };
        // carried out only by the range CUSTOM
        let custom = procs_of(directives.get(&keys::EVENT_CUSTOM_RANGE)?, &keys::EVENT_CUSTOM_RANGE)?;
        let range = directives.take(&keys::RANGE)?.or_else(|| custom.as_ref().map(|_| DataRange::CUSTOM));
        let source = match range {
            None | Some(DataRange::UNDEF | DataRange::SESSION | DataRange::GLOBAL) => None,
            Some(DataRange::RM) => Some(Source::Host),
            Some(DataRange::LOCAL) => Some(Source::Node),
            Some(DataRange::NAMESPACE) => Some(Source::Nspace),
            Some(DataRange::PROC_LOCAL) => Some(Source::Process),
            Some(DataRange::CUSTOM) => {
                let needs = "range CUSTOM needs the processes: EVENT_CUSTOM_RANGE";
                directives.take(&keys::EVENT_CUSTOM_RANGE)?;
                Some(Source::These(sorted(custom.ok_or_else(|| Failure::new(Status::ERR_BAD_PARAM, needs))?)))
            }
            Some(other) => {
                let message = format!("events cannot be filtered by range {other}");
                return Err(Failure::new(Status::ERR_PARAM_VALUE_NOT_SUPPORTED, message));
            }
        };
        Ok(Self { codes, affected, source })
    }

    /// The codes in order, each once; empty for all.
    pub fn codes(&self) -> &[Status] {
        &self.codes
    }

    /// Whether this event passes the filter of a registration of `receiver`. This does not check that the receiver is
    /// in the event's range. `is_local` returns whether a process is on the receiver's node.
    ///
    /// An event of the host has neither node nor namespace: it passes the filter `LOCAL`, and the filter `NAMESPACE` if
    /// it is about a process of the receiver's namespace.
    pub fn accepts(&self, event: &Event, receiver: &ProcId, is_local: impl Fn(&ProcId) -> bool) -> bool {
        self.wants_code(event) && self.wants_affected(event) && self.wants_source(event, receiver, is_local)
    }

    fn wants_code(&self, event: &Event) -> bool {
        if self.codes.is_empty() {
            // not for default handlers (EVT-10)
            !event.info.flag(&keys::EVENT_NON_DEFAULT).unwrap_or(false)
        } else {
            self.codes.binary_search(&event.code).is_ok()
        }
    }

    fn wants_affected(&self, event: &Event) -> bool {
        let are_wanted = |wanted: &Vec<ProcId>| event.affected_procs().iter().any(|proc| names(wanted, proc));
        self.affected.as_ref().is_none_or(are_wanted)
    }

    fn wants_source(&self, event: &Event, receiver: &ProcId, is_local: impl Fn(&ProcId) -> bool) -> bool {
        let is_of_host = event.source.nspace.is_empty();
        match &self.source {
            None => true,
            Some(Source::Host) => is_of_host,
            Some(Source::Node) => is_of_host || is_local(&event.source),
            Some(Source::Nspace) if is_of_host => {
                event.affected_procs().iter().any(|proc| proc.nspace == receiver.nspace)
            }
            Some(Source::Nspace) => event.source.nspace == receiver.nspace,
            Some(Source::Process) => event.source == *receiver,
            Some(Source::These(procs)) => names(procs, &event.source),
        }
    }
}

impl Memory for EventFilter {
    fn heap(&self) -> usize {
        let source = match &self.source {
            Some(Source::These(procs)) => procs.heap(),
            _ => 0,
        };
        self.codes.heap() + self.affected.heap() + source
    }
    fn detach(&mut self) {}
}

fn sorted(mut procs: Vec<ProcId>) -> Vec<ProcId> {
    procs.sort_unstable();
    procs
}

/// Whether one of the processes, which are sorted, [matches](ProcId::matches) this one.
fn names(sorted: &[ProcId], proc: &ProcId) -> bool {
    let of_nspace = sorted.partition_point(|named| named.nspace < proc.nspace);
    let has = |proc: &ProcId| sorted.binary_search(proc).is_ok();
    match proc.rank.is_wildcard() {
        true => sorted.get(of_nspace).is_some_and(|named| named.nspace == proc.nspace),
        false => has(proc) || has(&ProcId::wildcard(proc.nspace.clone())),
    }
}

/// The processes that a directive lists.
fn procs_of(list: Option<DataArray>, key: &Key<DataArray>) -> Result<Option<Vec<ProcId>>, Failure> {
    match list {
        None => Ok(None),
        Some(DataArray::Proc(procs)) => Ok(Some(procs)),
        Some(other) => {
            let message =
                format!("directive {}: an array of {}, not of PROC", key.key_name(), other.element_type());
            Err(Failure::new(Status::ERR_BAD_PARAM, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Info;

    fn proc(nspace: &str, rank: u32) -> ProcId {
        ProcId::new(nspace.parse().unwrap(), crate::Rank::from_raw(rank))
    }

    fn event() -> Event {
        Event::new(Status::from_raw(7), proc("a", 1))
    }

    fn filter(directives: Directives) -> EventFilter {
        EventFilter::new(vec![], &mut directives.clone()).unwrap()
    }

    #[test]
    fn evt_10_default_handlers_do_not_hear_of_what_is_not_for_them() {
        let private = event().with_info(Info::new(&keys::EVENT_NON_DEFAULT, true));
        let default = EventFilter::default();
        let named = EventFilter::new(vec![event().code], &mut Directives::new()).unwrap();
        assert!(default.accepts(&event(), &proc("a", 0), |_| true));
        assert!(!default.accepts(&private, &proc("a", 0), |_| true));
        assert!(named.accepts(&private, &proc("a", 0), |_| true));
    }

    #[test]
    fn evt_09_a_range_filters_by_the_source() {
        let by = |range| filter(Directives::new().with(&keys::RANGE, range));
        let of_host = Event::new(event().code, ProcId::none());
        let about = of_host.clone().with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc("a", 5)));
        let (same, foreign, itself) = (proc("a", 0), proc("b", 0), proc("a", 1));
        // range, then: same namespace, another namespace, the source itself, source elsewhere, host, host about it
        let cases = [
            (DataRange::GLOBAL, [true, true, true, true, true, true]),
            (DataRange::SESSION, [true, true, true, true, true, true]),
            (DataRange::LOCAL, [true, true, true, false, true, true]),
            (DataRange::NAMESPACE, [true, false, true, true, false, true]),
            (DataRange::PROC_LOCAL, [false, false, true, false, false, false]),
            (DataRange::RM, [false, false, false, false, true, true]),
        ];
        for (range, expected) in cases {
            let filter = by(range);
            let found = [
                filter.accepts(&event(), &same, |_| true),
                filter.accepts(&event(), &foreign, |_| true),
                filter.accepts(&event(), &itself, |_| true),
                filter.accepts(&event(), &same, |_| false),
                filter.accepts(&of_host, &same, |_| true),
                filter.accepts(&about, &same, |_| true),
            ];
            assert_eq!(found, expected, "{range}");
        }
        let custom = |procs| {
            let procs = DataArray::Proc(procs);
            filter(
                Directives::new()
                    .with(&keys::RANGE, DataRange::CUSTOM)
                    .with(&keys::EVENT_CUSTOM_RANGE, procs),
            )
        };
        assert!(custom(vec![proc("b", 0), proc("a", 1)]).accepts(&event(), &same, |_| true));
        assert!(custom(vec![ProcId::wildcard(same.nspace.clone())]).accepts(&event(), &same, |_| true));
        assert!(!custom(vec![proc("a", 2)]).accepts(&event(), &same, |_| true));
        let alone = |rank| {
            let procs = DataArray::Proc(vec![proc("a", rank)]);
            filter(Directives::new().with(&keys::EVENT_CUSTOM_RANGE, procs))
        };
        assert!(alone(1).accepts(&event(), &same, |_| true));
        assert!(!alone(2).accepts(&event(), &same, |_| true));
    }

    #[test]
    fn evt_09_the_affected_may_be_one_or_several() {
        let one = Directives::new().with(&keys::EVENT_AFFECTED_PROC, proc("a", 2));
        let both = one.clone().with(&keys::EVENT_AFFECTED_PROCS, DataArray::Proc(vec![proc("a", 3)]));
        let about = |rank| event().with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc("a", rank)));
        for (directives, ranks) in [(one, vec![2]), (both, vec![2, 3])] {
            let filter = filter(directives);
            let heard: Vec<_> =
                (0..5).filter(|rank| filter.accepts(&about(*rank), &proc("b", 0), |_| true)).collect();
            assert_eq!(heard, ranks);
            assert!(!filter.accepts(&event(), &proc("b", 0), |_| true));
        }
        let none = filter(Directives::new().with(&keys::EVENT_AFFECTED_PROCS, DataArray::Proc(vec![])));
        assert!(
            !none.accepts(&event(), &proc("b", 0), |_| true)
                && !none.accepts(&about(2), &proc("b", 0), |_| true)
        );
    }

    #[test]
    fn evt_09_long_lists_are_compared_at_once() {
        let ranks = |ranks: std::ops::Range<u32>| ranks.rev().map(|rank| proc("a", rank)).collect();
        let wanted =
            |procs| filter(Directives::new().with(&keys::EVENT_AFFECTED_PROCS, DataArray::Proc(procs)));
        let about = |procs| event().with_info(Info::new(&keys::EVENT_AFFECTED_PROCS, DataArray::Proc(procs)));
        // one by one, this would take a day
        let filter = wanted(ranks(0..1_000_000));
        assert!(!filter.accepts(&about(ranks(1_000_000..2_000_000)), &proc("b", 0), |_| true));
        for others in [vec![proc("b", 1), proc("a", 49_999)], vec![ProcId::wildcard("a".parse().unwrap())]] {
            assert!(filter.accepts(&about(others), &proc("b", 0), |_| true));
        }
        assert!(
            !filter.accepts(&about(vec![ProcId::wildcard("b".parse().unwrap())]), &proc("b", 0), |_| true)
        );
        let all = wanted(vec![proc("b", 1), ProcId::wildcard("a".parse().unwrap())]);
        assert!(all.accepts(&about(ranks(7..9)), &proc("b", 0), |_| true));
    }

    #[test]
    fn gen_05_gen_07b_directives_are_taken_and_wrong_ones_refused() {
        let mut directives = Directives::new().require(&keys::EVENT_AFFECTED_PROC, proc("a", 2));
        EventFilter::new(vec![], &mut directives).unwrap();
        assert!(directives.deny_unprocessed().is_ok());
        // no range but CUSTOM has processes
        let procs = || DataArray::Proc(vec![proc("a", 2)]);
        for (range, is_carried_out) in [(DataRange::CUSTOM, true), (DataRange::LOCAL, false)] {
            let custom = Directives::new().with(&keys::RANGE, range);
            let mut custom = custom.require(&keys::EVENT_CUSTOM_RANGE, procs());
            EventFilter::new(vec![], &mut custom).unwrap();
            assert_eq!(custom.deny_unprocessed().is_ok(), is_carried_out, "{range}");
        }
        let wrong = [
            Directives::new().with(&keys::RANGE, DataRange::CUSTOM),
            Directives::new().with(&keys::EVENT_AFFECTED_PROCS, DataArray::Uint8(vec![1])),
        ];
        for mut directives in wrong {
            let failure = EventFilter::new(vec![], &mut directives).unwrap_err();
            assert_eq!(failure.status, Status::ERR_BAD_PARAM, "{failure}");
        }
        let mut unknown = Directives::new().with(&keys::RANGE, DataRange::from_raw(77));
        let failure = EventFilter::new(vec![], &mut unknown).unwrap_err();
        assert_eq!(failure.status, Status::ERR_PARAM_VALUE_NOT_SUPPORTED);
    }
}
