//! Help in layers. `-h` shows the first flags of a command, with one sentence each. `--help` shows
//! all flags: the rest under the headings of [`heading::MORE`], and those that every command has at
//! the end.

use clap::{Arg, Command};

use crate::heading;

/// Lines of a command's closing words that `-h` shows; longer ones are for `--help`.
const SHORT_CLOSING: usize = 4;

/// The command line with its help in layers.
pub(crate) fn layered(command: Command) -> Command {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let closing = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut command = command
        .about(first_sentence(&about).to_owned())
        .long_about(about)
        .mut_args(layered_arg)
        .mut_subcommands(layered);
    if closing.lines().count() > SHORT_CLOSING {
        command = command.after_help("").after_long_help(closing);
    }
    command
}

fn layered_arg(arg: Arg) -> Arg {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let short = first_sentence(&help).to_owned();
    // In `-h` a variable would take a line of its own. Its value may be a secret.
    let long = match arg.get_env() {
        Some(variable) => format!("{help} [env: {}=]", variable.display()),
        None => help,
    };
    let is_more = arg
        .get_help_heading()
        .is_some_and(|heading| heading::MORE.contains(&heading));
    let is_hidden = is_more || arg.is_hide_short_help_set();
    arg.help(short)
        .long_help(long)
        .hide_env(true)
        .hide_short_help(is_hidden)
}

fn first_sentence(text: &str) -> &str {
    let mut ends = text.match_indices(". ").map(|(at, _)| at);
    let end = ends.find(|at| !text.get(..*at).is_some_and(|before| before.ends_with("e.g")));
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    /// Lines of a screen, and its width where the output is not a terminal.
    const MOST_LINES: usize = 45;
    const WIDTH: usize = 100;

    /// Every command below this one, and itself, by the words that name it.
    fn commands(mut command: Command) -> Vec<(String, Command)> {
        fn walk(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
            let path = format!("{path} {}", command.get_name());
            for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
                walk(below, &path, found);
            }
            found.push((path.trim().to_owned(), command.clone()));
        }
        command.build();
        let mut found = Vec::new();
        walk(&command, "", &mut found);
        found
    }

    #[test]
    fn the_short_help_of_every_command_fits_a_screen() {
        let shown = commands(layered(Cli::command())).into_iter().map(|(path, command)| {
            let help = command.term_width(WIDTH).render_help().to_string();
            (help.lines().count(), path)
        });
        let too_long: Vec<_> = shown.filter(|(lines, _)| *lines > MOST_LINES).collect();
        assert!(too_long.is_empty(), "{too_long:?}");
    }

    #[test]
    fn every_flag_has_a_heading_of_the_list_and_help() {
        for (path, command) in commands(Cli::command()) {
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let heading = arg.get_help_heading();
                let is_known = heading.is_none_or(|one| one == heading::GLOBAL || heading::MORE.contains(&one));
                assert!(is_known, "{path} {arg}: {heading:?}");
                assert!(
                    arg.get_help().is_some_and(|help| !help.to_string().is_empty()),
                    "{path} {arg}"
                );
            }
        }
    }

    #[test]
    fn flags_of_every_command_come_last_under_one_heading() {
        for (path, command) in commands(layered(Cli::command())) {
            let headings: Vec<_> = command.get_arguments().filter_map(Arg::get_help_heading).collect();
            let of_all = headings.iter().position(|one| *one == heading::GLOBAL);
            let after = of_all.map(|first| &headings[first..]);
            assert!(
                after.is_some_and(|after| after.iter().all(|one| *one == heading::GLOBAL)),
                "{path}: {headings:?}"
            );
            for arg in Cli::command().get_arguments() {
                let found = command.get_arguments().find(|one| one.get_id() == arg.get_id());
                let found = found.and_then(Arg::get_help_heading);
                assert!(found == Some(heading::GLOBAL), "{path} {arg}: {found:?}");
            }
        }
    }

    #[test]
    fn a_command_shows_few_flags_of_its_own() {
        for (path, command) in commands(layered(Cli::command())) {
            let own = command.get_arguments().filter(|arg| {
                let is_first = arg.get_help_heading().is_none() && !arg.is_hide_short_help_set();
                is_first && !arg.is_positional() && !["help", "version"].contains(&arg.get_id().as_str())
            });
            let own: Vec<_> = own.map(|arg| arg.get_id().as_str()).collect();
            assert!(own.len() <= 15, "{path}: {own:?}");
        }
    }

    #[test]
    fn a_variable_has_one_meaning() {
        // The key that signs is one, whatever is signed.
        const ONE_VALUE: [&str; 1] = ["ISOMER_ATTEST"];
        let mut uses: BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> = BTreeMap::new();
        for (path, command) in commands(Cli::command()) {
            let scope = path.split(' ').nth(1).unwrap_or_default();
            for arg in command.get_arguments() {
                let Some(variable) = arg.get_env() else { continue };
                let (scopes, meanings) = uses.entry(variable.display().to_string()).or_default();
                scopes.insert(scope.to_owned());
                meanings.insert(arg.get_help().map(ToString::to_string).unwrap_or_default());
            }
        }
        assert!(uses.contains_key("ISOMER_CHECK_MODEL"), "{uses:?}");
        uses.retain(|variable, (scopes, meanings)| {
            scopes.len() > 1 && meanings.len() > 1 && !ONE_VALUE.contains(&variable.as_str())
        });
        assert!(uses.is_empty(), "write ISOMER_COMMAND_FLAG: {uses:?}");
    }

    #[test]
    fn the_first_sentence_does_not_end_at_an_abbreviation() {
        assert_eq!(first_sentence("Name, e.g. `x`. It is short"), "Name, e.g. `x`");
        assert_eq!(first_sentence("Name of the file"), "Name of the file");
    }
}
