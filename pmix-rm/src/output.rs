//! Assembles whole lines from pieces of output.

use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use humantime::format_rfc3339_micros;
use pmix_host::OutputChannel;
use pmix_types::Rank;

/// Longest line that is held back until it is complete, in bytes; longer ones are written in pieces.
pub(crate) const MAX_LINE: usize = 64 * 1024;

/// Assembles the output of one channel of one process into whole lines.
///
/// Without a prefix the bytes are unchanged. With a prefix, every line starts with it and ends with a newline.
#[derive(Debug)]
pub(crate) struct Lines {
    prefix: Prefix,
    held: BytesMut,
    /// Longest beginning of a line that is held back.
    limit: usize,
    /// The last piece returned did not end its line.
    inside: bool,
}

/// Prefix of a line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prefix {
    /// Whether it has the time at which the line was complete.
    pub(crate) has_time: bool,
    pub(crate) tag: String,
}

impl Prefix {
    const fn is_empty(&self) -> bool {
        !self.has_time && self.tag.is_empty()
    }

    fn text(&self) -> String {
        match self.has_time {
            true => format!("{} {}", format_rfc3339_micros(SystemTime::now()), self.tag),
            false => self.tag.clone(),
        }
    }
}

impl Lines {
    /// Whole lines, each with this prefix.
    pub(crate) fn new(prefix: Prefix) -> Self {
        Self { prefix, held: BytesMut::new(), limit: MAX_LINE, inside: false }
    }

    /// Bytes as they arrive, with nothing held back.
    pub(crate) fn unbuffered() -> Self {
        Self { limit: 0, ..Self::new(Prefix::default()) }
    }

    /// Adds output and returns the lines that it completes; may be empty.
    pub(crate) fn push(&mut self, data: &[u8]) -> Bytes {
        let complete = match data.iter().rposition(|&byte| byte == b'\n') {
            Some(newline) => self.held.len() + newline + 1,
            None => 0,
        };
        self.held.extend_from_slice(data);
        let ready = if self.held.len() - complete > self.limit { self.held.len() } else { complete };
        let ready = self.held.split_to(ready).freeze();
        self.with_prefix(ready)
    }

    /// Returns the rest at the end of the output; may be empty.
    pub(crate) fn finish(&mut self) -> Bytes {
        let rest = self.held.split().freeze();
        let rest = self.with_prefix(rest);
        if self.prefix.is_empty() || !self.inside {
            return rest;
        }
        self.inside = false;
        let mut rest = BytesMut::from(rest);
        rest.extend_from_slice(b"\n");
        rest.freeze()
    }

    fn with_prefix(&mut self, text: Bytes) -> Bytes {
        if self.prefix.is_empty() || text.is_empty() {
            return text;
        }
        let prefix = self.prefix.text();
        let mut out = BytesMut::with_capacity(text.len() + prefix.len());
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            if !self.inside {
                out.extend_from_slice(prefix.as_bytes());
            }
            out.extend_from_slice(line);
            self.inside = !line.ends_with(b"\n");
        }
        out.freeze()
    }
}

/// The tag of a channel: `[2]<stdout>: `.
pub(crate) fn tag(rank: Rank, channel: OutputChannel) -> String {
    let channel = match channel {
        OutputChannel::Stdout => "stdout",
        OutputChannel::Stderr => "stderr",
    };
    format!("[{rank}]<{channel}>: ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tagged(tag: &str) -> Lines {
        Lines::new(Prefix { has_time: false, tag: tag.into() })
    }

    #[test]
    fn the_time_stands_before_the_tag() {
        let mut lines = Lines::new(Prefix { has_time: true, tag: "[3] ".into() });
        let text = [lines.push(b"one\n\nla"), lines.finish()].concat();
        let text = String::from_utf8(text).unwrap();
        let rests: Vec<_> = text.lines().map(|line| line.split_once(' ').unwrap()).collect();
        assert_eq!(rests.iter().map(|(_, rest)| *rest).collect::<Vec<_>>(), ["[3] one", "[3] ", "[3] la"]);
        assert!(rests.iter().all(|(time, _)| time.starts_with("20") && time.ends_with('Z')), "{text}");
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn a_line_waits_for_its_end() {
        let mut lines = Lines::new(Prefix::default());
        assert_eq!(lines.push(b"one\ntw"), "one\n");
        assert_eq!(lines.push(b"o"), "");
        assert_eq!(lines.push(b"\n\nthree"), "two\n\n");
        assert_eq!(lines.finish(), "three");
        assert_eq!(lines.finish(), "");
    }

    #[test]
    fn a_prompt_passes_unbuffered() {
        let mut lines = Lines::unbuffered();
        assert_eq!(lines.push(b"one\nname? "), "one\nname? ");
        assert_eq!(lines.finish(), "");
    }

    #[test]
    fn every_line_gets_its_tag_and_its_end() {
        let rank = Rank::from_raw(3);
        let mut lines = tagged(&tag(rank, OutputChannel::Stdout));
        assert_eq!(lines.push(b"one\n\nla"), "[3]<stdout>: one\n[3]<stdout>: \n");
        assert_eq!(lines.finish(), "[3]<stdout>: la\n");
        let mut lines = tagged(&tag(rank, OutputChannel::Stderr));
        assert_eq!(lines.push(b"oh\n"), "[3]<stderr>: oh\n");
        assert_eq!(lines.finish(), "");
    }

    #[test]
    fn a_line_too_long_to_hold_passes_in_pieces_with_one_tag() {
        let mut lines = tagged("> ");
        let long = vec![b'x'; MAX_LINE + 1];
        assert_eq!(lines.push(&long).len(), long.len() + 2);
        assert_eq!(lines.push(b"end\nnext\n"), "end\n> next\n");
        assert_eq!(lines.push(&long).len(), long.len() + 2);
        assert_eq!(lines.finish(), "\n");
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_and_no_line_torn(pieces in prop::collection::vec("[a\n]{0,12}", 0..12)) {
            let mut lines = Lines::new(Prefix::default());
            let mut out = Vec::new();
            for piece in &pieces {
                let ready = lines.push(piece.as_bytes());
                prop_assert!(ready.is_empty() || ready.ends_with(b"\n"));
                out.extend_from_slice(&ready);
            }
            out.extend_from_slice(&lines.finish());
            prop_assert_eq!(out, pieces.concat().into_bytes());
        }

        #[test]
        fn tags_do_not_depend_on_the_pieces(pieces in prop::collection::vec("[a\n]{0,12}", 0..12)) {
            let mut lines = tagged("> ");
            let mut out = Vec::new();
            for piece in &pieces {
                out.extend_from_slice(&lines.push(piece.as_bytes()));
            }
            out.extend_from_slice(&lines.finish());
            let expected: String = pieces.concat().lines().map(|line| format!("> {line}\n")).collect();
            prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
