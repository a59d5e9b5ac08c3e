//! The file of commands, read as they are needed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::thread;

use tokio::sync::mpsc;

/// A longer line is no command.
const MAX_LINE: u64 = 1 << 20;
/// Commands that are read ahead.
const AHEAD: usize = 64;

/// Stands for standard input.
const STDIN: &str = "-";

/// A command, or why a line is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its number in the file, from 1.
    pub(super) number: u64,
    pub(super) words: Result<Vec<OsString>, &'static str>,
}

/// The commands of a file, which a thread reads: standard input may be a terminal or a pipe.
#[derive(Debug)]
pub(super) struct Lines {
    lines: mpsc::Receiver<io::Result<Line>>,
}

impl Lines {
    /// Opens a file, or standard input.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        match path.as_os_str() == STDIN {
            true => Self::of(io::stdin()),
            false => Self::of(File::open(path)?),
        }
    }

    fn of(input: impl Read + Send + 'static) -> io::Result<Self> {
        let (sender, lines) = mpsc::channel(AHEAD);
        let read = move || {
            let mut input = BufReader::new(input);
            let mut number = 0;
            while let Some(line) = next(&mut input, &mut number).transpose() {
                let is_last = line.is_err();
                // nobody waits for this thread, which may read a terminal for ever
                if sender.blocking_send(line).is_err() || is_last {
                    return;
                }
            }
        };
        thread::Builder::new().name("commands".into()).spawn(read)?;
        Ok(Self { lines })
    }

    /// The next command; `None` at the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<io::Result<Line>> {
        self.lines.recv().await
    }
}

/// The next line that is not blank, nor only a comment. `number` is that of the line before.
fn next(input: &mut impl BufRead, number: &mut u64) -> io::Result<Option<Line>> {
    loop {
        let mut text = Vec::new();
        if input.take(MAX_LINE).read_until(b'\n', &mut text)? == 0 {
            return Ok(None);
        }
        *number += 1;
        let is_whole = text.ends_with(b"\n");
        if !is_whole && text.len() as u64 == MAX_LINE {
            skip(input)?;
            return Ok(Some(Line { number: *number, words: Err("the line is longer than 1 MiB") }));
        }
        if text.ends_with(b"\r\n") {
            text.remove(text.len() - 2);
        }
        let words = shlex::bytes::split(&text).ok_or("a quote is not closed");
        let words = words.map(|words| words.into_iter().map(OsString::from_vec).collect::<Vec<_>>());
        if words.as_ref().map_or(true, |words| !words.is_empty()) {
            return Ok(Some(Line { number: *number, words }));
        }
    }
}

/// Reads up to the end of a line, and keeps nothing of it.
fn skip(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let held = input.fill_buf()?;
        let (length, is_end) = match held.iter().position(|byte| *byte == b'\n') {
            Some(newline) => (newline + 1, true),
            None => (held.len(), held.is_empty()),
        };
        input.consume(length);
        if is_end {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Vec<Line> {
        let (mut input, mut number) = (text, 0);
        std::iter::from_fn(|| next(&mut input, &mut number).unwrap()).collect()
    }

    fn line(number: u64, words: &[&str]) -> Line {
        Line { number, words: Ok(words.iter().map(OsString::from).collect()) }
    }

    #[test]
    fn a_line_is_a_command_in_words_of_a_shell() {
        let text = b"# all\n./a 'b c' \"d\" # two\n\n   \n./e \"\"\n./f\\ g";
        assert_eq!(read(text), [line(2, &["./a", "b c", "d"]), line(5, &["./e", ""]), line(6, &["./f g"])]);
        assert_eq!(read(b""), []);
        // as other systems end it; one of two is part of a word
        assert_eq!(read(b"./a b\r\n\r\n./c\r\r\n"), [line(1, &["./a", "b"]), line(3, &["./c\r"])]);
    }

    #[test]
    fn a_line_that_is_no_command_is_reported_and_the_next_ones_are_read() {
        let lines = read(b"./a 'b\n./c\n");
        assert_eq!(lines[0], Line { number: 1, words: Err("a quote is not closed") });
        assert_eq!(lines[1], line(2, &["./c"]));
    }

    #[test]
    fn the_words_of_a_line_need_not_be_utf_8() {
        let words = vec!["./a".into(), OsString::from_vec(b"\xff".to_vec())];
        assert_eq!(read(b"./a '\xff'\n"), [Line { number: 1, words: Ok(words) }]);
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped() {
        let long = vec![b'x'; 3 * (MAX_LINE as usize)];
        let lines = read(&[&long[..], b"\n./a\n"].concat());
        assert_eq!(
            lines,
            [Line { number: 1, words: Err("the line is longer than 1 MiB") }, line(2, &["./a"])]
        );
        let lines = read(&long);
        assert_eq!(lines.len(), 1, "without an end");
    }

    #[tokio::test]
    async fn a_file_is_read_to_its_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "true\n".repeat(3 * AHEAD)).unwrap();
        let mut lines = Lines::open(file.path()).unwrap();
        let mut count = 0;
        while let Some(read) = lines.next().await {
            count += 1;
            assert_eq!(read.unwrap(), line(count, &["true"]));
        }
        assert_eq!(count, 3 * AHEAD as u64);
        let error = Lines::open(&file.path().join("none")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
        // a directory opens, but cannot be read
        let mut lines = Lines::open(Path::new("/")).unwrap();
        assert!(lines.next().await.unwrap().is_err() && lines.next().await.is_none());
    }
}
