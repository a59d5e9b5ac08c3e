//! The picture at two sizes, and what keys do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use pmix_tool::types::{Pid, ProcState};
use pmix_tool::watch::{Jobs, ProcUsage, Usage};
use pmix_tool::{Nspace, ProcId, ProcInfo, Rank};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::draw::{self, Palette};
use super::model::{Model, Problems, Server, Sort, View};
use super::react;

fn proc(nspace: &str, rank: u32) -> ProcId {
    ProcId::new(nspace.parse().unwrap(), Rank::new(rank).unwrap())
}

fn row(nspace: &str, rank: u32, state: ProcState) -> ProcInfo {
    let mut row = ProcInfo::new(proc(nspace, rank));
    row.hostname = Some(format!("node{}", rank / 2));
    row.executable = Some("/opt/app/solver".into());
    (row.pid, row.state) = (Pid(4710 + i32::try_from(rank).unwrap()), state);
    row
}

/// Up to this second: each rank with a processor time, memory, collectives, a time waited, output.
fn usage(began: Instant, second: u64) -> Arc<Usage> {
    let one = |nspace: &str, rank: u32, waited: u64| {
        let mut one = ProcUsage::new(proc(nspace, rank));
        one.cpu_time = Some(Duration::from_millis(second * 970));
        one.rss = Some((u64::from(rank) + 1) * (500 << 20));
        one.collectives = Some(second * 12);
        one.waited = Some(Duration::from_millis(second * waited));
        one.output = Some(second * 2000 * u64::from(rank));
        one
    };
    let solver =
        [810, 790, 30, 800].into_iter().zip(0..).map(|(waited, rank)| one("n0.4711.solver", rank, waited));
    let all = solver.chain([one("n0.4711.post-processing-of-results", 0, 0)]);
    Arc::new(Usage::at(began + Duration::from_secs(second), all))
}

fn model() -> Model {
    let mut jobs = Jobs::new();
    let solver = (0..4).map(|rank| row("n0.4711.solver", rank, ProcState::CONNECTED));
    jobs.insert("n0.4711.solver".parse().unwrap(), solver);
    let mut failed = row("n0.4711.post-processing-of-results", 1, ProcState::TERM_NON_ZERO);
    failed.exit_code = 3;
    let post = [row("n0.4711.post-processing-of-results", 0, ProcState::RUNNING), failed];
    jobs.insert("n0.4711.post-processing-of-results".parse().unwrap(), post);
    let began = pmix_test_wait::moment();
    let server = Server {
        name: "n0.4711".into(),
        uri: "uri".into(),
        jobs,
        usage: Some(usage(began, 2)),
        earlier: Some(usage(began, 1)),
        took: Duration::from_millis(4),
        is_gone: false,
    };
    Model { servers: vec![server], ..Model::default() }
}

/// The lines of the picture, without blanks at their ends.
fn picture(model: &Model, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::draw(frame, model, Palette::new(false))).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line =
        |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
    (0..height).map(line).collect()
}

fn press(model: &mut Model, keys: &[KeyCode]) {
    for key in keys {
        assert!(!react(model, &Event::Key(KeyEvent::new(*key, KeyModifiers::NONE)), 10));
    }
}

fn lines(text: &str, count: usize) -> String {
    text.lines().take(count).map(|line| format!("{line}\n")).collect()
}

