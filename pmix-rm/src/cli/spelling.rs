//! Options as people type them: with one dash or two, by each of their names.
//!
//! clap knows two dashes only. So the words before the program are looked at first: `-np` becomes `--np`, and how
//! each option was typed is kept, so that errors name it as it stands on the command line.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use clap::builder::ValueRange;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

/// Options of other launchers that cannot be had here, and why, or what to write.
const OTHERS: [(&[&str], &str); 7] = [
    (
        &[
            "host",
            "H",
            "hostfile",
            "machinefile",
            "default-hostfile",
            "nodelist",
            "w",
            "nodes",
            "N",
            "npernode",
            "pernode",
        ],
        "all ranks run on this node; --vnodes simulates several",
    ),
    (&["ntasks"], "write -n N"),
    (&["chdir", "D"], "write --wdir DIR"),
    (&["label", "l"], "write --tag-output"),
    (&["export"], "write -x NAME=VALUE"),
    (
        &[
            "bind-to",
            "map-by",
            "rank-by",
            "bind-to-core",
            "bind-to-socket",
            "bynode",
            "byslot",
            "cpu-bind",
            "report-bindings",
            "cpus-per-proc",
            "cpus-per-task",
            "rankfile",
            "rf",
        ],
        "ranks are not placed, and bound only if they are exactly as many as the processors",
    ),
    (
        &["nooversubscribe", "no-oversubscribe"],
        "ranks are never refused because there are more of them than processors",
    ),
];

/// How alike an unknown option and a known one have to be for the one to be meant by the other.
const ALIKE: f64 = 0.7;

/// A command line of clap's kind, and how its options were typed.
#[derive(Debug, Default)]
pub(super) struct Typed {
    pub(super) args: Vec<OsString>,
    /// How each option was typed last, by its id.
    spelled: BTreeMap<String, String>,
}

/// What a word that begins with a dash is.
enum Word<'a> {
    /// An option of this name; whether its first value is in the word too.
    Option { arg: &'a Arg, name: String, has_value: bool },
    /// Short switches in one word.
    Switches,
    /// Nothing that is known.
    Unknown,
}

impl Typed {
    /// Reads the words of an application, without the name of the command, up to its program. `whole` has all options
    /// that there are.
    ///
    /// # Errors
    /// An option that the command does not know.
    pub(super) fn read<'a>(
        command: &mut Command,
        whole: &Command,
        words: impl IntoIterator<Item = &'a OsString>,
    ) -> Result<Self, clap::Error> {
        // tells how many values options take
        command.build();
        let mut typed = Self { args: vec![command.get_name().into()], ..Self::default() };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            if text == "--" || text == "-" || !text.starts_with('-') {
                typed.args.push(word.clone());
                break;
            }
            let is_long = text.starts_with("--");
            match look_up(command, &text) {
                Word::Option { arg, name, has_value } => {
                    typed.spelled.insert(arg.get_id().to_string(), name.clone());
                    typed.args.push(if is_long || name.len() == 2 { word.clone() } else { with_dash(word) });
                    let values = arg.get_num_args().map_or(0, |range: ValueRange| range.max_values());
                    let values = values.saturating_sub(usize::from(has_value));
                    typed.args.extend(words.by_ref().take(values).cloned());
                }
                Word::Switches => typed.args.push(word.clone()),
                Word::Unknown => {
                    let problem = unknown(&text, command, whole);
                    return Err(command.error(ErrorKind::UnknownArgument, problem));
                }
            }
        }
        typed.args.extend(words.cloned());
        Ok(typed)
    }

    /// An option as it was typed; `None` if it was not.
    pub(super) fn spelling(&self, id: &str) -> Option<&str> {
        self.spelled.get(id).map(String::as_str)
    }

    /// An error that names options as they were typed.
    pub(super) fn rename(&self, mut error: clap::Error, command: &Command) -> clap::Error {
        for kind in [ContextKind::InvalidArg, ContextKind::PriorArg] {
            let renamed = match error.get(kind) {
                Some(ContextValue::String(shown)) => ContextValue::String(self.as_typed(shown, command)),
                Some(ContextValue::Strings(shown)) => {
                    ContextValue::Strings(shown.iter().map(|shown| self.as_typed(shown, command)).collect())
                }
                _ => continue,
            };
            error.insert(kind, renamed);
        }
        // clap's would have a program started whose name is the option
        error.remove(ContextKind::Suggested);
        error
    }

    /// `--np <N>` as `-np <N>`, if that was typed.
    fn as_typed(&self, shown: &str, command: &Command) -> String {
        let arg = command.get_arguments().find(|arg| arg.to_string() == shown);
        match arg.and_then(|arg| self.spelling(arg.get_id().as_str())) {
            Some(spelling) => match shown.split_once(' ') {
                Some((_, values)) => format!("{spelling} {values}"),
                None => spelling.to_owned(),
            },
            None => shown.to_owned(),
        }
    }
}

