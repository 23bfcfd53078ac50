//! Rules of the gate on the command line.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use isomer_eval::gate::{Limits, LimitsMessage, Rule, RuleKind, ValidityLimit};
use isomer_proto::eval::v1::{Gate, GateAdjust, GateBasis, GateRule, GateSequential, GateUndecided, GateUnit};

use crate::heading;

/// Rules, and how they are decided.
#[derive(Args, Debug)]
#[command(next_help_heading = heading::GATE)]
pub(crate) struct GateArgs {
    #[arg(help = rule_help(), long = "rule", env = "ISOMER_RULES", value_name = "LIMIT=N[,KEY=VALUE]…", value_delimiter = ';', value_parser = rule, help_heading = heading::FIRST)]
    rules: Vec<GateRule>,
    /// Leave the suite's rules out: those of --rule are all there are; without any, nothing is
    /// judged.
    #[arg(long, env = "ISOMER_NO_SUITE_RULES")]
    no_suite_rules: bool,
    /// Chance of error of each rule on each side, above 0 and below 0.5 [default: the suite's, else
    /// 0.05].
    #[arg(long, env = "ISOMER_GATE_ALPHA", value_name = "ALPHA")]
    gate_alpha: Option<f64>,
    /// Value that a limit is compared with, for rules that name no basis [default: the suite's,
    /// else bounded; point for min_score, signed-rank for margin over groups].
    #[arg(long, env = "ISOMER_GATE_BASIS", value_enum)]
    gate_basis: Option<GateBasis>,
    /// Unit of sampling for rules that name none: the items of these data sets, or groups of data
    /// sets [default: the suite's, else groups; items with fewer than six groups].
    #[arg(long, env = "ISOMER_GATE_UNIT", value_enum)]
    gate_unit: Option<GateUnit>,
    /// Handling of a gate that the data leave undecided: it blocks with exit code 4, is a warning,
    /// or counts as failed [default: the suite's, else block].
    #[arg(long, env = "ISOMER_UNDECIDED", value_enum, help_heading = heading::FIRST)]
    undecided: Option<GateUndecided>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Where several encoders are judged: the chance of error holds for each of them (none), or for
    /// all together (holm) [default: the suite's, else none].
    #[arg(long, env = "ISOMER_GATE_ADJUST", value_enum)]
    gate_adjust: Option<GateAdjust>,
    /// Run in rounds and stop as soon as every rule of every encoder is decided [default: the
    /// suite's, else off].
    #[arg(long, env = "ISOMER_SEQUENTIAL", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "pocock")]
    sequential: Option<GateSequential>,
}

/// When a rule is invalid: a flag for each limit.
#[derive(Debug, Clone, Copy, Default)]
struct LimitArgs(Limits);

impl Args for LimitArgs {
    fn augment_args(command: Command) -> Command {
        ValidityLimit::ALL.into_iter().fold(command, |command, limit| {
            // A command's names live as long as the process.
            let flag: &str = limit.name().replace('_', "-").leak();
            let variable: &str = format!("ISOMER_{}", limit.name().to_uppercase()).leak();
            let (value, range) = if limit.is_count() {
                ("N", "1 or more")
            } else {
                ("SHARE", "0 to 1")
            };
            let help = format!(
                "A rule is invalid (exit code 4) if {}; {range} [default: the suite's, else {}].",
                limit.help(),
                limit.default_share()
            );
            command.arg(
                Arg::new(limit.name())
                    .long(flag)
                    .env(variable)
                    .value_name(value)
                    .value_parser(clap::value_parser!(f64))
                    .help(help),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LimitArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for limit in ValidityLimit::ALL {
            self.0.set(limit, matches.get_one::<f64>(limit.name()).copied());
        }
        Ok(())
    }
}

impl GateArgs {
    /// The gate as a request; `None` if no flag sets anything.
    pub(crate) fn gate(&self) -> Option<Gate> {
        let mut gate = Gate {
            rules: self.rules.clone(),
            alpha: self.gate_alpha,
            without_suite_rules: self.no_suite_rules,
            unit: self.gate_unit.unwrap_or_default().into(),
            adjust: self.gate_adjust.unwrap_or_default().into(),
            basis: self.gate_basis.unwrap_or_default().into(),
            undecided: self.undecided.unwrap_or_default().into(),
            sequential: self.sequential.unwrap_or_default().into(),
            ..Gate::default()
        };
        gate.write_limits(self.limits.0);
        (gate != Gate::default()).then_some(gate)
    }
}

/// Checks the form of `max_drop=3,of=length,task=sts` and sends it unchanged. The server validates
/// names and numbers, because it knows the suite.
fn rule(text: &str) -> Result<GateRule, String> {
    text.parse::<Rule>()?;
    Ok(GateRule {
        text: text.to_owned(),
        ..GateRule::default()
    })
}

fn rule_help() -> String {
    let kinds = RuleKind::ALL.map(RuleKind::name);
    let others: Vec<_> = Rule::keys().into_iter().filter(|key| !kinds.contains(key)).collect();
    format!(
        "A rule that every encoder must keep, e.g. `max_drop=3,of=length`; repeat for several. One limit ({}), then {} as in a suite. \
         Added to the suite's rules; one on the same subject takes its place.",
        kinds.join(", "),
        others.join(", ")
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_rule_is_sent_as_it_was_written() {
        let text = "max_drop=5, of=translation(fr),basis=signed-rank";
        assert_eq!(rule(text).unwrap().text, text);
        let refused = rule("max_dorp=3").unwrap_err();
        assert!(refused.contains("did you mean `max_drop`?"), "{refused}");
    }

    #[test]
    fn every_limit_is_a_flag() {
        #[derive(clap::Parser)]
        struct Check {
            #[command(flatten)]
            gate: GateArgs,
        }
        for limit in ValidityLimit::ALL {
            let value = if limit.is_count() { 25.0 } else { 0.25 };
            let flag = format!("--{}={value}", limit.name().replace('_', "-"));
            let parsed = <Check as clap::Parser>::parse_from(["check", &flag]);
            let of_gate = parsed.gate.gate().unwrap().read_limits().unwrap();
            let mut wanted = Limits::default();
            wanted.set(limit, Some(value));
            assert_eq!(of_gate, wanted);
        }
    }

    #[test]
    fn the_help_of_rules_names_every_key() {
        let command = GateArgs::augment_args(clap::Command::new("check"));
        let rules = command
            .get_arguments()
            .find(|one| one.get_long() == Some("rule"))
            .unwrap();
        let long_help = rules.get_long_help().or(rules.get_help()).unwrap().to_string();
        let words: Vec<&str> = long_help.split(|c: char| !c.is_alphabetic() && c != '_').collect();
        for key in Rule::keys() {
            assert!(words.contains(&key), "{key} is missing: {long_help}");
        }
    }
}
