//! `isomer init`: writes a suite for one's own data.

use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use isomer_eval::{
    dataset::{self, DatasetError, LoadOptions, Source},
    gate::{Gate, RuleLimit, When},
    suite::Suite,
    task::TaskType,
};
use serde_json::json;

use super::{eval::score_request::fields, stdout_failure, write_failure};
use crate::{
    args::{Format, init::InitArgs},
    connect::Session,
    exit::Failure,
};

/// The suite whose rules a new suite takes.
const MODEL_SUITE: &str = "quick";

/// A data set that was read.
#[derive(Debug)]
struct Candidate {
    path: PathBuf,
    /// The name that it has in reports.
    name: String,
    task: TaskType,
    rows: usize,
    /// Other tasks that its columns fit.
    others: Vec<TaskType>,
}

pub(super) fn run(session: &Session, args: &InitArgs) -> Result<ExitCode, Failure> {
    if args.out.exists() && !args.force {
        let message = format!(
            "{} exists; replace it with --force, or name another with --out",
            args.out.display()
        );
        return Err(Failure::usage(message));
    }
    let named = args.task.as_deref().map(str::parse::<TaskType>).transpose();
    let task = named.map_err(|error| Failure::usage(format!("--task: {error}")))?;
    let fields: BTreeMap<String, String> = fields(&args.fields)?.into_iter().collect();
    let candidates: Vec<Candidate> = (args.data.iter())
        .map(|path| read(path, task, &args.split, &fields))
        .collect::<Result<_, _>>()?;
    let text = suite(args, &fields, &candidates)?;
    let folder = args.out.parent().unwrap_or(Path::new(""));
    Suite::parse(&text, "suite.toml", Some(folder)).map_err(|error| Failure::usage(error.to_string()))?;
    if !folder.as_os_str().is_empty() {
        std::fs::create_dir_all(folder).map_err(|error| write_failure(&folder.display().to_string(), &error))?;
    }
    std::fs::write(&args.out, text).map_err(|error| write_failure(&args.out.display().to_string(), &error))?;
    let mut out = std::io::stdout().lock();
    match session.global.format {
        Format::Json => writeln!(out, "{}", as_json(args, &candidates)),
        Format::Text => write!(out, "{}", as_text(args, &candidates)),
    }
    .map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a data set as a task, or as the first task that it fits.
fn read(
    path: &Path,
    task: Option<TaskType>,
    split: &str,
    fields: &BTreeMap<String, String>,
) -> Result<Candidate, Failure> {
    if !path.exists() {
        return Err(Failure::usage(format!("{}: no such file or folder", path.display())));
    }
    let options = LoadOptions {
        split: split.to_owned(),
        fields: fields
            .iter()
            .map(|(ours, theirs)| (ours.clone(), theirs.clone()))
            .collect(),
        ..LoadOptions::default()
    };
    let load = |task: TaskType| dataset::load(task, &Source::Path(path.to_owned()), &options);
    let tasks = task.map_or_else(|| TaskType::ALL.to_vec(), |task| vec![task]);
    let (mut fits, mut errors) = (Vec::new(), Vec::new());
    for task in tasks {
        match load(task) {
            Ok(dataset) => fits.push((task, dataset)),
            Err(error) => errors.push((task, error)),
        }
    }
    let Some(((task, dataset), others)) = fits.split_first() else {
        return Err(Failure::usage(no_task(path, &errors)));
    };
    Ok(Candidate {
        path: path.to_owned(),
        name: dataset.name().to_owned(),
        task: *task,
        rows: dataset.rows(),
        others: others.iter().map(|(task, _)| *task).collect(),
    })
}

/// The reasons why a data set fits no task.
fn no_task(path: &Path, errors: &[(TaskType, DatasetError)]) -> String {
    let mut message = format!("{} cannot be read as", path.display());
    for (task, error) in errors {
        message.push_str(&format!("\n  {}: {error}", task.name()));
    }
    message.push_str("\nName its columns with --field OURS=THEIRS, e.g. --field sentence1=text_a");
    message
}

/// A string of TOML. Its escapes are those of JSON.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}

/// The rules of a gate that suit any data, as a suite spells them.
fn gate(gate: &Gate) -> String {
    let mut text = String::new();
    if let Some(unit) = gate.unit {
        text.push_str(&format!("unit = {}\n", quoted(unit.name())));
    }
    for rule in &gate.rules {
        let RuleLimit { kind, value } = rule.limit;
        let Some(reason) = kind.row().starter else { continue };
        text.push_str(&format!("\n# {reason}\n[[gate.rule]]\n{} = {value}\n", kind.name()));
        if let Some(value) = rule.fail_at {
            text.push_str(&format!("fail_at = {value}\n"));
        }
        if rule.of != kind.measure().row().quantity {
            text.push_str(&format!("of = {}\n", quoted(&rule.of)));
        }
        if rule.when != When::default() {
            text.push_str(&format!("when = {}\n", quoted(rule.when.name())));
        }
    }
    text
}

fn suite(args: &InitArgs, fields: &BTreeMap<String, String>, candidates: &[Candidate]) -> Result<String, Failure> {
    let mut text = format!(
        "# Made by `isomer init`. `isomer suite keys` prints every key.\n\
         name = {}\n\
         transformations = [\"paraphrase\", \"summarisation\"]\n\
         # One seed: at temperature 0 every seed gives the same rewrite.\n\
         seeds = [1337]\n\
         temperature = 0.0\n\n\
         # The rules that an encoder must keep. `isomer check --plan` says how probably they decide.\n\
         [gate]\n{}",
        quoted(&args.name),
        gate(
            &Suite::builtin(MODEL_SUITE)
                .map_err(|error| Failure::dependency(error.to_string()))?
                .gate
        )
    );
    let mut names: Vec<&str> = Vec::new();
    for one in candidates {
        let path = place(&one.path, &args.out);
        let path = path.to_str().ok_or_else(|| {
            Failure::usage(format!(
                "{}: a suite cannot name a path that is not UTF-8",
                path.display()
            ))
        })?;
        text.push_str(&format!(
            "\n# {} rows.\n[[dataset]]\ntask = {}\npath = {}\n",
            one.rows,
            quoted(one.task.name()),
            quoted(path)
        ));
        let same = names.iter().filter(|known| **known == one.name).count();
        if same > 0 {
            text.push_str(&format!("name = {}\n", quoted(&format!("{} {}", one.name, same + 1))));
        }
        names.push(&one.name);
        if args.split != "test" {
            text.push_str(&format!("split = {}\n", quoted(&args.split)));
        }
        if !fields.is_empty() {
            let pairs = fields
                .iter()
                .map(|(ours, theirs)| format!("{} = {}", quoted(ours), quoted(theirs)));
            text.push_str(&format!("fields = {{ {} }}\n", pairs.collect::<Vec<_>>().join(", ")));
        }
        text.push_str("limit = 300\n");
    }
    Ok(text)
}

/// The path of a data set as the suite names it: relative to the suite's folder, or absolute.
fn place(data: &Path, out: &Path) -> PathBuf {
    let folder = out.parent().unwrap_or(Path::new(""));
    if folder.as_os_str().is_empty() || data.is_absolute() {
        return data.to_owned();
    }
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (data, folder) = (absolute(data), absolute(folder));
    data.strip_prefix(&folder).map_or_else(|_| data.clone(), Path::to_owned)
}

fn as_text(args: &InitArgs, candidates: &[Candidate]) -> String {
    let mut text = String::new();
    for one in candidates {
        text.push_str(&format!(
            "{}: {}, {} rows",
            one.path.display(),
            one.task.name(),
            one.rows
        ));
        if !one.others.is_empty() {
            let others: Vec<&str> = one.others.iter().map(|task| task.name()).collect();
            text.push_str(&format!("; --task chooses another that it fits: {}", others.join(", ")));
        }
        text.push('\n');
        if place(&one.path, &args.out).is_absolute() {
            text.push_str(
                "  The suite has its absolute path. For other machines, put the data below the folder of the suite.\n",
            );
        }
    }
    let out = args.out.display();
    text.push_str(&format!(
        "suite: {out}\n\nNext:\n  isomer check --suite {out} --plan    what the check takes\n  isomer check --suite {out}\n"
    ));
    text
}

fn as_json(args: &InitArgs, candidates: &[Candidate]) -> serde_json::Value {
    let dataset = |one: &Candidate| {
        json!({
            "path": one.path,
            "task": one.task.name(),
            "rows": one.rows,
            "other_tasks": one.others.iter().map(|task| task.name()).collect::<Vec<_>>(),
        })
    };
    json!({ "suite": args.out, "datasets": candidates.iter().map(dataset).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_eval::gate::{Rule, Unit};

    use super::*;

    const PAIRS: &str = "text_a,text_b,gold\nA cat sits,The cat is sitting,4.5\nDogs run,Cats sleep,0.3\n";

    fn fields() -> BTreeMap<String, String> {
        let names = [("sentence1", "text_a"), ("sentence2", "text_b"), ("score", "gold")];
        names.map(|(ours, theirs)| (ours.to_owned(), theirs.to_owned())).into()
    }

    fn args(folder: &Path, data: &[&str]) -> InitArgs {
        InitArgs {
            data: data.iter().map(|name| folder.join(name)).collect(),
            task: None,
            fields: Vec::new(),
            split: "test".to_owned(),
            name: "a \"quoted\" name".to_owned(),
            out: folder.join("suite.toml"),
            force: false,
        }
    }

    #[test]
    fn the_task_follows_from_the_columns_and_the_suite_is_valid() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("pairs.csv");
        std::fs::write(&file, PAIRS).unwrap();
        let candidate = read(&file, None, "test", &fields()).unwrap();
        assert_eq!((candidate.task, candidate.rows), (TaskType::Sts, 2));
        let args = args(home.path(), &["pairs.csv"]);
        let text = suite(&args, &fields(), &[candidate]).unwrap();
        let read = Suite::parse(&text, "suite.toml", Some(home.path())).unwrap();
        assert_eq!((read.name.as_str(), read.datasets.len()), ("a \"quoted\" name", 1));
        assert_eq!((read.datasets[0].limit, read.datasets[0].fields.len()), (Some(300), 3));
        assert_eq!(read.gate.unit, Some(Unit::Item));
        let quick = Suite::builtin("quick").unwrap().gate.rules;
        let texts = |rules: &[Rule]| rules.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (taken, known) = (texts(&read.gate.rules), texts(&quick));
        assert_eq!(taken.len(), 3);
        assert!(taken.iter().all(|rule| known.contains(rule)), "{taken:?} {known:?}");
    }

    #[test]
    fn relative_paths_and_equal_names_make_a_suite_that_a_check_accepts() {
        let home = tempfile::tempdir().unwrap();
        let candidate = |folder: &str| {
            let path = home.path().join(folder).join("pairs.csv");
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, PAIRS).unwrap();
            let candidate = read(&path, None, "test", &fields()).unwrap();
            Candidate {
                path: Path::new(folder).join("pairs.csv"),
                ..candidate
            }
        };
        let mut args = args(home.path(), &[]);
        args.out = "suite.toml".into();
        let text = suite(&args, &fields(), &[candidate("a"), candidate("b")]).unwrap();
        let read = Suite::parse(&text, "suite.toml", Some(Path::new(""))).unwrap();
        let names: Vec<Option<&str>> = read.datasets.iter().map(|one| one.name.as_deref()).collect();
        assert_eq!(names, [None, Some("pairs 2")]);
    }

    #[test]
    fn every_reason_is_said_if_no_task_fits() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("pairs.csv");
        std::fs::write(&file, PAIRS).unwrap();
        let message = format!("{:?}", read(&file, None, "test", &BTreeMap::new()).unwrap_err());
        for task in TaskType::ALL {
            assert!(message.contains(&format!("  {}: ", task.name())), "{message}");
        }
        assert!(
            message.contains("the row has text_a, text_b, gold") && message.contains("--field"),
            "{message}"
        );
        let missing = read(&home.path().join("none"), None, "test", &BTreeMap::new()).unwrap_err();
        assert!(format!("{missing:?}").contains("no such file or folder"));
        let wrong = format!(
            "{:?}",
            read(&file, Some(TaskType::Retrieval), "test", &fields()).unwrap_err()
        );
        assert!(wrong.contains("retrieval: ") && !wrong.contains("sts: "), "{wrong}");
    }

    #[test]
    fn a_folder_with_a_train_split_is_a_classification() {
        let home = tempfile::tempdir().unwrap();
        let rows = |n: usize| -> String {
            let row = |i: usize| format!("{{\"text\": \"text {i}\", \"label\": {}}}\n", i % 2);
            (0..n).map(row).collect()
        };
        std::fs::write(home.path().join("train.jsonl"), rows(40)).unwrap();
        std::fs::write(home.path().join("test.jsonl"), rows(20)).unwrap();
        let candidate = read(home.path(), None, "test", &BTreeMap::new()).unwrap();
        assert_eq!(candidate.task, TaskType::Classification);
        let shown = as_text(&args(home.path(), &[""]), &[candidate]);
        assert!(
            shown.contains("classification, 20 rows") && shown.contains("absolute path"),
            "{shown}"
        );
    }

    #[test]
    fn a_data_set_below_the_suite_has_a_relative_path() {
        let at = |data: &str, out: &str| place(Path::new(data), Path::new(out));
        assert_eq!(at("pairs.csv", "suite.toml"), Path::new("pairs.csv"));
        assert_eq!(
            at("checks/data/pairs.csv", "checks/suite.toml"),
            Path::new("data/pairs.csv")
        );
        assert_eq!(at("/data/pairs.csv", "checks/suite.toml"), Path::new("/data/pairs.csv"));
        let above = at("pairs.csv", "checks/suite.toml");
        assert!(above.is_absolute() && above.ends_with("pairs.csv"), "{above:?}");
    }
}
