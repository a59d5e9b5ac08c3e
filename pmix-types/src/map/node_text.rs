//! Node maps as text: plain lists and expressions.

use std::fmt::Write;

use super::cursor::Cursor;
use super::node_builder::{NodeMapBuilder, TemplateId, check_text};
use super::node_map::NodeMap;
use super::template::{MAX_WIDTH, Template, max_number};
use super::{MAX_NODES, MapError};

const WIDTH_LIMIT: &str = "numbers in node names have at most 18 digits";

pub(super) fn list(map: &NodeMap) -> String {
    let length = map.pieces().map(|(template, _, count)| (template.name_len() + 1) * count as usize).sum();
    let mut out = String::with_capacity(length);
    for (template, first, count) in map.pieces() {
        for number in first..first + u64::from(count) {
            template.write(number, &mut out);
            out.push(',');
        }
    }
    out.pop();
    out
}

pub(super) fn parse_list(mut text: Cursor<'_>) -> Result<NodeMap, MapError> {
    let mut builder = NodeMapBuilder::default();
    if !text.is_at_end() {
        loop {
            let at = text.at();
            builder.push_name(text.until(&[',']), at)?;
            if !text.eat(",") {
                break;
            }
            let (rest, at) = (text.rest(), text.at());
            let series = builder.push_series(rest, at)?;
            text.skip(series);
            if series > 0 && !text.eat(",") {
                break;
            }
        }
    }
    Ok(builder.finish())
}

pub(super) fn has_brackets(map: &NodeMap) -> bool {
    map.templates.iter().any(|template| template.has(&['[', ']']))
}

/// `pmix[node[5:0-99,103]suffix,login]`
pub(super) fn expression(map: &NodeMap) -> String {
    let mut out = String::from("pmix[");
    let mut pieces = map.pieces().peekable();
    while let Some((template, first, count)) = pieces.next() {
        let same_family = |next: &(&Template, u64, u32)| std::ptr::eq(next.0, template);
        let alone = count == 1 && !pieces.peek().is_some_and(same_family);
        if template.is_literal() || alone {
            template.write(first, &mut out);
            out.push(',');
            continue;
        }
        // writing to a String cannot fail
        let _ = write!(out, "{}[{}:", template.prefix, template.width);
        write_numbers(&mut out, first, count);
        while let Some((_, first, count)) = pieces.next_if(same_family) {
            write_numbers(&mut out, first, count);
        }
        out.pop();
        let _ = write!(out, "]{},", template.suffix);
    }
    if !map.is_empty() {
        out.pop();
    }
    out.push(']');
    out
}

fn write_numbers(out: &mut String, first: u64, count: u32) {
    let _ = match count {
        1 => write!(out, "{first},"),
        _ => write!(out, "{first}-{},", first + u64::from(count) - 1),
    };
}

pub(super) fn parse_expression(mut text: Cursor<'_>) -> Result<NodeMap, MapError> {
    let mut builder = NodeMapBuilder::default();
    text.expect("pmix[", "`pmix[`")?;
    if !text.eat("]") {
        loop {
            parse_item(&mut text, &mut builder)?;
            if !text.eat(",") {
                break;
            }
        }
        text.expect("]", "`,` or the closing `]`")?;
    }
    text.expect_end("the end of the expression")?;
    Ok(builder.finish())
}

/// A plain name, or `prefix[width:numbers]suffix`.
fn parse_item(text: &mut Cursor<'_>, builder: &mut NodeMapBuilder) -> Result<(), MapError> {
    const DELIMITERS: &[char] = &[',', '[', ']'];

    let at = text.at();
    let prefix = text.until(DELIMITERS);
    if !text.eat("[") {
        return builder.push_name(prefix, at);
    }
    check_text(prefix, at)?;
    let width_at = text.at();
    let width = text.number(MAX_WIDTH as u64, WIDTH_LIMIT)?;
    if width == 0 {
        return Err(MapError::Expected { at: width_at, what: "a number of digits above 0" });
    }
    text.expect(":", "`:` after the number of digits")?;

    // the suffix, which stands behind the numbers, is needed first
    let mut ahead = text.clone();
    ahead.until(&[']']);
    ahead.expect("]", "`]` after the numbers")?;
    let suffix_at = ahead.at();
    let suffix = ahead.until(DELIMITERS);
    check_text(suffix, suffix_at)?;

    let mut family = Family { prefix, suffix, ids: [None; MAX_WIDTH + 1] };
    loop {
        parse_numbers(text, width as usize, &mut family, builder)?;
        if !text.eat(",") {
            break;
        }
    }
    text.expect("]", "`,` or `]` after a number")?;
    *text = ahead;
    Ok(())
}

/// The templates of one item, which differ in the number of digits, each made when first used.
struct Family<'a> {
    prefix: &'a str,
    suffix: &'a str,
    ids: [Option<TemplateId>; MAX_WIDTH + 1],
}

impl Family<'_> {
    fn template(&mut self, width: usize, builder: &mut NodeMapBuilder) -> TemplateId {
        let (prefix, suffix) = (self.prefix, self.suffix);
        *self.ids[width].get_or_insert_with(|| {
            builder.template(Template { prefix: prefix.into(), suffix: suffix.into(), width: width as u8 })
        })
    }
}

/// `7` or `7-12`. Numbers that need more digits than `width` get them.
fn parse_numbers(
    text: &mut Cursor<'_>,
    mut width: usize,
    family: &mut Family<'_>,
    builder: &mut NodeMapBuilder,
) -> Result<(), MapError> {
    let at = text.at();
    let mut first = text.number(max_number(MAX_WIDTH), WIDTH_LIMIT)?;
    let last = if text.eat("-") { text.number(max_number(MAX_WIDTH), WIDTH_LIMIT)? } else { first };
    if first > last {
        return Err(MapError::Backwards { at, first, last });
    }
    if last - first >= u64::from(MAX_NODES) {
        return Err(MapError::TooManyNodes { at });
    }
    loop {
        while max_number(width) < first {
            width += 1;
        }
        let end = last.min(max_number(width));
        let template = family.template(width, builder);
        builder.push_run(template, first, end, at)?;
        if end == last {
            return Ok(());
        }
        first = end + 1;
    }
}
