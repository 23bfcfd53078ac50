//! `isomer check`: the robustness check.

pub(super) mod plan;

use std::{
    borrow::Cow,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use isomer_client::Channel;
use isomer_eval::{
    report::{Report, terminal},
    suite::Suite,
};
use isomer_models::{ModelKind, Resolver};
use isomer_proto::{
    ProtoEnum,
    eval::v1::{
        CancelRunRequest, CreateRunRequest, GateUndecided, GetReportRequest, Judge, ReportFormat, Run, RunLimits,
        RunSpec, RunState, Separation, Stage, StageProgress, SuiteRef, Verdict, WatchRunRequest,
        run_service_client::RunServiceClient, suite_ref, watch_run_response::Event,
    },
};
use isomer_service_kit::{Fault, shutdown};
use tokio::time::sleep;
use tonic::{Code, Status};

#[cfg(feature = "index")]
pub(super) use plan::hours;

#[cfg(feature = "evidence")]
use super::report::attest;
use super::{augment::prefetch_generator, stdout_failure, writable_folder};
#[cfg(not(feature = "evidence"))]
use crate::features;
use crate::{
    args::{CheckArgs, CheckJudgeArgs, CheckLimitArgs, CheckSeparationArgs, Format, RunArgs},
    connect::{Connection, MAX_MESSAGE_BYTES, Session},
    exit::{DONE, Failure, GATE_FAILED, GATE_NOT_PASSED},
    progress::{Display, Step},
};

const REPORTS: &[ReportFormat] = &[
    ReportFormat::Json,
    ReportFormat::Html,
    ReportFormat::Markdown,
    ReportFormat::Junit,
];

/// Name of the complete report.
pub(super) const JSON: &str = "report.json";

/// Maximum number of successive attempts to watch a run without receiving an event, and the pause
/// before each: two minutes, enough time to replace a server.
const WATCHES: u32 = 60;
const WATCH_AGAIN: Duration = Duration::from_secs(2);

pub(super) type Client = RunServiceClient<Channel>;

pub(super) async fn run(session: &Session, args: CheckArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(session.global.quiet);
    #[cfg(not(feature = "evidence"))]
    if args.attest.is_some() {
        return Err(Failure::usage(features::missing("--attest", "evidence")));
    }
    // An unusable key is reported before the check, not after it.
    #[cfg(feature = "evidence")]
    let key = args
        .attest
        .as_deref()
        .map(|file| attest::key(file, "--attest"))
        .transpose()?;
    if !args.plan {
        writable_folder(&args.out)?;
    }
    let connection = session.connect().await?;
    let shared = spec(&args.run)?;
    prefetch(&connection, &args, &display).await?;
    let mut client = client(&connection.channel);

    #[cfg(feature = "evidence")]
    let read_files = async || match &key {
        Some(_) if !connection.is_remote() => attest::local_files(session, &judged(&connection, &args)).await,
        _ => Ok(attest::EncoderFiles::new()),
    };
    #[cfg(feature = "evidence")]
    let before = read_files().await?;
    let encoders: Vec<&str> = args.models.iter().chain(&args.baseline).map(String::as_str).collect();
    let prompts = args.prompts.all(&encoders, |id| local_folder(&connection, id))?;
    let spec = RunSpec {
        encoder_ids: args.models.iter().map(|m| local_folder(&connection, m)).collect(),
        baseline_encoder_id: args.baseline.as_ref().map_or_else(String::new, |baseline| {
            match variant_of(&models(&args), baseline) {
                Some((model, rest)) => local_folder(&connection, model) + rest,
                None => local_folder(&connection, baseline),
            }
        }),
        prompts,
        ..shared
    };
    if args.plan {
        plan::show(&mut client, spec, args.power, session.global.format).await?;
        return Ok(ExitCode::from(DONE));
    }
    let created = client
        .create_run(CreateRunRequest {
            spec: Some(spec),
            request_id: String::new(),
        })
        .await?
        .into_inner();
    let id = created
        .run
        .ok_or_else(|| Failure::dependency("the server answered without a run"))?
        .id;
    let run = tokio::select! {
        ended = watch(client.clone(), &id, &display, connection.is_remote()) => ended?,
        () = shutdown::signal() => {
            let reason = "interrupted at the command line".to_owned();
            client.cancel_run(CancelRunRequest { id: id.clone(), reason }).await?;
            connection.flush().await;
            return Err(Failure::interrupted("interrupted; what was generated is kept, so running the same command again resumes it"));
        }
    };
    connection.flush().await;
    display.end();
    if run.state() != RunState::Succeeded {
        let (code, reason) = match run.state() {
            RunState::Cancelled => (Code::Cancelled, "RUN_CANCELLED"),
            _ => (Code::from_i32(run.error_code), "RUN_FAILED"),
        };
        return Err(failed(code, reason, &why(run)).into());
    }
    let json = save_reports(&mut client, &id, &args.out, args.items).await?;
    print(session.global.format, &json)?;
    #[cfg(feature = "evidence")]
    if let Some(key) = &key {
        let of_flag = |error: Failure| error.of_flag("--attest");
        let after = read_files().await.map_err(of_flag)?;
        attest::unchanged(&before, &after).map_err(of_flag)?;
        for file in attest::beside(&json, key, &after, &args.out).map_err(of_flag)? {
            display.message(&format!("attestation: {}", file.display()));
        }
    }
    let (code, why) = exit_code(&run);
    if let Some(why) = why {
        display.message(why);
    }
    let page = args.out.join("report.html");
    let shown = format!("report: {}", page.canonicalize().unwrap_or(page).display());
    match session.global.format {
        Format::Text => writeln!(std::io::stdout(), "{shown}").map_err(|e| stdout_failure(&e))?,
        Format::Json => display.message(&shown),
    }
    Ok(ExitCode::from(code))
}

/// Ids of the judged encoders, as in the report.
#[cfg(feature = "evidence")]
fn judged(connection: &Connection, args: &CheckArgs) -> Vec<String> {
    let models = models(args);
    models.iter().map(|model| local_folder(connection, model)).collect()
}

/// A client of the run service.
pub(super) fn client(channel: &Channel) -> Client {
    RunServiceClient::new(channel.clone())
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// The run that the flags describe, without encoders.
pub(super) fn spec(args: &RunArgs) -> Result<RunSpec, Failure> {
    Ok(RunSpec {
        suite: Some(suite(&args.suite)?),
        generator_id: args.generator.clone().unwrap_or_default(),
        seeds: args.seeds.clone(),
        temperature: args.temperature,
        on_fingerprint_change: args.on_fingerprint_change.unwrap_or_default().into(),
        limit: args.limit,
        total_items: args.total_items,
        sample_seed: args.sample_seed,
        transformations: args.transformations.clone(),
        forms: args.forms.clone(),
        prompt_variants: args.prompt_variants.clone(),
        gate: args.gate.gate(),
        judge: judge(&args.judge),
        separation: separation(&args.separation),
        limits: limits(&args.limits),
        ..RunSpec::default()
    })
}

/// The exit code for a run's gate, and a note for the user.
fn exit_code(run: &Run) -> (u8, Option<&'static str>) {
    match (run.verdict(), run.blocked) {
        (Verdict::Undecided, false) => (
            DONE,
            Some("warning: the gate is undecided, which blocks nothing here (undecided = \"warn\")"),
        ),
        (_, false) => (DONE, None),
        (Verdict::Undecided, true) if run.undecided() != GateUndecided::Fail => (
            GATE_NOT_PASSED,
            Some("the gate is undecided: exit code 4 (--undecided warn makes it 0, --undecided fail makes it 1)"),
        ),
        (Verdict::Invalid, true) => (
            GATE_NOT_PASSED,
            Some("the gate is invalid, so nothing can be said for or against the encoders: exit code 4"),
        ),
        // This also covers gates that block for a reason unknown to this version.
        (_, true) => (GATE_FAILED, Some("the gate failed: exit code 1")),
    }
}

/// The reason why a run has no report, from the run itself.
fn why(run: Run) -> String {
    match run.error.is_empty() {
        true => {
            "the run was cancelled; what was generated is kept, so running the same command again resumes it".to_owned()
        }
        false => run.error,
    }
}

/// The fault of a run that ended without a report. Its message begins with the field to blame, if
/// there is one.
fn failed(code: Code, reason: &str, message: &str) -> Fault {
    let field = message.split([' ', ':']).next().unwrap_or_default();
    if !field.starts_with("spec.") {
        return Fault::new(code, reason, message);
    }
    let rest = message[field.len()..].trim_start_matches(':').trim_start();
    Fault::new(code, reason, rest).field(field)
}

/// The judge named by the flags, or their changes to the suite's judge.
fn judge(args: &CheckJudgeArgs) -> Option<Judge> {
    let named = args.judge.is_some()
        || args.judge_sample.is_some()
        || !args.judge_scales.is_empty()
        || args.judge_accept.is_some();
    named.then(|| Judge {
        generator_id: args.judge.clone().unwrap_or_default(),
        sample: args.judge_sample,
        accept: args.judge_accept,
        scales: args.judge_scales.iter().map(|scale| (*scale).into()).collect(),
    })
}

/// The separation settings of the flags.
fn separation(args: &CheckSeparationArgs) -> Option<Separation> {
    let named = args.no_separation || args.separation_texts.is_some() || !args.separation_kinds.is_empty();
    named.then(|| Separation {
        off: args.no_separation.then_some(true),
        kinds: args.separation_kinds.iter().map(|kind| kind.name()).collect(),
        texts: args.separation_texts,
    })
}

/// The limits of the flags.
fn limits(args: &CheckLimitArgs) -> Option<RunLimits> {
    (args.max_calls.is_some() || args.max_cost.is_some()).then_some(RunLimits {
        generator_calls: args.max_calls,
        cost: args.max_cost,
    })
}

/// Reads a suite file, to be sent. A name that is not a file is sent to the server as a built-in
/// name.
fn suite(name: &str) -> Result<SuiteRef, Failure> {
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|e| e == "toml") || path.components().count() > 1;
    if !is_file {
        return Ok(SuiteRef {
            source: Some(suite_ref::Source::Builtin(name.to_owned())),
            ..SuiteRef::default()
        });
    }
    let toml = std::fs::read_to_string(path)
        .map_err(|e| Failure::unreadable(format!("--suite: cannot read {name}: {e}"), &e))?;
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let base_dir = folder
        .canonicalize()
        .map_err(|e| Failure::dependency(format!("--suite: {name}: {e}")))?;
    Ok(SuiteRef {
        source: Some(suite_ref::Source::Toml(toml)),
        base_dir: base_dir.display().to_string(),
        file_name: name.to_owned(),
    })
}

/// The models that the flags name, else the default.
fn models(args: &CheckArgs) -> Cow<'_, [String]> {
    match args.models.as_slice() {
        [] => vec![isomer_models::DEFAULT_ENCODER.to_owned()].into(),
        named => named.into(),
    }
}

