//! Rules of the gate on the command line.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use isomer_config::spelling::nearest;
use isomer_eval::gate::{Basis, Limits, LimitsMessage, Rule, RuleKind, ValidityLimit};
use isomer_proto::eval::v1::{
    Gate, GateAdjust, GateBasis, GateRule, GateSequential, GateTexts, GateUndecided, GateUnit, gate_rule::Limit,
};

/// Rules, and how they are decided.
#[derive(Args, Debug)]
#[command(next_help_heading = "Gate")]
pub(crate) struct GateArgs {
    /// A rule that every encoder must keep, e.g. `max_drop=3,of=length`; repeat for several. One
    /// limit (max_drop, max_drop_percent, min_score, margin, min_separation, worst,
    /// max_negative_flips, min_overlap), then of, task, dataset, basis, unit, texts, name,
    /// max_zero, max_shared, max_leak, max_at_chance, max_unchanged, max_near_copies,
    /// max_same_rewrites, max_guarded, min_accepted, max_cut as in a suite. Added to the suite's
    /// rules; one on the same subject takes its place.
    #[arg(long = "rule", env = "ISOMER_RULES", value_name = "LIMIT=N[,KEY=VALUE]…", value_delimiter = ';', value_parser = rule)]
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
    gate_basis: Option<BasisArg>,
    /// What counts as drawn, for rules that name no unit: the items of these data sets, or groups
    /// of data sets [default: the suite's, else groups; items with fewer than six groups].
    #[arg(long, env = "ISOMER_GATE_UNIT", value_enum)]
    gate_unit: Option<UnitArg>,
    /// What becomes of a gate that the data leave undecided: it blocks with exit code 4, is a
    /// warning, or counts as failed [default: the suite's, else block].
    #[arg(long, env = "ISOMER_UNDECIDED", value_enum)]
    undecided: Option<UndecidedArg>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Where several encoders are judged: the chance of error holds for each of them (none), or for
    /// all together (holm) [default: the suite's, else none].
    #[arg(long, env = "ISOMER_GATE_ADJUST", value_enum)]
    gate_adjust: Option<AdjustArg>,
    /// Run in rounds and stop as soon as every rule of every encoder is decided [default: the
    /// suite's, else off].
    #[arg(long, env = "ISOMER_SEQUENTIAL", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "pocock")]
    sequential: Option<SequentialArg>,
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
            let help = format!(
                "A rule is invalid (exit code 4) if {}; 0 to 1 [default: the suite's, else {}].",
                limit.help(),
                limit.default_share()
            );
            command.arg(
                Arg::new(limit.name())
                    .long(flag)
                    .env(variable)
                    .value_name("SHARE")
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

/// What is held against a limit.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum BasisArg {
    /// The estimate itself.
    Point,
    /// Bounds of the mean that hold whatever the law of the values.
    Bounded,
    /// Studentised bootstrap bounds of the mean over groups of data sets.
    StudentisedBootstrap,
    /// Bounds of the Hodges-Lehmann shift over data sets.
    SignedRank,
    /// Student's bounds of the mean over data sets.
    Student,
    /// Percentile bootstrap bounds of the mean over data sets.
    Bootstrap,
}

/// What counts as drawn.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum UnitArg {
    /// These data sets, other items.
    Item,
    /// Other data sets.
    Group,
}

impl UnitArg {
    fn message(self) -> GateUnit {
        match self {
            Self::Item => GateUnit::Item,
            Self::Group => GateUnit::Group,
        }
    }
}

/// What becomes of the chance of error where several encoders are judged.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum AdjustArg {
    /// It holds for each encoder by itself.
    None,
    /// Holm's steps over encoders.
    Holm,
}

/// Which rewrites a rule looks at.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum TextsArg {
    /// All of them.
    All,
    /// Those that are another text than the original.
    Changed,
    /// Those that the judge accepts.
    Accepted,
}

impl TextsArg {
    fn message(self) -> GateTexts {
        match self {
            Self::All => GateTexts::All,
            Self::Changed => GateTexts::Changed,
            Self::Accepted => GateTexts::Accepted,
        }
    }
}

/// What becomes of an undecided gate.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UndecidedArg {
    /// Exit code 4.
    Block,
    /// Exit code 0, and a warning.
    Warn,
    /// Exit code 1.
    Fail,
}

