//! Tables and values for people.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use pmix_tool::ProcInfo;
use pmix_tool::types::{DataArray, Info, Value, escaped};

/// The last column of a table gets at least this many characters.
const NARROWEST: usize = 12;
const INDENT: usize = 2;

/// Writes a table of plain columns, whose cells are escaped. `right` are the columns with numbers. If a terminal of `width` columns cannot
/// hold it, the texts of the last column lose their beginnings.
pub(super) fn write_table(
    out: &mut dyn Write,
    header: &[&str],
    mut rows: Vec<Vec<String>>,
    right: &[usize],
    width: Option<usize>,
) -> io::Result<()> {
    rows.iter_mut().flatten().for_each(|cell| *cell = escaped(cell).to_string());
    let mut text = layout(header, &rows, right);
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    if let Some(excess) = width.and_then(|width| widest.checked_sub(width)).filter(|excess| *excess > 0) {
        let last = |row: &Vec<String>| row.last().map_or(0, |cell| cell.chars().count());
        let room = rows.iter().map(last).max().unwrap_or(0).saturating_sub(excess).max(NARROWEST);
        rows.iter_mut().filter_map(|row| row.last_mut()).for_each(|cell| shorten(cell, room));
        text = layout(header, &rows, right);
    }
    writeln!(out, "{text}")
}

fn layout(header: &[&str], rows: &[Vec<String>], right: &[usize]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header).add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// Keeps the end, which tells executables apart.
fn shorten(text: &mut String, room: usize) {
    let length = text.chars().count();
    if length > room {
        let end: String = text.chars().skip(length - room + 1).collect();
        *text = format!("…{end}");
    }
}

/// Columns of a process table.
pub(super) const PROC_HEADER: [&str; 7] = ["NSPACE", "RANK", "HOST", "PID", "STATE", "EXIT", "EXECUTABLE"];
/// Those with numbers.
pub(super) const PROC_NUMBERS: [usize; 3] = [1, 3, 5];

/// A row of a process table; `-` means unknown or not there yet.
pub(super) fn proc_row(info: &ProcInfo) -> Vec<String> {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    vec![
        info.proc.nspace.to_string(),
        info.proc.rank.to_string(),
        known(&info.hostname),
        if info.pid.0 > 0 { info.pid.to_string() } else { "-".into() },
        info.state.to_string(),
        if info.state.is_terminated() { info.exit_code.to_string() } else { "-".into() },
        known(&info.executable),
    ]
}

/// Writes `name: value`, or the name and its elements indented below.
pub(super) fn write_value(
    out: &mut dyn Write,
    name: &str,
    value: &Value,
    width: Option<usize>,
) -> io::Result<()> {
    write_indented(out, 0, name, value, width)
}

fn write_indented(
    out: &mut dyn Write,
    depth: usize,
    name: &str,
    value: &Value,
    width: Option<usize>,
) -> io::Result<()> {
    let indent = " ".repeat(depth * INDENT);
    match value {
        Value::DataArray(array) if array.is_empty() => writeln!(out, "{indent}{name}: (none)"),
        Value::DataArray(array) => {
            writeln!(out, "{indent}{name}:")?;
            write_array(out, depth + 1, array, width)
        }
        Value::Info(info) => {
            writeln!(out, "{indent}{name}:")?;
            write_info(out, depth + 1, info, width)
        }
        Value::Value(inner) => write_indented(out, depth, name, inner, width),
        other => writeln!(out, "{indent}{name}: {}", escaped(&other.to_string())),
    }
}

