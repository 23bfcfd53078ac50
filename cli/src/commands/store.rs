//! `isomer store`: lists the contents of the shared store, and removes entries that no run relies
//! on.

use std::{io::Write, process::ExitCode, time::Duration};

use comfy_table::{Cell, CellAlignment};
use indicatif::{HumanBytes, HumanCount};
use isomer_access::rfc3339;
use isomer_blobs::{BlobStore, StoreConfig};
use isomer_retention::{Amount, Policy, RetentionError, SHORTEST_FORGETTING, Step, Sweep, SweepReport, Usage};
use isomer_service_kit::config::Validate;
use serde_json::json;

use super::stdout_failure;
use crate::{
    args::{
        Format,
        store::{GcArgs, StoreArgs, StoreCommand},
    },
    connect::Session,
    exit::Failure,
    progress::{self, Display},
    table,
};

const DAY: Duration = Duration::from_secs(86_400);

pub(super) async fn run(session: &Session, args: StoreArgs) -> Result<ExitCode, Failure> {
    if session.global.server.is_some() {
        return Err(Failure::usage(
            "--server: the store is used directly, not through a gateway; leave --server out, and name the store (--store)",
        ));
    }
    let config = &session.config.store;
    let validated = config.validate().map_err(|error| error.within("store"));
    validated.map_err(|error| Failure::usage(error.to_string()))?;
    let opened = BlobStore::open(config).map_err(|error| Failure::dependency(error.to_string()))?;
    let Some(blobs) = opened else {
        return Err(Failure::usage(
            "no store is named: give --store (a folder, s3://BUCKET/PREFIX, gs://… or az://…), or store.url in the configuration",
        ));
    };
    let display = Display::new(session.global.quiet);
    let progress = |step: Step| {
        let shown = progress::Step {
            done: step.done,
            total: step.total,
            ..progress::Step::default()
        };
        display.step(step.name, &shown);
    };
    match args.command {
        StoreCommand::Usage => {
            let usage = isomer_retention::usage(&blobs, &progress).await.map_err(failure)?;
            match session.global.format {
                Format::Json => print(&json!(usage).to_string())?,
                Format::Text => print(&usage_in_words(&usage))?,
            }
        }
        StoreCommand::Gc(args) => {
            let policy = policy(&args, config, &blobs)?;
            let mode = if args.delete { Sweep::Remove } else { Sweep::DryRun };
            let swept = isomer_retention::sweep(&blobs, policy, mode, &progress).await;
            let swept = swept.map_err(failure)?;
            match session.global.format {
                Format::Json => {
                    let mut document = json!(swept);
                    document["deleted"] = json!(args.delete);
                    print(&document.to_string())?;
                }
                Format::Text => print(&swept_in_words(&swept, args.delete))?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn failure(error: RetentionError) -> Failure {
    Failure::dependency(error.to_string())
}

fn print(text: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout(), "{text}").map_err(|error| stdout_failure(&error))
}

fn policy(args: &GcArgs, config: &StoreConfig, blobs: &BlobStore) -> Result<Policy, Failure> {
    let configured = (config.keep_runs_days > 0).then(|| DAY * config.keep_runs_days);
    let forget_runs = args.forget_runs.or(configured);
    if forget_runs.is_some_and(|age| age < SHORTEST_FORGETTING) {
        return Err(Failure::usage(
            "--forget-runs: at least 2d; an active run gives a sign of life every few hours, and one that is cut off for a \
             while must not be forgotten",
        ));
    }
    let policy = Policy::for_store(blobs);
    Ok(Policy {
        older_than: args.older_than,
        forget_runs,
        settle: args.settle.unwrap_or(policy.settle),
    })
}

fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn amount(name: &str, amount: Amount) -> Vec<Cell> {
    vec![
        Cell::new(name),
        right(HumanCount(amount.objects)),
        right(HumanBytes(amount.bytes)),
    ]
}

fn usage_in_words(usage: &Usage) -> String {
    let mut kinds = table::new();
    kinds.set_header(["what", "objects", "size"]);
    for (kind, held) in &usage.kinds {
        kinds.add_row(amount(kind.name(), *held));
    }
    kinds.add_row(amount("records of runs and removals", usage.records));
    if usage.unknown.objects > 0 {
        kinds.add_row(amount("unknown, never removed", usage.unknown));
    }
    kinds.add_row(amount("all", usage.total));
    kinds.add_row(amount("of these, held by no run", usage.unheld));
    let mut text = kinds.to_string();
    if !usage.runs.is_empty() {
        let mut runs = table::new();
        runs.set_header(["run", "last active", "objects", "size", "held by it alone"]);
        for run in &usage.runs {
            runs.add_row(vec![
                Cell::new(&run.id),
                Cell::new(rfc3339(run.active.saturating_mul(1_000_000))),
                right(HumanCount(run.held.objects)),
                right(HumanBytes(run.held.bytes)),
                right(HumanBytes(run.alone.bytes)),
            ]);
        }
        text = format!("{text}\n\n{runs}");
    }
    text
}

fn swept_in_words(swept: &SweepReport, deleted: bool) -> String {
    let mut kinds = table::new();
    kinds.set_header([if deleted { "removed" } else { "would be removed" }, "objects", "size"]);
    for (kind, removed) in &swept.removed {
        kinds.add_row(amount(kind.name(), *removed));
    }
    kinds.add_row(amount("all", swept.total()));
    let counted = |amount: Amount, what: &str| {
        format!(
            "{} objects ({}) {what}",
            HumanCount(amount.objects),
            HumanBytes(amount.bytes)
        )
    };
    let mut lines = vec![
        kinds.to_string(),
        counted(swept.held, &format!("are relied on, by {} runs", swept.runs)),
        counted(swept.young, "have no holder and are too young (--older-than)"),
    ];
    if swept.spared.objects > 0 {
        lines.push(counted(swept.spared, "were kept: a run relies on them now"));
    }
    if !swept.forgotten_runs.is_empty() {
        let word = if deleted { "forgotten" } else { "would be forgotten" };
        lines.push(format!("{word}: {} runs (--forget-runs)", swept.forgotten_runs.len()));
    }
    if !deleted {
        lines.push("nothing was removed; --delete removes it".to_owned());
    }
    lines.join("\n")
}