/// A baseline that is a variant of one of the models: the model, and the rest of the name.
fn variant_of<'a>(models: &[String], baseline: &'a str) -> Option<(&'a str, &'a str)> {
    let is_variant = |model: &&String| {
        let rest = baseline.strip_prefix(model.as_str());
        rest.is_some_and(|rest| rest.starts_with('+'))
    };
    models
        .iter()
        .find(is_variant)
        .map(|model| baseline.split_at(model.len()))
}

/// Replaces a folder of this machine by its absolute path, so that the report says where it is. A
/// name, or an id of the catalogue, stays even if there is a folder called so.
fn local_folder(connection: &Connection, model: &str) -> String {
    let has_id = |resolver: &Resolver| resolver.is_name(model) || resolver.entry(model).is_some();
    match (&connection.resolver, Path::new(model).canonicalize()) {
        (Some(resolver), Ok(path)) if path.is_dir() && !has_id(resolver) => path.display().to_string(),
        _ => model.to_owned(),
    }
}

async fn prefetch(connection: &Connection, args: &CheckArgs, display: &Display) -> Result<(), Failure> {
    let models = models(args);
    let baseline = args.baseline.iter().filter(|own| variant_of(&models, own).is_none());
    for model in models.iter().chain(baseline) {
        connection.prefetch(model, ModelKind::Encoder, display).await?;
    }
    prefetch_generators(connection, &args.run, display).await
}

