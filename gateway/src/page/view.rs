//! The values that the page's template shows.

use std::collections::BTreeMap;

use isomer_proto::{
    encoder::v1::Encoder,
    eval::v1::{GetFleetResponse, Run, RunState, Verdict},
    transform::v1::TransformationInfo,
};
use isomer_service_kit::Fault;
use minijinja::{Environment, UndefinedBehavior, context, value::Serde};
use serde::Serialize;

use super::{Pages, fleet, trial::Trial};
use crate::proxy::Servers;

#[derive(Serialize)]
struct EncoderRow {
    id: String,
    /// The id, escaped for a query string.
    in_query: String,
    dimensions: Option<u32>,
    max_tokens: Option<u32>,
    architecture: String,
    loaded: bool,
    not_installed: bool,
    providers: Vec<String>,
    refusal: Option<String>,
}

#[derive(Serialize)]
struct ProviderRow {
    id: String,
    state: &'static str,
    why: Option<String>,
    latency: Option<String>,
    outstanding: usize,
    answered: u64,
    failed: u64,
    encoders: usize,
}

#[derive(Serialize)]
struct ServerRow {
    service: &'static str,
    name: String,
    state: &'static str,
    why: Option<String>,
    outstanding: usize,
    answered: u64,
    failed: u64,
}

#[derive(Serialize)]
struct RunRow {
    id: String,
    state: &'static str,
    done: bool,
    created: String,
    encoders: String,
    verdict: &'static str,
    error: String,
    /// The reason why the next unit of each lane waits.
    waits: Vec<String>,
}

#[derive(Serialize)]
struct Choice {
    name: String,
    chosen: bool,
    hint: &'static str,
}

#[derive(Serialize)]
struct TrialView {
    first: String,
    second: String,
    encoders: Vec<Choice>,
    transformations: Vec<Choice>,
    variants: Vec<(String, String)>,
    columns: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
    problems: Vec<String>,
}

pub(super) fn page(
    pages: &Pages,
    encoders: &[Encoder],
    served: &[TransformationInfo],
    (runs, fleet): (&Result<Vec<Run>, Fault>, &Result<GetFleetResponse, Fault>),
    trial: &Trial,
) -> Result<String, minijinja::Error> {
    let provider_health = pages.router.provider_health();
    let refusals: BTreeMap<String, String> = pages.router.refusals().into_iter().collect();
    let known = |number: u32| Some(number).filter(|number| *number > 0);
    let encoder_rows: Vec<EncoderRow> = encoders
        .iter()
        .map(|encoder| EncoderRow {
            id: encoder.id.clone(),
            in_query: url::form_urlencoded::byte_serialize(encoder.id.as_bytes()).collect(),
            dimensions: known(encoder.dimensions),
            max_tokens: known(encoder.max_tokens),
            architecture: encoder.architecture.clone(),
            loaded: encoder.loaded,
            not_installed: encoder.not_installed,
            providers: provider_health
                .iter()
                .filter(|(_, _, ids)| ids.contains(&encoder.id))
                .map(|(provider, ..)| provider.clone())
                .collect(),
            refusal: refusals.get(&encoder.id).cloned(),
        })
        .collect();
    let provider_rows: Vec<ProviderRow> = provider_health
        .into_iter()
        .map(|(id, health, ids)| ProviderRow {
            id,
            state: health.state,
            why: health.why,
            latency: health
                .latency
                .map(|latency| format!("{:.1} ms", latency.as_secs_f64() * 1e3)),
            outstanding: health.outstanding,
            answered: health.answered,
            failed: health.failed,
            encoders: ids.len(),
        })
        .collect();
    let upstream_servers = [
        ("transform", &pages.upstream_servers.transform),
        ("eval", &pages.upstream_servers.eval),
    ];
    let servers = upstream_servers.into_iter().flat_map(|(service, servers)| {
        let each = servers.iter().flat_map(Servers::server_health);
        each.map(move |(name, health)| ServerRow {
            service,
            name,
            state: health.state,
            why: health.why,
            outstanding: health.outstanding,
            answered: health.answered,
            failed: health.failed,
        })
    });
    let server_rows: Vec<ServerRow> = servers.collect();
    let (fleet, fleet_problem) = match fleet {
        Ok(fleet) => (fleet.clone(), None),
        Err(fault) => (GetFleetResponse::default(), Some(fault.to_string())),
    };
    let (run_rows, runs_problem): (Vec<RunRow>, _) = match runs {
        Ok(runs) => (runs.iter().map(|run| run_row(run, &fleet)).collect(), None),
        Err(fault) => (Vec::new(), Some(fault.to_string())),
    };
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_template("page.html", include_str!("page.html"))?;
    environment.get_template("page.html")?.render(context! {
        style => include_str!("page.css"),
        version => env!("CARGO_PKG_VERSION"),
        encoders => Serde(encoder_rows),
        providers => Serde(provider_rows),
        servers => Serde(server_rows),
        fleet => Serde(fleet::view(&fleet)),
        fleet_problem => fleet_problem,
        has_runs => pages.upstream_servers.runs().is_some(),
        runs => Serde(run_rows),
        runs_problem => runs_problem,
        trial => Serde(trial_view(trial, encoders, served)),
    })
}