/// How the chance of error is spent on the looks.
#[derive(ValueEnum, Debug, Clone, Copy)]
enum SequentialArg {
    /// Everything is run.
    Off,
    /// About evenly: stops clear cases early.
    Pocock,
    /// Little early, most at the end.
    ObrienFleming,
    /// Rounds over the items of one data set, decided by a betting test: stops clear cases early.
    Betting,
}

impl GateArgs {
    /// The gate as a request; `None` if no flag asked for anything.
    pub(crate) fn gate(&self) -> Option<Gate> {
        let mut gate = Gate {
            rules: self.rules.clone(),
            alpha: self.gate_alpha,
            without_suite_rules: self.no_suite_rules,
            unit: self.gate_unit.map_or(GateUnit::Unspecified, UnitArg::message).into(),
            adjust: match self.gate_adjust {
                None => GateAdjust::Unspecified,
                Some(AdjustArg::None) => GateAdjust::None,
                Some(AdjustArg::Holm) => GateAdjust::Holm,
            }
            .into(),
            basis: self.gate_basis.map_or(GateBasis::Unspecified, BasisArg::message).into(),
            undecided: match self.undecided {
                None => GateUndecided::Unspecified,
                Some(UndecidedArg::Block) => GateUndecided::Block,
                Some(UndecidedArg::Warn) => GateUndecided::Warn,
                Some(UndecidedArg::Fail) => GateUndecided::Fail,
            }
            .into(),
            sequential: match self.sequential {
                None => GateSequential::Unspecified,
                Some(SequentialArg::Off) => GateSequential::Off,
                Some(SequentialArg::Pocock) => GateSequential::Pocock,
                Some(SequentialArg::ObrienFleming) => GateSequential::ObrienFleming,
                Some(SequentialArg::Betting) => GateSequential::Betting,
            }
            .into(),
            ..Gate::default()
        };
        gate.write_limits(self.limits.0);
        (gate != Gate::default()).then_some(gate)
    }
}

impl BasisArg {
    fn message(self) -> GateBasis {
        match self {
            Self::Point => GateBasis::Point,
            Self::SignedRank => GateBasis::SignedRank,
            Self::Student => GateBasis::Student,
            Self::Bootstrap => GateBasis::Bootstrap,
            Self::Bounded => GateBasis::Bounded,
            Self::StudentisedBootstrap => GateBasis::StudentisedBootstrap,
        }
    }
}

fn limit_of(kind: RuleKind, value: f64) -> Limit {
    match kind {
        RuleKind::MaxDrop => Limit::MaxDrop(value),
        RuleKind::MaxDropPercent => Limit::MaxDropPercent(value),
        RuleKind::MinScore => Limit::MinScore(value),
        RuleKind::Margin => Limit::Margin(value),
        RuleKind::MinSeparation => Limit::MinSeparation(value),
        RuleKind::Worst => Limit::Worst(value),
        RuleKind::MaxNegativeFlips => Limit::MaxNegativeFlips(value),
        RuleKind::MinOverlap => Limit::MinOverlap(value),
    }
}