#[test]
fn at_80_columns_there_is_what_matters() {
    let mut model = model();
    let jobs = picture(&model, (80, 24));
    let expected = "\
pmix top: 1 server, 2 jobs, 6 ranks, 5 running; answered in 4 ms
NAMESPACE                RANKS    RUN    CPU%    MEM COLL/S  OUT/S WAIT% SLOWEST
n0.4711.po...of-results      2      1      97   500M   12.0      0     0       -
n0.4711.solver               4      4     388   4.9G   12.0    12K    61       2
";
    assert_eq!(lines(&jobs, 4), expected, "{jobs}");
    assert_eq!(jobs.lines().last(), Some("q quit  Enter open  s sort: name  ? help"));
    assert_eq!(jobs.lines().count(), 24);

    press(&mut model, &[KeyCode::Down, KeyCode::Enter]);
    let ranks = picture(&model, (80, 24));
    let expected = "\
pmix top: n0.4711.solver: 4 ranks, 4 running; answered in 4 ms
   RANK NODE                 PID STATE           CPU%    MEM COLL/S  OUT/S WAIT%
      0 node0               4710 CONNECTED         97   500M   12.0      0    81
      1 node0               4711 CONNECTED         97   1.0G   12.0   2.0K    79
      2 node1               4712 CONNECTED         97   1.5G   12.0   3.9K     3
      3 node1               4713 CONNECTED         97   2.0G   12.0   5.9K    80
";
    assert_eq!(lines(&ranks, 6), expected, "{ranks}");
    assert!(ranks.ends_with("q quit  Esc back  s sort: name  ? help\n"), "{ranks}");
}

#[test]
fn at_200_columns_there_is_more() {
    let mut model = model();
    model.servers.push(Server { name: "n0.5000".into(), ..Server::default() });
    let jobs = picture(&model, (200, 50));
    let rows: Vec<_> = jobs.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(rows[1][7..], ["WAIT%", "SLOWEST", "SERVER"], "{jobs}");
    assert_eq!(rows[2][0], "n0.4711.post-processing-of-results");
    assert_eq!(rows[3][8..], ["2", "on", "node1", "n0.4711"]);
    press(&mut model, &[KeyCode::Enter]);
    let ranks = picture(&model, (200, 50));
    let rows: Vec<_> = ranks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(
        rows[3],
        ["1", "node0", "4711", "TERM_NON_ZERO", "-", "-", "-", "-", "-", "3", "/opt/app/solver"]
    );
    assert!(jobs.lines().chain(ranks.lines()).all(|line| line.chars().count() <= 200));
}

#[test]
fn a_rank_that_is_stopped_is_paused_until_it_has_ended() {
    let mut model = model();
    let stopped = |rank| {
        let mut one = ProcUsage::new(proc("n0.4711.post-processing-of-results", rank));
        one.stopped = Some(true);
        one
    };
    model.servers[0].usage = Some(Arc::new(Usage::at(pmix_test_wait::moment(), [stopped(0), stopped(1)])));
    assert!(picture(&model, (80, 24)).contains("6 ranks, 4 running"));
    press(&mut model, &[KeyCode::Enter]);
    let ranks = picture(&model, (80, 24));
    assert!(ranks.contains("2 ranks, 0 running"), "{ranks}");
    let state = |line: usize| ranks.lines().nth(line).and_then(|line| line.split_whitespace().nth(3));
    assert_eq!((state(2), state(3)), (Some("paused"), Some("TERM_NON_ZERO")), "{ranks}");
}

#[test]
fn the_selection_stays_with_its_line_when_the_order_changes() {
    let mut model = model();
    press(&mut model, &[KeyCode::Down, KeyCode::Enter, KeyCode::End]);
    let solver: Nspace = "n0.4711.solver".parse().unwrap();
    assert_eq!(model.view, View::Ranks((0, solver.clone())));
    let selected = |model: &Model| {
        let rows = model.ranks(&(0, solver.clone())).unwrap();
        rows[model.selected_rank(&rows)].info.proc.rank.to_raw()
    };
    let order = |model: &Model| {
        let rows = model.ranks(&(0, solver.clone())).unwrap();
        rows.iter().map(|row| row.info.proc.rank.to_raw()).collect::<Vec<_>>()
    };
    assert_eq!(selected(&model), 3);
    for (sort, expected) in [
        (Sort::Cpu, [0, 1, 2, 3]),
        (Sort::Memory, [3, 2, 1, 0]),
        (Sort::Collectives, [0, 1, 2, 3]),
        (Sort::Output, [3, 2, 1, 0]),
        (Sort::Waits, [2, 1, 3, 0]),
        (Sort::Name, [0, 1, 2, 3]),
    ] {
        press(&mut model, &[KeyCode::Char('s')]);
        assert_eq!((model.sort, order(&model), selected(&model)), (sort, expected.to_vec(), 3));
    }
    press(&mut model, &[KeyCode::Up, KeyCode::PageUp, KeyCode::Up]);
    assert_eq!(selected(&model), 0);
    press(&mut model, &[KeyCode::Esc]);
    assert_eq!(model.view, View::Jobs);
    // it is still the one that was open
    let rows = model.jobs();
    assert_eq!(rows[model.selected_job(&rows)].name.1, solver);
}

