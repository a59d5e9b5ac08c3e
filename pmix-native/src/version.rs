use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use crate::Dialect;

/// Release of a PMIx library, on which a few messages depend.
///
/// # Examples
/// ```
/// use pmix_native::Version;
/// let version: Version = "v4.2.2rc2".parse()?;
/// assert_eq!(version, Version::new(4, 2, 2));
/// assert_eq!(version.to_string(), "4.2.2");
/// # Ok::<(), std::num::ParseIntError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "PMIX_VERSION")]
pub struct Version {
    /// Major number.
    pub major: u16,
    /// Minor number.
    pub minor: u16,
    /// Release number.
    pub release: u16,
}

impl Version {
    /// A release from its three numbers.
    pub const fn new(major: u16, minor: u16, release: u16) -> Self {
        Self { major, minor, release }
    }

    /// The release assumed for a peer that names only its dialect.
    pub const fn of_dialect(dialect: Dialect) -> Self {
        match dialect {
            Dialect::V21 => Self::new(2, 1, 0),
            Dialect::V3 => Self::new(3, 0, 0),
            Dialect::V4 => Self::new(4, 0, 0),
            Dialect::V41 => Self::new(4, 1, 0),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.release)
    }
}

impl FromStr for Version {
    type Err = ParseIntError;

    /// Parses `major.minor.release`, with an optional `v` before it and any text after it; missing numbers are 0.
    ///
    /// # Errors
    /// The text does not start with a number, or a number is above 65535.
    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let mut parts = text.trim().trim_start_matches('v').splitn(3, '.');
        let mut number = |missing: &'static str| {
            let part = parts.next().unwrap_or(missing);
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let digits = &part[..digits];
            if digits.is_empty() { missing.parse() } else { digits.parse() }
        };
        Ok(Self::new(number("")?, number("0")?, number("0")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_libraries_say_of_themselves() {
        for (text, expected) in [
            ("4.2.2rc2", (4, 2, 2)),
            ("5.0.11", (5, 0, 11)),
            ("v6.1", (6, 1, 0)),
            ("3", (3, 0, 0)),
            ("4.1a1.3", (4, 1, 3)),
        ] {
            let (major, minor, release) = expected;
            assert_eq!(text.parse(), Ok(Version::new(major, minor, release)), "{text}");
        }
        assert!("".parse::<Version>().is_err());
        assert!("x4".parse::<Version>().is_err());
        assert!("99999.1".parse::<Version>().is_err());
    }
}
