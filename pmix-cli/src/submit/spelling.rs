//! `-np`, as launchers know it: clap would read `-n p`.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

/// Writes `-np` of `pmix submit` as `--np`, before the program.
pub(in super::super) fn with_long_np(
    mut command: Command,
    words: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    // gives each command the options of all
    command.build();
    let mut words = words.into_iter();
    let mut spelled: Vec<_> = words.by_ref().take(1).collect();
    read_options(&command, &mut words, &mut spelled, false);
    let name = spelled.last().map(|name| name.to_string_lossy());
    let submit =
        name.and_then(|name| command.find_subcommand(&*name)).filter(|found| found.get_name() == "submit");
    if let Some(submit) = submit {
        read_options(submit, &mut words, &mut spelled, true);
    }
    spelled.extend(words);
    spelled
}

/// Takes options with their values, and the word behind them.
fn read_options(
    command: &Command,
    words: &mut impl Iterator<Item = OsString>,
    spelled: &mut Vec<OsString>,
    has_np: bool,
) {
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if text == "--" || text == "-" || !text.starts_with('-') {
            return spelled.push(word);
        }
        let is_np = has_np && (text == "-np" || text.starts_with("-np="));
        let whole = if is_np { format!("-{text}") } else { text.into_owned() };
        let is_value_behind = command.get_arguments().any(|arg| is_named(arg, &whole) && takes_value(arg));
        spelled.push(if is_np { whole.into() } else { word });
        if is_value_behind {
            spelled.extend(words.next());
        }
    }
}

/// Whether a word is an option without a value of its own.
fn is_named(arg: &Arg, word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg
            .get_short()
            .is_some_and(|short| word.strip_prefix('-') == Some(short.encode_utf8(&mut [0; 4]))),
    }
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::super::super::{Cli, Command};
    use super::*;

    fn spelled(line: &str) -> String {
        let words = with_long_np(Cli::command(), line.split(' ').map(OsString::from));
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn np_has_one_dash_or_two_before_the_program() {
        for (line, expected) in [
            ("pmix submit -np 4 ./a -np 2", "pmix submit --np 4 ./a -np 2"),
            (
                "pmix --color never spawn --json -x A=1 -np=4 ./a",
                "pmix --color never spawn --json -x A=1 --np=4 ./a",
            ),
            ("pmix submit -H -np -np 2 -- -np", "pmix submit -H -np --np 2 -- -np"),
            ("pmix submit -n 2 --wdir -np -np 2 ./a", "pmix submit -n 2 --wdir -np --np 2 ./a"),
            ("pmix submit --color never -xA=1 -np 2 ./a", "pmix submit --color never -xA=1 --np 2 ./a"),
            ("pmix ps -np", "pmix ps -np"),
            ("pmix", "pmix"),
        ] {
            assert_eq!(spelled(line), expected);
        }
    }

    #[test]
    fn what_begins_with_a_dash_is_a_program_only_behind_two() {
        let read = |line: &str| {
            let words = with_long_np(Cli::command(), line.split(' ').map(OsString::from));
            match Cli::try_parse_from(words) {
                Ok(Cli { command: Command::Submit(args), .. }) => Ok(args.job.into_template().unwrap()),
                Ok(other) => panic!("{other:?}"),
                Err(error) => Err(error.exit_code()),
            }
        };
        for wrong in
            ["--bogus hostname", "-bogus hostname", "-np hostname", "-np p hostname", "-n 2 -q hostname"]
        {
            assert_eq!(read(&format!("pmix submit {wrong}")).map(|_| ()), Err(2), "{wrong}");
        }
        for (line, count, program) in [
            ("-np 3 hostname --bogus -n 4", 3, &["hostname", "--bogus", "-n", "4"][..]),
            ("-n 2 -- -np --help", 2, &["-np", "--help"]),
            ("./a -- b", 1, &["./a", "--", "b"]),
        ] {
            let (template, words) = read(&format!("pmix submit {line}")).unwrap();
            assert_eq!(
                (template.count(), &*words),
                (count, &*program.iter().map(OsString::from).collect::<Vec<_>>())
            );
        }
    }
}
