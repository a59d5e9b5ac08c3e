use bytes::Bytes;

use crate::{Directives, IofChannels, ProcId};

directed_requests! {
    /// A subscription to the output of processes.
    IofPull {
        /// `IOF_COPY`, `IOF_BUFFERING_SIZE` and the like; may be empty.
        directives,
        /// The processes; rank `WILDCARD` for all of a namespace. Never empty.
        procs: Vec<ProcId>,
        /// The channels; standard input cannot be among them (IOF-02).
        channels: IofChannels,
    }
    /// Input for processes.
    IofPush {
        /// `IOF_COMPLETE` and the like; may be empty.
        directives,
        /// The receivers; rank `WILDCARD` for all of a namespace. Never empty.
        targets: Vec<ProcId>,
        /// The input; may be empty, with `IOF_COMPLETE` at its end.
        data: Bytes,
    }
}

/// Output of a process.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Output {
    /// The process that wrote it; rank `WILDCARD` for a notice about the whole namespace.
    pub source: ProcId,
    /// The channel it was written to; several in a notice about a whole namespace.
    pub channels: IofChannels,
    /// A piece of the output, which may split lines and characters (IOF-09); may be empty.
    pub data: Bytes,
    /// More about it, such as `IOF_COMPLETE`; may be empty.
    pub info: Directives,
}

impl Output {
    /// Output without further information.
    pub const fn new(source: ProcId, channels: IofChannels, data: Bytes) -> Self {
        Self { source, channels, data, info: Directives::new() }
    }
}
