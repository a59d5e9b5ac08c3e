//! Jobs and processes on a command line.

use std::str::FromStr;

use pmix_tool::types::Rank;
use pmix_tool::{Nspace, ProcId};

/// A job, or a process of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target(pub(super) ProcId);

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = |name: &str| Nspace::new(name).map_err(|error| error.to_string());
        match text.rsplit_once(':').map(|(name, rank)| (name, rank.parse::<u32>())) {
            Some((name, Ok(rank))) => {
                let rank = Rank::new(rank).map_err(|error| error.to_string())?;
                Ok(Self(ProcId::new(named(name)?, rank)))
            }
            _ => Ok(Self(ProcId::wildcard(named(text)?))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_job_or_a_process() {
        let read =
            |text: &str| text.parse::<Target>().map(|Target(proc)| (proc.nspace.to_string(), proc.rank));
        assert_eq!(read("job.1"), Ok(("job.1".into(), Rank::WILDCARD)));
        assert_eq!(read("job.1:7"), Ok(("job.1".into(), Rank::from_raw(7))));
        assert_eq!(read("a:b"), Ok(("a:b".into(), Rank::WILDCARD)));
        assert!(read("").is_err() && read(":1").is_err() && read("a:4294967295").is_err());
    }
}
