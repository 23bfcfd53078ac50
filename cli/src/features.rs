//! The optional features of the command, and those of this build.

use std::{ffi::OsString, sync::LazyLock};

use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};

use crate::{
    args::{Cli, help, usage},
    exit::Failure,
};

/// A Cargo feature of the command.
struct Feature {
    name: &'static str,
    is_built: bool,
    /// Commands that only exist with it, each as the words that name it.
    commands: &'static [&'static [&'static str]],
}

static FEATURES: [Feature; 7] = [
    Feature {
        name: "evidence",
        is_built: cfg!(feature = "evidence"),
        commands: &[&["report", "attest"], &["report", "export"], &["report", "verify"]],
    },
    Feature {
        name: "fleet",
        is_built: cfg!(feature = "fleet"),
        commands: &[&["worker"], &["fleet"], &["store"]],
    },
    Feature {
        name: "index",
        is_built: cfg!(feature = "index"),
        commands: &[&["index"]],
    },
    Feature {
        name: "man",
        is_built: cfg!(feature = "man"),
        commands: &[&["man"]],
    },
    Feature {
        name: "postgres",
        is_built: cfg!(feature = "postgres"),
        commands: &[],
    },
    Feature {
        name: "registry",
        is_built: cfg!(feature = "registry"),
        commands: &[&["registry"]],
    },
    Feature {
        name: "t5",
        is_built: cfg!(feature = "t5"),
        commands: &[],
    },
];

/// The version, and the features of this build.
pub(crate) fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let built: Vec<_> = FEATURES
            .iter()
            .filter(|feature| feature.is_built)
            .map(|feature| feature.name)
            .collect();
        let built = if built.is_empty() {
            "none".to_owned()
        } else {
            built.join(", ")
        };
        format!("{} (features: {built})", env!("CARGO_PKG_VERSION"))
    });
    &VERSION
}

/// Reads the command line. Like [`clap::Parser::parse`], it ends the process if help is requested
/// or the line is invalid.
///
/// # Errors
/// If the command needs a feature that this build lacks.
pub(crate) fn parse() -> Result<Cli, Failure> {
    let result = read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    result.map_err(Failure::usage)
}

/// The command of a line, or the reason why this build lacks it.
fn read<T: Into<OsString> + Clone>(line: impl IntoIterator<Item = T>) -> Result<Result<Cli, String>, clap::Error> {
    let cli = help::layered(Cli::command());
    let mut command = absent().fold(cli, |cli, (path, refusal)| with_stub(cli, path, refusal));
    let matches = command.try_get_matches_from_mut(line);
    let matches = matches.map_err(|error| usage::of_command(error, &mut command))?;
    let named = words(&matches);
    if let Some((_, refusal)) = absent().find(|(path, _)| named == *path) {
        return Ok(Err(refusal));
    }
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok(Ok(cli))
}

/// The commands that this build lacks, each with instructions for getting it.
fn absent() -> impl Iterator<Item = (&'static [&'static str], String)> {
    let lacking = FEATURES.iter().filter(|feature| !feature.is_built);
    lacking.flat_map(|feature| {
        let commands = feature.commands.iter();
        commands.map(|path| (*path, missing(&format!("`{}`", path.join(" ")), feature.name)))
    })
}

/// Adds a hidden command that takes any arguments.
fn with_stub(parent: Command, path: &[&'static str], about: String) -> Command {
    match path {
        [] => parent,
        [name] => parent.subcommand(
            Command::new(*name).about(about).hide(true).disable_help_flag(true).arg(
                Arg::new("arguments")
                    .num_args(0..)
                    .trailing_var_arg(true)
                    .allow_hyphen_values(true),
            ),
        ),
        [name, path @ ..] => parent.mut_subcommand(name, |child| with_stub(child, path, about)),
    }
}

/// The words of the command that a line named.
fn words(matches: &ArgMatches) -> Vec<&str> {
    let first = matches.subcommand();
    let all = std::iter::successors(first, |(_, matches)| matches.subcommand());
    all.map(|(name, _)| name).collect()
}

/// A message that a feature is missing in this build, with instructions for getting it.
pub(crate) fn missing(what: &str, feature: &str) -> String {
    format!(
        "{what} needs the feature `{feature}`, which this build lacks: build with `cargo build --release -p isomer \
         --features {feature}`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(command: &Command, path: &[&str]) -> bool {
        match path {
            [] => true,
            [name, path @ ..] => command.find_subcommand(name).is_some_and(|command| has(command, path)),
        }
    }

    /// The refusal of a command line that needs a missing feature.
    fn refusal(line: &[&str]) -> Option<String> {
        read(["isomer"].iter().chain(line)).ok()?.err()
    }

    #[test]
    fn a_command_exists_exactly_with_its_feature() {
        let cli = Cli::command();
        for feature in &FEATURES {
            for command in feature.commands {
                assert_eq!(has(&cli, command), feature.is_built, "{command:?}");
            }
        }
    }

    #[test]
    fn a_missing_command_names_its_feature() {
        for feature in &FEATURES {
            for command in feature.commands {
                for arguments in [&[][..], &["--help"], &["run", "--sink", "x", "-q"]] {
                    let refusal = refusal(&[*command, arguments].concat());
                    assert_eq!(refusal.is_some(), !feature.is_built, "{command:?}: {refusal:?}");
                    if let Some(refusal) = refusal {
                        assert!(refusal.contains(&format!("--features {}", feature.name)), "{refusal}");
                        assert!(!refusal.contains('\n'), "{refusal}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_line_that_names_no_missing_command_gets_no_such_hint() {
        for line in [
            &["chekc"][..],
            &["export"],
            &["embed", "index"],
            &["report", "index"],
            &["datasets"],
        ] {
            assert_eq!(refusal(line), None, "{line:?}");
        }
    }

    #[test]
    fn the_version_lists_what_is_built() {
        for feature in &FEATURES {
            assert_eq!(version().contains(feature.name), feature.is_built, "{}", version());
        }
    }
}
