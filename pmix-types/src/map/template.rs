//! Names that differ in one number only.

use std::fmt::Write;

/// The part of a node name that may change has at most this many digits, so that it fits in a `u64`. Further
/// digits belong to the prefix.
pub(super) const MAX_WIDTH: usize = 18;

/// What a run of names has in common: everything but a number written with exactly `width` digits.
/// Width 0 is a name without a number, all of it in `prefix`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Template {
    pub(super) prefix: Box<str>,
    pub(super) suffix: Box<str>,
    pub(super) width: u8,
}

impl Template {
    pub(super) fn literal(name: &str) -> Self {
        Self { prefix: name.into(), suffix: "".into(), width: 0 }
    }

    pub(super) fn is_literal(&self) -> bool {
        self.width == 0
    }

    /// The template and the first number of two neighbours in a list, if the second counts up from the first.
    pub(super) fn between(first: &str, second: &str) -> Option<(Self, u64)> {
        if first.len() != second.len() {
            return None;
        }
        let differ = first.bytes().zip(second.bytes()).position(|(a, b)| a != b)?;
        let (start, end) = digits_around(first, differ)?;
        let template =
            Self { prefix: first[..start].into(), suffix: first[end..].into(), width: (end - start) as u8 };
        let number = template.number_of(first)?;
        (template.number_of(second)? == number + 1).then_some((template, number))
    }

    /// The likely template of a name without neighbours, chosen so that names of one family agree.
    pub(super) fn guess(name: &str) -> (Self, u64) {
        // the number of a host stands before its domain
        let host = name.split('.').next().filter(|host| host.bytes().any(|byte| byte.is_ascii_alphabetic()));
        let last_digit = host.and_then(last_digit).or_else(|| last_digit(name));
        let Some((start, end)) = last_digit.and_then(|at| digits_around(name, at)) else {
            return (Self::literal(name), 0);
        };
        let template =
            Self { prefix: name[..start].into(), suffix: name[end..].into(), width: (end - start) as u8 };
        match template.number_of(name) {
            Some(number) => (template, number),
            None => (Self::literal(name), 0),
        }
    }

    /// The number in `name`, if the name fits this template.
    pub(super) fn number_of(&self, name: &str) -> Option<u64> {
        if self.is_literal() {
            return (name == &*self.prefix).then_some(0);
        }
        let digits = name.strip_prefix(&*self.prefix)?.strip_suffix(&*self.suffix)?;
        (digits.len() == usize::from(self.width)).then(|| number(digits)).flatten()
    }

    /// Appends the name with the given number.
    pub(super) fn write(&self, number: u64, out: &mut String) {
        out.push_str(&self.prefix);
        if !self.is_literal() {
            let width = usize::from(self.width);
            // writing to a String cannot fail
            let _ = write!(out, "{number:0width$}");
        }
        out.push_str(&self.suffix);
    }

    pub(super) fn name_len(&self) -> usize {
        self.prefix.len() + usize::from(self.width) + self.suffix.len()
    }

    pub(super) fn has(&self, characters: &[char]) -> bool {
        self.prefix.contains(characters) || self.suffix.contains(characters)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }
}

/// The greatest number with this number of digits.
pub(super) const fn max_number(width: usize) -> u64 {
    10_u64.pow(width as u32) - 1
}

/// The number that a string of at most [`MAX_WIDTH`] digits stands for.
pub(super) fn number(digits: &str) -> Option<u64> {
    let fits = digits.len() <= MAX_WIDTH && digits.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| digits.parse().ok()).flatten()
}

fn last_digit(text: &str) -> Option<usize> {
    text.bytes().rposition(|byte| byte.is_ascii_digit())
}

/// Start and end of the digits around position `at`, or of the last [`MAX_WIDTH`] of them.
fn digits_around(name: &str, at: usize) -> Option<(usize, usize)> {
    let bytes = name.as_bytes();
    let is_digit = |at: &usize| bytes.get(*at).is_some_and(u8::is_ascii_digit);
    let end = (at..).take_while(is_digit).last()? + 1;
    let start = (0..at).rev().take_while(is_digit).last().unwrap_or(at);
    let start = start.max(end.saturating_sub(MAX_WIDTH));
    (start <= at).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_starts_with_its_first_digit() {
        assert_eq!(digits_around("12", 0), Some((0, 2)));
        assert_eq!(digits_around("123n4", 2), Some((0, 3)));
        assert_eq!(digits_around("n12", 1), Some((1, 3)));
        assert_eq!(digits_around("n12", 0), None);
    }

    #[test]
    fn a_number_has_as_many_digits_as_fit() {
        assert_eq!(number(&"9".repeat(MAX_WIDTH)), Some(max_number(MAX_WIDTH)));
        assert_eq!(number(&"1".repeat(MAX_WIDTH + 1)), None);
        assert_eq!((number("007"), number("7x"), number("")), (Some(7), None, None));
    }
}
