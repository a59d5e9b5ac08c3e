//! The picture: a line of what there is, a table, and a line of keys.

use std::time::Duration;

use pmix_tool::types::escaped;
use pmix_tool::watch::Rate;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table};

use super::super::render::middle;
use super::model::{JobRow, Model, RankRow, View};

/// From this width on there is room for columns that are not needed.
const WIDE: u16 = 120;
/// Lines that are no rows of the table: what there is, titles, problems, keys.
const AROUND: u16 = 4;

const HELP: [(&str, &str); 8] = [
    ("Up, Down, k, j", "select a line"),
    ("PgUp, PgDn, Home, End", "select one far away"),
    ("Enter", "open the job: its ranks"),
    ("Esc, Backspace", "back to the jobs"),
    ("s", "sort by the next column"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit"),
    ("", ""),
];

const MEANING: &str = "CPU% is of one processor. COLL/S are collectives of PMIx, not of MPI. WAIT% is the \
                       time spent in them; SLOWEST is the rank that waits least, so the others wait for it. - is unknown.";

/// Colours, or none if the user wants none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    has_colour: bool,
}

impl Palette {
    pub(super) const fn new(has_colour: bool) -> Self {
        Self { has_colour }
    }

    fn of(self, colour: Color) -> Style {
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }
}

/// How many rows of a table a terminal shows: the step of a page.
pub(super) const fn page(height: u16) -> usize {
    height.saturating_sub(AROUND) as usize
}

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, palette: Palette) {
    let [top, table, problem, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Paragraph::new(Span::styled(title(model), bold)), top);
    match &model.view {
        View::Jobs => {
            let rows = model.jobs();
            let has_servers = model.count()[0] > 1;
            let style = |row: &JobRow| if row.failed > 0 { palette.of(Color::Red) } else { Style::new() };
            let (columns, selected) = (job_columns(table.width, has_servers), model.selected_job(&rows));
            TableLines { columns: &columns, rows: &rows, selected, style: &style }.draw(frame, table, model);
        }
        View::Ranks(name) => {
            let rows = model.ranks(name).unwrap_or_default();
            let style = |row: &RankRow<'_>| match (row.info.state.is_abnormal(), row.is_slowest) {
                (true, _) => palette.of(Color::Red),
                (_, true) => palette.of(Color::Yellow).add_modifier(Modifier::BOLD),
                _ => Style::new(),
            };
            let (columns, selected) = (rank_columns(table.width), model.selected_rank(&rows));
            TableLines { columns: &columns, rows: &rows, selected, style: &style }.draw(frame, table, model);
        }
    }
    if let Some(text) = model.problems.last() {
        frame.render_widget(
            Paragraph::new(Span::styled(escaped(text).to_string(), palette.of(Color::Red))),
            problem,
        );
    }
    let back = if model.view == View::Jobs { "Enter open" } else { "Esc back" };
    let text = format!("q quit  {back}  s sort: {}  ? help", model.sort.name());
    frame.render_widget(Paragraph::new(text), keys);
    if model.has_help {
        help(frame, palette);
    }
}

