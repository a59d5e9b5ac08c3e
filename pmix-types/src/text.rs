//! Makes text from other processes safe to print.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::time::Duration;

/// Text that is safe to print: control characters are escaped, the rest is unchanged.
///
/// Made by [`escaped`].
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(&'a str);

/// Makes text safe to print on a terminal or in one line of a log, whatever its origin.
///
/// It escapes the control characters of ASCII (including DEL, line feed and tab) and of Latin-1, the separators of
/// lines and paragraphs, and the characters that reverse the direction of text. With these, text could move the cursor,
/// look like several lines, or look like other text. Backslashes are not escaped, so escaping twice does no harm.
///
/// # Examples
/// ```
/// use pmix_types::escaped;
/// assert_eq!(escaped("a\u{1b}[2J\nb").to_string(), r"a\u{1b}[2J\nb");
/// assert_eq!(escaped(r"C:\temp, 日本").to_string(), r"C:\temp, 日本");
/// ```
pub const fn escaped(text: &str) -> Escaped<'_> {
    Escaped(text)
}

/// Makes a JSON document safe to print: characters that [`escaped`] escapes and JSON does not are written in the form
/// `\u009b`. Line feeds stay, as JSON has them only between values.
///
/// # Examples
/// ```
/// use pmix_types::escaped_json;
/// assert_eq!(escaped_json("[\n\"\u{9b}2J\"\n]"), "[\n\"\\u009b2J\"\n]");
/// ```
#[must_use]
pub fn escaped_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for (clean, control) in pieces(json) {
        text.push_str(clean);
        match control {
            Some('\n') => text.push('\n'),
            // writing to a String cannot fail
            Some(control) => drop(write!(text, "\\u{:04x}", u32::from(control))),
            None => {}
        }
    }
    text
}

/// Removes the error numbers that Rust adds to messages of the operating system, as in `No such file or directory (os
/// error 2)`.
///
/// # Examples
/// ```
/// use pmix_types::without_os_codes;
/// let error = "a: No such file or directory (os error 2); b: Is a directory (os error 21)";
/// assert_eq!(without_os_codes(error), "a: No such file or directory; b: Is a directory");
/// assert_eq!(without_os_codes("what is (os error x)?"), "what is (os error x)?");
/// ```
#[must_use]
pub fn without_os_codes(text: &str) -> Cow<'_, str> {
    const MARK: &str = " (os error ";
    if !text.contains(MARK) {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split(MARK);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((code, rest)) if code.parse::<u32>().is_ok() => plain.push_str(rest),
            _ => plain.extend([MARK, part]),
        }
    }
    Cow::Owned(plain)
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if find_control(self.0).is_none() {
            return f.pad(self.0);
        }
        let mut text = String::with_capacity(self.0.len());
        for (clean, control) in pieces(self.0) {
            text.push_str(clean);
            text.extend(control.into_iter().flat_map(char::escape_debug));
        }
        f.pad(&text)
    }
}

/// Byte at which the first control character starts: what no name may hold, and what [`escaped`] escapes.
pub(crate) const fn find_control(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if is_control(bytes, at) {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// Whether a control character starts at this byte of UTF-8.
const fn is_control(bytes: &[u8], at: usize) -> bool {
    match bytes[at] {
        // ASCII
        0..0x20 | 0x7f => true,
        // U+0080 to U+009F: Latin-1
        0xc2 => matches!(bytes[at + 1], 0x80..=0x9f),
        0xe2 => match (bytes[at + 1], bytes[at + 2]) {
            // U+2028 and U+2029: ends of lines and paragraphs; U+202A to U+202E: embedded and overridden directions
            (0x80, 0xa8..=0xae) => true,
            // U+2066 to U+2069: isolated directions
            (0x81, 0xa6..=0xa9) => true,
            _ => false,
        },
        _ => false,
    }
}

/// The text in pieces without control characters, each with the one behind it.
fn pieces(text: &str) -> impl Iterator<Item = (&str, Option<char>)> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let (clean, behind) = text.split_at(find_control(text).unwrap_or(text.len()));
        let mut behind = behind.chars();
        let control = behind.next();
        rest = control.map(|_| behind.as_str());
        Some((clean, control))
    })
}

/// Formats a time in its two largest units: `0.3 s`, `41 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`.
#[must_use]
pub fn short_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{:.1} s", (time.as_secs_f64() * 10.0).floor() / 10.0),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the tables of Unicode have them.
    fn is_control(c: char) -> bool {
        c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    }

    #[test]
    fn all_control_characters_are_found_and_no_others() {
        for c in '\0'..=char::MAX {
            let text = format!("ä{c}x");
            let found = find_control(&text);
            assert_eq!(found, is_control(c).then_some(2), "{c:?}");
            let shown = escaped(&text).to_string();
            assert!(!shown.chars().any(is_control), "{c:?}");
            assert_eq!(shown == text, found.is_none(), "{c:?}");
        }
    }

    #[test]
    fn escapes_are_those_of_rust() {
        let text = "\u{1b}[31m\r\n\tred\u{7f}\u{9b}1m\u{202e}\u{2028}\0";
        assert_eq!(escaped(text).to_string(), r"\u{1b}[31m\r\n\tred\u{7f}\u{9b}1m\u{202e}\u{2028}\0");
        assert_eq!(escaped("").to_string(), "");
        assert_eq!(escaped("a\nb\n").to_string(), r"a\nb\n");
    }

    #[test]
    fn what_is_escaped_stays_as_it_is_and_can_be_padded() {
        let once = escaped("a\\n\u{1b}").to_string();
        assert_eq!(escaped(&once).to_string(), once);
        assert_eq!(format!("{:>4}|{:<4}|", escaped("\n"), escaped("ab")), r"  \n|ab  |");
    }

    #[test]
    fn json_stays_the_same_document() {
        let json = "{\n  \"a\": \"\u{7f}\u{85}\\u001b\u{202e}ü\"\n}";
        assert_eq!(escaped_json(json), "{\n  \"a\": \"\\u007f\\u0085\\u001b\\u202eü\"\n}");
    }

    #[test]
    fn a_duration_is_short_in_its_two_largest_units() {
        let short = |millis| short_duration(Duration::from_millis(millis));
        assert_eq!([0, 399, 1_999, 59_999].map(short), ["0.0 s", "0.3 s", "1 s", "59 s"]);
        assert_eq!([60_000, 3_600_000, 90_000_000].map(short), ["1 min 0 s", "1 h 0 min", "1 d 1 h"]);
    }
}