fn run_row(run: &Run, fleet: &GetFleetResponse) -> RunRow {
    let created = run
        .create_time
        .as_ref()
        .and_then(|time| jiff::Timestamp::new(time.seconds, time.nanos).ok());
    RunRow {
        id: run.id.clone(),
        state: match run.state() {
            RunState::Unspecified => "unknown",
            RunState::Pending => "waiting",
            RunState::Running => "running",
            RunState::Succeeded => "done",
            RunState::Failed => "failed",
            RunState::Cancelled => "cancelled",
        },
        done: run.state() == RunState::Succeeded,
        created: created
            .map(|time| time.strftime("%Y-%m-%d %H:%M UTC").to_string())
            .unwrap_or_default(),
        encoders: run
            .spec
            .as_ref()
            .map(|spec| spec.encoder_ids.join(", "))
            .unwrap_or_default(),
        verdict: match run.verdict() {
            Verdict::Unspecified => "",
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::Undecided => "undecided",
            Verdict::Invalid => "invalid",
        },
        error: run.error.clone(),
        waits: fleet::waits(fleet, &run.id),
    }
}

fn trial_view(trial: &Trial, encoders: &[Encoder], served: &[TransformationInfo]) -> TrialView {
    let fresh = !trial.asked();
    let installed: Vec<&Encoder> = encoders.iter().filter(|encoder| !encoder.not_installed).collect();
    let loaded = installed.iter().find(|encoder| encoder.loaded);
    let first_loaded = loaded.or(installed.first());
    let encoder_choices = installed.iter().map(|encoder| Choice {
        name: encoder.id.clone(),
        chosen: trial.encoders.contains(&encoder.id)
            || fresh && first_loaded.is_some_and(|first| first.id == encoder.id),
        hint: "",
    });
    // Transformations that make one text from one text in its own language. Those without a
    // generator come first, because they are fast.
    let mut shown: Vec<_> = served.iter().filter(|info| !info.gives_several).collect();
    shown.sort_by_key(|info| info.needs_generator);
    let transformations = shown.into_iter().map(|info| Choice {
        name: info.name.clone(),
        chosen: trial.transformations.contains(&info.name) || fresh && info.name == "stopword_removal",
        hint: if info.needs_generator { "uses a generator" } else { "" },
    });
    let mut columns = Vec::new();
    columns.extend((!trial.second.is_empty()).then(|| "second text".to_owned()));
    columns.extend(trial.variants.iter().map(|(name, _)| name.clone()));
    let shown = |cosine: &f64| {
        if cosine.is_nan() {
            "none (a zero vector)".to_owned()
        } else {
            format!("{cosine:.4}")
        }
    };
    TrialView {
        first: if fresh {
            "The committee postponed its decision until March.".to_owned()
        } else {
            trial.first.clone()
        },
        second: if fresh {
            "The decision was put off by the committee to March.".to_owned()
        } else {
            trial.second.clone()
        },
        encoders: encoder_choices.collect(),
        transformations: transformations.collect(),
        variants: trial.variants.clone(),
        columns,
        rows: trial
            .rows
            .iter()
            .map(|(id, row)| (id.clone(), row.iter().map(shown).collect()))
            .collect(),
        problems: trial.problems.clone(),
    }
}
