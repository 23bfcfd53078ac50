//! Messages of clap about a wrong command line.

use clap::{
    Command, Error,
    error::{ContextKind, ContextValue},
};
use isomer_config::spelling::nearest;

/// Gives an error the usage line of its command, and leaves out a suggestion that is not close.
/// clap's own line lists flags that environment variables set, which are not on the command line.
pub(crate) fn of_command(mut error: Error, root: &mut Command) -> Error {
    root.build();
    if let Some(usage) = error.get(ContextKind::Usage).map(ToString::to_string) {
        // `Usage: isomer COMMAND …`
        let words = usage.split_whitespace().skip(2);
        error.insert(ContextKind::Usage, usage_of(root, words));
    }
    if let (Some(ContextValue::String(given)), Some(ContextValue::String(suggested))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::SuggestedArg))
        && nearest(given.trim_matches('-'), [suggested.trim_matches('-')]).is_none()
    {
        error.remove(ContextKind::SuggestedArg);
    }
    error
}

fn usage_of<'a>(command: &mut Command, mut words: impl Iterator<Item = &'a str>) -> ContextValue {
    let word = words.next().filter(|word| command.find_subcommand(word).is_some());
    match word.and_then(|word| command.find_subcommand_mut(word)) {
        Some(below) => usage_of(below, words),
        None => ContextValue::StyledStr(command.render_usage()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn message(line: &[&str]) -> String {
        let keys = Command::new("keys").arg(Arg::new("name").long("name").required(true));
        let mut root = Command::new("isomer")
            .arg(Arg::new("home").long("home").env("PATH").global(true))
            .arg(Arg::new("quiet").long("quiet").global(true))
            .subcommand(Command::new("create").subcommand(keys));
        let error = root.try_get_matches_from_mut([&["isomer"], line].concat()).err();
        error
            .map(|error| of_command(error, &mut root).to_string())
            .unwrap_or_default()
    }

    #[test]
    fn the_usage_of_an_error_has_no_flag_of_a_variable() {
        let message = message(&["create", "keys"]);
        assert!(
            message.contains("Usage: isomer create keys [OPTIONS] --name <name>"),
            "{message}"
        );
        assert!(!message.contains("--home"), "{message}");
    }

    #[test]
    fn only_a_flag_that_is_close_is_suggested() {
        let far = message(&["create", "keys", "--budget"]);
        assert!(!far.contains("quiet"), "{far}");
        let close = message(&["create", "keys", "--nmae"]);
        assert!(close.contains("'--name'"), "{close}");
    }
}