fn write_array(out: &mut dyn Write, depth: usize, array: &DataArray, width: Option<usize>) -> io::Result<()> {
    let indent = " ".repeat(depth * INDENT);
    match array {
        DataArray::ProcInfo(rows) => {
            let mut table = Vec::new();
            let width = width.map(|width| width.saturating_sub(indent.len()));
            let rows = rows.iter().map(proc_row).collect();
            write_table(&mut table, &PROC_HEADER, rows, &PROC_NUMBERS, width)?;
            String::from_utf8_lossy(&table).lines().try_for_each(|line| writeln!(out, "{indent}{line}"))
        }
        DataArray::Info(infos) => infos.iter().try_for_each(|info| write_info(out, depth, info, width)),
        _ => array.iter().try_for_each(|element| match element {
            Value::DataArray(_) | Value::Value(_) => write_indented(out, depth, "-", &element, width),
            element => writeln!(out, "{indent}- {}", escaped(&element.to_string())),
        }),
    }
}

fn write_info(out: &mut dyn Write, depth: usize, info: &Info, width: Option<usize>) -> io::Result<()> {
    write_indented(out, depth, &info.key, &info.value, width)
}

#[cfg(test)]
mod tests {
    use pmix_tool::keys;
    use pmix_tool::types::{Pid, ProcId, ProcState};

    use super::*;

    fn rows() -> Vec<ProcInfo> {
        let proc = ProcId::new("job-1".parse().unwrap(), "0".parse().unwrap());
        let mut running = ProcInfo::new(proc.clone());
        running.hostname = Some("n0".into());
        running.executable = Some("/opt/very/long/path/to/solver".into());
        (running.pid, running.state) = (Pid(4711), ProcState::RUNNING);
        let mut ended = ProcInfo::new(proc.with_rank("10".parse().unwrap()));
        (ended.state, ended.exit_code) = (ProcState::TERM_NON_ZERO, 3);
        vec![running, ended]
    }

    fn table(width: Option<usize>) -> String {
        let mut out = Vec::new();
        let rows = rows().iter().map(proc_row).collect();
        write_table(&mut out, &PROC_HEADER, rows, &PROC_NUMBERS, width).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn value(value: impl Into<Value>) -> String {
        let mut out = Vec::new();
        write_value(&mut out, "key", &value.into(), None).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn qry_11_a_process_table_has_a_row_a_process() {
        let expected = "\
NSPACE  RANK  HOST   PID  STATE          EXIT  EXECUTABLE
job-1      0  n0    4711  RUNNING           -  /opt/very/long/path/to/solver
job-1     10  -        -  TERM_NON_ZERO     3  -
";
        assert_eq!(table(None), expected);
        assert_eq!(table(Some(200)), expected);
    }

    #[test]
    fn executables_are_shortened_on_a_narrow_terminal() {
        let narrow = table(Some(64));
        assert!(narrow.contains("…g/path/to/solver\n"), "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 64), "{narrow}");
        // some of it is always left
        assert!(table(Some(10)).contains(" …h/to/solver\n"), "{}", table(Some(10)));
    }

    #[test]
    fn texts_of_others_stay_in_their_cells_and_lines() {
        let mut out = Vec::new();
        write_table(&mut out, &["A", "B"], vec![vec!["a\nb".into(), "\u{1b}[2J".into()]], &[], Some(10))
            .unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "A     B\na\\nb  \\u{1b}[2J\n");
        assert_eq!(value("a\r\n\u{9b}b"), "key: a\\r\\n\\u{9b}b\n");
        assert_eq!(value(DataArray::String(vec!["\u{1b}c".into()])), "key:\n  - \\u{1b}c\n");
    }

    #[test]
    fn arrays_are_indented() {
        assert_eq!(value(42u16), "key: 42\n");
        assert_eq!(value(DataArray::Uint32(vec![])), "key: (none)\n");
        assert_eq!(value(DataArray::Uint32(vec![1, 2])), "key:\n  - 1\n  - 2\n");
        let infos = vec![
            Info::new(&keys::JOB_SIZE, 4u32),
            Info::dynamic("list".parse().unwrap(), DataArray::String(vec!["a".into()])),
        ];
        assert_eq!(value(infos), "key:\n  pmix.job.size: 4\n  list:\n    - a\n");
        assert!(value(DataArray::ProcInfo(rows())).contains("\n  job-1      0  n0    4711  RUNNING"));
    }
}
