//! The decisions of rules are foreseen before a run, and a number of items is divided among data
//! sets.

use isomer_proto::eval::v1::{
    PlanRunRequest, RunPlan, RunSpec, RunState, SuiteRef, run_service_client::RunServiceClient, suite_ref,
};
use isomer_service_kit::{Fault, GrpcChannel};
use isomer_stubs::promise::{promised, refusal};

use crate::run_stubs::{Harness, run_to_end, spec};

/// Two data sets of 400 pairs, and a small one of 30.
fn suite(harness: &Harness, head: &str, limit: f64) -> SuiteRef {
    larger_suite(harness, head, limit, 1)
}

/// The suite with this many times the pairs.
fn larger_suite(harness: &Harness, head: &str, limit: f64, times: usize) -> SuiteRef {
    let folder = harness.home.path().join("data");
    let pairs = |name: &str, rows: usize| {
        let row = |i: usize| {
            format!(
                "{{\"sentence1\": \"{name} first {i}\", \"sentence2\": \"{name} second {i}\", \"score\": {}}}\n",
                i % 6
            )
        };
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(
            folder.join(format!("{name}.jsonl")),
            (0..rows).map(row).collect::<String>(),
        )
        .unwrap();
    };
    pairs("large", 400 * times);
    pairs("other", 400 * times);
    pairs("small", 30 * times);
    let text = format!(
        "name = \"power\"\nseeds = [1]\ntransformations = [\"paraphrase\"]\n{head}\n\
         [gate]\nunit = \"item\"\n[[gate.rule]]\nmax_drop = {limit}\n\
         [[dataset]]\ntask = \"sts\"\npath = \"large.jsonl\"\n\
         [[dataset]]\ntask = \"sts\"\npath = \"other.jsonl\"\n\
         [[dataset]]\ntask = \"sts\"\npath = \"small.jsonl\"\n"
    );
    SuiteRef {
        source: Some(suite_ref::Source::Toml(text)),
        base_dir: folder.display().to_string(),
        file_name: "power.toml".to_owned(),
    }
}

async fn plan(client: &mut RunServiceClient<GrpcChannel>, spec: RunSpec, power: Option<f64>) -> Result<RunPlan, Fault> {
    let spec = Some(spec);
    let answer = client.plan_run(PlanRunRequest { spec, power }).await;
    answer
        .map(|answer| answer.into_inner().plan.unwrap())
        .map_err(|status| Fault::from_status(&status))
}

/// Texts that are rewritten: two of each pair.
fn pairs(plan: &RunPlan) -> u64 {
    plan.total.as_ref().unwrap().texts / 2
}

#[tokio::test]
async fn a_total_of_items_is_divided_among_the_data_sets() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let with = |head: &str| spec(suite(&harness, head, 10.0), &["stub-a"]);
    let all = plan(&mut client, with(""), None).await.unwrap();
    assert_eq!(pairs(&all), 830);
    let some = plan(&mut client, with("total_items = 230"), None).await.unwrap();
    assert_eq!(pairs(&some), 230);
    // The request's number goes before the suite's.
    let asked = RunSpec {
        total_items: Some(131),
        ..with("total_items = 230")
    };
    assert_eq!(pairs(&plan(&mut client, asked, None).await.unwrap()), 131);
    // Limits of data sets do not apply beside it, so both are not asked for at once.
    let both = RunSpec {
        limit: Some(40),
        total_items: Some(230),
        ..with("")
    };
    let refused = plan(&mut client, both, None).await.unwrap_err();
    assert!(refused.to_string().contains("spec.total_items"), "{refused}");
    let limited = RunSpec {
        limit: Some(40),
        ..with("total_items = 230")
    };
    assert_eq!(pairs(&plan(&mut client, limited, None).await.unwrap()), 110);

    let run = run_to_end(&mut client, with("total_items = 90")).await;
    assert_eq!(run.state(), RunState::Succeeded, "{}", run.error);
    assert_eq!(run.counters.unwrap().texts_planned, 180);
}

#[tokio::test]
async fn more_items_decide_more_and_the_design_is_the_smallest_that_does() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let with = |total: u64, limit: f64| spec(suite(&harness, &format!("total_items = {total}"), limit), &["stub-a"]);
    let mut passes = Vec::new();
    for total in [100, 200, 400, 800] {
        let planned = plan(&mut client, with(total, 6.0), None).await.unwrap();
        let rule = &planned.rules[0];
        assert_eq!((planned.rules.len(), rule.limit), (1, 6.0));
        let [pass, half, fail] = [rule.pass_without_drop, rule.pass_at_half, rule.fail_at_twice].map(Option::unwrap);
        assert!(half < pass && fail > 0.0 && planned.design.is_none(), "{rule:?}");
        passes.push(pass);
    }
    assert!(passes.is_sorted() && passes[3] > passes[0] + 0.2, "{passes:?}");

    let design = plan(&mut client, with(100, 6.0), Some(0.6))
        .await
        .unwrap()
        .design
        .unwrap();
    assert!(design.reached && design.pass_without_drop >= 0.6, "{design:?}");
    let names: Vec<(&str, u64)> = design
        .datasets
        .iter()
        .map(|one| (one.name.as_str(), one.available_items))
        .collect();
    assert_eq!(names, [("large", 400), ("other", 400), ("small", 30)]);
    assert_eq!(design.rewrites, 2 * design.total_items);
    // A run of so many items has that chance, and one of fewer has not.
    let chance = async |total: u64, client: &mut RunServiceClient<GrpcChannel>| {
        plan(client, with(total, 6.0), None).await.unwrap().rules[0]
            .pass_without_drop
            .unwrap()
    };
    assert!((chance(design.total_items, &mut client).await - design.pass_without_drop).abs() < 1e-9);
    assert!(chance(design.total_items - 10, &mut client).await < 0.6);

    // A limit that one row per data set keeps.
    let wide = plan(&mut client, with(100, 90.0), Some(0.05))
        .await
        .unwrap()
        .design
        .unwrap();
    assert!(
        wide.reached && wide.datasets.iter().all(|one| one.items > 0),
        "{wide:?}"
    );
    assert!(plan(&mut client, with(wide.total_items, 90.0), None).await.is_ok());
}

