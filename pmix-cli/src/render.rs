//! Tables and values for people.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use pmix_tool::ProcInfo;
use pmix_tool::types::{DataArray, Info, Value, escaped};

use super::color::painted;

/// The last column of a table gets at least this many characters.
const NARROWEST: usize = 12;
/// Other texts that are shortened keep this many.
const NARROWEST_TEXT: usize = 6;
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
    writeln!(out, "{}", painted(text))
}

/// The columns of a table that is made to fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    pub(super) titles: &'static [&'static str],
    /// Those with numbers.
    pub(super) numbers: &'static [usize],
    /// Those that may lose their middles.
    pub(super) texts: &'static [usize],
}

/// Writes a table without the columns in which no row has anything; of one without rows, the titles. If a terminal cannot hold it, the `texts` among its
/// columns lose their middles, the widest first.
pub(super) fn write_fitted(
    out: &mut dyn Write,
    columns: Columns,
    mut rows: Vec<Vec<String>>,
    width: Option<usize>,
) -> io::Result<()> {
    let Columns { titles: header, numbers: right, texts } = columns;
    rows.iter_mut().flatten().for_each(|cell| *cell = escaped(cell).to_string());
    let is_used = |column: &usize| rows.is_empty() || rows.iter().any(|row| row[*column] != "-");
    let used: Vec<usize> = (0..header.len()).filter(is_used).collect();
    let mut widths: Vec<usize> = (used.iter())
        .map(|column| rows.iter().map(|row| row[*column].chars().count()).max().unwrap_or(0))
        .zip(used.iter().map(|column| header[*column].len()))
        .map(|(widest, title)| widest.max(title))
        .collect();
    let total = widths.iter().sum::<usize>() + 2 * used.len().saturating_sub(1);
    let mut excess = width.map_or(0, |width| total.saturating_sub(width));
    while excess > 0 {
        let may_shrink = |at: &usize| texts.contains(&used[*at]) && widths[*at] > NARROWEST_TEXT;
        let Some(widest) = (0..used.len()).filter(may_shrink).max_by_key(|at| widths[*at]) else { break };
        widths[widest] -= 1;
        excess -= 1;
    }
    let fit = |row: Vec<String>| {
        let cells = used.iter().zip(&widths).map(|(column, room)| middle(&row[*column], *room));
        cells.collect::<Vec<_>>()
    };
    let header: Vec<&str> = used.iter().map(|column| header[*column]).collect();
    let right: Vec<usize> = (0..used.len()).filter(|at| right.contains(&used[*at])).collect();
    let rows: Vec<_> = rows.into_iter().map(fit).collect();
    writeln!(out, "{}", painted(layout(&header, &rows, &right)))
}

/// The beginning and the end of a text that is too long. Of a list of ranks no number is cut.
pub(super) fn middle(text: &str, room: usize) -> String {
    const GAP: &str = "...";
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let kept = room.saturating_sub(GAP.len());
    let start: String = text.chars().take(kept - kept / 2).collect();
    let end: String = text.chars().skip(length - kept / 2).collect();
    let is_list = text.chars().all(|letter| letter.is_ascii_digit() || ",-.".contains(letter));
    match (start.rfind(','), end.find(',')) {
        (Some(last), Some(first)) if is_list => {
            let start = start[..=last].trim_end_matches("...,");
            format!("{start}{GAP}{}", end[first..].trim_start_matches(",..."))
        }
        _ => format!("{start}{GAP}{end}"),
    }
}