/// Fetches the language models that the flags name.
pub(super) async fn prefetch_generators(
    connection: &Connection,
    args: &RunArgs,
    display: &Display,
) -> Result<(), Failure> {
    if let Some(judge) = args.judge.judge.as_deref().filter(|judge| !judge.is_empty()) {
        let fetched = prefetch_generator(connection, judge, display).await;
        fetched.map_err(|failure| failure.of_flag("--judge"))?;
    }
    let generator = match args.generator.as_deref() {
        Some(generator) if !generator.is_empty() => Some(generator.to_owned()),
        _ => generator_of_suite(args),
    };
    match generator {
        Some(generator) => prefetch_generator(connection, &generator, display).await,
        None => Ok(()),
    }
}

/// The generator of a suite whose transformations need one; empty: the default. A suite that cannot
/// be read is refused by the service.
fn generator_of_suite(args: &RunArgs) -> Option<String> {
    let suite = match suite(&args.suite).ok()?.source? {
        suite_ref::Source::Builtin(name) => Suite::builtin(&name),
        suite_ref::Source::Toml(text) => Suite::parse(&text, &args.suite, Path::new(&args.suite).parent()),
    };
    let suite = suite.ok()?;
    let needs_generator = suite
        .transformations
        .iter()
        .any(|one| one.declaration().needs_generator());
    (needs_generator && args.transformations.is_empty()).then(|| suite.generator.unwrap_or_default())
}