#[tokio::test]
async fn the_rows_that_are_missing_are_named() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let mut planned = async |suite, power| plan(&mut client, spec(suite, &["stub-a"]), power).await.unwrap();
    let design = planned(suite(&harness, "", 4.0), Some(0.8)).await.design.unwrap();
    let all = planned(suite(&harness, "", 4.0), None).await;
    assert!(!design.reached && design.pass_without_drop < 0.8, "{design:?}");
    assert_eq!(all.rules[0].pass_without_drop, Some(design.pass_without_drop));
    assert_eq!(design.rewrites, 2 * design.total_items);
    let exceeded: Vec<&str> = design
        .datasets
        .iter()
        .filter(|one| one.items > one.available_items)
        .map(|one| one.name.as_str())
        .collect();
    assert!(exceeded.contains(&"small"), "{design:?}");
    // With so many rows the rule decides. Where a small data set has even more, fewer rows do.
    let head = format!("total_items = {}", design.total_items);
    let larger = planned(larger_suite(&harness, &head, 4.0, 8), Some(0.8)).await;
    let chance = larger.rules[0].pass_without_drop.unwrap();
    assert!((0.8..0.83).contains(&chance), "{chance}");
    let found = larger.design.unwrap();
    let (most, least) = (design.total_items, design.total_items * 9 / 10);
    assert!(
        found.reached && (least..=most).contains(&found.total_items),
        "{found:?}\n{design:?}"
    );

    // No number of rows is enough at a limit of almost nothing.
    let never = planned(suite(&harness, "", 0.001), Some(0.8)).await.design.unwrap();
    assert!(!never.reached && never.total_items == 830, "{never:?}");
}

#[tokio::test]
async fn impossible_totals_and_probabilities_are_refused_by_name() {
    let harness = Harness::new();
    let (_service, mut client) = harness.open().await;
    let with = |head: &str| spec(suite(&harness, head, 10.0), &["stub-a"]);
    for (limit, total) in [(None, 2), (Some(9), 900)] {
        let few = RunSpec {
            limit,
            total_items: Some(total),
            ..with("")
        };
        let refused = plan(&mut client, few, None).await.unwrap_err();
        promised("RunSpec.total_items INVALID_ARGUMENT total_items", &refused);
    }
    for (head, refused) in [
        ("total_items = 2", "INVALID_ARGUMENT spec.suite"),
        ("total_items = 0", "INVALID_ARGUMENT BROKEN_SUITE spec.suite"),
    ] {
        let fault = plan(&mut client, with(head), None).await.unwrap_err();
        assert_eq!(refusal(&fault), refused);
        assert!(fault.message.contains("total_items"), "{fault}");
    }
    for power in [0.0, 1.0, 80.0, f64::NAN] {
        let fault = plan(&mut client, with(""), Some(power)).await.unwrap_err();
        assert_eq!(refusal(&fault), "INVALID_ARGUMENT power");
    }
    // Nothing is foreseen of errors made by rule, of rules on points, or of a suite without rules.
    let suite_with = |from: &str, to: &str| {
        let mut changed = suite(&harness, "", 10.0);
        if let Some(suite_ref::Source::Toml(text)) = &mut changed.source {
            assert!(text.contains(from));
            *text = text.replace(from, to);
        }
        changed
    };
    let by_rule = "transformations = [\"paraphrase\", \"random_keywords\"]\n[gate]\nunit = \"item\"\n[[gate.rule]]\nof = \"augmentation\"";
    let head = "transformations = [\"paraphrase\"]\n\n[gate]\nunit = \"item\"\n[[gate.rule]]";
    for none in [
        suite_with(head, by_rule),
        suite_with("max_drop = 10", "max_drop = 10\nbasis = \"point\"\nunit = \"group\""),
        harness.suite("seeds = [1]\ntransformations = [\"paraphrase\"]"),
    ] {
        let planned = plan(&mut client, spec(none, &["stub-a"]), Some(0.8)).await.unwrap();
        assert!(planned.rules.is_empty() && planned.design.is_none(), "{planned:?}");
    }
}