fn with_dash(word: &OsStr) -> OsString {
    let mut long = OsString::from("-");
    long.push(word);
    long
}

/// Finds the option that a word names: whole names first, so that `-np` is not `-n p`.
fn look_up<'a>(command: &'a Command, word: &str) -> Word<'a> {
    let (name, has_value) = match word.split_once('=') {
        Some((name, _)) => (name, true),
        None => (word, false),
    };
    let long = name.strip_prefix("--").or_else(|| name.strip_prefix('-')).unwrap_or(name);
    let option = |arg, has_value| Word::Option { arg, name: name.to_owned(), has_value };
    let mut chars = long.chars();
    let first = chars.next();
    if name.starts_with("--") || chars.next().is_some() {
        if let Some(arg) = command.get_arguments().find(|arg| longs(arg).any(|known| known == long)) {
            return option(arg, has_value);
        }
        if name.starts_with("--") {
            return Word::Unknown;
        }
    }
    let Some(first) = first else { return Word::Unknown };
    let short = |wanted| command.get_arguments().find(|arg| shorts(arg).any(|known| known == wanted));
    let rest = word.get(1 + first.len_utf8()..).unwrap_or_default();
    match short(first) {
        Some(arg) if takes_values(arg) => {
            // -n4, -xNAME; but -npx is neither
            let is_value =
                arg.get_id() == "env" || rest.starts_with(|c: char| c.is_ascii_digit() || c == '=');
            match rest.is_empty() || is_value {
                true => Word::Option { arg, name: format!("-{first}"), has_value: !rest.is_empty() },
                false => Word::Unknown,
            }
        }
        Some(arg) if rest.is_empty() => option(arg, false),
        Some(_) if rest.chars().all(|next| short(next).is_some_and(|arg| !takes_values(arg))) => {
            Word::Switches
        }
        _ => Word::Unknown,
    }
}

fn takes_values(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// All long names of an option.
pub(super) fn longs(arg: &Arg) -> impl Iterator<Item = &str> {
    arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default())
}

/// All short names of an option.
pub(super) fn shorts(arg: &Arg) -> impl Iterator<Item = char> {
    arg.get_short().into_iter().chain(arg.get_all_short_aliases().unwrap_or_default())
}

/// What is wrong with an option that is not known, and what may be meant.
fn unknown(word: &str, command: &Command, whole: &Command) -> String {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    let bare = name.trim_start_matches('-');
    if let Word::Option { .. } | Word::Switches = look_up(whole, word) {
        return format!("'{name}' is an option of the whole job: it stands before the first program");
    }
    if let Some((_, reason)) = OTHERS.iter().find(|(names, _)| names.contains(&bare)) {
        return format!("there is no option '{name}': {reason}");
    }
    let candidates = command.get_arguments().flat_map(longs);
    let alike = candidates.map(|known| (strsim::jaro(bare, known), known));
    match alike.max_by(|a, b| a.0.total_cmp(&b.0)) {
        // a letter or two are like everything
        Some((likeness, known)) if likeness > ALIKE && bare.len() > 2 => {
            let dashes = if name.starts_with("--") { "--" } else { "-" };
            format!("there is no option '{name}'; did you mean '{dashes}{known}'?")
        }
        _ => format!("there is no option '{name}'"),
    }
}