/// Shows a run until it ends. The run continues when a server on the way is restarted; `again`
/// decides whether it is then watched again.
pub(super) async fn watch(mut client: Client, id: &str, display: &Display, again: bool) -> Result<Run, Status> {
    let mut after = 0;
    let mut failed = 0;
    loop {
        let before = after;
        let broken = match watch_once(&mut client, id, &mut after, display).await {
            Ok(Some(run)) => return Ok(run),
            Ok(None) => Status::unavailable("the server closed the stream before the run ended"),
            Err(status) => status,
        };
        failed = if after > before { 0 } else { failed + 1 };
        // A proxy may report a broken connection as `Unknown` or `Internal`.
        let passes = matches!(
            broken.code(),
            Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled
        );
        if !again || !passes || failed >= WATCHES {
            return Err(broken);
        }
        sleep(WATCH_AGAIN).await;
    }
}

/// Shows the events after a sequence number; none if the stream ends before the run.
async fn watch_once(client: &mut Client, id: &str, after: &mut u64, display: &Display) -> Result<Option<Run>, Status> {
    let request = WatchRunRequest {
        id: id.to_owned(),
        after_sequence: *after,
    };
    let mut events = client.watch_run(request).await?.into_inner();
    while let Some(message) = events.message().await? {
        *after = message.sequence.max(*after);
        match message.event {
            Some(Event::Progress(progress)) => show(display, &progress),
            Some(Event::Message(text)) => display.message(&text),
            Some(Event::Ended(run)) => return Ok(Some(run)),
            None => {}
        }
    }
    Ok(None)
}

fn show(display: &Display, progress: &StageProgress) {
    let stage = progress.stage();
    if stage == Stage::Unspecified {
        return;
    }
    let step = Step {
        done: progress.done,
        total: Some(progress.total),
        cached: progress.cached,
        remaining: progress.remaining.and_then(|d| Duration::try_from(d).ok()),
        detail: &progress.detail,
        bytes: false,
    };
    display.step(stage.name(), &step);
}

/// All formats of a run's report, and its items if requested: file name and content.
pub(super) async fn reports(client: &mut Client, id: &str, items: bool) -> Result<Vec<(String, Vec<u8>)>, Status> {
    let mut files = Vec::new();
    let items = items.then_some(&ReportFormat::Items);
    for format in REPORTS.iter().chain(items) {
        let report = client
            .get_report(GetReportRequest {
                id: id.to_owned(),
                format: (*format).into(),
            })
            .await?
            .into_inner();
        // The name comes from the server; only its last part is used, so that the file stays inside
        // the target folder.
        let name = Path::new(&report.file_name).file_name();
        let name = name.map_or("report".into(), |name| name.to_string_lossy().into_owned());
        files.push((name, report.content));
    }
    Ok(files)
}

