//! `docs/reference/command-line.md`: every command with its flags, variables and defaults, as
//! defined in clap.
#![allow(clippy::unwrap_used)]

use std::{env, fmt::Write, fs, path::Path};

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::args::Cli;

const HEAD: &str = "\
# Command line

<!-- Generated. Renew with: ISOMER_RENEW=1 cargo test -p isomer --features full --bin isomer manual -->

Every command takes the options of `isomer` itself. An option that has a variable takes its value from there where it is not given.
`isomer man --out DIR` writes this as manual pages. `isomer completions bash` prints a completion script (also elvish, fish,
powershell and zsh).
";

/// A text as one line of a table cell.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

/// Adds a full stop: clap removes it from a help text of one sentence.
fn full_stop(text: &str) -> &'static str {
    if text.ends_with(['.', ':']) { "" } else { "." }
}

fn name(arg: &Arg) -> String {
    let values = match arg.get_action() {
        ArgAction::Set | ArgAction::Append => arg
            .get_value_names()
            .map(|names| names.iter().map(|name| format!(" {name}")).collect())
            .unwrap_or_default(),
        _ => String::new(),
    };
    match (arg.get_long(), arg.get_short()) {
        (Some(long), Some(short)) => format!("`--{long}{values}`, `-{short}`"),
        (Some(long), None) => format!("`--{long}{values}`"),
        (None, Some(short)) => format!("`-{short}{values}`"),
        (None, None) => format!("`{}`", values.trim()),
    }
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut text = cell(&help.map(ToString::to_string).unwrap_or_default());
    let takes_values = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let allowed = arg.get_possible_values();
    if takes_values && !allowed.is_empty() {
        let allowed: Vec<String> = allowed.iter().map(|value| format!("`{}`", value.get_name())).collect();
        write!(text, "{} One of {}.", full_stop(&text), allowed.join(", ")).unwrap();
    }
    let defaults: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    if takes_values && !defaults.is_empty() {
        write!(text, "{} Default: `{}`.", full_stop(&text), cell(&defaults.join(" "))).unwrap();
    }
    text
}

fn table(out: &mut String, args: &[&Arg]) {
    if args.is_empty() {
        return;
    }
    out.push_str("\n| argument | variable | meaning |\n|---|---|---|\n");
    for arg in args {
        let variable = arg.get_env().map(|name| format!("`{}`", name.to_string_lossy()));
        writeln!(
            out,
            "| {} | {} | {} |",
            name(arg),
            variable.unwrap_or_default(),
            meaning(arg)
        )
        .unwrap();
    }
}

/// `inherited`: arguments described by a parent command.
fn section(out: &mut String, command: &Command, path: &str, inherited: &[&str]) {
    writeln!(out, "\n## {path}\n").unwrap();
    let about = command.get_long_about().or_else(|| command.get_about());
    writeln!(out, "{}", about.map(ToString::to_string).unwrap_or_default()).unwrap();
    let own = |arg: &&Arg| {
        let id = arg.get_id().as_str();
        !arg.is_hide_set() && !["help", "version"].contains(&id) && !inherited.contains(&id)
    };
    table(out, &command.get_arguments().filter(own).collect::<Vec<_>>());
    if let Some(after) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        write!(out, "\n```text\n{}\n```\n", after.to_string().trim_end()).unwrap();
    }
    let globals = command.get_arguments().filter(|arg| arg.is_global_set());
    let inherited: Vec<&str> = globals.map(|arg| arg.get_id().as_str()).collect();
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        section(out, below, &format!("{path} {}", below.get_name()), &inherited);
    }
}

fn page() -> String {
    let mut command = Cli::command();
    command.build();
    let mut out = HEAD.to_owned();
    section(&mut out, &command, "isomer", &[]);
    out
}

#[test]
fn the_page_of_the_command_line_is_up_to_date() {
    let file = Path::new(".").join("../docs/reference/command-line.md");
    let page = page();
    assert!(
        page.contains("## isomer check") && page.contains("`ISOMER_HOME`"),
        "{page}"
    );
    if env::var_os("ISOMER_RENEW").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &page).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/command-line.md is out of date; renew it with: ISOMER_RENEW=1 cargo test -p isomer --features full --bin isomer manual"
    );
}

#[test]
fn every_argument_says_what_it_means() {
    fn without(command: &Command, found: &mut Vec<String>) {
        for arg in command
            .get_arguments()
            .filter(|arg| arg.get_help().is_none() && !arg.is_hide_set())
        {
            found.push(format!("{} {}", command.get_name(), name(arg)));
        }
        for below in command.get_subcommands() {
            without(below, found);
        }
    }
    let mut found = Vec::new();
    without(&Cli::command(), &mut found);
    assert!(found.is_empty(), "these have no help: {found:?}");
}
