//! `isomer fleet`: workers, lanes, and the pending work of runs.

use std::{io::Write, process::ExitCode};

use isomer_fleet::Queue;
use isomer_proto::{
    ProtoEnum,
    eval::v1::{
        FleetLane, FleetWait, FleetWorker, GetFleetRequest, GetFleetResponse, run_service_client::RunServiceClient,
    },
};
use isomer_registry::document;
use isomer_service_kit::{Fault, config::Validate};
use serde_json::{Value, json};

use super::stdout_failure;
use crate::{
    args::{Format, fleet::FleetViewArgs},
    connect::{MAX_MESSAGE_BYTES, Session},
    exit::Failure,
    table::{Table, TextTable},
};

pub(super) async fn run(session: &Session, args: FleetViewArgs) -> Result<ExitCode, Failure> {
    let fleet = match (&session.global.server, args.engine) {
        (Some(_), Some(_)) => {
            return Err(Failure::usage(
                "--engine: a gateway (--server) knows its own queue; give one of the two",
            ));
        }
        (Some(_), None) => ask_server(session).await?,
        (None, engine) => ask_queue(session, engine).await?,
    };
    let text = match session.global.format {
        Format::Json => as_json(&fleet).to_string(),
        Format::Text => as_text(&fleet),
    };
    writeln!(std::io::stdout(), "{text}").map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}

async fn ask_server(session: &Session) -> Result<GetFleetResponse, Failure> {
    let channel = session.connect().await?.channel;
    let mut client = RunServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
    Ok(client.get_fleet(GetFleetRequest {}).await?.into_inner())
}

async fn ask_queue(session: &Session, engine: Option<String>) -> Result<GetFleetResponse, Failure> {
    let mut config = session.config.fleet.clone();
    if let Some(engine) = engine {
        config.engine = engine;
    }
    if !config.is_set() {
        return Err(Failure::usage(
            "no fleet is named: give --server (a running gateway) or --engine (the queue, nats://HOST:PORT)",
        ));
    }
    let validated = config.validate().map_err(|error| error.within("fleet"));
    validated.map_err(|error| Failure::usage(error.to_string()))?;
    let queue = Box::pin(Queue::connect(&config)).await.map_err(Fault::from)?;
    let overview = queue.overview().await.map_err(Fault::from)?;
    Ok(isomer_eval::fleet_response(overview))
}

fn reason(wait: &FleetWait) -> &'static str {
    wait.reason().dashed()
}

fn as_json(fleet: &GetFleetResponse) -> Value {
    let time = |at: &Option<prost_types::Timestamp>| at.as_ref().and_then(document::time);
    let worker = |worker: &FleetWorker| {
        let work = worker
            .work
            .iter()
            .map(|work| json!({ "kind": work.kind, "of": work.of, "units": work.units, "since": time(&work.since) }));
        json!({
            "id": worker.id, "host": worker.host, "version": worker.version, "arithmetic": worker.arithmetic,
            "since": time(&worker.start_time), "max_units": worker.max_units, "work": work.collect::<Vec<_>>(),
        })
    };
    let lane = |lane: &FleetLane| {
        json!({
            "kind": lane.kind, "of": lane.of, "arithmetic": lane.arithmetic, "workers": lane.workers, "queued": lane.queued,
            "in_work": lane.in_work, "redelivered": lane.redelivered, "finished_per_second": lane.finished_per_second,
            "paused_until": time(&lane.paused_until), "paused_reason": lane.paused_reason, "calls": lane.calls,
            "max_calls": lane.max_calls, "budget_reached": lane.budget_reached,
        })
    };
    let wait = |wait: &FleetWait| {
        json!({
            "run": wait.run_id, "kind": wait.kind, "of": wait.of, "arithmetic": wait.arithmetic, "units": wait.units,
            "reason": reason(wait), "detail": wait.detail,
        })
    };
    json!({
        "has_workers": fleet.has_workers,
        "time": time(&fleet.time),
        "workers": fleet.workers.iter().map(worker).collect::<Vec<_>>(),
        "lanes": fleet.lanes.iter().map(lane).collect::<Vec<_>>(),
        "waits": fleet.waits.iter().map(wait).collect::<Vec<_>>(),
    })
}

