//! Options as they are typed: with one dash or two, by any of their names.
//!
//! clap supports two dashes only. So the words before the program are rewritten first: `-np` becomes `--np`. The original
//! spelling is kept for error messages.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use clap::builder::ValueRange;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

/// Options of other launchers that `pmixrun` does not have, with the reason or the alternative.
const OTHERS: [(&[&str], &str); 21] = [
    (
        &["nodelist", "w", "default-hostfile"],
        "write --host LIST or --hostfile FILE, or neither to run on all nodes of an allocation",
    ),
    (&["nodes"], "write --host LIST or --hostfile FILE; -N is the number of ranks on each node"),
    (&["pernode"], "write -N 1"),
    (&["npersocket"], "write --map-by package, and -n for the number of ranks"),
    (&["dvm-hostfile"], "pmixd --head --hostfile FILE starts a DVM; write --dvm to run a job in it"),
    (&["join"], "that is an option of pmixd; write --await-daemons DIR to have daemons join"),
    (&["ntasks"], "write -n N"),
    (&["time", "t"], "write --timeout SECONDS"),
    (&["genv", "env"], "write -x NAME=VALUE"),
    (
        &["genvlist", "envlist", "genvall", "envall"],
        "write -x NAME for each variable; ranks inherit most of them",
    ),
    (&["mpi"], "every job is served by PMIx; --pmi1 serves PMI-1"),
    (&["bynode"], "write --map-by node"),
    (&["byslot"], "write --map-by slot"),
    (&["hosts"], "write --host LIST"),
    (&["pset"], "pmixrun defines no process sets: programs construct groups"),
    (&["chdir", "D"], "write --wdir DIR"),
    (&["label", "l"], "write --tag-output"),
    (&["export"], "write -x NAME=VALUE"),
    (
        &["bind-to-core", "bind-to-socket", "cpu-bind", "cpus-per-proc", "cpus-per-task"],
        "write --map-by POLICY[:PE=N] and --bind-to POLICY",
    ),
    (&["rankfile", "rf"], "pmixrun places ranks by --map-by and binds them by --bind-to only"),
    (&["nooversubscribe", "no-oversubscribe"], "write --map-by :NOOVERSUBSCRIBE"),
];

/// Similarity from which on a known option is suggested for an unknown one.
const ALIKE: f64 = 0.7;

/// A command line for clap, with the original spelling of its options.
#[derive(Debug, Default)]
pub(super) struct Typed {
    pub(super) args: Vec<OsString>,
    /// The last spelling of each option, by its id.
    spelled: BTreeMap<String, String>,
}

/// The kind of a word that starts with a dash.
enum Word<'a> {
    /// An option with this name. `has_value` if its first value is part of the word.
    Option { arg: &'a Arg, name: String, has_value: bool },
    /// Several short switches.
    Switches,
    /// Not a known option.
    Unknown,
}

impl Typed {
    /// Reads the words of an application up to its program, without the name of the command. `whole` has all options of
    /// `pmixrun`.
    ///
    /// # Errors
    /// An option that the command does not know.
    pub(super) fn read<'a>(
        command: &mut Command,
        whole: &Command,
        words: impl IntoIterator<Item = &'a OsString>,
    ) -> Result<Self, clap::Error> {
        // computes the number of values of options
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

    /// The spelling of an option; `None` if it was not given.
    pub(super) fn spelling(&self, id: &str) -> Option<&str> {
        self.spelled.get(id).map(String::as_str)
    }

    /// Replaces the names of options in an error by their spellings.
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
        // clap's suggestion would start a program with the option's name
        error.remove(ContextKind::Suggested);
        error
    }

    /// `--np <N>` as `-np <N>`, if it was spelled like that.
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

/// Finds the option of a word. Whole names come first, so that `-np` is not `-n p`.
fn look_up<'a>(command: &'a Command, word: &str) -> Word<'a> {
    // MPICH's takes two words, so that the value would be taken for the program
    if word == "-env" {
        return Word::Unknown;
    }
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
            // -n4 and -xNAME, but not -npx
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

/// The message for an unknown option, with a suggestion if possible.
fn unknown(word: &str, command: &Command, whole: &Command) -> String {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    let bare = name.trim_start_matches('-');
    if let Word::Option { .. } | Word::Switches = look_up(whole, word) {
        return format!("'{name}' applies to the whole job: write it before the first program");
    }
    if let Some((_, reason)) = OTHERS.iter().find(|(names, _)| names.contains(&bare)) {
        return format!("unknown option '{name}': {reason}");
    }
    let candidates = command.get_arguments().flat_map(longs);
    let alike = candidates.map(|known| (strsim::jaro(bare, known), known));
    match alike.max_by(|a, b| a.0.total_cmp(&b.0)) {
        // one or two letters resemble everything
        Some((likeness, known)) if likeness > ALIKE && bare.len() > 2 => {
            let dashes = if name.starts_with("--") { "--" } else { "-" };
            format!("unknown option '{name}'; did you mean '{dashes}{known}'?")
        }
        _ => format!("unknown option '{name}'"),
    }
}
