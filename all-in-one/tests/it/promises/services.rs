//! Refusals of the other services.

use isomer_proto::{
    encoder::v1::{EncodeRequest, GetEncoderRequest},
    eval::v1::{
        DatasetRef, EncoderPrompt, Gate, GateBasis, GateRule, GateSequential, GateTexts, GetRunRequest,
        ListRunsRequest, RunSpec, ScoreRequest, SearchIndex, Separation, TaskType, dataset_ref, gate_rule::Limit,
        search_index,
    },
    gateway::v1::{
        ApiKey, CheckProviderRequest, CreateKeyRequest, CreateProviderRequest, DeleteProviderRequest, ListKeysRequest,
        ListProvidersRequest, Provider, ProviderKind, UpdateProviderRequest, check_provider_request::Target,
    },
    transform::v1::{
        AugmentRequest, AugmentationMode, AugmentationSpec, CascadeRule, Distractors, EncodeAugmentedRequest,
        InspectRequest, JudgeRequest, JudgeScale, MultiSwap, Noise, Paraphrase, SearchEvidence, TextItem,
        TransformRequest, TransformSpec, Transformation, Translation, VariantSource, inspect_request, judge_request,
        transformation::Kind,
    },
};
use isomer_stubs::request;

use super::table::{Call, Row, call, naming, row};
use crate::models::ENCODER;

const TEXT: &str = "The small grey cat slept on the old bench near the station, number 7.";

fn encode(encoder: &str, inputs: usize) -> EncodeRequest {
    request::encode(encoder, vec![TEXT; inputs])
}

fn kind(kind: Kind) -> Transformation {
    kind.into()
}

fn paraphrase() -> Transformation {
    kind(Kind::Paraphrase(Paraphrase {}))
}

fn item(text: &str) -> TextItem {
    TextItem {
        text: text.to_owned(),
        language: Some("en".to_owned()),
        ..TextItem::default()
    }
}

fn transform(spec: TransformSpec, items: Vec<TextItem>) -> Vec<Call> {
    let request = TransformRequest {
        spec: Some(TransformSpec {
            max_attempts: Some(1),
            ..spec
        }),
        items,
        ..Default::default()
    };
    vec![call("transform.v1.TransformService/Transform", request)]
}

fn spec(generator: &str) -> TransformSpec {
    TransformSpec {
        transformation: Some(paraphrase()),
        generator_id: generator.to_owned(),
        ..TransformSpec::default()
    }
}

fn inspect(pairs: usize, original: &str) -> Vec<Call> {
    inspect_pairs(pairs, original, TEXT)
}

fn inspect_pairs(pairs: usize, original: &str, transformed: &str) -> Vec<Call> {
    let pair = inspect_request::Pair {
        original: original.to_owned(),
        transformed: transformed.to_owned(),
        expected_language: None,
    };
    let request = InspectRequest {
        pairs: vec![pair; pairs],
        transformation: Some(paraphrase()),
    };
    vec![call("transform.v1.TransformService/Inspect", request)]
}

fn judge(change: impl FnOnce(&mut JudgeRequest)) -> Vec<Call> {
    let mut request = JudgeRequest {
        pairs: vec![judge_request::Pair {
            original: TEXT.to_owned(),
            transformed: format!("{TEXT} It did."),
            ..judge_request::Pair::default()
        }],
        scale: JudgeScale::Similarity.into(),
        generator_id: "judge".to_owned(),
        ..JudgeRequest::default()
    };
    change(&mut request);
    vec![call("transform.v1.TransformService/Judge", request)]
}

fn augmentation(sources: usize) -> AugmentationSpec {
    let source = VariantSource {
        transformation: Some(paraphrase()),
        ..VariantSource::default()
    };
    AugmentationSpec {
        sources: vec![source; sources],
        max_attempts: Some(1),
        ..AugmentationSpec::default()
    }
}

