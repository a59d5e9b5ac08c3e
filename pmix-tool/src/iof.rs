//! Output of others as it is shown here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use pmix_client::OutputChunk;
use pmix_types::{DirectiveError, Directives, IofChannels, ProcId, keys};

/// Longest beginning of a line that is held back until it is complete, in bytes.
const MAX_LINE: usize = 64 << 10;

/// How output is shown (IOF-11). The default shows whole lines as they are.
///
/// A line begins with what was asked for: the time, then process and channel, as in
/// `2026-01-31T10:00:00.000000Z [job,3]<stdout>: `.
///
/// # Standard
/// The `PMIX_IOF_*` directives for formatting, which are the library's own to carry out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct OutputFormat {
    tag: bool,
    rank: bool,
    timestamp: bool,
    xml: bool,
    raw: bool,
    merge: bool,
    file: Option<PathBuf>,
    pattern: bool,
    directory: Option<PathBuf>,
    file_only: bool,
}

macro_rules! switches {
    ($($(#[$doc:meta])* $name:ident = $alias:literal;)+) => {
        impl OutputFormat {
            $(
                $(#[$doc])*
                #[doc(alias = $alias)]
                pub const fn $name(mut self, on: bool) -> Self {
                    self.$name = on;
                    self
                }
            )+
        }
    };
}

switches! {
    /// Begins each line with namespace, rank and channel.
    tag = "PMIX_IOF_TAG_OUTPUT";
    /// Begins each line with rank and channel.
    rank = "PMIX_IOF_RANK_OUTPUT";
    /// Begins each line with the time it was shown, in UTC.
    timestamp = "PMIX_IOF_TIMESTAMP_OUTPUT";
    /// Makes each line an XML element with the name of its channel; namespace, rank and time are attributes.
    xml = "PMIX_IOF_XML_OUTPUT";
    /// Shows pieces as they come, without collecting lines. Nothing can be put in front of a line then.
    raw = "PMIX_IOF_OUTPUT_RAW";
    /// Shows standard error where standard output goes.
    merge = "PMIX_IOF_MERGE_STDERR_STDOUT";
    /// Takes the name given to [`file`](Self::file) for a pattern: `%n` stands for the namespace, `%r` for the rank,
    /// `%%` for a percent sign.
    pattern = "PMIX_IOF_FILE_PATTERN";
    /// Shows what is written to files nowhere else.
    file_only = "PMIX_IOF_FILE_ONLY";
}

impl OutputFormat {
    /// Writes output to `<name>.<namespace>.<rank>.out` and `.err`, too.
    #[doc(alias = "PMIX_IOF_OUTPUT_TO_FILE")]
    pub fn file(mut self, name: impl Into<PathBuf>) -> Self {
        self.file = Some(name.into());
        self
    }

    /// Writes output to `<directory>/<namespace>/rank.<rank>/stdout` and `stderr`, too.
    #[doc(alias = "PMIX_IOF_OUTPUT_TO_DIRECTORY")]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// What directives say.
    ///
    /// # Errors
    /// A directive of the wrong type.
    ///
    /// # Examples
    /// ```
    /// use pmix_tool::OutputFormat;
    /// use pmix_tool::types::{Directives, keys};
    ///
    /// let said = Directives::new().with(&keys::IOF_TAG_OUTPUT, true);
    /// assert_eq!(OutputFormat::from_directives(&said)?, OutputFormat::default().tag(true));
    /// # Ok::<(), pmix_tool::types::DirectiveError>(())
    /// ```
    pub fn from_directives(directives: &Directives) -> Result<Self, DirectiveError> {
        Ok(Self {
            tag: directives.flag(&keys::IOF_TAG_OUTPUT)?,
            rank: directives.flag(&keys::IOF_RANK_OUTPUT)?,
            timestamp: directives.flag(&keys::IOF_TIMESTAMP_OUTPUT)?,
            xml: directives.flag(&keys::IOF_XML_OUTPUT)?,
            raw: directives.flag(&keys::IOF_OUTPUT_RAW)?,
            merge: directives.flag(&keys::IOF_MERGE_STDERR_STDOUT)?,
            file: directives.get(&keys::IOF_OUTPUT_TO_FILE)?.map(|name: String| name.into()),
            pattern: directives.flag(&keys::IOF_FILE_PATTERN)?,
            directory: directives.get(&keys::IOF_OUTPUT_TO_DIRECTORY)?.map(|name: String| name.into()),
            file_only: directives.flag(&keys::IOF_FILE_ONLY)?,
        })
    }

    /// What stands before and behind a line.
    fn frame(&self, source: &ProcId, channel: &str) -> (String, &'static str) {
        let ProcId { nspace, rank } = source;
        let time = self.timestamp.then(now);
        if self.xml {
            let nspace = escape(nspace.as_str());
            let time = time.map(|time| format!(" timestamp=\"{time}\"")).unwrap_or_default();
            let end = if channel == "stderr" { "</stderr>\n" } else { "</stdout>\n" };
            return (format!("<{channel} nspace=\"{nspace}\" rank=\"{rank}\"{time}>"), end);
        }
        let who = match (self.tag, self.rank) {
            (true, _) => format!("[{nspace},{rank}]<{channel}>: "),
            (false, true) => format!("[{rank}]<{channel}>: "),
            (false, false) => String::new(),
        };
        (time.map(|time| format!("{time} ")).unwrap_or_default() + &who, "")
    }

    const fn changes_lines(&self) -> bool {
        self.tag || self.rank || self.timestamp || self.xml
    }

    /// Files that get the output of a channel.
    fn files(&self, source: &ProcId, channel: &str) -> Vec<PathBuf> {
        let (nspace, rank) = (file_name(source), source.rank);
        let suffix = if channel == "stderr" { "err" } else { "out" };
        let named = self.file.as_deref().map(|name| {
            let name = name.as_os_str().to_string_lossy();
            PathBuf::from(match self.pattern {
                true => format!("{}.{suffix}", fill_in(&name, &nspace, &rank.to_string())),
                false => format!("{name}.{nspace}.{rank}.{suffix}"),
            })
        });
        let below =
            self.directory.as_deref().map(|dir| dir.join(&nspace).join(format!("rank.{rank}")).join(channel));
        named.into_iter().chain(below).collect()
    }
}

/// Shows output as an [`OutputFormat`] says: standard output on one writer, standard error on another.
///
/// Lines are never mixed: the beginning of a line is held back until its end has come, or 64 KiB of it.
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
    lines: BTreeMap<(ProcId, IofChannels), Line>,
    /// Files that were begun.
    files: BTreeSet<PathBuf>,
}

/// A line that is not complete.
#[derive(Debug, Default)]
struct Line {
    held: BytesMut,
    /// Its beginning was shown already.
    is_begun: bool,
}

impl<O: Write, E: Write> OutputWriter<O, E> {
    /// Shows on these.
    pub const fn new(format: OutputFormat, out: O, err: E) -> Self {
        Self { format, out, err, lines: BTreeMap::new(), files: BTreeSet::new() }
    }

    /// Shows a piece; what is left of a line when its channel is closed, too. Flushes what it writes.
    ///
    /// # Errors
    /// What the writers and the file system say.
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

    /// Shows what is left of lines.
    ///
    /// # Errors
    /// As [`OutputWriter::write`].
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
            self.open(file)?.write_all(&shown)?;
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

    /// Begins a file anew the first time. None is kept open: there may be more of them than a process can have.
    fn open(&mut self, path: &Path) -> io::Result<File> {
        if !self.files.insert(path.to_owned()) {
            return OpenOptions::new().append(true).open(path);
        }
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        File::create(path)
    }
}

/// The namespace as part of a path: it must not lead elsewhere.
fn file_name(source: &ProcId) -> String {
    match source.nspace.as_str() {
        "." | ".." => "_".to_owned(),
        name => name.replace('/', "_"),
    }
}

fn fill_in(pattern: &str, nspace: &str, rank: &str) -> String {
    let mut name = String::new();
    let mut rest = pattern.chars();
    while let Some(next) = rest.next() {
        match next {
            '%' => match rest.next() {
                Some('n') => name.push_str(nspace),
                Some('r') => name.push_str(rank),
                Some('%') | None => name.push('%'),
                Some(other) => name.extend(['%', other]),
            },
            other => name.push(other),
        }
    }
    name
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for next in text.chars() {
        match next {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\t' => escaped.push(next),
            // XML has no way to say them
            control if control.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The time in UTC.
fn now() -> String {
    use tracing_subscriber::fmt::format::Writer;
    use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
    let mut text = String::new();
    // to write to a text cannot fail
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

#[cfg(test)]
mod tests {
    use pmix_types::message::Output;
    use pmix_types::{Info, Key, Rank};
    use proptest::prelude::*;

    use super::*;

    const OUT: IofChannels = IofChannels::STDOUT;
    const ERR: IofChannels = IofChannels::STDERR;

    fn chunk(rank: u32, channels: IofChannels, data: &str) -> OutputChunk {
        let source = ProcId::new("a&b".parse().unwrap(), Rank::from_raw(rank));
        Output::new(source, channels, data.to_owned().into()).into()
    }

    fn complete(rank: u32, channels: IofChannels) -> OutputChunk {
        let source = ProcId::new("a&b".parse().unwrap(), Rank::from_raw(rank));
        let mut output = Output::new(source, channels, Bytes::new());
        output.info.push(Info::new(&keys::IOF_COMPLETE, true));
        output.into()
    }

    /// What is shown of pieces.
    fn shown(format: OutputFormat, chunks: &[OutputChunk]) -> (String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut writer = OutputWriter::new(format, &mut out, &mut err);
        for chunk in chunks {
            writer.write(chunk).unwrap();
        }
        writer.finish().unwrap();
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn iof_09_lines_of_several_sources_are_not_mixed() {
        let chunks =
            [chunk(0, OUT, "on"), chunk(1, OUT, "two\nthr"), chunk(0, OUT, "e\n"), chunk(0, ERR, "oh")];
        assert_eq!(shown(OutputFormat::default(), &chunks), ("two\none\nthr".into(), "oh".into()));
        let raw = OutputFormat::default().raw(true);
        assert_eq!(shown(raw, &chunks).0, "ontwo\nthre\n");
        let merged = OutputFormat::default().merge(true);
        assert_eq!(shown(merged, &chunks), ("two\none\nohthr".into(), String::new()));
    }

    #[test]
    fn iof_11_lines_begin_with_what_was_asked_for() {
        let chunks = [chunk(0, OUT, "one\n\nla"), chunk(7, ERR, "oh\n")];
        let by_rank = shown(OutputFormat::default().rank(true), &chunks);
        assert_eq!(by_rank.0, "[0]<stdout>: one\n[0]<stdout>: \n[0]<stdout>: la\n");
        assert_eq!(by_rank.1, "[7]<stderr>: oh\n");
        let tagged = shown(OutputFormat::default().tag(true).rank(true), &chunks);
        assert_eq!(tagged.1, "[a&b,7]<stderr>: oh\n");
        let stamped = shown(OutputFormat::default().timestamp(true).rank(true), &chunks).1;
        let (time, line) = stamped.split_once(' ').unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z') && time.contains('T'), "{stamped}");
        assert_eq!(line, "[7]<stderr>: oh\n");
    }

    #[test]
    fn iof_11_each_directive_says_what_its_setting_says() {
        let format = OutputFormat::default;
        let named = |key: &Key<String>| Info::new(key, "name");
        let on = |key: &Key<bool>| Info::new(key, true);
        for (said, expected) in [
            (on(&keys::IOF_TAG_OUTPUT), format().tag(true)),
            (on(&keys::IOF_RANK_OUTPUT), format().rank(true)),
            (on(&keys::IOF_TIMESTAMP_OUTPUT), format().timestamp(true)),
            (on(&keys::IOF_XML_OUTPUT), format().xml(true)),
            (on(&keys::IOF_OUTPUT_RAW), format().raw(true)),
            (on(&keys::IOF_MERGE_STDERR_STDOUT), format().merge(true)),
            (on(&keys::IOF_FILE_PATTERN), format().pattern(true)),
            (on(&keys::IOF_FILE_ONLY), format().file_only(true)),
            (named(&keys::IOF_OUTPUT_TO_FILE), format().file("name")),
            (named(&keys::IOF_OUTPUT_TO_DIRECTORY), format().directory("name")),
        ] {
            let read = OutputFormat::from_directives(&vec![said.clone()].into()).unwrap();
            assert_eq!(read, expected, "{said}");
        }
    }

    #[test]
    fn iof_11_xml_holds_any_text() {
        let xml = shown(OutputFormat::default().xml(true), &[chunk(2, OUT, "a <b> & \"c\"\u{7}\nrest")]).0;
        assert_eq!(
            xml,
            "<stdout nspace=\"a&amp;b\" rank=\"2\">a &lt;b&gt; &amp; &quot;c&quot;\u{fffd}</stdout>\n\
             <stdout nspace=\"a&amp;b\" rank=\"2\">rest</stdout>\n"
        );
        let (_, xml) = shown(OutputFormat::default().xml(true), &[chunk(2, ERR, "oh\n")]);
        assert_eq!(xml, "<stderr nspace=\"a&amp;b\" rank=\"2\">oh</stderr>\n");
        let (_, stamped) = shown(OutputFormat::default().xml(true).timestamp(true), &[chunk(2, ERR, "oh\n")]);
        assert!(stamped.starts_with("<stderr nspace=\"a&amp;b\" rank=\"2\" timestamp=\"20"), "{stamped}");
    }

    #[test]
    fn iof_11_output_goes_to_files_of_each_process() {
        let dir = tempfile::tempdir().unwrap();
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        let chunks = [chunk(0, OUT, "one\n"), chunk(1, ERR, "oh\n"), chunk(0, OUT, "two\n")];
        let base = dir.path().join("base");
        let both = shown(OutputFormat::default().file(&base).rank(true), &chunks);
        assert_eq!(both.0, "[0]<stdout>: one\n[0]<stdout>: two\n");
        assert_eq!(read("base.a&b.0.out"), both.0);
        assert_eq!(read("base.a&b.1.err"), "[1]<stderr>: oh\n");

        let pattern = OutputFormat::default().file(dir.path().join("%r-%n-%%")).pattern(true).file_only(true);
        assert_eq!(shown(pattern, &chunks), (String::new(), String::new()));
        assert_eq!(read("0-a&b-%.out"), "one\ntwo\n");

        let below = OutputFormat::default().directory(dir.path().join("deep/er"));
        assert_eq!(shown(below, &chunks).0, "one\ntwo\n");
        assert_eq!(read("deep/er/a&b/rank.0/stdout"), "one\ntwo\n");
        assert_eq!(read("deep/er/a&b/rank.1/stderr"), "oh\n");
        let merged = OutputFormat::default().directory(dir.path().join("merged")).merge(true);
        assert_eq!(shown(merged, &chunks).0, "one\noh\ntwo\n");
        assert_eq!(read("merged/a&b/rank.1/stdout"), "oh\n");
        // no name leads elsewhere
        let mut elsewhere = chunk(0, OUT, "far\n");
        elsewhere.source.nspace = "../x".parse().unwrap();
        let both = OutputFormat::default().directory(dir.path().join("deep")).file(dir.path().join("near"));
        shown(both, &[elsewhere]);
        assert_eq!([read("deep/.._x/rank.0/stdout"), read("near..._x.0.out")], ["far\n", "far\n"]);
        for dots in [".", ".."] {
            let mut above = chunk(0, OUT, "up\n");
            above.source.nspace = dots.parse().unwrap();
            shown(
                OutputFormat::default().directory(dir.path().join("deep").join(dots.len().to_string())),
                &[above],
            );
            assert_eq!(read(&format!("deep/{}/_/rank.0/stdout", dots.len())), "up\n");
        }
        // what was there before is over, and without a file there is nothing else to show it on
        let again = OutputFormat::default().file(&base);
        shown(again, &[chunk(0, OUT, "new\n")]);
        assert_eq!(read("base.a&b.0.out"), "new\n");
        assert_eq!(shown(OutputFormat::default().file_only(true), &chunks).0, "one\ntwo\n");
    }

    #[test]
    fn iof_08_the_rest_of_a_line_is_shown_when_its_channel_is_closed() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut writer = OutputWriter::new(OutputFormat::default().rank(true), &mut out, &mut err);
        for chunk in [chunk(0, OUT, "rest"), chunk(0, ERR, "open"), complete(0, OUT)] {
            writer.write(&chunk).unwrap();
        }
        assert_eq!(writer.lines.len(), 1, "nothing is held of a closed channel");
        assert_eq!((out, err), (b"[0]<stdout>: rest\n".to_vec(), Vec::new()));

        // the end of a job is that of each of its processes
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut writer = OutputWriter::new(OutputFormat::default().rank(true), &mut out, &mut err);
        let mut end = complete(0, OUT | ERR);
        end.source.rank = Rank::WILDCARD;
        for chunk in [chunk(0, OUT, "a"), chunk(1, ERR, "b"), end] {
            writer.write(&chunk).unwrap();
        }
        assert!(writer.lines.is_empty());
        assert_eq!((out, err), (b"[0]<stdout>: a\n".to_vec(), b"[1]<stderr>: b\n".to_vec()));
    }

    #[test]
    fn a_line_too_long_to_hold_is_shown_in_pieces_with_one_tag() {
        let long = "x".repeat(MAX_LINE + 1);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut writer = OutputWriter::new(OutputFormat::default(), &mut out, &mut err);
        writer.write(&chunk(0, OUT, &long)).unwrap();
        assert_eq!(out.len(), long.len(), "nothing of it is held");
        let (out, _) =
            shown(OutputFormat::default().rank(true), &[chunk(0, OUT, &long), chunk(0, OUT, "end\nnext\n")]);
        assert_eq!(out, format!("[0]<stdout>: {long}end\n[0]<stdout>: next\n"));
    }

    proptest! {
        #[test]
        fn iof_11_tags_do_not_depend_on_the_pieces(pieces in prop::collection::vec("[a\n]{0,9}", 0..9)) {
            let chunks: Vec<_> = pieces.iter().map(|piece| chunk(0, OUT, piece)).collect();
            let expected: String = pieces.concat().lines().map(|line| format!("[0]<stdout>: {line}\n")).collect();
            prop_assert_eq!(shown(OutputFormat::default().rank(true), &chunks).0, expected);
            prop_assert_eq!(shown(OutputFormat::default(), &chunks).0, pieces.concat());
        }
    }
}