fn as_text(fleet: &GetFleetResponse) -> String {
    if !fleet.has_workers {
        return "this server does the work of runs itself: it has no fleet (fleet.engine)".to_owned();
    }
    let time = |at: &Option<prost_types::Timestamp>| at.as_ref().and_then(document::time).unwrap_or_default();
    let mut parts = Vec::new();
    let takes = |worker: &FleetWorker| {
        let takes = worker.max_units.iter();
        let mut takes: Vec<String> = takes.map(|(kind, most)| format!("{kind} {most}")).collect();
        takes.sort_unstable();
        takes.join(", ")
    };
    let work = |worker: &FleetWorker| {
        let work = worker.work.iter().map(|work| {
            format!(
                "{} with {}: {} since {}",
                work.kind,
                work.of,
                work.units,
                time(&work.since)
            )
        });
        work.collect::<Vec<_>>().join("\n")
    };
    let workers: Table = TextTable::of(&fleet.workers)
        .words("worker", |worker| match worker.host.as_str() {
            "" => worker.id.clone(),
            host => host.to_owned(),
        })
        .words("version", |worker| worker.version.clone())
        .words("arithmetic", |worker| worker.arithmetic.clone())
        .words("units at once", takes)
        .words("since", |worker| time(&worker.start_time))
        .words("does now", work)
        .into();
    parts.push(match fleet.workers.is_empty() {
        true => "no workers: isomer worker --engine nats://HOST:4222 --store URL starts one".to_owned(),
        false => workers.to_string(),
    });
    if !fleet.lanes.is_empty() {
        let lanes: Table = TextTable::of(&fleet.lanes)
            .words("lane", |lane| format!("{} with {}", lane.kind, lane.of))
            .words("arithmetic", |lane| lane.arithmetic.clone())
            .words("workers", |lane| lane.workers.to_string())
            .words("queued", |lane| lane.queued.to_string())
            .words("in work", |lane| lane.in_work.to_string())
            .words("done/s", |lane| format!("{:.2}", lane.finished_per_second))
            .words("calls", |lane| match lane.max_calls {
                0 => String::new(),
                most => format!("{} of {most}", lane.calls),
            })
            .words("state", |lane| state(lane, &time(&lane.paused_until)))
            .into();
        parts.push(lanes.to_string());
    }
    for wait in &fleet.waits {
        parts.push(format!(
            "run {}: {} units of {} with {}: {}",
            wait.run_id, wait.units, wait.kind, wait.of, wait.detail
        ));
    }
    parts.join("\n")
}

fn state(lane: &FleetLane, until: &str) -> String {
    if lane.paused_until.is_some() {
        return format!("paused until {until} {}", lane.paused_reason)
            .trim_end()
            .to_owned();
    }
    if !lane.budget_reached.is_empty() {
        return format!("budget spent: {}", lane.budget_reached);
    }
    match lane.workers {
        0 => "no worker".to_owned(),
        _ => "open".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use isomer_proto::eval::v1::FleetWaitReason;

    use super::*;

    #[test]
    fn a_fleet_is_told_in_words_and_as_json() {
        let fleet = GetFleetResponse {
            has_workers: true,
            lanes: vec![FleetLane {
                kind: "encode".to_owned(),
                of: "mini".to_owned(),
                queued: 7,
                ..FleetLane::default()
            }],
            waits: vec![FleetWait {
                run_id: "018f".to_owned(),
                kind: "encode".to_owned(),
                of: "mini".to_owned(),
                units: 7,
                reason: FleetWaitReason::NoWorker.into(),
                detail: "no worker takes `encode`".to_owned(),
                ..FleetWait::default()
            }],
            ..GetFleetResponse::default()
        };
        let text = as_text(&fleet);
        for part in [
            "no workers: isomer worker",
            "no worker",
            "run 018f: 7 units of encode with mini",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let json = as_json(&fleet);
        assert_eq!(
            (&json["waits"][0]["reason"], &json["lanes"][0]["queued"]),
            (&json!("no-worker"), &json!(7))
        );
        assert!(as_text(&GetFleetResponse::default()).contains("no fleet"));
    }
}
