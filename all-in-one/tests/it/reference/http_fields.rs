//! `docs/reference/http-fields.md`.

use std::collections::BTreeSet;

use isomer_gateway::{Handling, RequestFields, http_fields, http_paths};

use super::{cell, compare, head};

const INTRODUCTION: &str = "
The fields of each request in the shape of another server ([HTTP and limits](http.md)). Each field has one of these forms:

* *read*: the field is obeyed.
* *ignored*: any value is accepted, and changes nothing.
* *harmless*: values that change nothing are accepted. Any other value is refused; the note is the message.
* *length*: a number of tokens. It is accepted if it is at least the encoder's maximum, because texts are cut at that length only.
* *refused*: any value is refused; the note is the message.

An explicit `null` means that a field is left out. Fields that a table does not list are ignored if the server whose API this is ignores them too. Otherwise they
are refused, because a misspelt field would change vectors silently.
";

fn table(request: &RequestFields) -> String {
    let rows = request.fields.iter().map(|field| {
        let note = cell(&field.note.join(" "));
        format!("| `{}` | {} | {note} |\n", field.name, field.handling.name())
    });
    let paths: Vec<String> = request
        .paths
        .iter()
        .map(|path| format!("`{}`", path.trim_matches('`')))
        .collect();
    let others = match request.others {
        Handling::Ignored => "ignored",
        _ => "refused",
    };
    format!(
        "\n### {}\n\n| field | form | note |\n|---|---|---|\n{}\nOther fields are {others}.\n",
        paths.join(", "),
        rows.collect::<String>()
    )
}

#[test]
fn the_page_of_fields_is_up_to_date() {
    let mut page = head("Fields of HTTP requests") + INTRODUCTION;
    let mut api = "";
    for request in http_fields() {
        if request.api != api {
            api = request.api;
            page += &format!("\n## {api}\n");
        }
        page += &table(&request);
    }
    compare("http-fields.md", &page);
}

/// Routes without a body of fields: pages, and requests by GET.
const WITHOUT_FIELDS: &[&str] = &[
    "/",
    "/api/tags",
    "/api/version",
    "/health",
    "/history/{file}",
    "/info",
    "/ping",
    "/runs/{id}/{file}",
    "/v1/models",
    "/v1/models/{*id}",
];

#[test]
fn every_route_with_a_body_has_its_fields() {
    let documented: Vec<&str> = http_fields()
        .iter()
        .flat_map(|request| request.paths)
        .copied()
        .collect();
    let lacking: BTreeSet<&str> = http_paths()
        .into_iter()
        // The same handlers as without the name in the address.
        .filter(|path| !path.starts_with("/tei/") && *path != "/openai/deployments/{*path}")
        .filter(|path| !documented.contains(path) && !WITHOUT_FIELDS.contains(path))
        .collect();
    assert!(lacking.is_empty(), "routes without fields: {lacking:?}");
}
