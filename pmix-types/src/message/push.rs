use super::Output;
use crate::Event;

/// A message of the server that is not a reply.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Push {
    /// An event for these registrations of the process.
    Event {
        /// Numbers of the registrations that the event matches.
        registrations: Vec<u64>,
        /// The event.
        event: Event,
        /// Whether it was sent before the registration, and kept for it.
        is_kept: bool,
    },
    /// Events were dropped because the process did not read fast enough.
    Lagged {
        /// The number of events.
        missed: u64,
    },
    /// Output for a registration of the process.
    Output {
        /// Number of the registration.
        registration: u64,
        /// The output.
        output: Output,
    },
    /// Output was dropped because the process did not read fast enough.
    OutputLost {
        /// Number of the registration it was for.
        registration: u64,
        /// The number of bytes.
        bytes: u64,
    },
    /// The server stops in good order: the connection ends next.
    Stopping,
}
