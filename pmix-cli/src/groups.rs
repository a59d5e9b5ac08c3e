//! The list of commands in the help of `pmix`, in groups.

use clap::Command;

/// The groups, each with its commands in order.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Run and end jobs", &["submit", "wait", "output", "attach", "ctrl", "release"]),
    ("Look at jobs", &["ps", "why", "stack", "top", "web", "events"]),
    ("Look at servers and nodes", &["servers", "info", "nodes", "dvm", "doctor"]),
    (
        "Ask for and change data",
        &["get", "query", "attrs", "psets", "groups", "lookup", "publish", "unpublish", "log"],
    ),
    ("This program", &["completions", "man", "help"]),
];

/// The command with its subcommands in groups.
pub(super) fn grouped(command: Command) -> Command {
    let width = GROUPS.iter().flat_map(|(_, names)| names.iter()).map(|name| name.len()).max().unwrap_or(0);
    let line = |name: &&str| {
        let about = command.find_subcommand(name).and_then(|command| command.get_about());
        let about =
            about.map_or_else(|| "Prints this message, or the help of a command".into(), ToString::to_string);
        format!("  {name:width$}  {about}\n")
    };
    let group = |(title, names): &(&str, &[&str])| {
        format!("{title}:\n{}\n", names.iter().map(line).collect::<String>())
    };
    let groups: String = GROUPS.iter().map(group).collect();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    #[test]
    fn each_command_is_in_one_group() {
        let command = Cli::command();
        let all: BTreeSet<_> = command.get_subcommands().map(|command| command.get_name()).collect();
        let listed: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let listed_once: BTreeSet<_> = listed.iter().copied().filter(|name| *name != "help").collect();
        assert_eq!((listed_once.len() + 1, listed_once), (listed.len(), all));
        assert!(grouped(command).render_help().to_string().contains("\nLook at jobs:\n  ps "));
    }
}
