use std::fmt;

use crate::{Error, MAX_LINE};

/// The value of a pair, as it is on the wire: text without spaces, ends of lines and NUL bytes. A space may follow a backslash, and
/// something must: a backslash at the end would escape what comes next in the line.
///
/// # Examples
/// ```
/// use pmix_pmi1::Token;
///
/// assert_eq!(Token::new("a\\ b")?.as_str(), "a\\ b");
/// assert!(Token::new("a b").is_err());
/// assert_eq!(Token::of_text("not found: a\n").as_str(), "not_found:_a_");
/// # Ok::<(), pmix_pmi1::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(Box<str>);

impl Token {
    /// Checks a value.
    ///
    /// # Errors
    /// [`Error::NotAValue`] if a line cannot have it.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, Error> {
        let text = text.into();
        let is_whole = value_end(&text) == text.len() && !is_cut_off(&text) && !text.contains(['\n', '\0']);
        if is_whole && text.len() < MAX_LINE { Ok(Self(text)) } else { Err(Error::NotAValue) }
    }

    /// A text for people: what a line cannot have is replaced by `_`, and what is longer than 256 characters is cut off.
    pub fn of_text(text: &str) -> Self {
        let plain = |c: char| if c.is_ascii_graphic() && c != '\\' { c } else { '_' };
        Self(text.chars().take(256).map(plain).collect())
    }

    /// Its text.
    pub const fn as_str(&self) -> &str {
        &self.0
    }

    /// Part of a line that has been taken apart already.
    pub(crate) fn of_line(text: &str) -> Self {
        Self(text.into())
    }
}

/// Where the value ends with which a text begins: at a space without a backslash before it.
pub(crate) fn value_end(text: &str) -> usize {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b' ' => return at,
            // whatever it is, the next byte belongs to the value
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
    text.len()
}

/// Whether a value ends with a backslash that escapes nothing.
pub(crate) fn is_cut_off(text: &str) -> bool {
    text.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl From<u32> for Token {
    fn from(number: u32) -> Self {
        Self(number.to_string().into())
    }
}