/// Reads `max_drop=3,of=length,task=sts`. The server checks whether names and numbers make sense,
/// since it knows the suite.
fn rule(text: &str) -> Result<GateRule, String> {
    let (mut rule, mut limits) = (GateRule::default(), Limits::default());
    let (known, mut seen) = (Rule::keys(), Vec::<&str>::new());
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Some((key, value)) = part.split_once('=').map(|(key, value)| (key.trim(), value.trim())) else {
            return Err(format!("`{part}` is not a KEY=VALUE, e.g. max_drop=3"));
        };
        let Some(key) = known.iter().copied().find(|known| *known == key) else {
            return Err(match nearest(key, known.iter().copied()) {
                Some(near) => format!("unknown key `{key}`; did you mean `{near}`?"),
                None => format!("unknown key `{key}`; allowed: {}", known.join(", ")),
            });
        };
        if seen.contains(&key) {
            return Err(format!("`{key}` is there twice"));
        }
        if value.is_empty() {
            return Err(format!("`{key}` has no value"));
        }
        seen.push(key);
        let number = || {
            let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
            number.ok_or_else(|| format!("`{key}` should be a number, is `{value}`"))
        };
        if let Some(limit) = ValidityLimit::named(key) {
            limits.set(limit, Some(number()?));
        }
        let limit = match RuleKind::named(key) {
            Some(kind) => Some(limit_of(kind, number()?)),
            None => None,
        };
        if limit.is_some() && rule.limit.is_some() {
            return Err(format!("`{key}` is a second limit; write a rule for each"));
        }
        rule.limit = limit.or(rule.limit);
        let value = value.to_owned();
        match key {
            "of" => rule.quantity = value,
            "task" => rule.task_type = value,
            "dataset" => rule.dataset = value,
            "name" => rule.name = value,
            "texts" => {
                let texts = TextsArg::from_str(&value, false)
                    .map_err(|_| format!("unknown choice of texts `{value}`; allowed: all, changed, accepted"))?;
                rule.texts = texts.message().into();
            }
            "unit" => {
                let unit = UnitArg::from_str(&value, false)
                    .map_err(|_| format!("unknown unit `{value}`; allowed: item, group"))?;
                rule.unit = unit.message().into();
            }
            "basis" => {
                let basis = BasisArg::from_str(&value, false).map_err(|_| {
                    let names = Basis::ALL.map(Basis::name);
                    match nearest(&value, names) {
                        Some(near) => format!("unknown basis `{value}`; did you mean `{near}`?"),
                        None => format!("unknown basis `{value}`; allowed: {}", names.join(", ")),
                    }
                })?;
                rule.basis = basis.message().into();
            }
            _ => {}
        }
    }
    if rule.limit.is_none() {
        return Err(format!("names no limit: {}, e.g. max_drop=3", RuleKind::one_of()));
    }
    rule.write_limits(limits);
    Ok(rule)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_rule_is_read_key_by_key() {
        let read = rule("max_drop_percent=5, of=translation(fr), dataset=STSBenchmark, basis=signed-rank").unwrap();
        let wanted = GateRule {
            limit: Some(Limit::MaxDropPercent(5.0)),
            quantity: "translation(fr)".to_owned(),
            dataset: "STSBenchmark".to_owned(),
            basis: GateBasis::SignedRank.into(),
            ..GateRule::default()
        };
        assert_eq!(read, wanted);
    }

    #[test]
    fn every_limit_is_a_flag_and_a_key_of_a_rule() {
        #[derive(clap::Parser)]
        struct Check {
            #[command(flatten)]
            gate: GateArgs,
        }
        for limit in ValidityLimit::ALL {
            let flag = format!("--{}=0.25", limit.name().replace('_', "-"));
            let parsed = <Check as clap::Parser>::parse_from(["check", &flag]);
            let of_gate = parsed.gate.gate().unwrap().read_limits().unwrap();
            let mut of_rule = rule(&format!("max_drop=3,{}=0.25", limit.name())).unwrap();
            let mut wanted = Limits::default();
            wanted.set(limit, Some(0.25));
            assert_eq!((of_gate, of_rule.read_limits().unwrap()), (wanted, wanted));
        }
    }

    #[test]
    fn the_help_of_rules_names_every_key() {
        let command = GateArgs::augment_args(clap::Command::new("check"));
        let rules = command
            .get_arguments()
            .find(|one| one.get_long() == Some("rule"))
            .unwrap();
        let told = rules.get_long_help().or(rules.get_help()).unwrap().to_string();
        let words: Vec<&str> = told.split(|c: char| !c.is_alphabetic() && c != '_').collect();
        for key in Rule::keys() {
            assert!(words.contains(&key), "{key} is missing: {told}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_with_the_nearest_key() {
        let told = |text: &str| rule(text).unwrap_err();
        assert_eq!(told("maxdrop=3"), "unknown key `maxdrop`; did you mean `max_drop`?");
        assert_eq!(told("max_drop=three"), "`max_drop` should be a number, is `three`");
        assert!(told("of=length").contains("names no limit"));
        assert!(told("max_drop=3,margin=1").contains("second limit"));
        assert!(told("max_drop=3,basis=pont").contains("did you mean `point`?"));
        assert!(told("max_drop 3").contains("KEY=VALUE"));
        assert!(told("max_drop=3,of=").contains("no value"));
    }
}
