//! The optional parts of the command, and which of them this build has.

use std::sync::LazyLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A Cargo feature of the command.
struct Feature {
    name: &'static str,
    is_built: bool,
    /// Subcommands that only exist with it.
    commands: &'static [&'static str],
}

const FEATURES: [Feature; 5] = [
    Feature {
        name: "evidence",
        is_built: cfg!(feature = "evidence"),
        commands: &["attest", "export", "verify"],
    },
    Feature {
        name: "fleet",
        is_built: cfg!(feature = "fleet"),
        commands: &["worker", "fleet", "store"],
    },
    Feature {
        name: "index",
        is_built: cfg!(feature = "index"),
        commands: &["index"],
    },
    Feature {
        name: "registry",
        is_built: cfg!(feature = "registry"),
        commands: &["registry"],
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

/// How to get a command that this build lacks, if that is what a command line was refused for.
pub(crate) fn hint(error: &clap::Error) -> Option<String> {
    let context = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        // A command that has no subcommands in this build takes the name for an argument.
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return None,
    };
    let Some(ContextValue::String(command)) = error.get(context) else {
        return None;
    };
    let feature = FEATURES
        .iter()
        .find(|feature| !feature.is_built && feature.commands.contains(&command.as_str()))?;
    Some(missing(&format!("`{command}`"), feature.name))
}

/// Says that something needs a feature that this build lacks, and how to get it.
pub(crate) fn missing(what: &str, feature: &str) -> String {
    format!(
        "{what} needs the feature `{feature}`, which this build lacks: build with `cargo build --release -p isomer \
         --features {feature}`"
    )
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::args::Cli;

    fn has(command: &clap::Command, name: &str) -> bool {
        command
            .get_subcommands()
            .any(|sub| sub.get_name() == name || has(sub, name))
    }

    #[test]
    fn a_command_exists_exactly_with_its_feature() {
        let cli = Cli::command();
        for feature in &FEATURES {
            for command in feature.commands {
                let is_there = match *command {
                    // `verify` is also a command of `isomer models`.
                    "attest" | "export" | "verify" => {
                        has(cli.find_subcommand("report").expect("it is always there"), command)
                    }
                    _ => cli.find_subcommand(command).is_some(),
                };
                assert_eq!(is_there, feature.is_built, "{command}");
            }
        }
    }

    #[test]
    fn a_missing_command_names_its_feature() {
        for feature in &FEATURES {
            for command in feature.commands {
                let line = match *command {
                    "attest" | "export" | "verify" => vec!["isomer", "report", command],
                    _ => vec!["isomer", command],
                };
                let hint = Cli::try_parse_from(line).err().and_then(|error| hint(&error));
                assert_eq!(hint.is_some(), !feature.is_built, "{command}: {hint:?}");
                if let Some(hint) = hint {
                    assert!(hint.contains(&format!("--features {}", feature.name)), "{hint}");
                    assert!(!hint.contains('\n'), "{hint}");
                }
            }
        }
    }

    #[test]
    fn a_misspelt_command_gets_no_such_hint() {
        let error = Cli::try_parse_from(["isomer", "chekc"]).expect_err("there is no such command");
        assert_eq!(hint(&error), None);
    }

    #[test]
    fn the_version_lists_what_is_built() {
        for feature in &FEATURES {
            assert_eq!(version().contains(feature.name), feature.is_built, "{}", version());
        }
    }
}