/// `pmix top: 2 jobs, 12 ranks, 11 running`.
fn title(model: &Model) -> String {
    let many = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let [servers, jobs, ranks, running] = model.count();
    let took = milliseconds(model.took());
    match &model.view {
        View::Jobs => format!(
            "pmix top: {}, {}, {}, {running} running; answered in {took}",
            many(servers, "server"),
            many(jobs, "job"),
            many(ranks, "rank")
        ),
        View::Ranks(name) => {
            let state = match model.count_of(name) {
                Some([ranks, running]) => {
                    format!("{}, {running} running; answered in {took}", many(ranks, "rank"))
                }
                None => "has ended".to_owned(),
            };
            format!("pmix top: {}: {state}", name.1)
        }
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

/// A column of a table of such rows.
struct Column<R> {
    title: &'static str,
    /// `None` for the one that gets what is left.
    width: Option<u16>,
    is_number: bool,
    cell: fn(&R, &Model) -> String,
}

const fn number<R>(title: &'static str, width: u16, cell: fn(&R, &Model) -> String) -> Column<R> {
    Column { title, width: Some(width), is_number: true, cell }
}

const fn text<R>(title: &'static str, width: Option<u16>, cell: fn(&R, &Model) -> String) -> Column<R> {
    Column { title, width, is_number: false, cell }
}

fn job_columns(width: u16, has_servers: bool) -> Vec<Column<JobRow>> {
    let is_wide = width >= WIDE;
    let mut columns = vec![
        text("NAMESPACE", None, |row: &JobRow, _| row.name.1.to_string()),
        number("RANKS", 6, |row, _| row.ranks.to_string()),
        number("RUN", 6, |row, _| row.running.to_string()),
        number("CPU%", 7, |row, _| percent(row.rate.cpu)),
        number("MEM", 6, |row, _| bytes(row.rss)),
        number("COLL/S", 6, |row, _| per_second(row.rate.collectives)),
        number("OUT/S", 6, |row, _| bytes_per_second(&row.rate)),
        number("WAIT%", 5, |row, _| percent(row.rate.waits)),
        if is_wide {
            text("SLOWEST", Some(28), |row, _| match &row.slowest {
                Some((rank, Some(host))) => format!("{rank} on {host}"),
                Some((rank, None)) => rank.to_string(),
                None => "-".into(),
            })
        } else {
            number("SLOWEST", 7, |row, _| {
                row.slowest.as_ref().map_or_else(|| "-".into(), |(rank, _)| rank.to_string())
            })
        },
    ];
    if is_wide && has_servers {
        columns.push(text("SERVER", Some(24), |row, model| {
            model.servers.get(row.name.0).map_or_else(String::new, |server| server.name.clone())
        }));
    }
    columns
}

fn rank_columns<'a>(width: u16) -> Vec<Column<RankRow<'a>>> {
    let mut columns = vec![
        number("RANK", 7, |row: &RankRow<'_>, _| row.info.proc.rank.to_string()),
        text("NODE", None, |row, _| row.info.hostname.clone().unwrap_or_else(|| "-".into())),
        number("PID", 8, |row, _| if row.info.pid.0 > 0 { row.info.pid.to_string() } else { "-".into() }),
        text("STATE", Some(14), |row, _| row.state()),
        number("CPU%", 5, |row, _| percent(row.rate.cpu)),
        number("MEM", 6, |row, _| bytes(row.rss)),
        number("COLL/S", 6, |row, _| per_second(row.rate.collectives)),
        number("OUT/S", 6, |row, _| bytes_per_second(&row.rate)),
        number("WAIT%", 5, |row, _| percent(row.rate.waits)),
    ];
    if width >= WIDE {
        columns.push(number("EXIT", 4, |row, _| {
            if row.info.state.is_terminated() { row.info.exit_code.to_string() } else { "-".into() }
        }));
        columns.push(text("EXECUTABLE", Some(40), |row, _| {
            row.info.executable.clone().unwrap_or_else(|| "-".into())
        }));
    }
    columns
}

/// The lines of a table.
struct TableLines<'a, R> {
    columns: &'a [Column<R>],
    rows: &'a [R],
    selected: usize,
    style: &'a dyn Fn(&R) -> Style,
}

impl<R> TableLines<'_, R> {
    /// Draws those around the selected one, and no others: there may be ten thousand.
    fn draw(&self, frame: &mut Frame<'_>, area: Rect, model: &Model) {
        let Self { columns, rows, selected, style } = self;
        let gaps = u16::try_from(columns.len().saturating_sub(1)).unwrap_or_default();
        let taken: u16 = columns.iter().filter_map(|column| column.width).sum::<u16>() + gaps;
        let rest = area.width.saturating_sub(taken).max(6);
        let widths: Vec<u16> = columns.iter().map(|column| column.width.unwrap_or(rest)).collect();
        let cell = |(column, width): (&Column<R>, &u16), text: &str| {
            let text = middle(&escaped(text).to_string(), (*width).into());
            let alignment = if column.is_number { Alignment::Right } else { Alignment::Left };
            Cell::new(Line::from(text).alignment(alignment))
        };
        let page = usize::from(area.height.saturating_sub(1));
        let first = (selected + 1).saturating_sub(page).min(rows.len());
        let shown = rows.iter().enumerate().skip(first).take(page).map(|(place, row)| {
            let mut style = style(row);
            if place == *selected {
                style = style.add_modifier(Modifier::REVERSED);
            }
            let cells = columns.iter().zip(&widths).map(|place| cell(place, &(place.0.cell)(row, model)));
            Row::new(cells).style(style)
        });
        let titles = columns.iter().zip(&widths).map(|place| cell(place, place.0.title));
        let header = Row::new(titles).style(Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED));
        let constraints = widths.iter().map(|width| Constraint::Length(*width));
        frame.render_widget(Table::new(shown, constraints).header(header).column_spacing(1), area);
    }
}

fn help(frame: &mut Frame<'_>, palette: Palette) {
    let keys = HELP.iter().map(|(keys, what)| {
        Line::from(vec![Span::styled(format!(" {keys:<23}"), palette.of(Color::Yellow)), Span::raw(*what)])
    });
    let area = frame.area();
    let (width, height) = (64.min(area.width), 15.min(area.height));
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(" Keys ");
    let inner = block.inner(place);
    frame.render_widget(block, place);
    let [above, below] =
        Layout::vertical([Constraint::Length(HELP.len() as u16), Constraint::Min(0)]).areas(inner);
    frame.render_widget(Paragraph::new(keys.collect::<Vec<_>>()), above);
    frame.render_widget(Paragraph::new(MEANING).wrap(ratatui::widgets::Wrap { trim: true }), below);
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.0}", share * 100.0))
}

fn per_second(number: Option<f64>) -> String {
    match number {
        None => "-".into(),
        Some(number) if number < 100.0 => format!("{number:.1}"),
        Some(number) => format!("{number:.0}"),
    }
}

fn bytes_per_second(rate: &Rate) -> String {
    bytes(rate.output.map(|output| output as u64))
}

/// `0`, `999`, `1.5K`, `12M`: five characters at most.
fn bytes(number: Option<u64>) -> String {
    let Some(number) = number else { return "-".into() };
    let (mut value, mut unit) = (number as f64, "");
    for larger in ["K", "M", "G", "T", "P", "E"] {
        if value < 1000.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if unit.is_empty() || value >= 9.95 { format!("{value:.0}{unit}") } else { format!("{value:.1}{unit}") }
}
