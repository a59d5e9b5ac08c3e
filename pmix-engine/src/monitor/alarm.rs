use pmix_types::message::Failure;
use pmix_types::{DataRange, Directives, Event, Info, Memory, ProcId, Status, keys};

/// The event that a monitor raises.
#[derive(Debug)]
pub(super) struct Alarm {
    pub(super) event: Event,
    /// Cancels the monitor; empty for none.
    pub(super) label: String,
}

impl Alarm {
    /// Takes what the directives say of the event; `code` is `SUCCESS` for the default.
    pub(super) fn take(
        code: Status,
        by_default: Status,
        proc: &ProcId,
        directives: &mut Directives,
    ) -> Result<Self, Failure> {
        let code = if code == Status::SUCCESS { by_default } else { code };
        let label = directives.take(&keys::MONITOR_ID)?.unwrap_or_default();
        let range = directives.take(&keys::RANGE)?.unwrap_or(DataRange::NAMESPACE);
        let custom = directives.take_each(|info| info.is(&keys::EVENT_CUSTOM_RANGE));
        let mut event = Event::new(code, proc.clone()).with_range(range);
        event = event.with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc.clone()));
        if !label.is_empty() {
            event = event.with_info(Info::new(&keys::MONITOR_ID, label.as_str()));
        }
        if directives.take_flag(&keys::MONITOR_APP_CONTROL)? {
            // for the host (MON-03)
            event = event.with_info(Info::new(&keys::MONITOR_APP_CONTROL, true));
        }
        // the server monitors heartbeats and files of its own node only
        directives.take_flag(&keys::MONITOR_LOCAL_ONLY)?;
        event = custom.into_iter().take(1).fold(event, Event::with_info);
        if range == DataRange::UNDEF || !range.is_known() {
            let message = format!("an event cannot be raised in range {range}");
            return Err(Failure::new(Status::ERR_PARAM_VALUE_NOT_SUPPORTED, message));
        }
        if range == DataRange::CUSTOM && event.custom_range().is_empty() {
            return Err(bad_param("range CUSTOM needs the processes: EVENT_CUSTOM_RANGE"));
        }
        Ok(Self { event, label })
    }

    pub(super) fn memory(&self) -> usize {
        self.event.memory() + self.label.memory()
    }
}

pub(super) fn bad_param(message: &str) -> Failure {
    Failure::new(Status::ERR_BAD_PARAM, message)
}
