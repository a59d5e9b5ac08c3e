//! [`Processors`]: sets of hardware threads.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::str::FromStr;

use pmix_types::{BindEnvelope, Cpuset, Status};
use range_set_blaze::RangeSetBlaze;
use thiserror::Error;

/// The prefix of cpusets and locality strings: the library that defines their format.
pub(crate) const SOURCE: &str = "hwloc";

/// The highest number of a processor: above that of any kernel, and low enough to list them all.
const MAX: u32 = 0xffff;

/// A set of hardware threads, by their kernel numbers.
///
/// Its text has the kernel's format, such as `0-3,8`.
///
/// # Examples
/// ```
/// use pmix_topology::Processors;
///
/// let set: Processors = "0-3,8".parse()?;
/// assert_eq!(set.len(), 5);
/// assert_eq!(set.cpuset_string(), "hwloc:0-3,8");
/// assert_eq!(Processors::from_cpuset_string("hwloc:0-3,8")?, set);
/// # Ok::<(), pmix_topology::ProcessorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Processors(RangeSetBlaze<u32>);

/// The text of a set of processors is invalid, or the set of a process cannot be determined.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProcessorError {
    /// The text is not a list of numbers and ranges such as `0-3,8`.
    #[error("{0:?} is not a list of processors, such as 0-3,8")]
    Malformed(String),
    /// The text is tagged with another source than `hwloc`.
    #[error("the cpuset {0:?} does not start with `hwloc:`")]
    Source(String),
    /// The kernel does not report it.
    #[error("cannot read which processors this process may use: {0}")]
    Unknown(#[source] io::Error),
}

pmix_types::statuses! {
    ProcessorError,
    "`ERR_NOT_FOUND` if the processors of a process are not known, otherwise `ERR_BAD_PARAM`",
    |this| match this {
        Self::Malformed(_) | Self::Source(_) => Status::ERR_BAD_PARAM,
        Self::Unknown(_) => Status::ERR_NOT_FOUND,
    };
}

impl Processors {
    /// No processor.
    pub fn new() -> Self {
        Self::default()
    }

    /// The processors that this process (its first thread) or the calling thread may use at the moment.
    ///
    /// # Errors
    /// [`ProcessorError::Unknown`] if `/proc` cannot be read.
    ///
    /// # Standard
    /// `PMIx_Get_cpuset`.
    #[doc(alias = "PMIx_Get_cpuset")]
    pub fn bound(envelope: BindEnvelope) -> Result<Self, ProcessorError> {
        let path = match envelope {
            BindEnvelope::THREAD => "/proc/thread-self/status",
            _ => "/proc/self/status",
        };
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(1 << 20).read_to_string(&mut text))
            .map_err(ProcessorError::Unknown)?;
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.ok_or_else(|| {
            ProcessorError::Unknown(io::Error::other(format!("{path} has no Cpus_allowed_list")))
        })?
        .parse()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their number.
    pub fn len(&self) -> usize {
        usize::try_from(self.0.len()).unwrap_or(usize::MAX)
    }

    /// Whether it has this one.
    pub fn contains(&self, processor: u32) -> bool {
        self.0.contains(processor)
    }

    /// Those of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }

    /// Those of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(&self.0 | &other.0)
    }

    /// Those that are not in the other set.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }

    /// Whether they have one in common.
    pub fn intersects(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    /// Whether all are in the other set.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// The lowest.
    pub fn first(&self) -> Option<u32> {
        self.0.first()
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter()
    }

    /// The text of the set with its source: the value of `PMIX_CPUSET`.
    ///
    /// # Standard
    /// `PMIx_server_generate_cpuset_string`.
    #[doc(alias = "PMIx_server_generate_cpuset_string")]
    pub fn cpuset_string(&self) -> String {
        format!("{SOURCE}:{self}")
    }

    /// Reverses [`cpuset_string`](Self::cpuset_string).
    ///
    /// # Errors
    /// [`ProcessorError`] for text with another source, and for malformed text.
    ///
    /// # Standard
    /// `PMIx_Parse_cpuset_string`, `PMIx_server_generate_cpuset`.
    #[doc(alias = "PMIx_Parse_cpuset_string")]
    #[doc(alias = "PMIx_server_generate_cpuset")]
    pub fn from_cpuset_string(text: &str) -> Result<Self, ProcessorError> {
        match text.split_once(':') {
            Some((source, list)) if source.eq_ignore_ascii_case(SOURCE) => list.parse(),
            _ => Err(ProcessorError::Source(text.to_owned())),
        }
    }
}