#[test]
fn of_many_lines_those_around_the_selected_one_are_shown() {
    let mut model = model();
    let many = (0..10_000).map(|rank| row("n0.4711.solver", rank, ProcState::CONNECTED));
    model.servers[0].jobs.insert("n0.4711.solver".parse().unwrap(), many);
    press(&mut model, &[KeyCode::End, KeyCode::Enter, KeyCode::End]);
    let picture = picture(&model, (80, 24));
    assert!(picture.lines().nth(21).unwrap().starts_with("   9999 node4999"), "{picture}");
    assert!(picture.lines().nth(2).unwrap().starts_with("   9980 node4990"), "{picture}");
    // a terminal that is too small for anything
    for size in [(1, 1), (10, 3), (3, 40)] {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        model.has_help = !model.has_help;
        terminal.draw(|frame| draw::draw(frame, &model, Palette::new(true))).unwrap();
    }
}

#[test]
fn keys_are_explained_and_a_job_that_has_ended_is_said_to_have() {
    let mut model = model();
    press(&mut model, &[KeyCode::Enter, KeyCode::Char('?')]);
    let help = picture(&model, (80, 24));
    assert!(help.contains(" q, Ctrl-C              quit ") && help.contains("waits least"), "{help}");
    press(&mut model, &[KeyCode::Char('s')]);
    assert!(!model.has_help && model.sort == Sort::Name);
    model.servers[0].jobs = Jobs::new();
    let over = picture(&model, (80, 24));
    assert!(over.starts_with("pmix top: n0.4711.post-processing-of-results: has ended\n"), "{over}");
    model.problems.tell("uri", "server n0.4711 did not answer\n\u{1b}[2J".into());
    let told = picture(&model, (80, 24));
    assert!(told.contains("\nserver n0.4711 did not answer\\n\\u{1b}[2J\n"), "{told}");
    let quits =
        |model: &mut Model, key, modifiers| react(model, &Event::Key(KeyEvent::new(key, modifiers)), 1);
    assert!(quits(&mut model, KeyCode::Char('q'), KeyModifiers::NONE));
    assert!(quits(&mut model, KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(!quits(&mut model, KeyCode::Char('c'), KeyModifiers::NONE));
}

#[test]
fn a_problem_of_a_server_is_shown_until_that_one_answers() {
    let mut problems = Problems::default();
    problems.tell("a", "a is slow".into());
    problems.tell("b", "b is slow".into());
    problems.tell("a", "a is lost".into());
    assert_eq!(problems.last(), Some("a is lost"));
    problems.forget("a");
    assert_eq!(problems.last(), Some("b is slow"));
    problems.keep(&["c".into()].into());
    assert_eq!(problems.last(), None);
}

#[test]
fn an_answer_that_is_told_twice_is_not_compared_with_itself() {
    let began = pmix_test_wait::moment();
    let (first, second) = (usage(began, 1), usage(began, 2));
    let mut server = Server::default();
    for answer in [&first, &first, &second, &second] {
        server.use_of(Some(answer));
    }
    server.use_of(None);
    assert!(Arc::ptr_eq(server.earlier.as_ref().unwrap(), &first));
    assert!(Arc::ptr_eq(server.usage.as_ref().unwrap(), &second));
}

#[test]
fn colours_are_left_out_if_nobody_wants_them() {
    let model = model();
    for has_colour in [false, true] {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw::draw(frame, &model, Palette::new(has_colour))).unwrap();
        let is_plain = |cell: &ratatui::buffer::Cell| cell.fg == ratatui::style::Color::Reset;
        assert_eq!(terminal.backend().buffer().content.iter().all(is_plain), !has_colour);
    }
}