/// Writes a text; on a terminal in lines that it can hold, all but the first of them indented.
pub(super) fn write_wrapped(out: &mut dyn Write, text: &str, width: Option<usize>) -> io::Result<()> {
    let Some(width) = width.map(|width| width.max(2 * NARROWEST)) else { return writeln!(out, "{text}") };
    let mut line = String::new();
    let mut length = 0;
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        if !line.trim().is_empty() && length + 1 + word.len() > width {
            writeln!(out, "{line}")?;
            (line, length) = (" ".repeat(INDENT), INDENT);
        }
        if !line.trim().is_empty() {
            line.push(' ');
            length += 1;
        }
        // a word that no line can hold
        while length + word.len() > width {
            let rest = word.split_off(width - length);
            writeln!(out, "{line}{}", String::from_iter(&word))?;
            (line, length, word) = (" ".repeat(INDENT), INDENT, rest);
        }
        length += word.len();
        line.extend(word);
    }
    writeln!(out, "{line}")
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
pub(super) const PROC_HEADER: [&str; 7] = ["NAMESPACE", "RANK", "NODE", "PID", "STATE", "EXIT", "EXECUTABLE"];
/// Those with numbers.
pub(super) const PROC_NUMBERS: [usize; 3] = [1, 3, 5];

/// A row of a process table; `-` means unknown or not there yet.
pub(super) fn proc_row(info: &ProcInfo) -> Vec<String> {
    proc_fields(info).into()
}

/// The same as an array.
pub(super) fn proc_fields(info: &ProcInfo) -> [String; PROC_HEADER.len()] {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    [
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

    use proptest::prelude::*;

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
NAMESPACE  RANK  NODE   PID  STATE          EXIT  EXECUTABLE
job-1         0  n0    4711  RUNNING           -  /opt/very/long/path/to/solver
job-1        10  -        -  TERM_NON_ZERO     3  -
";
        assert_eq!(table(None), expected);
        assert_eq!(table(Some(200)), expected);
    }

    #[test]
    fn executables_are_shortened_on_a_narrow_terminal() {
        let narrow = table(Some(67));
        assert!(narrow.contains("…g/path/to/solver\n"), "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 67), "{narrow}");
        // some of it is always left
        assert!(table(Some(10)).contains(" …h/to/solver\n"), "{}", table(Some(10)));
    }

    #[test]
    fn fitted_tables_leave_out_empty_columns_and_shorten_texts() {
        let rows = || {
            vec![
                vec!["1".into(), "-".into(), "a".repeat(40), "b".repeat(10)],
                vec!["10000".into(), "-".into(), "short".into(), "x\n".into()],
            ]
        };
        let columns = Columns { titles: &["N", "NONE", "LONG", "B"], numbers: &[0], texts: &[2, 3] };
        let write = |width| {
            let mut out = Vec::new();
            write_fitted(&mut out, columns, rows(), width).unwrap();
            String::from_utf8(out).unwrap()
        };
        let whole = format!(
            "    N  LONG{}  B\n    1  {}  {}\n10000  short{}  x\\n\n",
            " ".repeat(36),
            "a".repeat(40),
            "b".repeat(10),
            " ".repeat(35)
        );
        assert_eq!(write(None), whole);
        assert_eq!(write(Some(200)), whole);
        let narrow = write(Some(40));
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
        assert!(narrow.contains("aaa...aaa") && narrow.contains(" bbbbbbbbbb\n"), "{narrow}");
        assert_eq!(middle("1,3,5,7,9,11,13,...,9997,9999", 20), "1,3,5,7,...,9999");
        assert_eq!(middle("100000000-200000000", 9), "100...000");
        // some of each is always left
        assert!(write(Some(1)).contains("  aa...a  bb...b\n"), "{}", write(Some(1)));
    }

    proptest! {
        #[test]
        fn sentences_fit_a_terminal_and_lose_nothing(text in "[a-zé ]{0,300}", width in 24..120usize) {
            let mut out = Vec::new();
            write_wrapped(&mut out, &text, Some(width)).unwrap();
            let written = String::from_utf8(out).unwrap();
            prop_assert!(written.lines().all(|line| line.chars().count() <= width), "{written}");
            let letters = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&written), letters(&text));
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let is_long = |word: &String| word.chars().count() > width - INDENT;
            prop_assert!(words(&text).iter().any(is_long) || words(&written) == words(&text), "{}", written);
            prop_assert!(written.lines().skip(1).all(|line| line.starts_with("  ")), "{}", written);
        }
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
        assert!(value(DataArray::ProcInfo(rows())).contains("\n  job-1         0  n0    4711  RUNNING"));
    }
}
