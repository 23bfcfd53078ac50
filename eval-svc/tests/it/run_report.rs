//! The formats of a report, produced by a real run over hostile texts.

use isomer_proto::eval::v1::{ReportFormat, RunState};

use crate::{
    run_stubs::{Harness, report, report_json, run_to_end, spec},
    schema_check,
};

const HOSTILE: &str =
    "</td><script>alert('x')</script> \"quoted\" & {{ 7 * 7 }} | `code` <img src=http://evil.example/x>";

/// A report with datasets and names that try to break out of their context.
async fn hostile() -> (Harness, Vec<(ReportFormat, String)>, serde_json::Value) {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let suite = harness.suite("description = \"<b>bold</b> & co\"\nseeds = [1337, 1338]\ntransformations = [\"paraphrase\", \"expansion\", \"random_keywords\"]");
    let rows: Vec<String> = (0..6)
        .map(|i| serde_json::json!({"sentence1": format!("{HOSTILE} {i}"), "sentence2": format!("مرحبا {i} 你好"), "score": i}).to_string())
        .collect();
    std::fs::write(harness.home.path().join("data/sts.jsonl"), rows.join("\n")).unwrap();
    let run = run_to_end(&mut client, spec(suite, &["stub-<i>a</i>", "stub-b"])).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    let mut forms = Vec::new();
    for format in [
        ReportFormat::Json,
        ReportFormat::Markdown,
        ReportFormat::Html,
        ReportFormat::Junit,
        ReportFormat::Items,
    ] {
        forms.push((
            format,
            String::from_utf8(report(&mut client, &run.id, format).await).unwrap(),
        ));
    }
    let json = report_json(&mut client, &run.id).await;
    if let Ok(folder) = std::env::var("ISOMER_KEEP_REPORTS") {
        for (format, content) in &forms {
            std::fs::write(format!("{folder}/{}", format.as_str_name()), content).unwrap();
        }
    }
    (harness, forms, json)
}

fn form(forms: &[(ReportFormat, String)], wanted: ReportFormat) -> &str {
    &forms.iter().find(|(format, _)| *format == wanted).unwrap().1
}

#[tokio::test]
async fn the_page_escapes_texts_fetches_nothing_and_is_well_formed() {
    let (_house, forms, _) = hostile().await;
    let html = form(&forms, ReportFormat::Html);
    assert!(
        !html.contains("<script") && !html.contains("<img") && !html.contains("<b>bold") && !html.contains("<i>a</i>")
    );
    assert!(
        html.contains("&lt;script&gt;alert(&#x27;x&#x27;)"),
        "the text is there, as text"
    );
    assert!(html.contains("{{ 7 * 7 }}"), "a text is not a template");
    assert!(html.contains("مرحبا") && html.contains("dir=\"auto\""));
    for outside in ["src=", "href=\"http", "url(", "@import", "<link", "<iframe"] {
        let tags: Vec<&str> = html
            .split('<')
            .skip(1)
            .filter_map(|rest| rest.split('>').next())
            .collect();
        assert!(!tags.iter().any(|tag| tag.contains(outside)), "{outside} in a tag");
    }
    for needed in [
        "<title id=\"dumbbell-title\">",
        "<desc id=\"heat-desc\">",
        "prefers-color-scheme: dark",
        "@media print",
        "name=\"viewport\"",
        "tabindex=\"0\"",
        "lang=\"en\"",
    ] {
        assert!(html.contains(needed), "{needed}");
    }
    assert_tags_match(html);
}

/// Every opened tag is closed in order.
fn assert_tags_match(html: &str) {
    const VOID: [&str; 4] = ["meta", "br", "wbr", "!doctype"];
    let body = html.split_once("</style>").unwrap();
    let html = format!(
        "{}</style>{}",
        body.0.split_once("<style>").unwrap().0.to_owned() + "<style>",
        body.1
    );
    let mut open: Vec<String> = Vec::new();
    for tag in html.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
        let name: String = tag
            .trim_start_matches('/')
            .chars()
            .take_while(|c| !c.is_whitespace() && *c != '/')
            .collect();
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name.as_str()), "after {open:?}");
        } else if !tag.ends_with('/') && !VOID.contains(&name.as_str()) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[tokio::test]
async fn markdown_cells_stay_cells_and_markup_stays_text() {
    let (_house, forms, _) = hostile().await;
    let page = form(&forms, ReportFormat::Markdown);
    assert!(page.contains("&lt;script&gt;") && page.contains("\\|") && page.contains("\\`code\\`"));
    assert!(!page.contains("<script"));
    let examples = page
        .split("## Examples")
        .nth(1)
        .unwrap()
        .split("## Manifest")
        .next()
        .unwrap();
    for line in examples.lines().filter(|line| line.starts_with('|')) {
        let borders = line.replace("\\|", "").matches('|').count();
        assert_eq!(borders, 6, "{line}");
    }
}

#[tokio::test]
async fn junit_has_a_case_per_encoder_and_axis() {
    let (_house, forms, _) = hostile().await;
    let xml = form(&forms, ReportFormat::Junit);
    assert_eq!(xml.matches("<testsuite ").count(), 2);
    assert_eq!(xml.matches("<testcase ").count(), 6);
    assert!(xml.contains("tests=\"6\" failures=\"0\" errors=\"0\""), "{xml}");
    assert!(!xml.contains("<i>"));
}

#[tokio::test]
async fn the_json_form_holds_everything_the_others_show() {
    let (_house, _, json) = hostile().await;
    assert_eq!(json["schema"], "isomer.report/1");
    let faults = schema_check::faults(&isomer_eval::report::json_schema(), &json);
    assert_eq!(faults, Vec::<String>::new(), "a real report is valid");
    // 2 encoders x 2 datasets x 3 transformations
    let drift = json["drift"].as_array().unwrap();
    assert_eq!(drift.len(), 12);
    assert!(
        drift
            .iter()
            .all(|row| row["pairs"].as_u64().unwrap() > 0 && row["mean"].as_f64().unwrap() >= 0.0)
    );
    assert_eq!(json["encoders"][0]["weights_digest"], "weights-of-stub-<i>a</i>");
    assert_eq!(json["generators"][0]["id"], "stub:generator");
    assert_eq!(
        json["suite"]["transformations"][0]["prompt_digest"],
        "digest-of-paraphrase"
    );
    assert_eq!(
        json["profile"]["axes"],
        serde_json::json!(["lexical", "length", "augmentation"])
    );
    let encoder = &json["profile"]["encoders"][0];
    let axis = |i: usize| encoder["axes"][i]["mean"].as_f64().unwrap();
    let total = encoder["total"]["mean"].as_f64().unwrap();
    assert!(
        (total - (axis(0) + axis(1)) / 2.0).abs() < 1e-9,
        "controls are not part of the total"
    );
    // 2 encoders x 2 datasets x (1 + 3 transformations x 2 seeds)
    assert_eq!(json["scores"].as_array().unwrap().len(), 28);
    // 3 transformations x 2 seeds x 2 datasets, texts accounted for
    let checks = json["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 12);
    for check in checks {
        let sum: u64 = ["ok", "recovered", "kept_original", "failed"]
            .iter()
            .map(|k| check[k].as_u64().unwrap())
            .sum();
        assert_eq!(check["texts"].as_u64(), Some(sum));
    }
    assert!(
        json["headline"]
            .as_array()
            .unwrap()
            .iter()
            .any(|s| s.as_str().unwrap().contains("points"))
    );
    assert!(json["counters"]["texts_by_rule"].as_u64().unwrap() > 0);
    assert!(json["durations"]["transform"].is_number());
}
