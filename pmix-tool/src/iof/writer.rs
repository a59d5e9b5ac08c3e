use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use pmix_client::OutputChunk;
use pmix_proto::files::{self, Existing};
use pmix_types::{IofChannels, ProcId};

use super::format::{OutputFormat, escape};

/// Longest beginning of a line that is held back until it is complete, in bytes.
pub(super) const MAX_LINE: usize = 64 << 10;

/// Writes output in an [`OutputFormat`]: standard output to one writer, standard error to another.
///
/// Lines of different processes never mix: the beginning of a line is held back until the line is complete or 64 KiB long.
///
/// # Examples
/// ```
/// use pmix_tool::{OutputChunk, OutputFormat, OutputWriter};
/// use pmix_tool::types::message::Output;
/// use pmix_tool::types::{IofChannels, ProcId, Rank};
///
/// let source = ProcId::new("job".parse()?, Rank::new(3)?);
/// let (mut out, mut err) = (Vec::new(), Vec::new());
/// let mut writer = OutputWriter::new(OutputFormat::default().rank(true), &mut out, &mut err);
/// for piece in ["one\ntw", "o\n", "thr"] {
///     let output = Output::new(source.clone(), IofChannels::STDOUT, piece.into());
///     writer.write(&OutputChunk::from(output))?;
/// }
/// writer.finish()?;
/// assert_eq!(out, b"[3]<stdout>: one\n[3]<stdout>: two\n[3]<stdout>: thr\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OutputWriter<O, E> {
    format: OutputFormat,
    out: O,
    err: E,
    pub(super) lines: BTreeMap<(ProcId, IofChannels), OutputLine>,
    /// Files written to so far.
    files: BTreeSet<PathBuf>,
}

/// An incomplete line.
#[derive(Debug, Default)]
pub(super) struct OutputLine {
    held: BytesMut,
    /// Its beginning has been written.
    is_begun: bool,
}

impl<O: Write, E: Write> OutputWriter<O, E> {
    /// A writer of standard output to `out` and of standard error to `err`.
    pub const fn new(format: OutputFormat, out: O, err: E) -> Self {
        Self { format, out, err, lines: BTreeMap::new(), files: BTreeSet::new() }
    }

    /// Writes a piece of output, and the rest of an incomplete line once its channel is closed. Flushes the writers.
    ///
    /// # Errors
    /// Errors of the writers, and of files, whose paths they name.
    pub fn write(&mut self, chunk: &OutputChunk) -> io::Result<()> {
        let source = (chunk.source.clone(), chunk.channels);
        if !chunk.data.is_empty() {
            let line = self.lines.entry(source.clone()).or_default();
            line.held.extend_from_slice(&chunk.data);
            let complete = match line.held.iter().rposition(|byte| *byte == b'\n') {
                Some(newline) => newline + 1,
                None => 0,
            };
            let is_long = line.held.len() - complete > MAX_LINE;
            let ready = if self.format.raw || is_long { line.held.len() } else { complete };
            let ready = line.held.split_to(ready).freeze();
            self.show(&source, &ready)?;
        }
        if chunk.is_complete {
            let closed: Vec<_> =
                self.lines.keys().filter(|held| chunk.source.matches(&held.0)).cloned().collect();
            for held in closed.into_iter().filter(|held| chunk.channels.contains(held.1)) {
                self.close(&held)?;
            }
        }
        Ok(())
    }

    /// Writes the rest of incomplete lines.
    ///
    /// # Errors
    /// Those of [`OutputWriter::write`].
    pub fn finish(&mut self) -> io::Result<()> {
        for source in self.lines.keys().cloned().collect::<Vec<_>>() {
            self.close(&source)?;
        }
        Ok(())
    }

    fn close(&mut self, source: &(ProcId, IofChannels)) -> io::Result<()> {
        let Some(line) = self.lines.get_mut(source) else { return Ok(()) };
        let mut rest = std::mem::take(&mut line.held);
        let is_open = line.is_begun || !rest.is_empty();
        if is_open && !self.format.raw && self.format.changes_lines() {
            rest.extend_from_slice(b"\n");
        }
        self.show(source, &rest.freeze())?;
        self.lines.remove(source);
        Ok(())
    }

    fn show(&mut self, source: &(ProcId, IofChannels), text: &Bytes) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let is_stderr = !source.1.contains(IofChannels::STDOUT);
        let channel = if is_stderr { "stderr" } else { "stdout" };
        let shown = self.formatted(source, channel, text);
        let files = self.format.files(&source.0, if self.format.merge { "stdout" } else { channel });
        for file in &files {
            let written = self.open(file).and_then(|mut opened| opened.write_all(&shown));
            written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
        }
        if self.format.file_only && !files.is_empty() {
            return Ok(());
        }
        let writer: &mut dyn Write =
            if is_stderr && !self.format.merge { &mut self.err } else { &mut self.out };
        writer.write_all(&shown)?;
        writer.flush()
    }

    fn formatted(&mut self, source: &(ProcId, IofChannels), channel: &str, text: &Bytes) -> Bytes {
        if self.format.raw || !self.format.changes_lines() {
            return text.clone();
        }
        let (before, behind) = self.format.frame(&source.0, channel);
        let line = self.lines.entry(source.clone()).or_default();
        let mut shown = BytesMut::with_capacity(text.len() + before.len());
        for piece in text.split_inclusive(|byte| *byte == b'\n') {
            if !std::mem::replace(&mut line.is_begun, true) {
                shown.extend_from_slice(before.as_bytes());
            }
            let (content, is_end) = match piece.strip_suffix(b"\n") {
                Some(content) => (content, true),
                None => (piece, false),
            };
            if self.format.xml {
                shown.extend_from_slice(escape(&String::from_utf8_lossy(content)).as_bytes());
            } else {
                shown.extend_from_slice(content);
            }
            if is_end {
                shown.extend_from_slice(if behind.is_empty() { b"\n" } else { behind.as_bytes() });
                line.is_begun = false;
            }
        }
        shown.freeze()
    }

    /// Truncates a file the first time. None is kept open: there may be more than a process can have open.
    fn open(&mut self, path: &Path) -> io::Result<File> {
        if !self.files.insert(path.to_owned()) {
            return files::open(path, Existing::Appended, 0o666);
        }
        if let Some(directory) = path.parent() {
            files::create_dir_all(directory, 0o777)?;
        }
        files::open(path, Existing::Truncated, 0o666)
    }
}