fn augment(change: impl FnOnce(&mut AugmentRequest)) -> Vec<Call> {
    let mut request = AugmentRequest {
        spec: Some(augmentation(1)),
        items: vec![item(TEXT)],
    };
    change(&mut request);
    vec![call("transform.v1.AugmentationService/Augment", request)]
}

fn source(request: &mut AugmentRequest, kind: Option<Transformation>) {
    request.spec.as_mut().unwrap().sources[0].transformation = kind;
}

fn encode_augmented(change: impl FnOnce(&mut EncodeAugmentedRequest)) -> Vec<Call> {
    let mut request = EncodeAugmentedRequest {
        spec: Some(augmentation(1)),
        items: vec![item(TEXT)],
        encoder_id: ENCODER.to_owned(),
        ..EncodeAugmentedRequest::default()
    };
    change(&mut request);
    vec![call("transform.v1.AugmentationService/EncodeAugmented", request)]
}

fn score(rows: &str, change: impl FnOnce(&mut ScoreRequest)) -> Vec<Call> {
    let mut request = request::score(TaskType::Sts, ENCODER, request::inline([("test.jsonl", rows)]));
    change(&mut request);
    vec![call("eval.v1.TaskService/Score", request)]
}

fn pairs() -> String {
    (0..4)
        .map(|n| format!("{{\"sentence1\": \"a cat {n}\", \"sentence2\": \"a dog {n}{n}\", \"score\": {n}}}\n"))
        .collect()
}

fn create_run(change: impl FnOnce(&mut RunSpec)) -> Vec<Call> {
    let mut request = request::small_run(ENCODER);
    change(request.spec.as_mut().unwrap());
    vec![call("eval.v1.RunService/CreateRun", request)]
}

fn suite(spec: &mut RunSpec, text: &str) {
    spec.suite = Some(request::suite(text));
}

fn rule(limit: Limit) -> GateRule {
    GateRule {
        limit: Some(limit),
        ..GateRule::default()
    }
}

fn gate(rule: GateRule, change: impl FnOnce(&mut Gate)) -> Vec<Call> {
    let mut gate = Gate {
        rules: vec![rule],
        ..Gate::default()
    };
    change(&mut gate);
    create_run(|spec| spec.gate = Some(gate))
}

fn provider(id: &str, address: &str) -> Provider {
    Provider {
        id: id.to_owned(),
        kind: ProviderKind::Isomer.into(),
        address: address.to_owned(),
        ..Provider::default()
    }
}

fn create_provider(provider: Provider) -> Call {
    let request = CreateProviderRequest {
        provider: Some(provider),
    };
    call("gateway.v1.ProviderService/CreateProvider", request)
}

fn update_provider(provider: Provider, allow_missing: bool) -> Call {
    let request = UpdateProviderRequest {
        provider: Some(provider),
        allow_missing,
        ..UpdateProviderRequest::default()
    };
    call("gateway.v1.ProviderService/UpdateProvider", request)
}

fn delete_provider(id: &str, etag: &str) -> Call {
    let request = DeleteProviderRequest {
        id: id.to_owned(),
        etag: etag.to_owned(),
    };
    call("gateway.v1.ProviderService/DeleteProvider", request)
}

fn rpc_id(rpc: &str, id: &str) -> Call {
    // This is for messages whose field 1 is an id.
    let request = GetRunRequest { id: id.to_owned() };
    call(rpc, request)
}

/// A provider declared in the file, which must not be changed.
const DECLARED: &str = "far";
const NOBODY: &str = "nobody";
/// A valid address at which no server listens; the harness allows calls to it.
const SILENT: &str = "grpc://127.0.0.1:9";