/// Writes all formats of the report into `out`, and its items if requested, and returns the JSON
/// one.
async fn save_reports(client: &mut Client, id: &str, out: &Path, items: bool) -> Result<Vec<u8>, Failure> {
    let io_failure =
        |path: &PathBuf, e: std::io::Error| Failure::dependency(format!("--out: cannot write {}: {e}", path.display()));
    std::fs::create_dir_all(out).map_err(|e| io_failure(&out.to_owned(), e))?;
    let mut json = Vec::new();
    for (name, content) in reports(client, id, items).await? {
        let path = out.join(&name);
        std::fs::write(&path, &content).map_err(|e| io_failure(&path, e))?;
        if name == JSON {
            json = content;
        }
    }
    Ok(json)
}

fn print(format: Format, json: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match format {
        Format::Json => stdout.write_all(json).map_err(|e| stdout_failure(&e)),
        Format::Text => {
            let report: Report = serde_json::from_slice(json).map_err(|e| {
                Failure::dependency(format!(
                    "the server's report cannot be read ({e}); it may be of another version"
                ))
            })?;
            writeln!(stdout, "{}", terminal::render(&report)).map_err(|e| stdout_failure(&e))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_may_be_a_variant_of_a_model() {
        let models = ["./enc".to_owned(), "./enc+2".to_owned()];
        assert_eq!(variant_of(&models, "./enc+int8"), Some(("./enc", "+int8")));
        assert_eq!(variant_of(&models, "./encoder"), None);
        assert_eq!(variant_of(&models, "./enc"), None);
        let default = format!("{}+prompt:none", isomer_models::DEFAULT_ENCODER);
        assert_eq!(
            variant_of(&[isomer_models::DEFAULT_ENCODER.to_owned()], &default),
            Some((isomer_models::DEFAULT_ENCODER, "+prompt:none"))
        );
    }

    #[test]
    fn a_run_that_failed_has_the_field_of_its_message() {
        let of = |message: &str| {
            let fault = failed(Code::FailedPrecondition, "RUN_FAILED", message);
            (fault.field, fault.message)
        };
        let field = Some("spec.limits.cost".to_owned());
        assert_eq!(of("spec.limits.cost: too much"), (field.clone(), "too much".to_owned()));
        assert_eq!(of("spec.limits.cost is 0"), (field, "is 0".to_owned()));
        assert_eq!(of("a word: too much"), (None, "a word: too much".to_owned()));
    }

    #[test]
    fn only_what_passed_or_was_asked_to_warn_ends_with_0() {
        let ended = |verdict: Verdict, blocked, undecided: GateUndecided| {
            exit_code(&Run {
                verdict: verdict.into(),
                blocked,
                undecided: undecided.into(),
                ..Run::default()
            })
            .0
        };
        assert_eq!(ended(Verdict::Unspecified, false, GateUndecided::Unspecified), 0);
        assert_eq!(ended(Verdict::Pass, false, GateUndecided::Block), 0);
        assert_eq!(ended(Verdict::Fail, true, GateUndecided::Block), 1);
        assert_eq!(ended(Verdict::Undecided, true, GateUndecided::Block), 4);
        assert_eq!(ended(Verdict::Undecided, true, GateUndecided::Fail), 1);
        assert_eq!(ended(Verdict::Undecided, false, GateUndecided::Warn), 0);
        assert_eq!(ended(Verdict::Invalid, true, GateUndecided::Block), 4);
        assert_eq!(ended(Verdict::Invalid, true, GateUndecided::Warn), 4);
        // For an unknown verdict of a later version, the server states whether it blocks.
        let later = Run {
            verdict: 99,
            blocked: true,
            ..Run::default()
        };
        assert_eq!(exit_code(&later).0, 1);
    }
}
