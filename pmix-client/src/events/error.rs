use pmix_types::{Event, Status};
use thiserror::Error;

use crate::queue::{Item, Queue};

/// Events on their way to the reader of a stream.
pub(crate) type EventQueue = Queue<Event>;

/// What a stream yields in place of events.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EventError {
    /// The reader or the process was too slow: events are missing at this point. The stream continues.
    #[error("events lost because they were not read fast enough: {missed}")]
    Lagged {
        /// The number of events. If the server dropped them, some may have been for other streams.
        missed: u64,
    },
    /// The connection to the server is lost; the stream ends after this.
    #[error("the connection to the server is lost, no more events can come")]
    Disconnected,
}

impl EventError {
    /// The Standard's status for this failure: `ERR_OUT_OF_RESOURCE` for missing events, `ERR_LOST_CONNECTION` for the
    /// end.
    pub const fn status(&self) -> Status {
        match self {
            Self::Lagged { .. } => Status::ERR_OUT_OF_RESOURCE,
            Self::Disconnected => Status::ERR_LOST_CONNECTION,
        }
    }
}

impl Item for Event {
    type Trouble = EventError;

    fn lagged(missed: u64) -> EventError {
        EventError::Lagged { missed }
    }

    fn lag(trouble: &mut EventError) -> Option<&mut u64> {
        match trouble {
            EventError::Lagged { missed } => Some(missed),
            EventError::Disconnected => None,
        }
    }
}

pmix_types::message_first!(EventError);
