//! The page at `/`: encoders and providers with their health, the workers of a fleet, runs with
//! their reports, and a form to try two texts.
//!
//! The server renders one document without scripts. The form's answer is the same page again.

mod fleet;
mod history;
mod runs;
mod trial;
mod view;

use std::time::Duration;

use axum::{
    Router as Routes,
    extract::{Path, RawQuery, State},
    response::{Html, IntoResponse, Response},
    routing::{MethodRouter, get},
};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use isomer_access::{AccessScope, Caller};
use isomer_proto::transform::v1::TransformationInfo;
use isomer_service_kit::{Fault, plain_refusal};

use crate::{catalogue, front::UpstreamServers, routing::Router};
use trial::Trial;

/// Longest duration of a trial: a local generator may have to be loaded first.
const PATIENCE: Duration = Duration::from_secs(120);

/// Longest wait for the list of transformations.
const LISTING: Duration = Duration::from_secs(2);

/// The services that the page shows and calls.
#[derive(Debug, Clone)]
pub(crate) struct Pages {
    pub(crate) router: Router,
    pub(crate) upstream_servers: UpstreamServers,
    pub(crate) max_message_bytes: usize,
}

/// Routes of `/`, of `/runs/ID/report.html` and of `/history/history.html` with their other forms.
pub(crate) fn routes(pages: Pages) -> Routes {
    let add = |routes: Routes<Pages>, (path, route)| routes.route(path, route);
    table().into_iter().fold(Routes::new(), add).with_state(pages)
}

fn table() -> Vec<(&'static str, MethodRouter<Pages>)> {
    vec![
        ("/", get(home)),
        ("/runs/{id}/{file}", get(report)),
        ("/history/{file}", get(history)),
    ]
}

/// Reads the query of a trial and returns its error, if any.
pub(crate) fn read_trial(query: &str) -> Option<String> {
    Trial::read(query).check().err().map(|fault| fault.to_string())
}

pub(crate) fn paths() -> Vec<&'static str> {
    table().into_iter().map(|(path, _)| path).collect()
}

async fn home(
    State(pages): State<Pages>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    caller: Option<axum::Extension<Caller>>,
) -> Response {
    let mut trial = Trial::read(query.as_deref().unwrap_or_default());
    if trial.asked() {
        let outcome = match may_try(&headers, caller.as_ref().map(|caller| &caller.0), &trial) {
            Err(fault) => Err(fault),
            Ok(()) => {
                let late =
                    |_| Fault::unavailable("TRIAL_TIMEOUT", format!("no answer within {} s", PATIENCE.as_secs()));
                tokio::time::timeout(PATIENCE, trial.run(&pages, caller.as_ref().map(|caller| &caller.0)))
                    .await
                    .map_err(late)
            }
        };
        if let Err(fault) = outcome {
            trial.problems.push(fault.to_string());
        }
    }
    let (encoders, runs, fleet, served) = tokio::join!(
        pages.router.list(),
        runs::list(&pages, caller.as_ref().map(|caller| &caller.0)),
        runs::fleet(&pages, caller.as_ref().map(|caller| &caller.0)),
        served(&pages)
    );
    let served = served.unwrap_or_else(|fault| {
        let why = format!("the transformations of the transform service cannot be listed: {fault}");
        trial.problems.push(why);
        Vec::new()
    });
    match view::page(&pages, &encoders, &served, (&runs, &fleet), &trial) {
        Ok(html) => document(
            Html(html),
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        Err(error) => plain_refusal(Fault::internal(format!("the page cannot be rendered: {error}"))),
    }
}

/// The transformations that can be tried; an empty list without a transform service.
async fn served(pages: &Pages) -> Result<Vec<TransformationInfo>, Fault> {
    let Some(servers) = &pages.upstream_servers.transform else {
        return Ok(Vec::new());
    };
    let late = |_| Fault::unavailable("CATALOGUE_TIMEOUT", format!("no answer within {} s", LISTING.as_secs()));
    tokio::time::timeout(LISTING, catalogue::served(servers))
        .await
        .map_err(late)?
}

/// Whether the caller may run the trial. A trial costs money, so a page of another origin must not
/// be able to start one, e.g. as the address of an image.
fn may_try(headers: &HeaderMap, caller: Option<&Caller>, trial: &Trial) -> Result<(), Fault> {
    // A request without the header does not come from a page, or the auth layer has refused it
    // (`UNKNOWN_PAGE`).
    let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
    if !matches!(site, None | Some("same-origin" | "none")) {
        let fault = Fault::precondition(
            "FOREIGN_PAGE",
            "a link on another page asked for this trial; it was not run",
        );
        return Err(fault.hint("press the button to run it"));
    }
    if let Some(caller) = caller {
        caller.require(AccessScope::Encode)?;
        if trial.transforms() {
            caller.require(AccessScope::Transform)?;
        }
    }
    Ok(())
}

async fn report(
    State(pages): State<Pages>,
    caller: Option<axum::Extension<Caller>>,
    Path((id, file)): Path<(String, String)>,
) -> Response {
    let caller = caller.as_ref().map(|caller| &caller.0);
    rendered(runs::report(&pages, caller, &id, &file).await)
}

async fn history(
    State(pages): State<Pages>,
    caller: Option<axum::Extension<Caller>>,
    Path(file): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let caller = caller.as_ref().map(|caller| &caller.0);
    let query = query.unwrap_or_default();
    rendered(history::file(&pages, caller, &file, &query).await)
}

/// A file that eval-svc has rendered: content and media type.
fn rendered(file: Result<(Vec<u8>, String), Fault>) -> Response {
    match file {
        // The document has no scripts.
        Ok((content, media_type)) => document(
            ([(header::CONTENT_TYPE, media_type)], content),
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'",
        ),
        Err(fault) => plain_refusal(fault),
    }
}

/// A response with headers that keep the document from loading anything, whatever texts it
/// contains.
fn document(content: impl IntoResponse, policy: &'static str) -> Response {
    let mut response = content.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    );
    response
}
