//! Reading text from left to right, knowing the position of each error.

use super::MapError;

#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Steps over `token` if it comes next.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    pub(super) fn expect(&mut self, token: &str, what: &'static str) -> Result<(), MapError> {
        if self.eat(token) { Ok(()) } else { Err(self.expected(what)) }
    }

    pub(super) fn expect_end(&self, what: &'static str) -> Result<(), MapError> {
        if self.is_at_end() { Ok(()) } else { Err(self.expected(what)) }
    }

    pub(super) fn expected(&self, what: &'static str) -> MapError {
        MapError::Expected { at: self.at, what }
    }

    /// All text up to the first of `stops`, or up to the end.
    pub(super) fn until(&mut self, stops: &[char]) -> &'a str {
        let rest = self.rest();
        let length = rest.find(stops).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// A decimal number of at most `max`.
    pub(super) fn number(&mut self, max: u64, limit: &'static str) -> Result<u64, MapError> {
        let rest = self.rest();
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return Err(self.expected("a number"));
        }
        match rest[..length].parse() {
            Ok(number) if number <= max => {
                self.at += length;
                Ok(number)
            }
            _ => Err(MapError::NumberTooGreat { at: self.at, limit }),
        }
    }

    /// Steps over so many bytes, up to the end of a character.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }
}