impl FromIterator<u32> for Processors {
    fn from_iter<I: IntoIterator<Item = u32>>(processors: I) -> Self {
        Self(processors.into_iter().collect())
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, range) in self.0.ranges().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            match range.start() == range.end() {
                true => write!(f, "{comma}{}", range.start())?,
                false => write!(f, "{comma}{}-{}", range.start(), range.end())?,
            }
        }
        Ok(())
    }
}

impl FromStr for Processors {
    type Err = ProcessorError;

    fn from_str(text: &str) -> Result<Self, ProcessorError> {
        let text = text.trim();
        let number = |text: &str| text.parse().ok().filter(|number| *number <= MAX);
        let range = |part: &str| match part.split_once('-') {
            None => number(part).map(|one| one..=one),
            Some((first, last)) => number(first).zip(number(last)).map(|(first, last)| first..=last),
        };
        let ranges = text.split(',').filter(|part| !part.is_empty()).map(range).collect::<Option<Vec<_>>>();
        let ranges = ranges.filter(|ranges| ranges.iter().all(|range| !range.is_empty()));
        let shown = || text.chars().take(80).collect();
        ranges
            .map(|ranges| Self(ranges.into_iter().collect()))
            .ok_or_else(|| ProcessorError::Malformed(shown()))
    }
}

/// The set with its source.
impl From<&Processors> for Cpuset {
    fn from(set: &Processors) -> Self {
        Self { source: SOURCE.into(), list: Some(set.to_string()) }
    }
}

/// The set as C programs send it, whose source is `hwloc`, alone or with a version.
impl TryFrom<&Cpuset> for Processors {
    type Error = ProcessorError;

    fn try_from(cpuset: &Cpuset) -> Result<Self, ProcessorError> {
        let source = cpuset.source.split(':').next().unwrap_or_default();
        match &cpuset.list {
            Some(list) if source.eq_ignore_ascii_case(SOURCE) => list.parse(),
            _ => Err(ProcessorError::Source(cpuset.source.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_writes_them() {
        for (text, len) in [("", 0), ("7", 1), ("0-3", 4), ("0,2,4-5", 4)] {
            let set: Processors = text.parse().unwrap();
            assert_eq!((set.to_string().as_str(), set.len()), (text, len));
        }
        assert_eq!("0-1,1-2,3\n".parse::<Processors>().unwrap().to_string(), "0-3");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["x", "1-", "-1", "3-1", "0-4294967295", "65536", "1 2", "0-3:2"] {
            assert!(text.parse::<Processors>().is_err(), "{text}");
        }
        for text in ["0-3", "other:0-3", "hwloc:x"] {
            assert!(Processors::from_cpuset_string(text).is_err(), "{text}");
        }
        let of = |source: &str| Cpuset { source: source.into(), list: Some("1".into()) };
        assert_eq!(Processors::try_from(&of("hwloc:2.9.0")).unwrap().to_string(), "1");
        assert!(Processors::try_from(&of("other")).is_err());
    }

    #[test]
    fn a_thread_may_use_what_its_process_may() {
        let process = Processors::bound(BindEnvelope::PROCESS).unwrap();
        assert!(!process.is_empty());
        assert_eq!(Processors::bound(BindEnvelope::THREAD).unwrap(), process);
    }
}
