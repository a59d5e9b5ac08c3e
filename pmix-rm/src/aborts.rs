//! Calls of abort, as the user is told of them.

use pmix_types::{Nspace, ProcId, RankSet};

/// Calls that have not been told yet.
#[derive(Debug, Default)]
pub(crate) struct Aborts(Vec<Abort>);

#[derive(Debug)]
struct Abort {
    by: ProcId,
    ranks: Option<RankSet>,
    status: i32,
    message: String,
}

impl Aborts {
    /// `ranks` are those that it names; `None` for all.
    pub(crate) fn add(&mut self, by: ProcId, ranks: Option<RankSet>, status: i32, message: String) {
        // what libraries in C send where the program gives none
        let message = if message == "N/A" { String::new() } else { message };
        self.0.push(Abort { by, ranks, status, message });
    }

    /// One line for all that have been made in the same way: what ends one process of an MPI job has the others abort. `own` is the job
    /// that the user has started; `after` says that the user knows of a failure before.
    pub(crate) fn take(&mut self, own: &Nspace, after: bool) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(Abort { by, ranks: named, status, message }) = self.0.first() {
            let (nspace, named, status, message) =
                (by.nspace.clone(), named.clone(), *status, message.clone());
            let is_alike = |other: &mut Abort| {
                let how = (&other.by.nspace, &other.ranks, other.status, &other.message);
                how == (&nspace, &named, status, &message)
            };
            let ranks: RankSet = self.0.extract_if(.., is_alike).map(|abort| abort.by.rank).collect();
            let plural = if ranks.len() == 1 { "" } else { "s" };
            let after = if after { " after that" } else { "" };
            let message = if message.is_empty() { message } else { format!(": {message}") };
            let spawned = spawned(&nspace, own);
            let of =
                named.map(|named| format!(" for rank{} {named}", if named.len() == 1 { "" } else { "s" }));
            let of = of.unwrap_or_default();
            lines.push(format!(
                "rank{plural} {ranks}{spawned} called abort{of}{after} with status {status}{message}"
            ));
        }
        lines
    }
}

/// Which job is meant, unless it is the one that the user has started.
pub(crate) fn spawned(nspace: &Nspace, own: &Nspace) -> String {
    if nspace == own { String::new() } else { format!(" of spawned job {nspace}") }
}

#[cfg(test)]
mod tests {
    use pmix_types::Rank;

    use super::*;

    #[test]
    fn calls_that_are_alike_are_one_line() {
        let (job, child): (Nspace, Nspace) = ("job".parse().unwrap(), "job.1".parse().unwrap());
        let mut aborts = Aborts::default();
        for (nspace, rank, status, message) in [
            (&job, 5, -200, "N/A"),
            (&job, 7, 3, "no input"),
            (&child, 1, -200, "N/A"),
            (&job, 4, -200, ""),
            (&job, 2, -200, "N/A"),
            (&job, 7, 3, "no input"),
        ] {
            aborts.add(ProcId::new(nspace.clone(), Rank::from_raw(rank)), None, status, message.into());
        }
        let lines = [
            "ranks 2,4-5 called abort after that with status -200",
            "rank 7 called abort after that with status 3: no input",
            "rank 1 of spawned job job.1 called abort after that with status -200",
        ];
        assert_eq!(aborts.take(&job, true), lines);
        assert!(aborts.take(&job, true).is_empty());
        let first = ProcId::new(job.clone(), Rank::from_raw(0));
        aborts.add(first.clone(), None, 7, "bad".into());
        aborts.add(first, Some([2, 3].map(Rank::from_raw).into_iter().collect()), 7, "bad".into());
        let lines = [
            "rank 0 called abort with status 7: bad",
            "rank 0 called abort for ranks 2-3 with status 7: bad",
        ];
        assert_eq!(aborts.take(&job, false), lines);
    }
}
