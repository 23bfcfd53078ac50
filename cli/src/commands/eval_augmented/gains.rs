//! Several encoders, data sets and settings in one run: the tables of the GASE paper.

use std::{io::Write, process::ExitCode};

use isomer_eval::{
    evidence::Evidence,
    report::gains::{self, GainCell, GainDataset, GainInput, GainTiming, GainWork, Gains},
    task::TaskType,
};
use isomer_models::ModelKind;
use isomer_proto::{
    ProtoEnum,
    eval::v1::{
        AugmentationReport, DatasetAugmentation, DatasetInput, ScoreRequest, ScoreResponse,
        task_service_client::TaskServiceClient,
    },
    transform::v1::{AugmentRequest, TextItem, augmentation_service_client::AugmentationServiceClient},
};
use isomer_service_kit::Fault;

use super::{
    super::{
        eval::score_request::{ScoreRequestBuilder, Target},
        kept_runs::written,
        stdout_failure,
    },
    cell_folder::CellFolder,
    settings::{Setting, settings},
};
use crate::{
    args::{Format, Global},
    connect::MAX_MESSAGE_BYTES,
    exit::Failure,
    progress::{Display, Step},
    table::Table,
};

/// Number of rows of a timed run.
const TIMED_ROWS: u32 = 16;
/// The reason for which a variant may be missing permanently. Scores that lack variants for another
/// reason are not stored, so that the next run tries again.
const LASTING: &str = "checks";

/// Runs the scores and prints the result.
pub(in crate::commands) async fn run(
    global: &Global,
    builder: &ScoreRequestBuilder<'_>,
    targets: &[Target],
    display: &Display,
) -> Result<ExitCode, Failure> {
    let args = builder.args;
    let connection = builder.connection;
    let settings = settings(connection, args, display).await?;
    let server = global.server.clone().unwrap_or_default();
    let generator = if connection.is_remote() {
        String::new()
    } else {
        connection.config.transform.default_generator.clone()
    };
    let folder = match &args.gains.out {
        Some(out) => Some(CellFolder::open(out, args.gains.fresh, [server, generator])?),
        None => None,
    };
    let mut run = Run {
        builder,
        settings: &settings,
        folder,
        display,
        input: GainInput {
            encoders: args.models.clone(),
            settings: settings.iter().map(|setting| setting.about.clone()).collect(),
            ..GainInput::default()
        },
        computed: 0,
        reused: 0,
        total: (args.models.len() * targets.len() * (1 + settings.len())) as u64,
    };
    for model in &args.models {
        connection.prefetch(model, ModelKind::Encoder, display).await?;
        for target in targets {
            Box::pin(run.score(model, target)).await?;
        }
    }
    if let Some(runs) = args.gains.timed_runs {
        run.warm_up().await?;
        for model in &args.models {
            for target in targets {
                Box::pin(run.time(model, target, runs)).await?;
            }
        }
    }
    connection.flush().await;
    if run.reused > 0 {
        let note = format!(
            "{} of {} scores were kept from an earlier run",
            run.reused,
            run.computed + run.reused
        );
        run.input.notes.push(note);
    }
    let found = gains::gains(&run.input).map_err(|error| Failure::usage(error.to_string()))?;
    let files = gains::files(&found).map_err(Failure::dependency)?;
    if let Some(out) = &args.gains.out {
        written(out, &files)?;
    }
    print(global.format, args.gains.out.as_deref(), &found, &files)?;
    Ok(ExitCode::SUCCESS)
}

struct Run<'a> {
    builder: &'a ScoreRequestBuilder<'a>,
    settings: &'a [Setting],
    folder: Option<CellFolder>,
    display: &'a Display,
    input: GainInput,
    computed: u64,
    reused: u64,
    total: u64,
}

