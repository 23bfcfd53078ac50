//! The settings of `isomer eval --augment --settings`.

use isomer_eval::report::gains::GainSetting;
use isomer_proto::{eval::v1::DatasetAugmentation, transform::v1::AugmentationPooling};

use super::super::transform::catalogue::catalogue;
use crate::{
    args::{AugmentArgs, EvalArgs, gains::SettingsArg},
    connect::Connection,
    exit::Failure,
    progress::Display,
};

/// Maximum number of variants of a text, as in the augmentation service.
const MOST_SOURCES: usize = 8;
/// Maximum number of transformations for which all combinations are tried: 26 of five.
const MOST_COMBINED: usize = 5;
/// Weights of the original that are tried (Figure 3 of the GASE paper).
const WEIGHTS: [f64; 4] = [0.0, 0.25, 0.5, 0.75];

/// A setting, and the corresponding request to the service.
pub(super) struct Setting {
    pub(super) about: GainSetting,
    pub(super) augmentation: DatasetAugmentation,
}

#[derive(Clone)]
struct Flags {
    augment: Vec<String>,
    generators: Vec<String>,
    weight: Option<f64>,
    queries_only: bool,
}

/// All settings requested by the flags, each once. Local generators are fetched here, with
/// progress.
pub(super) async fn settings(
    connection: &Connection,
    args: &EvalArgs,
    display: &Display,
) -> Result<Vec<Setting>, Failure> {
    let generated: Vec<String> = catalogue(connection)
        .await?
        .into_iter()
        .filter(|info| info.needs_generator)
        .map(|info| info.name)
        .collect();
    let mut settings: Vec<Setting> = Vec::new();
    for flags in all(args)? {
        let own = AugmentArgs {
            augment: flags.augment.clone(),
            generators: flags.generators.clone(),
            pooling: flags
                .weight
                .map(|_| AugmentationPooling::Weighted)
                .or(args.augmentation.pooling),
            original_weight: flags.weight.or(args.augmentation.original_weight),
            ..args.augmentation.clone()
        };
        let spec = own.spec(connection, display).await?;
        let about = about(&flags, &own, args, &generated, spec.sources.len());
        if about.k > MOST_SOURCES {
            return Err(Failure::usage(format!(
                "--settings: `{}` has {} variants of a text; {MOST_SOURCES} is the most: name fewer transformations or \
                 generators",
                about.name, about.k
            )));
        }
        if settings.iter().any(|known| known.about.name == about.name) {
            continue;
        }
        settings.push(Setting {
            augmentation: DatasetAugmentation {
                spec: Some(spec),
                pooling: own.pooling().into(),
                original_weight: own.original_weight,
                normalise_before: Some(own.normalise_before),
                normalise_after: None,
                queries_only: flags.queries_only,
                plain: None,
            },
            about,
        });
    }
    Ok(settings)
}

fn all(args: &EvalArgs) -> Result<Vec<Flags>, Failure> {
    let AugmentArgs {
        augment, generators, ..
    } = &args.augmentation;
    let families: &[SettingsArg] = match args.gains.settings.as_slice() {
        [] | [SettingsArg::QueriesOnly] => &[SettingsArg::Together],
        named => named,
    };
    let with = |augment: Vec<String>, generators: Vec<String>, weight: Option<f64>| Flags {
        augment,
        generators,
        weight,
        queries_only: args.queries_only,
    };
    let first = || generators.iter().take(1).cloned().collect::<Vec<String>>();
    let mut found = Vec::new();
    for family in families {
        match family {
            SettingsArg::Together => found.push(with(augment.clone(), generators.clone(), None)),
            SettingsArg::Each => found.extend(augment.iter().map(|name| with(vec![name.clone()], first(), None))),
            SettingsArg::Combinations => {
                if augment.len() < 2 {
                    return Err(Failure::usage(
                        "--settings combinations: there is one transformation; name two or more with --augment",
                    ));
                }
                if augment.len() > MOST_COMBINED {
                    return Err(Failure::usage(format!(
                        "--settings combinations: {} transformations are too many; name {MOST_COMBINED} or fewer",
                        augment.len()
                    )));
                }
                found.extend(combinations(augment).into_iter().map(|own| with(own, first(), None)));
            }
            SettingsArg::Generators => {
                if generators.len() < 2 {
                    return Err(Failure::usage(
                        "--settings generators: fewer than two are named; repeat --generator",
                    ));
                }
                for name in augment {
                    let alone = generators.iter().map(|one| vec![one.clone()]);
                    let together = (2..=generators.len()).map(|count| generators[..count].to_vec());
                    found.extend(alone.chain(together).map(|own| with(vec![name.clone()], own, None)));
                }
            }
            SettingsArg::Weights => {
                if args.augmentation.pooling.is_some() {
                    return Err(Failure::usage(
                        "--settings weights: sets the pooling itself; leave --pooling out",
                    ));
                }
                let weighted = WEIGHTS.map(|weight| with(augment.clone(), generators.clone(), Some(weight)));
                found.extend(weighted);
            }
            SettingsArg::QueriesOnly => {}
        }
    }
    if args.gains.settings.contains(&SettingsArg::QueriesOnly) {
        if args.queries_only {
            return Err(Failure::usage(
                "--settings queries-only: --queries-only leaves the documents plain in every setting; leave one of the two out",
            ));
        }
        let more: Vec<Flags> = found
            .iter()
            .map(|flags| Flags {
                queries_only: true,
                ..flags.clone()
            })
            .collect();
        found.extend(more);
    }
    Ok(found)
}

/// All combinations of two or more, the smaller ones first.
fn combinations(names: &[String]) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = (1_u32..1 << names.len())
        .filter(|chosen| chosen.count_ones() > 1)
        .map(|chosen| {
            let own = names.iter().enumerate().filter(|(at, _)| chosen & (1 << at) != 0);
            own.map(|(_, name)| name.clone()).collect()
        })
        .collect();
    all.sort_by_key(Vec::len);
    all
}

fn about(flags: &Flags, own: &AugmentArgs, args: &EvalArgs, generated: &[String], k: usize) -> GainSetting {
    let generates = flags.augment.iter().any(|name| generated.contains(name));
    let generators = match flags.generators.as_slice() {
        _ if !generates => Vec::new(),
        [] => vec![String::new()],
        named => named.to_vec(),
    };
    let mut name = flags.augment.join(" + ");
    // If several generators are named anywhere, every setting names its own.
    if args.augmentation.generators.len() > 1 && generates {
        name.push_str(&format!(" by {}", generators.join(" + ")));
    }
    if let Some(weight) = flags.weight {
        name.push_str(&format!(", original {weight}"));
    }
    if flags.queries_only && !args.queries_only {
        name.push_str(", queries only");
    }
    GainSetting {
        name,
        transformations: flags.augment.clone(),
        generators,
        k,
        pooling: match (own.pooling, own.original_weight) {
            (Some(AugmentationPooling::Max), _) => "max".to_owned(),
            (Some(AugmentationPooling::Weighted), weight) => format!("weighted, original {}", weight.unwrap_or(0.75)),
            _ => "mean".to_owned(),
        },
        queries_only: flags.queries_only,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_every_choice_of_two_or_more() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let found: Vec<String> = combinations(&names).iter().map(|own| own.join("")).collect();
        assert_eq!(found, ["ab", "ac", "bc", "abc"]);
    }
}
