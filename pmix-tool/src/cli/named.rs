//! Errors of input and output that say where they are from.

use std::fmt::Display;
use std::io::{self, Write};

/// A writer whose errors say what it writes to.
pub(super) struct Named<W> {
    name: &'static str,
    writer: W,
}

impl<W> Named<W> {
    pub(super) const fn stdout(writer: W) -> Self {
        Self { name: "standard output", writer }
    }

    pub(super) const fn stderr(writer: W) -> Self {
        Self { name: "standard error", writer }
    }
}

impl<W: Write> Write for Named<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes).map_err(about(self.name))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush().map_err(about(self.name))
    }
}

/// Puts before an error what it is about; its kind stays.
pub(super) fn about(what: impl Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}
