//! Where commands write: errors say where they are from, and a terminal is not controlled by processes of others.

use std::fmt::Display;
use std::io::{self, Write};

use pmix_tool::types::escaped;

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

/// A writer that escapes what could control a terminal, if it is told to.
pub(super) struct Guarded<W> {
    writer: W,
    escapes: bool,
}

impl<W> Guarded<W> {
    pub(super) const fn new(writer: W, escapes: bool) -> Self {
        Self { writer, escapes }
    }
}

impl<W: Write> Write for Guarded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.escapes {
            return self.writer.write(bytes);
        }
        self.writer.write_all(harmless(bytes).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Output as text that moves a terminal's cursor by line feeds and tabs alone.
fn harmless(output: &[u8]) -> String {
    let mut text = String::with_capacity(output.len());
    for chunk in output.utf8_chunks() {
        for piece in chunk.valid().split_inclusive(['\n', '\t']) {
            let content = piece.trim_end_matches(['\n', '\t']);
            text.push_str(&escaped(content).to_string());
            text.extend(piece.get(content.len()..));
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Puts before an error what it is about; its kind stays.
pub(super) fn about(what: impl Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_a_terminal_is_escaped_and_text_is_not() {
        for text in ["one\n\n\ttwo\n", "é 日本 \\ 100 %", "\n", ""] {
            assert_eq!(harmless(text.as_bytes()), text);
        }
        assert_eq!(harmless(b"a\x1b]0;title\x07\r\nb"), "a\\u{1b}]0;title\\u{7}\\r\nb");
        assert_eq!(harmless("a\u{9b}2J\u{202e}".as_bytes()), "a\\u{9b}2J\\u{202e}");
        // of terminals that do not expect UTF-8
        assert_eq!(harmless(b"a\x9b2J\xc2"), "a\\x9b2J\\xc2");
    }
}
