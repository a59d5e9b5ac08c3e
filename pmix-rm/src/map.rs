//! `--display map`: the nodes and programs of the ranks of a job.

use std::collections::BTreeMap;

use pmix_types::{App, Nspace, ProcInfo, RankSet, escaped};

/// A title, then a line with ranks for each node and program.
pub(crate) fn lines(nspace: &Nspace, apps: &[App], table: &[ProcInfo]) -> Vec<String> {
    let commands: Vec<_> = apps
        .iter()
        .map(|app| (app.command.to_string_lossy(), usize::try_from(app.max_procs).unwrap_or(0)))
        .collect();
    let programs: Vec<&str> =
        commands.iter().flat_map(|(command, count)| std::iter::repeat_n(&**command, *count)).collect();
    let mut places: BTreeMap<(usize, usize), RankSet> = BTreeMap::new();
    let mut nodes: Vec<&str> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for row in table {
        let rank = row.proc.rank.to_raw();
        let node = row.hostname.as_deref().unwrap_or("?");
        let name = usize::try_from(rank).ok().and_then(|rank| programs.get(rank)).copied().unwrap_or("?");
        places.entry((number(&mut nodes, node), number(&mut names, name))).or_default().insert(row.proc.rank);
    }
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let title =
        format!("Map of job {nspace}: {} on {}", count(table.len(), "rank"), count(nodes.len(), "node"));
    let of_place = places.iter().map(|(&(node, name), of_node)| {
        let (node, name) = (nodes.get(node).unwrap_or(&"?"), names.get(name).unwrap_or(&"?"));
        let plural = if of_node.len() == 1 { "" } else { "s" };
        format!("  {node}: {}: rank{plural} {of_node}", escaped(name))
    });
    std::iter::once(title).chain(of_place).collect()
}

/// Index of a name among those seen so far.
fn number<'a>(seen: &mut Vec<&'a str>, name: &'a str) -> usize {
    seen.iter().position(|known| *known == name).unwrap_or_else(|| {
        seen.push(name);
        seen.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use pmix_types::{ProcId, Rank};

    use super::*;

    #[test]
    fn each_node_has_a_line_for_each_program() {
        let nspace = Nspace::new("j").unwrap();
        let row = |(rank, node): (u32, &str)| {
            let mut row = ProcInfo::new(ProcId::new(nspace.clone(), Rank::from_raw(rank)));
            row.hostname = Some(node.into());
            row
        };
        let table: Vec<_> = [(0, "b"), (1, "b"), (2, "b"), (3, "a"), (4, "b")].map(row).into();
        let apps = [App::new("./x", 2), App::new("./y\n", 3)];
        let expected = [
            "Map of job j: 5 ranks on 2 nodes",
            "  b: ./x: ranks 0-1",
            "  b: ./y\\n: ranks 2,4",
            "  a: ./y\\n: rank 3",
        ];
        assert_eq!(lines(&nspace, &apps, &table), expected);
    }
}