pub fn honest() -> Vec<Call> {
    let name = |name: &str| ApiKey {
        name: name.to_owned(),
        scopes: vec![1],
        ..ApiKey::default()
    };
    let leased = Provider {
        lease: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
        ..provider("leased", SILENT)
    };
    [
        vec![
            call("encoder.v1.EncoderService/Encode", encode(ENCODER, 1)),
            call(
                "encoder.v1.EncoderService/GetEncoder",
                GetEncoderRequest { id: ENCODER.to_owned() },
            ),
            call("eval.v1.RunService/ListRuns", ListRunsRequest::default()),
            call(
                "gateway.v1.AccessService/CreateKey",
                CreateKeyRequest { key: Some(name("one")) },
            ),
            call("gateway.v1.AccessService/ListKeys", ListKeysRequest::default()),
            call(
                "gateway.v1.ProviderService/ListProviders",
                ListProvidersRequest::default(),
            ),
            rpc_id("gateway.v1.ProviderService/GetProvider", DECLARED),
            create_provider(provider("new", SILENT)),
            update_provider(provider("newer", SILENT), true),
            update_provider(leased, true),
            rpc_id("gateway.v1.ProviderService/RenewLease", "leased"),
            delete_provider("new", ""),
            call(
                "gateway.v1.ProviderService/CheckProvider",
                CheckProviderRequest {
                    target: Some(Target::Id(DECLARED.to_owned())),
                },
            ),
        ],
        transform(spec("writer"), vec![item(TEXT)]),
        inspect(4096, "A cat."),
        judge(|_| ()),
        augment(|_| ()),
        encode_augmented(|_| ()),
        score(&pairs(), |_| ()),
        create_run(|_| ()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

pub fn rows() -> Vec<Row> {
    [encoders(), transforms(), tasks(), runs(), gateway()]
        .into_iter()
        .flatten()
        .collect()
}

fn encoders() -> Vec<Row> {
    let encoding = |request| vec![call("encoder.v1.EncoderService/Encode", request)];
    vec![
        row(
            "EncoderService.GetEncoder NOT_FOUND UNKNOWN_ENCODER",
            vec![call(
                "encoder.v1.EncoderService/GetEncoder",
                GetEncoderRequest { id: NOBODY.to_owned() },
            )],
        ),
        row(
            "EncoderService.Encode INVALID_ARGUMENT encoder_id",
            encoding(encode("", 1)),
        ),
        row(
            "EncoderService.Encode NOT_FOUND UNKNOWN_ENCODER encoder_id",
            encoding(encode(NOBODY, 1)),
        ),
    ]
}

fn transforms() -> Vec<Row> {
    let (long, longer) = ("word ".repeat(4001), "a".repeat(100_001));
    let one = || vec![item(TEXT)];
    let german = TextItem {
        language: Some("de".to_owned()),
        ..item("Der kleine graue Kater schlief gestern auf der alten Bank am Bahnhof.")
    };
    vec![
        row(
            "TransformService.Transform INVALID_ARGUMENT items",
            transform(spec("writer"), Vec::new()),
        ),
        row(
            "TransformService.Transform INVALID_ARGUMENT spec.transformation",
            transform(
                TransformSpec {
                    transformation: None,
                    ..spec("writer")
                },
                one(),
            ),
        ),
        row("TransformService.Transform INVALID_ARGUMENT target_language", {
            let target_language = Some("Germn".to_owned());
            let translation = kind(Kind::Translation(Translation {
                target_language,
                seed_rank: None,
            }));
            transform(
                TransformSpec {
                    transformation: Some(translation),
                    ..spec("writer")
                },
                one(),
            )
        }),
        row(
            "TransformService.Transform INVALID_ARGUMENT items.text",
            transform(spec("writer"), vec![item(&long)]),
        ),
        row(
            "TransformService.Transform INVALID_ARGUMENT spec.generator_id",
            transform(spec("openai:model@http://203.0.113.7/v1"), one()),
        ),
        row(
            "TransformService.Transform NOT_FOUND UNKNOWN_GENERATOR",
            ["nope", "local:not-in-catalogue", "local:/etc/passwd"]
                .into_iter()
                .flat_map(|id| transform(spec(id), one()))
                .collect(),
        ),
        row(
            "TransformService.Inspect INVALID_ARGUMENT pairs",
            [inspect(4097, "A cat."), inspect(60, &"a ".repeat(40_000))]
                .into_iter()
                .flatten()
                .collect(),
        ),
        row(
            "TransformService.Inspect INVALID_ARGUMENT",
            [
                naming("pairs[0].original", inspect_pairs(1, &longer, TEXT)),
                naming("pairs[0].transformed", inspect_pairs(1, TEXT, &longer)),
            ]
            .into_iter()
            .flatten()
            .collect(),
        ),
        row(
            "TransformService.Judge INVALID_ARGUMENT scale",
            judge(|request| request.scale = 0),
        ),
        row(
            "TransformService.Judge INVALID_ARGUMENT pairs",
            judge(|request| request.pairs.clear()),
        ),
        row(
            "TransformService.Judge INVALID_ARGUMENT",
            [
                naming(
                    "pairs[0].original",
                    judge(|request| request.pairs[0].original.clone_from(&long)),
                ),
                naming(
                    "pairs[0].transformed",
                    judge(|request| request.pairs[0].transformed.clone_from(&long)),
                ),
            ]
            .into_iter()
            .flatten()
            .collect(),
        ),
        row(
            "TransformService.Judge INVALID_ARGUMENT max_attempts",
            [0, 11]
                .into_iter()
                .flat_map(|n| judge(|request| request.max_attempts = Some(n)))
                .collect(),
        ),
        row(
            "AugmentationService.Augment INVALID_ARGUMENT items",
            augment(|request| request.items.clear()),
        ),
        row(
            "AugmentationService.Augment INVALID_ARGUMENT spec.sources",
            [0, 9]
                .into_iter()
                .flat_map(|n| augment(|request| request.spec = Some(augmentation(n))))
                .collect(),
        ),
        row(
            "AugmentationService.Augment INVALID_ARGUMENT spec.k",
            augment(|request| request.spec.as_mut().unwrap().k = Some(2)),
        ),
        row(
            "AugmentationService.Augment INVALID_ARGUMENT spec.sources.transformation",
            augment(|request| source(request, None)),
        ),
        row(
            "AugmentationService.Augment INVALID_ARGUMENT spec.sources.transformation",
            [
                Kind::Distractors(Distractors::default()),
                Kind::MultiSwap(MultiSwap::default()),
            ]
            .into_iter()
            .flat_map(|several| augment(|request| source(request, Some(kind(several)))))
            .collect(),
        ),
        row(
            "AugmentationService.Augment INVALID_ARGUMENT spec.sources.transformation",
            augment(|request| source(request, Some(noise("keyboard", None)))),
        ),
        row(
            "AugmentationService.Augment INVALID_ARGUMENT",
            [
                naming(
                    "spec.generation_budget",
                    augment(|request| request.spec.as_mut().unwrap().set_mode(AugmentationMode::Budget)),
                ),
                naming(
                    "spec.bypass_cache",
                    augment(|request| {
                        let spec = request.spec.as_mut().unwrap();
                        spec.set_mode(AugmentationMode::Cached);
                        spec.bypass_cache = true;
                    }),
                ),
            ]
            .into_iter()
            .flatten()
            .collect(),
        ),
        row(
            "AugmentationService.Augment INVALID_ARGUMENT spec.mode",
            augment(|request| {
                let spec = request.spec.as_mut().unwrap();
                spec.set_mode(AugmentationMode::Cascade);
                spec.cascade = Some(CascadeRule {
                    min_results: Some(1),
                    ..CascadeRule::default()
                });
            }),
        ),
        row(
            "AugmentationService.Augment NOT_FOUND UNKNOWN_GENERATOR",
            augment(|request| request.spec.as_mut().unwrap().sources[0].generator_id = NOBODY.to_owned()),
        ),
        row(
            "AugmentationService.EncodeAugmented INVALID_ARGUMENT encoder_id",
            encode_augmented(|request| request.encoder_id.clear()),
        ),
        row(
            "AugmentationService.EncodeAugmented INVALID_ARGUMENT original_weight",
            encode_augmented(|request| {
                request.pooling = 3;
                request.original_weight = Some(1.5);
            }),
        ),
        row(
            "AugmentationService.EncodeAugmented INVALID_ARGUMENT original_weight",
            encode_augmented(|request| request.original_weight = Some(0.5)),
        ),
        row(
            "AugmentationService.EncodeAugmented INVALID_ARGUMENT evidence",
            encode_augmented(|request| request.evidence = vec![SearchEvidence::default()]),
        ),
        row(
            "AugmentationService.EncodeAugmented INVALID_ARGUMENT spec.cascade",
            encode_augmented(|request| {
                let spec = request.spec.as_mut().unwrap();
                spec.set_mode(AugmentationMode::Cascade);
                spec.cascade = Some(CascadeRule::default());
            }),
        ),
        row(
            "AugmentationService.EncodeAugmented INVALID_ARGUMENT prompt_name",
            encode_augmented(|request| request.prompt_name = NOBODY.to_owned()),
        ),
        row(
            "AugmentationService.EncodeAugmented NOT_FOUND UNKNOWN_ENCODER encoder_id",
            encode_augmented(|request| request.encoder_id = NOBODY.to_owned()),
        ),
        row("MultiSwap INVALID_ARGUMENT items.language", {
            let swap = kind(Kind::MultiSwap(MultiSwap::default()));
            transform(wanting(swap), vec![german])
        }),
        row(
            "Transformation INVALID_ARGUMENT transformation",
            [
                Transformation::default(),
                Transformation {
                    name: "paraphrase".to_owned(),
                    ..Transformation::named("paraphrase")
                },
            ]
            .into_iter()
            .flat_map(|wanted| transform(wanting(wanted), one()))
            .collect(),
        ),
        row(
            "Transformation INVALID_ARGUMENT transformation.name",
            transform(wanting(Transformation::named("paraphase")), one()),
        ),
        row(
            "Transformation INVALID_ARGUMENT",
            transform(wanting(open("keywords", "count", 3.0)), one()),
        ),
        row(
            "Transformation INVALID_ARGUMENT",
            [
                open("distractors", "count", 2.5),
                open("distractors", "count", 11.0),
                open("noise", "channel", 1.0),
            ]
            .into_iter()
            .flat_map(|wanted| transform(wanting(wanted), one()))
            .collect(),
        ),
        row(
            "Noise INVALID_ARGUMENT channel",
            ["", "keybord"]
                .into_iter()
                .flat_map(|channel| transform(noisy(channel, None), one()))
                .collect(),
        ),
        row(
            "Noise INVALID_ARGUMENT dose",
            transform(noisy("keyboard", Some(0.3)), one()),
        ),
        row("Noise INVALID_ARGUMENT items.language", {
            let japanese = TextItem {
                language: Some("ja".to_owned()),
                ..item("猫が寝ている。")
            };
            transform(noisy("case", None), vec![japanese])
        }),
    ]
}

fn noise(channel: &str, dose: Option<f64>) -> Transformation {
    kind(Kind::Noise(Noise {
        channel: channel.to_owned(),
        dose,
    }))
}

fn noisy(channel: &str, dose: Option<f64>) -> TransformSpec {
    wanting(noise(channel, dose))
}

fn wanting(transformation: Transformation) -> TransformSpec {
    TransformSpec {
        transformation: Some(transformation),
        ..spec("")
    }
}

/// A transformation by name, with a number for a parameter.
fn open(name: &str, parameter: &str, value: f64) -> Transformation {
    let number = prost_types::Value {
        kind: Some(prost_types::value::Kind::NumberValue(value)),
    };
    Transformation {
        name: name.to_owned(),
        parameters: Some(prost_types::Struct {
            fields: [(parameter.to_owned(), number)].into(),
        }),
        kind: None,
    }
}

fn tasks() -> Vec<Row> {
    let rows = pairs();
    let labelled = "{\"text\": \"rain\", \"label\": \"a\"}\n{\"text\": \"sun\", \"label\": \"b\"}\n";
    let dataset = |change: fn(&mut DatasetRef)| {
        score(&pairs(), |request| {
            change(request::dataset(request).dataset.as_mut().unwrap());
        })
    };
    vec![
        row(
            "TaskService.Score INVALID_ARGUMENT BROKEN_DATASET dataset",
            score("{}\n", |_| ()),
        ),
        row(
            "TaskService.Score INVALID_ARGUMENT TRAIN_IS_TEST dataset",
            vec![call(
                "eval.v1.TaskService/Score",
                request::score(
                    TaskType::Classification,
                    ENCODER,
                    request::inline([("train.jsonl", labelled), ("test.jsonl", labelled)]),
                ),
            )],
        ),
        row(
            "TaskService.Score NOT_FOUND UNKNOWN_DATASET dataset",
            dataset(|wanted| wanted.source = Some(dataset_ref::Source::Builtin(NOBODY.to_owned()))),
        ),
        row(
            "TaskService.Score NOT_FOUND UNKNOWN_ENCODER",
            score(&rows, |request| {
                request::dataset(request).encoder_id = NOBODY.to_owned()
            }),
        ),
        row(
            "TaskService.Score FAILED_PRECONDITION UNDEFINED_SCORE",
            score(
                &"{\"sentence1\": \"a\", \"sentence2\": \"b\", \"score\": 3}\n".repeat(4),
                |_| (),
            ),
        ),
        row(
            "DatasetRef.config INVALID_ARGUMENT config",
            dataset(|wanted| wanted.config = "en".to_owned()),
        ),
        row(
            "DatasetRef.revision INVALID_ARGUMENT revision",
            dataset(|wanted| wanted.revision = "main".to_owned()),
        ),
        row(
            "DatasetRef.languages INVALID_ARGUMENT BROKEN_DATASET",
            dataset(|wanted| wanted.languages = ["en", "de", "fr"].map(str::to_owned).to_vec()),
        ),
        row(
            "EncoderPrompt.role INVALID_ARGUMENT role",
            score(&rows, |request| {
                request::dataset(request).prompts = vec![prompt("quarry", "")]
            }),
        ),
        row(
            "DatasetInput.prompts INVALID_ARGUMENT prompts.encoder_id",
            score(&rows, |request| {
                request::dataset(request).prompts = vec![prompt("sts", NOBODY)]
            }),
        ),
        row(
            "ScoreRequest.index INVALID_ARGUMENT index",
            score(&rows, |request| {
                request.index = Some(SearchIndex {
                    kind: Some(search_index::Kind::Hnsw(search_index::Hnsw::default())),
                });
            }),
        ),
    ]
}

fn prompt(role: &str, encoder: &str) -> EncoderPrompt {
    EncoderPrompt {
        role: role.to_owned(),
        text: "read: ".to_owned(),
        encoder_id: encoder.to_owned(),
    }
}

fn runs() -> Vec<Row> {
    let points = || GateRule {
        basis: GateBasis::Point.into(),
        ..rule(Limit::MaxDrop(5.0))
    };
    vec![
        row(
            "RunService.CreateRun INVALID_ARGUMENT BROKEN_SUITE spec.suite",
            create_run(|spec| suite(spec, "name = \"small\"\nseeds = \"many\"\n")),
        ),
        row(
            "RunService.CreateRun INVALID_ARGUMENT DATASET_TWICE spec.suite",
            create_run(|spec| {
                let again = "[[dataset]]\ntask = \"sts\"\nbuiltin = \"quick/sts\"\nname = \"again\"\n";
                suite(spec, &format!("{}{again}", request::SMALL_SUITE));
            }),
        ),
        row(
            "RunService.CreateRun NOT_FOUND UNKNOWN_ENCODER",
            create_run(|spec| spec.encoder_ids = vec![NOBODY.to_owned()]),
        ),
        row(
            "RunService.CreateRun NOT_FOUND UNKNOWN_GENERATOR",
            [
                create_run(|spec| spec.generator_id = NOBODY.to_owned()),
                create_run(|spec| spec.judge.get_or_insert_default().generator_id = NOBODY.to_owned()),
            ]
            .into_iter()
            .flatten()
            .collect(),
        ),
        row(
            "RunService.CreateRun NOT_FOUND UNKNOWN_DATASET",
            create_run(|spec| suite(spec, &request::SMALL_SUITE.replace("quick/sts", NOBODY))),
        ),
        row(
            "RunSpec.prompts INVALID_ARGUMENT prompts.encoder_id",
            create_run(|spec| spec.prompts = vec![prompt("sts", NOBODY)]),
        ),
        row(
            "Separation.kinds INVALID_ARGUMENT kinds",
            create_run(|spec| {
                spec.separation = Some(Separation {
                    kinds: vec!["negatoin".to_owned()],
                    ..Separation::default()
                });
            }),
        ),
        row(
            "Judge.generator_id INVALID_ARGUMENT generator_id",
            create_run(|spec| spec.judge.get_or_insert_default().sample = Some(5)),
        ),
        row(
            "GateRule INVALID_ARGUMENT BROKEN_GATE",
            [
                GateRule {
                    quantity: "lexcal".to_owned(),
                    ..points()
                },
                GateRule {
                    dataset: "quick/st".to_owned(),
                    ..points()
                },
                GateRule {
                    task_type: "retrieval".to_owned(),
                    ..points()
                },
            ]
            .into_iter()
            .flat_map(|rule| gate(rule, |_| ()))
            .collect(),
        ),
        row(
            "GateRule INVALID_ARGUMENT task_type",
            gate(
                GateRule {
                    task_type: "stss".to_owned(),
                    ..points()
                },
                |_| (),
            ),
        ),
        row(
            "Gate.validity INVALID_ARGUMENT",
            [
                gate(points(), |gate| {
                    gate.validity.insert("max_gaurded".to_owned(), 0.1);
                }),
                gate(points(), |gate| {
                    gate.max_cut = Some(0.1);
                    gate.validity.insert("max_cut".to_owned(), 0.1);
                }),
            ]
            .into_iter()
            .flatten()
            .collect(),
        ),
        row(
            "GateRule.limit INVALID_ARGUMENT limit",
            gate(GateRule::default(), |_| ()),
        ),
        row(
            "GateRule.text INVALID_ARGUMENT text",
            [
                gate(
                    GateRule {
                        text: "max_dorp=3".to_owned(),
                        ..GateRule::default()
                    },
                    |_| (),
                ),
                gate(
                    GateRule {
                        text: "max_drop=3".to_owned(),
                        ..points()
                    },
                    |_| (),
                ),
            ]
            .into_iter()
            .flatten()
            .collect(),
        ),
        row(
            "GateRule.fail_at INVALID_ARGUMENT fail_at",
            gate(
                GateRule {
                    fail_at: Some(6.0),
                    ..rule(Limit::MaxDrop(5.0))
                },
                |_| (),
            ),
        ),
        row(
            "GateRule.fail_at INVALID_ARGUMENT BROKEN_GATE fail_at",
            gate(
                GateRule {
                    fail_at: Some(5.0),
                    ..points()
                },
                |_| (),
            ),
        ),
        row(
            "GateRule.min_separation INVALID_ARGUMENT BROKEN_GATE",
            create_run(|spec| {
                spec.separation = Some(Separation {
                    off: Some(true),
                    ..Separation::default()
                });
                spec.gate = Some(Gate {
                    rules: vec![rule(Limit::MinSeparation(0.9))],
                    ..Gate::default()
                });
            }),
        ),
        row(
            "GateRule.max_negative_flips INVALID_ARGUMENT BROKEN_GATE",
            gate(
                GateRule {
                    task_type: "sts".to_owned(),
                    ..rule(Limit::MaxNegativeFlips(5.0))
                },
                |_| (),
            ),
        ),
        row(
            "GateRule.min_overlap INVALID_ARGUMENT BROKEN_GATE",
            gate(
                GateRule {
                    task_type: "sts".to_owned(),
                    ..rule(Limit::MinOverlap(80.0))
                },
                |_| (),
            ),
        ),
        row(
            "GateTexts INVALID_ARGUMENT BROKEN_GATE",
            gate(
                GateRule {
                    texts: GateTexts::Changed.into(),
                    ..rule(Limit::MaxDrop(5.0))
                },
                |gate| gate.sequential = GateSequential::Betting.into(),
            ),
        ),
        row(
            "GateTexts.GATE_TEXTS_ACCEPTED INVALID_ARGUMENT BROKEN_GATE",
            gate(
                GateRule {
                    texts: GateTexts::Accepted.into(),
                    ..points()
                },
                |_| (),
            ),
        ),
        row(
            "GateSequential INVALID_ARGUMENT BROKEN_GATE",
            gate(points(), |gate| gate.sequential = GateSequential::Pocock.into()),
        ),
        row(
            "GateSequential.GATE_SEQUENTIAL_BETTING INVALID_ARGUMENT BROKEN_GATE",
            gate(rule(Limit::MaxDropPercent(5.0)), |gate| {
                gate.sequential = GateSequential::Betting.into()
            }),
        ),
    ]
}

fn gateway() -> Vec<Row> {
    let named = |name: &str, id: &str| rpc_id(&format!("gateway.v1.ProviderService/{name}"), id);
    vec![
        row(
            "AccessService.CreateKey INVALID_ARGUMENT",
            vec![
                call(
                    "gateway.v1.AccessService/CreateKey",
                    CreateKeyRequest {
                        key: Some(ApiKey::default()),
                    },
                ),
                call("gateway.v1.AccessService/CreateKey", CreateKeyRequest::default()),
            ],
        ),
        row(
            "ProviderService INVALID_ARGUMENT",
            vec![
                create_provider(provider("Not An Id", SILENT)),
                create_provider(provider("new", "ftp://127.0.0.1")),
                create_provider(Provider {
                    kind: 0,
                    ..provider("new", SILENT)
                }),
                create_provider(Provider {
                    price_per_million_tokens: -1.0,
                    ..provider("new", SILENT)
                }),
            ],
        ),
        row(
            "ProviderService PERMISSION_DENIED ADDRESS_REFUSED",
            ["grpc://10.1.2.3:50051", "grpc://169.254.169.254:80", "grpc://[::1]:9"]
                .into_iter()
                .flat_map(|address| {
                    let inner = provider("inner", address);
                    [create_provider(inner.clone()), update_provider(inner, true)]
                })
                .collect(),
        ),
        row(
            "ProviderService.CreateProvider ALREADY_EXISTS PROVIDER_EXISTS",
            vec![create_provider(provider(DECLARED, SILENT))],
        ),
        row(
            "ProviderService.UpdateProvider NOT_FOUND UNKNOWN_PROVIDER",
            vec![update_provider(provider(NOBODY, SILENT), false)],
        ),
        row(
            "ProviderService.UpdateProvider FAILED_PRECONDITION DECLARED",
            vec![update_provider(provider(DECLARED, SILENT), false)],
        ),
        row(
            "ProviderService.RenewLease NOT_FOUND UNKNOWN_PROVIDER",
            vec![named("RenewLease", NOBODY)],
        ),
        row(
            "ProviderService.DeleteProvider NOT_FOUND UNKNOWN_PROVIDER",
            vec![delete_provider(NOBODY, "")],
        ),
        row(
            "ProviderService.DeleteProvider FAILED_PRECONDITION DECLARED",
            vec![delete_provider(DECLARED, "")],
        ),
        row(
            "ProviderService.CheckProvider NOT_FOUND UNKNOWN_PROVIDER",
            vec![named("CheckProvider", NOBODY)],
        ),
    ]
}
