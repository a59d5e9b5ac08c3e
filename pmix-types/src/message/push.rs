use super::Output;
use crate::Event;

/// What a server says unasked.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Push {
    /// An event for these registrations of the process.
    Event {
        /// Numbers of the registrations it matches.
        registrations: Vec<u64>,
        /// The event.
        event: Event,
    },
    /// Events were left out because the process did not read fast enough.
    Lagged {
        /// How many.
        missed: u64,
    },
    /// Output for a registration of the process.
    Output {
        /// Number of the registration.
        registration: u64,
        /// The output.
        output: Output,
    },
    /// Output was left out because the process did not read fast enough.
    OutputLost {
        /// Number of the registration it was for.
        registration: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// The server stops in good order: the connection ends next.
    Stopping,
}
