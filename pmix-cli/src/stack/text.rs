//! The tree for people.

use std::io::{self, Write};

use pmix_tool::types::escaped;

use super::answer::shortened;
use super::frame::Source;
use super::tree::Node;

/// Columns where standard output is no terminal.
const COLUMNS: usize = 80;
/// The column of functions gets at least this many characters, that of ranks at most a third of the others.
const NARROWEST: usize = 20;
/// Lines of a function that are named.
const MAX_LINES: usize = 3;

/// A line of the tree.
struct Row {
    /// What connects it with its caller.
    lead: String,
    name: String,
    lines: String,
    ranks: String,
}

/// Writes a line for each function. What it has called comes below it, and further to the right where ranks part.
pub(super) fn write(out: &mut dyn Write, nodes: &[Node], width: Option<usize>) -> io::Result<()> {
    let width = width.unwrap_or(COLUMNS);
    let mut rows = Vec::new();
    add(&mut rows, nodes, "", width / 3);
    let ranks = rows.iter().map(|row| row.ranks.chars().count()).max().unwrap_or(0);
    let room = width.saturating_sub(ranks + 2).max(NARROWEST);
    let needed =
        rows.iter().map(|row| row.lead.chars().count() + label(row, usize::MAX).chars().count()).max();
    let room = room.min(needed.unwrap_or(0));
    for row in &rows {
        let lead = row.lead.chars().count();
        let label = label(row, room.saturating_sub(lead));
        let pad = room.saturating_sub(lead + label.chars().count());
        writeln!(out, "{}{label}{:pad$}  {}", row.lead, "", row.ranks)?;
    }
    Ok(())
}

fn add(rows: &mut Vec<Row>, nodes: &[Node], lead: &str, ranks: usize) {
    for (index, node) in nodes.iter().enumerate() {
        let is_last = index + 1 == nodes.len();
        let (first, below) = match (nodes.len(), is_last) {
            (1, _) => ("", ""),
            (_, false) => ("├─ ", "│  "),
            (_, true) => ("└─ ", "   "),
        };
        rows.push(Row {
            lead: format!("{lead}{first}"),
            name: escaped(&node.function).to_string(),
            lines: lines(&node.sources),
            ranks: counted(node, ranks),
        });
        add(rows, &node.children, &format!("{lead}{below}"), ranks);
    }
}

/// `0-2,4-15 (15)`
fn counted(node: &Node, columns: usize) -> String {
    let threads =
        if node.threads > node.count { format!(", {} threads", node.threads) } else { String::new() };
    let count = format!(" ({}{threads})", node.count);
    let (ranks, _) = shortened(&node.ranks, columns.saturating_sub(count.len()));
    format!("{ranks}{count}")
}

/// ` [late.c:12,14]`
fn lines(sources: &[Source]) -> String {
    let Some(first) = sources.first() else { return String::new() };
    let same: Vec<_> = sources.iter().take_while(|source| source.file == first.file).collect();
    let named: Vec<_> = same.iter().take(MAX_LINES).map(|source| source.line.to_string()).collect();
    let more = if sources.len() > named.len() { ",…" } else { "" };
    format!(" [{}:{}{more}]", escaped(&first.file), named.join(","))
}

/// A name that is too long loses its end, and then its lines.
fn label(row: &Row, room: usize) -> String {
    let (name, lines) = (row.name.chars().count(), row.lines.chars().count());
    if name + lines <= room {
        return format!("{}{}", row.name, row.lines);
    }
    let lines = if lines + NARROWEST / 2 <= room { &*row.lines } else { "" };
    let keep = room.saturating_sub(lines.chars().count() + 1).max(1);
    let cut = if name > keep { "…" } else { "" };
    format!("{}{cut}{lines}", row.name.chars().take(keep).collect::<String>())
}
