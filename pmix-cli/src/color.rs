//! Colours: of states in tables, and of `pmix top`.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use pmix_tool::types::ProcState;

/// When tables are coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    /// On a terminal, unless NO_COLOR is set or CLICOLOR is 0; elsewhere if CLICOLOR_FORCE is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Whether this process uses colours; it has one standard output.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Decides it for standard output.
pub(super) fn set(when: When) {
    let is_on = match when {
        When::Always => true,
        When::Never => false,
        When::Auto if anstyle_query::no_color() => false,
        When::Auto => {
            anstyle_query::clicolor_force()
                || anstyle_query::clicolor().unwrap_or(true)
                    && io::stdout().is_terminal()
                    && anstyle_query::term_supports_color()
        }
    };
    IS_ON.store(is_on, Ordering::Relaxed);
}

pub(super) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// A table with the words of its column STATE in colours, if they are wanted.
pub(super) fn painted(table: String) -> String {
    if is_on() { paint(&table) } else { table }
}

pub(super) fn paint(table: &str) -> String {
    let titles: Vec<char> = table.lines().next().unwrap_or_default().chars().collect();
    let title: Vec<char> = "STATE".chars().collect();
    let is_start = |at: &usize| *at == 0 || titles.get(at - 1) == Some(&' ');
    let Some(start) = (0..titles.len()).filter(is_start).find(|at| titles[*at..].starts_with(&title)) else {
        return table.to_owned();
    };
    let lines = table.lines().enumerate().map(|(number, line)| match number {
        0 => line.to_owned(),
        _ => paint_line(line, start),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A line whose cell begins at this character, and ends at two spaces.
fn paint_line(line: &str, start: usize) -> String {
    let Some((at, _)) = line.char_indices().nth(start) else { return line.to_owned() };
    let (before, rest) = line.split_at(at);
    let (cell, after) = rest.split_at(rest.find("  ").unwrap_or(rest.len()));
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut painted = before.to_owned();
    let mut rest = cell;
    while !rest.is_empty() {
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        let (word, others) = rest.split_at(end);
        match color(word) {
            Some(code) => painted.push_str(&format!("\x1b[{code}m{word}\x1b[0m")),
            None => painted.push_str(word),
        }
        let end = others.find(is_part).unwrap_or(others.len());
        let (between, others) = others.split_at(end);
        painted.push_str(between);
        rest = others;
    }
    painted + after
}

const GREEN: u8 = 32;
const YELLOW: u8 = 33;
const RED: u8 = 31;

/// The colour of a state of a server, node or process.
fn color(word: &str) -> Option<u8> {
    match word {
        "up" => return Some(GREEN),
        "draining" | "paused" | "PAUSED" => return Some(YELLOW),
        "dead" | "lost" => return Some(RED),
        _ => {}
    }
    // numbers are states, too
    if word.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    match word.parse::<ProcState>().ok()? {
        ProcState::RUNNING | ProcState::CONNECTED => Some(GREEN),
        state if state.is_abnormal() => Some(RED),
        state if state.is_alive() => Some(YELLOW),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_column_state_are_coloured_and_nothing_else() {
        let table = "NAME  STATE        NOTE\nup    RUNNING      dead\nä     2 ABORTED, 1 lost  up\nx     TERMINATED\n";
        let expected = "NAME  STATE        NOTE\nup    \x1b[32mRUNNING\x1b[0m      dead\nä     2 \x1b[31mABORTED\x1b[0m, 1 \x1b[31mlost\x1b[0m  up\nx     TERMINATED";
        assert_eq!(paint(table), expected);
        assert_eq!(paint("ESTATE\nup"), "ESTATE\nup");
        assert_eq!(paint(""), "");
    }
}
