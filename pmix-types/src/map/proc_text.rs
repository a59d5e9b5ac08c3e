//! Process maps as text: plain lists and expressions.

use std::fmt::Write;

use crate::rank_set::MAX_RANK;

use super::cursor::Cursor;
use super::proc_builder::ProcMapBuilder;
use super::proc_map::ProcMap;
use super::run::RankRun;
use super::{MAX_NODES, MapError};

const RANK_LIMIT: &str = "the greatest rank is 4294967244";

/// `0-3;4-7;8,10`
pub(super) fn ranges(map: &ProcMap) -> String {
    plain(map, |out, run| {
        if run.is_unit() && run.count > 1 {
            write_range(out, &run);
        } else {
            write_each(out, &run);
        }
    })
}

/// `0,1,2,3;4,5,6,7;8,10`
pub(super) fn listed(map: &ProcMap) -> String {
    plain(map, |out, run| write_each(out, &run))
}

/// `pmix[0-3*2+4;8,10]`
pub(super) fn expression(map: &ProcMap) -> String {
    let mut out = String::from("pmix[");
    for group in map.groups() {
        for run in group.runs {
            match run {
                RankRun { count: 1, .. } | RankRun { count: 2, step: ..=0 | 2.., .. } => {
                    write_each(&mut out, run)
                }
                RankRun { step: 1, .. } => write_range(&mut out, run),
                RankRun { first, step, .. } => {
                    // writing to a String cannot fail
                    let _ = write!(out, "{first}-{}/{},", run.last(), step.unsigned_abs());
                }
            }
        }
        if !group.runs.is_empty() {
            out.pop();
        }
        let _ = match (group.nodes, group.shift) {
            (1, _) => Ok(()),
            (nodes, 0) => write!(out, "*{nodes}"),
            (nodes, shift) => write!(out, "*{nodes}{shift:+}"),
        };
        out.push(';');
    }
    out.pop();
    out.push(']');
    out
}

fn plain(map: &ProcMap, write_run: impl Fn(&mut String, RankRun)) -> String {
    let mut out = String::new();
    for group in map.groups() {
        for node in group.first_node..group.first_node + group.nodes {
            let distance = group.distance(node);
            for run in group.runs {
                write_run(&mut out, run.shifted(distance));
            }
            if !group.runs.is_empty() {
                out.pop();
            }
            out.push(';');
        }
    }
    out.pop();
    out
}

fn write_range(out: &mut String, run: &RankRun) {
    let _ = write!(out, "{}-{},", run.first, run.last());
}

fn write_each(out: &mut String, run: &RankRun) {
    for rank in run.ranks() {
        let _ = write!(out, "{rank},");
    }
}

pub(super) fn parse_list(mut text: Cursor<'_>) -> Result<ProcMap, MapError> {
    let mut builder = ProcMapBuilder::default();
    loop {
        let at = text.at();
        parse_ranks(&mut text, &mut builder, parse_range)?;
        builder.end_node(at)?;
        if !text.eat(";") {
            break;
        }
    }
    text.expect_end("`,`, `;` or the end of the map")?;
    builder.finish()
}

pub(super) fn parse_expression(mut text: Cursor<'_>) -> Result<ProcMap, MapError> {
    let mut builder = ProcMapBuilder::default();
    text.expect("pmix[", "`pmix[`")?;
    loop {
        parse_ranks(&mut text, &mut builder, parse_series)?;
        parse_repeat(&mut text, &mut builder)?;
        if !text.eat(";") {
            break;
        }
    }
    text.expect("]", "`,`, `;` or the closing `]`")?;
    text.expect_end("the end of the expression")?;
    builder.finish()
}

/// The ranks of a node, split by commas, or nothing.
fn parse_ranks(
    text: &mut Cursor<'_>,
    builder: &mut ProcMapBuilder,
    parse: fn(&mut Cursor<'_>, &mut ProcMapBuilder) -> Result<(), MapError>,
) -> Result<(), MapError> {
    if matches!(text.peek(), None | Some(b';' | b'*' | b']')) {
        return Ok(());
    }
    parse(text, builder)?;
    while text.eat(",") {
        parse(text, builder)?;
    }
    Ok(())
}

/// `7` or `7-12`
fn parse_range(text: &mut Cursor<'_>, builder: &mut ProcMapBuilder) -> Result<(), MapError> {
    let at = text.at();
    let first = parse_rank(text)?;
    let last = if text.eat("-") { parse_rank(text)? } else { first };
    push_range(builder, first, last, at)
}

/// `7`, `7-12`, `0-12/4` or `12-0/4`
fn parse_series(text: &mut Cursor<'_>, builder: &mut ProcMapBuilder) -> Result<(), MapError> {
    let at = text.at();
    let first = parse_rank(text)?;
    let last = if text.eat("-") { parse_rank(text)? } else { first };
    let step_at = text.at();
    if !text.eat("/") {
        return push_range(builder, first, last, at);
    }
    let step = text.number(i32::MAX as u64, "steps between ranks are below 2147483648")? as u32;
    let distance = first.abs_diff(last);
    if step == 0 || distance % step != 0 {
        return Err(MapError::Expected {
            at: step_at,
            what: "`/` and a step that leads to the end of the series",
        });
    }
    let signed = if first > last { -(step as i32) } else { step as i32 };
    let run = RankRun::new(first, signed, distance / step + 1);
    builder.push_run(run.ok_or(MapError::NumberTooGreat { at, limit: RANK_LIMIT })?);
    Ok(())
}

fn parse_rank(text: &mut Cursor<'_>) -> Result<u32, MapError> {
    text.number(MAX_RANK.into(), RANK_LIMIT).map(|rank| rank as u32)
}

fn push_range(builder: &mut ProcMapBuilder, first: u32, last: u32, at: usize) -> Result<(), MapError> {
    if first > last {
        return Err(MapError::Backwards { at, first: first.into(), last: last.into() });
    }
    builder.push_range(first, last);
    Ok(())
}

/// Nothing, `*count`, `*count+shift` or `*count-shift`
fn parse_repeat(text: &mut Cursor<'_>, builder: &mut ProcMapBuilder) -> Result<(), MapError> {
    let at = text.at();
    if !text.eat("*") {
        return builder.end_node(at);
    }
    let nodes = text.number(MAX_NODES.into(), "maps have at most 16777216 nodes")?;
    if nodes == 0 {
        return Err(MapError::Expected { at, what: "`*` and a number of nodes above 0" });
    }
    let sign = match () {
        () if text.eat("+") => 1,
        () if text.eat("-") => -1,
        () => 0,
    };
    let shift = if sign == 0 { 0 } else { text.number(MAX_RANK.into(), RANK_LIMIT)? };
    builder.end_nodes(nodes as u32, sign * shift as i64, at)
}
