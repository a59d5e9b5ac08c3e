//! The table of processes: a row for each, or for all ranks of a job that are alike.

use std::collections::BTreeMap;
use std::io;

use pmix_tool::types::RankSet;
use pmix_tool::{Nspace, ProcInfo};

use super::super::Console;
use super::super::render::{
    Columns, PROC_HEADER, PROC_NUMBERS, proc_fields, proc_row, write_fitted, write_table,
};

const COLUMNS: Columns = Columns {
    titles: &["NAMESPACE", "RANKS", "NODE", "STATE", "EXIT", "EXECUTABLE"],
    numbers: &[4],
    texts: &[0, 1, 2, 5],
};

/// Writes the processes of jobs. Without `each`, the ranks of a job on the same node, in the same state and with the same exit code
/// and executable share a row.
pub(super) fn write<'a>(
    procs: impl Iterator<Item = &'a ProcInfo>,
    each: bool,
    console: &mut Console<'_>,
) -> io::Result<()> {
    if each {
        return write_table(
            console.out,
            &PROC_HEADER,
            procs.map(proc_row).collect(),
            &PROC_NUMBERS,
            console.width,
        );
    }
    write_fitted(console.out, COLUMNS, folded(procs), console.width)
}

/// The rows, in the order of their first ranks.
fn folded<'a>(procs: impl Iterator<Item = &'a ProcInfo>) -> Vec<Vec<String>> {
    let mut places = BTreeMap::<(&Nspace, [String; 4]), usize>::new();
    let mut rows = Vec::<(&Nspace, RankSet, [String; 4])>::new();
    for info in procs {
        let [_, _, node, _, state, exit, executable] = proc_fields(info);
        let alike = [node, state, exit, executable];
        let place = *places.entry((&info.proc.nspace, alike.clone())).or_insert_with(|| {
            rows.push((&info.proc.nspace, RankSet::new(), alike));
            rows.len() - 1
        });
        if let Some((_, ranks, _)) = rows.get_mut(place) {
            ranks.insert(info.proc.rank);
        }
    }
    let row = |(nspace, ranks, [node, state, exit, executable]): (&Nspace, RankSet, [String; 4])| {
        vec![nspace.to_string(), ranks.to_string(), node, state, exit, executable]
    };
    rows.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use pmix_tool::types::{ProcId, ProcState, Rank};

    use super::*;

    #[test]
    fn ranks_that_are_alike_share_a_row() {
        let proc = |nspace: &str, rank, node: &str, state, exit_code| {
            let mut info = ProcInfo::new(ProcId::new(nspace.parse().unwrap(), Rank::from_raw(rank)));
            (info.hostname, info.state, info.exit_code) = (Some(node.into()), state, exit_code);
            info
        };
        let procs: Vec<_> = (0..1000)
            .map(|rank| match rank {
                7 => proc("a", 7, "n1", ProcState::TERM_NON_ZERO, 3),
                rank => proc("a", rank, if rank < 500 { "n0" } else { "n1" }, ProcState::CONNECTED, 0),
            })
            .chain([proc("b", 0, "n0", ProcState::CONNECTED, 0)])
            .collect();
        let rows = folded(procs.iter()).into_iter().map(|row| row.join(" "));
        assert_eq!(
            rows.collect::<Vec<_>>(),
            [
                "a 0-6,8-499 n0 CONNECTED - -",
                "a 7 n1 TERM_NON_ZERO 3 -",
                "a 500-999 n1 CONNECTED - -",
                "b 0 n0 CONNECTED - -",
            ]
        );
    }
}