impl<'a> Run<'a> {
    fn client(&self) -> TaskServiceClient<isomer_client::Channel> {
        TaskServiceClient::new(self.builder.connection.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    fn step(&self, model: &str, detail: &str) {
        let step = Step {
            done: self.computed + self.reused,
            total: Some(self.total),
            cached: self.reused,
            detail,
            ..Step::default()
        };
        self.display.step(model, &step);
    }

    /// The request for a score with the values of its items and its evidence.
    fn request(&self, target: &Target, input: DatasetInput) -> ScoreRequest {
        ScoreRequest {
            per_item: true,
            evidence: true,
            ..self.builder.request(target, input)
        }
    }

    /// The plain score of an encoder on a data set, then one for each setting.
    async fn score(&mut self, model: &str, target: &Target) -> Result<(), Failure> {
        self.step(model, &target.name);
        let input = self.builder.input(model, target, self.display).await?;
        let request = self.request(target, input.clone());
        let plain = self
            .client()
            .score(request.clone())
            .await
            .map_err(|status| of_cell(status, model, &target.name, "plain"))?
            .into_inner();
        let task = task_of(&plain, &target.name)?;
        self.describe(model, target, task, &plain)?;
        self.input.cells.push(cell(model, &target.name, None, &plain)?);
        self.computed += 1;
        for setting in self.applicable(task) {
            let name = setting.about.name.as_str();
            self.step(model, &format!("{}, {name}", target.name));
            let place = self
                .folder
                .as_ref()
                .and_then(|folder| folder.place(model, &request, &setting.augmentation, &plain));
            if let (Some(folder), Some(place)) = (&self.folder, &place)
                && let Some(own) = folder.read(place, &target.name, name)?
            {
                self.input.cells.push(own);
                self.reused += 1;
                continue;
            }
            let input = DatasetInput {
                augmentation: Some(setting.augmentation.clone()),
                ..input.clone()
            };
            let answer = self
                .client()
                .score(self.request(target, input))
                .await
                .map_err(|status| of_cell(status, model, &target.name, name))?
                .into_inner();
            if answer.dataset_digest != plain.dataset_digest {
                return Err(Failure::dependency(format!(
                    "--data: {} changed while it was scored; run the command again",
                    target.name
                )));
            }
            let own = cell(model, &target.name, Some(name), &answer)?;
            if let (Some(folder), Some(place)) = (&self.folder, &place)
                && lasts(&own)
            {
                folder.write(place, &own)?;
            }
            self.input.cells.push(own);
            self.computed += 1;
        }
        if self.folder.is_some() && plain.vector_space.as_ref().is_none_or(|space| space.digest.is_empty()) {
            self.note(format!(
                "{model} names no vector space, so that its scores are not kept and are computed again by each run"
            ));
        }
        Ok(())
    }

    /// Settings applicable to a task: a setting for queries alone requires documents.
    fn applicable(&self, task: TaskType) -> Vec<&'a Setting> {
        let documents = matches!(task, TaskType::Retrieval | TaskType::Reranking);
        // With --queries-only every setting is for queries alone, and the service refuses it for
        // tasks without queries.
        let every = self.builder.args.queries_only;
        self.settings
            .iter()
            .filter(|setting| documents || every || !setting.about.queries_only)
            .collect()
    }

    fn note(&mut self, note: String) {
        if !self.input.notes.contains(&note) {
            self.display.message(&note);
            self.input.notes.push(note);
        }
    }

    fn describe(&mut self, model: &str, target: &Target, task: TaskType, plain: &ScoreResponse) -> Result<(), Failure> {
        for note in &plain.notes {
            self.note(format!("{}: {note}", target.name));
        }
        self.input.profile.clone_from(&plain.profile_stamp);
        let known = self.input.datasets.iter().find(|dataset| dataset.name == target.name);
        match known {
            Some(known) if known.digest != plain.dataset_digest => Err(Failure::dependency(format!(
                "--data: {} is not what it was for the encoder before {model}; run the command again",
                target.name
            ))),
            Some(_) => Ok(()),
            None => {
                self.input.datasets.push(GainDataset {
                    name: target.name.clone(),
                    group: target.data.clone(),
                    language: target.language.clone().unwrap_or_default(),
                    task,
                    main_score: plain.main_score_key.clone(),
                    digest: plain.dataset_digest.clone(),
                    items: 0,
                    clusters: 0,
                });
                Ok(())
            }
        }
    }

    /// Loads every generator, so that timed runs do not include loading.
    async fn warm_up(&self) -> Result<(), Failure> {
        let mut client = AugmentationServiceClient::new(self.builder.connection.channel.clone());
        for setting in self.settings {
            let request = AugmentRequest {
                spec: setting
                    .augmentation
                    .spec
                    .clone()
                    .map(|spec| isomer_proto::transform::v1::AugmentationSpec {
                        bypass_cache: true,
                        ..spec
                    }),
                items: vec![TextItem {
                    text: "A sentence that was not requested.".to_owned(),
                    ..TextItem::default()
                }],
            };
            client
                .augment(request)
                .await
                .map_err(|status| of_cell(status, "the generator", "a first text", &setting.about.name))?;
        }
        Ok(())
    }

    /// Measures the time of an encoder on a data set, plain and in each setting. Each run draws
    /// other rows, so that the encoder has not seen them.
    async fn time(&mut self, model: &str, target: &Target, runs: u32) -> Result<(), Failure> {
        let args = self.builder.args;
        let task = self.input.datasets.iter().find(|own| own.name == target.name);
        let task = task.map_or(TaskType::Sts, |own| own.task);
        if task == TaskType::Retrieval || task == TaskType::Reranking {
            self.note(format!(
                "{}: not timed, since each run would encode all of its documents; time a data set of pairs",
                target.name
            ));
            return Ok(());
        }
        let rows = args.gains.timed_rows.unwrap_or(TIMED_ROWS);
        let input = self.builder.input(model, target, self.display).await?;
        let kinds: Vec<Option<(String, DatasetAugmentation)>> = std::iter::once(None)
            .chain(self.applicable(task).into_iter().map(|setting| {
                let mut augmentation = setting.augmentation.clone();
                if let Some(spec) = &mut augmentation.spec {
                    spec.bypass_cache = true;
                }
                Some((setting.about.name.clone(), augmentation))
            }))
            .collect();
        for (number, kind) in (0_u64..).zip(kinds) {
            let name = kind.as_ref().map_or("plain", |(name, _)| name.as_str()).to_owned();
            let mut timing = GainTiming {
                encoder: model.to_owned(),
                dataset: target.name.clone(),
                setting: kind.as_ref().map(|(name, _)| name.clone()),
                seconds: Vec::new(),
                texts: Vec::new(),
                cached: 0,
            };
            for run in 0..u64::from(runs) {
                self.step(model, &format!("{}, {name}: timed run {}", target.name, run + 1));
                let seed = args.sample_seed.unwrap_or(42) + 1 + number * u64::from(runs) + run;
                let input = DatasetInput {
                    limit: Some(rows),
                    sample_seed: Some(seed),
                    augmentation: kind.as_ref().map(|(_, augmentation)| augmentation.clone()),
                    ..input.clone()
                };
                let answer = self
                    .client()
                    .score(self.builder.request(target, input))
                    .await
                    .map_err(|status| of_cell(status, model, &target.name, &name).of_flag("--timed-rows"))?
                    .into_inner();
                let took = answer
                    .encoding
                    .and_then(|took| std::time::Duration::try_from(took).ok());
                let took = took.ok_or_else(|| {
                    Failure::dependency("--timed-runs: the server does not say how long encoding took; it is too old")
                })?;
                let usage = answer.usage.unwrap_or_default();
                let texts = answer
                    .augmentation
                    .as_ref()
                    .map_or(usage.texts, |report| report.augmented_texts + report.plain_texts);
                timing.seconds.push(took.as_secs_f64());
                timing.texts.push(texts);
                timing.cached += usage.cached_texts;
            }
            self.input.timings.push(timing);
        }
        Ok(())
    }
}

/// Whether every missing variant would be missing again.
fn lasts(cell: &GainCell) -> bool {
    let work = cell.work.as_ref();
    work.is_none_or(|work| work.missing_reasons.keys().all(|reason| reason == LASTING))
}

fn of_cell(status: tonic::Status, model: &str, data: &str, setting: &str) -> Failure {
    Failure::from(Fault::from_status(&status)).of_flag(&format!("{model} on {data}, {setting}"))
}

fn task_of(response: &ScoreResponse, data: &str) -> Result<TaskType, Failure> {
    response.task_type().dashed().parse().map_err(|_| {
        Failure::dependency(format!(
            "{data}: the server does not say which task it scored; it is of another version"
        ))
    })
}

fn cell(model: &str, data: &str, setting: Option<&str>, response: &ScoreResponse) -> Result<GainCell, Failure> {
    let evidence: Option<Evidence> = response
        .evidence
        .as_ref()
        .map(|own| serde_json::from_slice(&own.json))
        .transpose()
        .map_err(|error| {
            Failure::dependency(format!(
                "{model} on {data}: the server's evidence of the score cannot be read ({error}); it is of another version"
            ))
        })?;
    if evidence.as_ref().is_some_and(|own| !own.is_consistent()) {
        return Err(Failure::dependency(format!(
            "{model} on {data}: the parts of the server's evidence do not fit together"
        )));
    }
    let columns = response.per_item.iter().flat_map(|items| &items.columns);
    Ok(GainCell {
        encoder: model.to_owned(),
        dataset: data.to_owned(),
        setting: setting.map(str::to_owned),
        score: response.main_score,
        clusters: response
            .evidence
            .as_ref()
            .map(|own| own.clusters.clone())
            .unwrap_or_default(),
        evidence,
        columns: columns
            .filter(|column| {
                ["words", "gap", "cosine"].contains(&column.key.as_str()) || column.key.starts_with("cosine_")
            })
            .map(|column| {
                let values = column.values.iter().map(|value| value.is_finite().then_some(*value));
                (column.key.clone(), values.collect())
            })
            .collect(),
        work: response.augmentation.as_ref().map(work),
    })
}

fn work(report: &AugmentationReport) -> GainWork {
    GainWork {
        texts: report.augmented_texts,
        plain_texts: report.plain_texts,
        variants: report.variants.iter().sum(),
        missing: report.missing.iter().sum(),
        missing_reasons: report.missing_reasons.clone().into_iter().collect(),
        cached: report.cached.iter().sum(),
        generated_tokens: report.generated_tokens.iter().sum(),
        prompt_tokens: report.prompt_tokens.iter().sum(),
        tokens_estimated: report.tokens_estimated,
    }
}

fn print(
    format: Format,
    out: Option<&std::path::Path>,
    found: &Gains,
    files: &[(&'static str, Vec<u8>)],
) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let text = match format {
        Format::Json => {
            let json = files.iter().find(|(name, _)| *name == "gains.json");
            return stdout
                .write_all(json.map(|(_, content)| content.as_slice()).unwrap_or_default())
                .map_err(|error| stdout_failure(&error));
        }
        Format::Text => {
            let mut text = found.headline.join("\n");
            for note in &found.notes {
                text.push_str(&format!("\nnote: {note}"));
            }
            let all = gains::tables(found);
            for one in all.iter().filter(|one| !one.detail) {
                let shown = Table::from(one);
                text.push_str(&format!("\n\n{}\n{shown}\n{}", one.title, one.note));
            }
            let details = all.iter().filter(|one| one.detail).count();
            match out {
                Some(out) => {
                    let shown = out.canonicalize().unwrap_or_else(|_| out.to_owned());
                    text.push_str(&format!(
                        "\n\ngains: {} ({details} tables of which texts gain are in gains.md)",
                        shown.join("gains.json").display()
                    ));
                }
                None if details > 0 => {
                    text.push_str(&format!(
                        "\n\n{details} tables of which texts gain: with --out DIR or --format json"
                    ));
                }
                None => {}
            }
            text
        }
    };
    writeln!(stdout, "{text}").map_err(|error| stdout_failure(&error))
}
