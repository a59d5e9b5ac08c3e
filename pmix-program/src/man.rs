//! Manual pages of programs, and the completion of their command lines.

use std::io::{self, Write};

use clap::{Arg, ArgAction, Command};
use clap_complete::CompleteEnv;
use clap_mangen::Man;

/// The variable by which a shell asks a program for completions, with the name of the shell.
pub const COMPLETES: &str = "PMIX_COMPLETE";

/// Answers the shell and exits, if a shell asks for completions. To be called first by a program.
pub fn complete(command: impl Fn() -> Command) {
    CompleteEnv::with_factory(command).var(COMPLETES).complete();
}

/// Writes the manual page of a command, whose synopsis names the values of options.
///
/// # Errors
/// It cannot be written.
pub fn write(command: &Command, out: &mut dyn Write) -> io::Result<()> {
    let mut command = command.clone();
    command.build();
    let page = Man::new(command.clone());
    page.render_title(out)?;
    page.render_name_section(out)?;
    writeln!(out, ".SH SYNOPSIS\n{}", synopsis(&command))?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        page.render_subcommands_section(out)?;
    }
    if command.get_after_long_help().or_else(|| command.get_after_help()).is_some() {
        page.render_extra_section(out)?;
    }
    if command.get_version().is_some() {
        page.render_version_section(out)?;
    }
    Ok(())
}

/// `pmix ps [--ranks] [--server NAMESPACE] [NAMESPACE]...`
fn synopsis(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut words = vec![bold(name)];
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    words.extend(shown().filter(|arg| !arg.is_positional()).map(option));
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        words.push(italic("COMMAND"));
    }
    words.extend(shown().filter(|arg| arg.is_positional()).map(|arg| {
        let many = if matches!(arg.get_action(), ArgAction::Append) { "..." } else { "" };
        optional(arg, values(arg)) + many
    }));
    words.join(" ")
}

fn option(arg: &Arg) -> String {
    let short = arg.get_short().map(|name| bold(&format!("-{name}")));
    let long = arg.get_long().map(|name| bold(&format!("--{name}")));
    let names = short.into_iter().chain(long).collect::<Vec<_>>().join("|");
    let takes_values = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let text = if takes_values { format!("{names} {}", values(arg)) } else { names };
    optional(arg, text)
}

fn values(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let names = names.iter().map(|name| italic(name)).collect::<Vec<_>>();
    if names.is_empty() { italic(&arg.get_id().as_str().to_uppercase()) } else { names.join(" ") }
}

fn optional(arg: &Arg, text: String) -> String {
    if arg.is_required_set() { text } else { format!("[{text}]") }
}

fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", escaped(text))
}

fn italic(text: &str) -> String {
    format!("\\fI{}\\fR", escaped(text))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_synopsis_names_the_values_of_options() {
        let command = Command::new("ps")
            .arg(Arg::new("ranks").long("ranks").action(ArgAction::SetTrue))
            .arg(Arg::new("host").short('H').long("host").value_name("LIST"))
            .arg(Arg::new("mca").long("mca").value_names(["KEY", "VALUE"]).num_args(2))
            .arg(Arg::new("jobs").value_name("NAMESPACE").action(ArgAction::Append));
        let mut page = Vec::new();
        write(&command, &mut page).unwrap();
        let page =
            String::from_utf8(page).unwrap().replace("\\fB", "").replace("\\fI", "").replace("\\fR", "");
        let synopsis = "ps [\\-\\-ranks] [\\-H|\\-\\-host LIST] [\\-\\-mca KEY VALUE] ";
        assert!(page.contains(&format!(".SH SYNOPSIS\n{synopsis}")), "{page}");
        assert!(page.contains("[NAMESPACE]...\n"), "{page}");
    }
}
