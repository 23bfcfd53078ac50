//! Display of providers and probes on a terminal.

use isomer_proto::{
    ProtoEnum,
    gateway::v1::{CheckProviderResponse, Provider},
};
use isomer_registry::document;
use serde_json::json;

use crate::table::{Table, TextTable};

/// One line per provider.
pub(super) fn table(providers: &[Provider]) -> Table {
    let encoders = |provider: &Provider| {
        let mut encoders: Vec<&str> = provider.encoders.keys().map(String::as_str).collect();
        encoders.sort_unstable();
        if encoders.is_empty() {
            "all it has".to_owned()
        } else {
            few(&encoders)
        }
    };
    let until = |provider: &Provider| provider.expire_time.as_ref().and_then(document::time);
    TextTable::of(providers)
        .words("id", |provider| provider.id.clone())
        .words("kind", |provider| provider.kind().dashed().to_owned())
        .words("address", |provider| provider.address.clone())
        .words("encoders", encoders)
        .words("from", |provider| provider.source().dashed().to_owned())
        .words("state", |provider| match provider.state_detail.as_str() {
            "" => provider.state().dashed().to_owned(),
            detail => format!("{}: {detail}", provider.state().dashed()),
        })
        .words("until", |provider| until(provider).unwrap_or_default())
        .into()
}

/// The findings of a probe.
pub(super) fn check(id: &str, answer: &CheckProviderResponse, json: bool) -> String {
    if json {
        let findings: Vec<_> = answer
            .findings
            .iter()
            .map(|finding| json!({ "name": finding.name, "passed": finding.passed, "detail": finding.detail }))
            .collect();
        let space = answer.vector_space.as_ref().map(|space| {
            json!({
                "digest": space.digest, "model_id": space.model_id, "weights_digest": space.weights_digest,
                "dimensions": space.dimensions, "normalised": space.normalised, "pooling": space.pooling,
                "prompt": space.prompt,
            })
        });
        return json!({
            "id": id, "usable": answer.usable, "verdict": answer.verdict, "findings": findings, "vector_space": space,
        })
        .to_string();
    }
    let widest = answer
        .findings
        .iter()
        .map(|finding| finding.name.len())
        .max()
        .unwrap_or_default();
    let mut lines = vec![format!("{id}: {}", answer.verdict)];
    lines.extend(answer.findings.iter().map(|finding| {
        let mark = if finding.passed { "ok    " } else { "FAILED" };
        format!("  {mark}  {:widest$}  {}", finding.name, finding.detail)
    }));
    if let Some(space) = &answer.vector_space {
        lines.push(format!(
            "  vector space {} ({} dimensions)",
            space.digest, space.dimensions
        ));
    }
    lines.join("\n")
}

/// The first few names of many.
fn few(names: &[&str]) -> String {
    const SHOWN: usize = 4;
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(" ");
    match names.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        Some(more) => format!("{shown} + {more}"),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use isomer_proto::gateway::v1::{ProbeFinding, ProviderState};

    use super::*;

    #[test]
    fn a_provider_is_one_line_with_why_it_gets_nothing() {
        let mut provider = Provider {
            id: "tei".to_owned(),
            kind: 3,
            encoders: (1..=6).map(|n| (format!("e{n}"), "m".to_owned())).collect(),
            state_detail: "timed out".to_owned(),
            ..Provider::default()
        };
        provider.set_state(ProviderState::Unavailable);
        let mut shown = table(&[provider]);
        shown.set_width(120);
        let shown = shown.to_string();
        for words in ["tei-http", "e1 e2 e3 e4 + 2", "unavailable: timed out"] {
            assert!(shown.contains(words), "{shown}");
        }
    }

    #[test]
    fn a_probe_tells_its_verdict_first_and_what_failed() {
        let finding = |name: &str, passed| ProbeFinding {
            name: name.to_owned(),
            passed,
            detail: "cosine 0.2".to_owned(),
        };
        let answer = CheckProviderResponse {
            findings: vec![finding("shape", true), finding("determinism", false)],
            verdict: "its vectors change".to_owned(),
            ..CheckProviderResponse::default()
        };
        let shown = check("a", &answer, false);
        let expected = "a: its vectors change\n  ok      shape        cosine 0.2\n  FAILED  determinism  cosine 0.2";
        assert_eq!(shown, expected);
        let shown: serde_json::Value = serde_json::from_str(&check("a", &answer, true)).unwrap_or_default();
        assert_eq!(
            (&shown["findings"][1]["passed"], &shown["usable"]),
            (&json!(false), &json!(false))
        );
    }
}
