//! The pairs of a line, read and written.

use std::fmt::Display;
use std::str::FromStr;

use bytes::Bytes;

use crate::token::{is_cut_off, value_end};
use crate::{Error, Token};

/// A line that begins with `cmd=NAME`.
pub(crate) struct Pairs<'a> {
    command: &'a str,
    rest: &'a str,
}

impl<'a> Pairs<'a> {
    /// Takes a line apart, which has no end of line in it.
    pub(crate) fn new(line: &'a str) -> Result<Self, Error> {
        let no_command = || Error::NoCommand(crate::error::Excerpt::of(line));
        let text = line.trim_start_matches(' ').strip_prefix("cmd=").ok_or_else(no_command)?;
        let (command, rest) = text.split_at(value_end(text));
        if command.is_empty() || is_cut_off(command) || line.contains('\0') {
            return Err(no_command());
        }
        Ok(Self { command, rest })
    }

    pub(crate) const fn command(&self) -> &'a str {
        self.command
    }

    /// The first value of this key.
    pub(crate) fn get(&self, key: &str) -> Option<&'a str> {
        let mut rest = self.rest;
        loop {
            rest = rest.trim_start_matches(' ');
            if rest.is_empty() {
                return None;
            }
            let pair;
            (pair, rest) = rest.split_at(value_end(rest));
            if let Some((name, value)) = pair.split_once('=')
                && name == key
            {
                return Some(value);
            }
        }
    }

    pub(crate) fn token(&self, key: &'static str) -> Result<Token, Error> {
        self.optional(key)?.ok_or_else(|| self.missing(key))
    }

    pub(crate) fn optional(&self, key: &'static str) -> Result<Option<Token>, Error> {
        let cut_off = |text: &&str| is_cut_off(text);
        match self.get(key) {
            text if text.as_ref().is_some_and(cut_off) => {
                Err(self.invalid(key, "a value: it ends with a backslash"))
            }
            text => Ok(text.map(Token::of_line)),
        }
    }

    pub(crate) fn number<T: FromStr>(&self, key: &'static str) -> Result<T, Error> {
        let text = self.get(key).ok_or_else(|| self.missing(key))?;
        text.parse().map_err(|_| self.invalid(key, "a number"))
    }

    pub(crate) fn number_or<T: FromStr>(&self, key: &'static str, absent: T) -> Result<T, Error> {
        if self.get(key).is_none() { Ok(absent) } else { self.number(key) }
    }

    pub(crate) fn invalid(&self, key: &'static str, expected: &'static str) -> Error {
        Error::Invalid { command: self.name(), key, expected }
    }

    pub(crate) fn name(&self) -> Token {
        Token::of_line(self.command)
    }

    fn missing(&self, key: &'static str) -> Error {
        Error::Missing { command: self.name(), key }
    }
}

/// A line to be written.
pub(crate) struct Line(String);

impl Line {
    pub(crate) fn new(command: &str) -> Self {
        Self(format!("cmd={command}"))
    }

    pub(crate) fn pair(mut self, key: &str, value: impl Display) -> Self {
        self.0 += &format!(" {key}={value}");
        self
    }

    pub(crate) fn optional(self, key: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.pair(key, value),
            None => self,
        }
    }

    /// Adds another line.
    pub(crate) fn line(mut self, command: &str) -> Self {
        self.0 += &format!("\ncmd={command}");
        self
    }

    pub(crate) fn end(mut self) -> Bytes {
        self.0.push('\n');
        self.0.into()
    }
}
