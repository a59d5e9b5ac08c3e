//! Maps as compact bytes.
//!
//! After the tag come a byte for the kind of map, a version, the length of what follows, and then numbers in
//! LEB128 form, seven bits a byte, and texts with their lengths before them.

use super::node_builder::{NodeMapBuilder, check_text};
use super::node_map::NodeMap;
use super::proc_builder::ProcMapBuilder;
use super::proc_map::ProcMap;
use super::run::RankRun;
use super::template::{MAX_WIDTH, Template, max_number};
use super::{MAX_NODES, MapError};

pub(super) const TAG: &[u8] = b"blob:";

const NODES: u8 = b'N';
const PROCS: u8 = b'P';
const VERSION: u8 = 1;

/// Number of templates, each as prefix, suffix and width; number of runs, each as template, first number and
/// count less one.
pub(super) fn nodes(map: &NodeMap) -> Vec<u8> {
    let mut body = Vec::new();
    put(&mut body, map.templates.len() as u64);
    for template in &map.templates {
        put_text(&mut body, &template.prefix);
        put_text(&mut body, &template.suffix);
        body.push(template.width);
    }
    put(&mut body, map.runs.len() as u64);
    for (run, (_, first, count)) in map.runs.iter().zip(map.pieces()) {
        put(&mut body, run.template.into());
        put(&mut body, first);
        put(&mut body, u64::from(count) - 1);
    }
    framed(NODES, &body)
}

pub(super) fn parse_nodes(bytes: &[u8], at: usize) -> Result<NodeMap, MapError> {
    let mut input = open(bytes, at, NODES)?;
    let mut builder = NodeMapBuilder::default();
    let mut templates = Vec::new();
    for _ in 0..input.length(3)? {
        let template = parse_template(&mut input)?;
        let greatest = max_number(template.width.into());
        templates.push((builder.template(template), greatest));
    }
    for _ in 0..input.length(3)? {
        let at = input.at;
        let template = input.number(u32::MAX.into())? as usize;
        let &(template, greatest) = templates.get(template).ok_or_else(|| input.bad("unknown template"))?;
        let first = input.number(greatest)?;
        let last = first + input.number(MAX_NODES.into())?;
        if last > greatest {
            return Err(input.bad("number does not fit its template"));
        }
        builder.push_run(template, first, last, at)?;
    }
    input.end()?;
    Ok(builder.finish())
}

fn parse_template(input: &mut Input<'_>) -> Result<Template, MapError> {
    let at = input.at;
    let (prefix, suffix) = (input.text()?, input.text()?);
    check_text(prefix, at)?;
    check_text(suffix, at)?;
    match input.byte()? {
        // also when not written by us: the parts of a literal are one
        0 => Ok(Template::literal(&[prefix, suffix].concat())),
        width if usize::from(width) <= MAX_WIDTH => {
            Ok(Template { prefix: prefix.into(), suffix: suffix.into(), width })
        }
        _ => Err(input.bad("too many digits")),
    }
}

/// For each group the number of nodes, the shift, the number of runs, each as first rank, count less one and,
/// if that is not zero, step.
pub(super) fn procs(map: &ProcMap) -> Vec<u8> {
    let mut body = Vec::new();
    for group in map.groups() {
        put(&mut body, group.nodes.into());
        put_signed(&mut body, group.shift);
        put(&mut body, group.runs.len() as u64);
        for run in group.runs {
            put(&mut body, run.first.into());
            put(&mut body, u64::from(run.count) - 1);
            if run.count > 1 {
                put_signed(&mut body, run.step.into());
            }
        }
    }
    framed(PROCS, &body)
}

pub(super) fn parse_procs(bytes: &[u8], at: usize) -> Result<ProcMap, MapError> {
    let mut input = open(bytes, at, PROCS)?;
    let mut builder = ProcMapBuilder::default();
    while input.at < bytes.len() {
        let at = input.at;
        let nodes = input.number(MAX_NODES.into())? as u32;
        let shift = input.signed()?;
        for _ in 0..input.length(2)? {
            let first = input.number(u32::MAX.into())? as u32;
            let more = input.number(u64::from(u32::MAX) - 1)? as u32;
            let step = if more == 0 { 1 } else { input.signed()? };
            let step = i32::try_from(step).map_err(|_| input.bad("step is too great"))?;
            let run = RankRun::new(first, step, more + 1).ok_or_else(|| input.bad("ranks are not valid"))?;
            builder.push_run(run);
        }
        if nodes == 0 {
            return Err(input.bad("group without nodes"));
        }
        builder.end_nodes(nodes, shift, at)?;
    }
    builder.finish()
}

fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = TAG.to_vec();
    out.extend([0, kind, VERSION]);
    put(&mut out, body.len() as u64);
    out.extend_from_slice(body);
    out
}

fn open(bytes: &[u8], at: usize, kind: u8) -> Result<Input<'_>, MapError> {
    let mut input = Input { bytes, at };
    if input.byte()? != 0 {
        return Err(input.bad("no NUL byte after the tag"));
    }
    if input.byte()? != kind {
        return Err(input.bad("not the kind of map that belongs here, or of another PMIx library"));
    }
    if input.byte()? != VERSION {
        return Err(input.bad("unknown version"));
    }
    let length = input.number(u64::MAX)?;
    if length != (bytes.len() - input.at) as u64 {
        return Err(input.bad("length differs from what follows"));
    }
    Ok(input)
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Small numbers of both signs get short: 0, -1, 1, -2 are 0, 1, 2, 3.
fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)) as u64);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn byte(&mut self) -> Result<u8, MapError> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.bad("it ends too early"))?;
        self.at += 1;
        Ok(byte)
    }

    fn number(&mut self, max: u64) -> Result<u64, MapError> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return if number <= max { Ok(number) } else { Err(self.bad("a number is too great")) };
            }
        }
        Err(self.bad("a number is too long"))
    }

    fn signed(&mut self) -> Result<i64, MapError> {
        let number = self.number(u64::MAX)?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// How many items follow, each of which takes at least `item` bytes.
    fn length(&mut self, item: usize) -> Result<u64, MapError> {
        let length = self.number(u64::MAX)?;
        if length > ((self.bytes.len() - self.at) / item) as u64 {
            return Err(self.bad("more items than there is room for"));
        }
        Ok(length)
    }

    fn text(&mut self) -> Result<&'a str, MapError> {
        let length = self.length(1)? as usize;
        let bytes = &self.bytes[self.at..self.at + length];
        let text = str::from_utf8(bytes).map_err(|_| self.bad("text is not UTF-8"))?;
        self.at += length;
        Ok(text)
    }

    fn end(&self) -> Result<(), MapError> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.bad("something follows the end")) }
    }

    fn bad(&self, problem: &'static str) -> MapError {
        MapError::Blob { at: self.at, problem }
    }
}
