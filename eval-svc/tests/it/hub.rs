//! Data sets on the hub, which a loopback server simulates, and names of the catalogue.

use std::{fs, path::PathBuf, sync::Arc};

use isomer_eval::{
    EvalConfig,
    dataset::{Dataset, DatasetError, HubRef, LoadOptions, Source, load},
    locate::{DatasetLocator, DatasetRequest, HubAccess, HubRules},
    mteb_result,
    task::TaskType,
};
use isomer_models::{ModelsConfig, Progress, Resolver};
use isomer_proto::eval::v1::{self as proto, DatasetInput, DatasetRef, ScoreRequest, dataset_ref, score_request};
use isomer_service_kit::Fault;
use isomer_stubs::{
    hub::{COMMIT, Hub, HubServer},
    promise::promised,
};
use parking_lot::Mutex;
use tonic::Code;

use crate::{
    harness::house_on_hub,
    published::{published, shared},
    support::fixtures,
};

/// A hub with some repositories, and a machine with its own caches.
struct World {
    folder: tempfile::TempDir,
    hub: Arc<HubServer>,
}

impl World {
    async fn new(repositories: &[(&str, &[(&str, &[u8])])]) -> Self {
        let files = |files: &[(&str, &[u8])]| {
            files
                .iter()
                .map(|(name, data)| ((*name).to_owned(), data.to_vec()))
                .collect()
        };
        let hub = Hub {
            repositories: repositories
                .iter()
                .map(|(id, all)| ((*id).to_owned(), files(all)))
                .collect(),
            ..Hub::default()
        };
        Self {
            folder: tempfile::tempdir().unwrap(),
            hub: hub.serve().await,
        }
    }

    fn resolver(&self, offline: bool) -> Resolver {
        let config = ModelsConfig {
            home: self.folder.path().join("home"),
            hub_cache: Some(self.folder.path().join("hub")),
            hub_endpoint: Some(self.hub.address.clone()),
            hub: true,
            offline,
            download_on_request: false,
            catalogue: None,
            hub_timeout_s: 5.0,
            python: None,
            pip_args: Vec::new(),
        };
        Resolver::new(config).unwrap()
    }

    fn places(&self, offline: bool) -> DatasetLocator {
        DatasetLocator {
            rules: HubRules::owner(),
            folders: vec![self.folder.path().join("data")],
            hub: Some(self.resolver(offline)),
        }
    }

    fn asked(&self) -> usize {
        self.hub.asked("")
    }

    /// The snapshot in the layout of Python's cache.
    fn snapshot(&self, repo: &str) -> PathBuf {
        let name = format!("datasets--{}", repo.replace('/', "--"));
        self.folder.path().join("hub").join(name).join("snapshots").join(COMMIT)
    }

    async fn load(&self, task: TaskType, source: Source, options: LoadOptions) -> Result<Dataset, DatasetError> {
        read(&self.places(false), task, source, options).await
    }
}

async fn read(
    places: &DatasetLocator,
    task: TaskType,
    source: Source,
    options: LoadOptions,
) -> Result<Dataset, DatasetError> {
    let wanted = DatasetRequest {
        task: Some(task),
        source,
        split: None,
        options,
    };
    let located = places.locate(wanted).await?;
    load(located.task, &located.source, &located.options)
}

fn hub(id: &str) -> Source {
    Source::Hub(HubRef::parse(id).unwrap())
}

fn language(language: &str) -> LoadOptions {
    LoadOptions {
        language: Some(language.to_owned()),
        ..LoadOptions::default()
    }
}

fn shards() -> [Vec<u8>; 2] {
    [0, 1].map(|i| fs::read(fixtures().join(format!("data/test-0000{i}-of-00002.parquet"))).unwrap())
}

const CARD: &[u8] =
    b"---\nlicence: mit\nconfigs:\n- config_name: en\n  data_files:\n  - split: test\n    path: en/test-*\n\
                      - config_name: de\n  data_files:\n  - split: test\n    path: de.jsonl\n---\n# Pairs\n";
const ROWS: &[u8] =
    b"{\"sentence1\":\"a\",\"sentence2\":\"b\",\"score\":1}\n{\"sentence1\":\"c\",\"sentence2\":\"d\",\"score\":2}\n";

async fn pairs() -> World {
    let [first, second] = shards();
    let files: &[(&str, &[u8])] = &[
        ("README.md", CARD),
        ("en/test-00000-of-00002.parquet", &first),
        ("en/test-00001-of-00002.parquet", &second),
        ("de.jsonl", ROWS),
        ("large.bin", b"not wanted"),
    ];
    World::new(&[("org/pairs", files)]).await
}

/// Records progress reports.
#[derive(Default)]
struct ProgressLog(Mutex<Vec<(String, u64, Option<u64>)>>);

impl Progress for ProgressLog {
    fn update(&self, what: &str, done: u64, total: Option<u64>) {
        self.0.lock().push((what.to_owned(), done, total));
    }
}

#[tokio::test]
async fn what_the_hub_sends_is_told_while_it_comes_and_nothing_where_it_is_there() {
    let world = pairs().await;
    let places = world.places(false);
    let wanted = |id: String| DatasetRequest {
        task: Some(TaskType::Sts),
        source: hub(&id),
        split: None,
        options: LoadOptions::default(),
    };
    let told = ProgressLog::default();
    places
        .locate_with(wanted("org/pairs:en".to_owned()), &told)
        .await
        .unwrap();
    let heard = told.0.into_inner();
    for (number, shard) in shards().iter().enumerate() {
        let size = shard.len() as u64;
        let whole = (
            format!("downloading en/test-0000{number}-of-00002.parquet"),
            size,
            Some(size),
        );
        assert!(heard.contains(&whole), "{heard:?}");
    }
    let again = ProgressLog::default();
    places
        .locate_with(wanted(format!("org/pairs:en@{COMMIT}")), &again)
        .await
        .unwrap();
    assert_eq!(again.0.into_inner(), []);
}

#[tokio::test]
async fn a_data_set_is_fetched_by_its_card_into_the_cache_python_uses_and_its_commit_is_known() {
    let world = pairs().await;
    let dataset = world
        .load(TaskType::Sts, hub("org/pairs:en"), LoadOptions::default())
        .await
        .unwrap();
    assert_eq!((dataset.items(), dataset.revision()), (4, Some(COMMIT)));
    assert_eq!((dataset.name(), dataset.language()), ("org/pairs:en", Some("en")));
    assert_eq!(dataset.gold().unwrap(), [4.8, 0.5, 2.25, 3.0]);
    let snapshot = world.snapshot("org/pairs");
    assert!(snapshot.join("en/test-00001-of-00002.parquet").is_file());
    assert!(!snapshot.join("large.bin").exists() && !snapshot.join("de.jsonl").exists());
    let note = snapshot.parent().unwrap().parent().unwrap().join("refs/main");
    assert_eq!(fs::read_to_string(note).unwrap(), COMMIT);

    // A commit is immutable, so it is not requested again. A language is used as the configuration
    // if none is named.
    let asked = world.asked();
    let pinned = format!("org/pairs@{COMMIT}");
    assert_eq!(
        world
            .load(TaskType::Sts, hub(&pinned), language("en"))
            .await
            .unwrap()
            .digest(),
        dataset.digest()
    );
    assert_eq!(world.asked(), asked);

    // Offline, a branch has its last known commit; data that was never fetched is reported as
    // missing.
    let offline = world.places(true);
    let again = read(&offline, TaskType::Sts, hub("org/pairs:en"), LoadOptions::default())
        .await
        .unwrap();
    assert_eq!((again.digest(), again.revision()), (dataset.digest(), Some(COMMIT)));
    let missing = read(&offline, TaskType::Sts, hub("org/pairs:de"), LoadOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(missing, DatasetError::Hub { .. }), "{missing:?}");
    let said = missing.to_string();
    assert!(
        said.contains("is not in the hub's cache") && said.contains("hf download --repo-type dataset org/pairs"),
        "{said}"
    );
    assert_eq!(world.asked(), asked);
}

#[tokio::test]
async fn what_python_fetched_is_found_offline() {
    let world = World::new(&[]).await;
    let snapshot = world.snapshot("org/pairs");
    fs::create_dir_all(&snapshot).unwrap();
    fs::write(snapshot.join("README.md"), CARD).unwrap();
    fs::write(snapshot.join("de.jsonl"), ROWS).unwrap();
    let refs = snapshot.parent().unwrap().parent().unwrap().join("refs");
    fs::create_dir_all(&refs).unwrap();
    fs::write(refs.join("main"), COMMIT).unwrap();
    let offline = world.places(true);
    let dataset = read(&offline, TaskType::Sts, hub("org/pairs"), language("de"))
        .await
        .unwrap();
    assert_eq!(
        (dataset.items(), dataset.revision(), dataset.language()),
        (2, Some(COMMIT), Some("de"))
    );
}

#[tokio::test]
async fn a_copy_of_a_repository_is_read_by_its_card() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = shards();
    fs::create_dir(folder.path().join("en")).unwrap();
    fs::write(folder.path().join("README.md"), CARD).unwrap();
    fs::write(folder.path().join("en/test-00000-of-00002.parquet"), first).unwrap();
    fs::write(folder.path().join("en/test-00001-of-00002.parquet"), second).unwrap();
    let source = || Source::Path(folder.path().to_owned());
    let dataset = read(&DatasetLocator::default(), TaskType::Sts, source(), language("en"))
        .await
        .unwrap();
    assert_eq!(
        (dataset.items(), dataset.revision(), dataset.language()),
        (4, None, Some("en"))
    );
    let error = read(
        &DatasetLocator::default(),
        TaskType::Retrieval,
        source(),
        LoadOptions::default(),
    )
    .await
    .unwrap_err();
    assert!(
        matches!(&error, DatasetError::MissingFile { missing, .. } if missing == "qrels/test.tsv"),
        "{error}"
    );
}

#[tokio::test]
async fn what_a_repository_does_not_hold_is_said_with_what_it_holds() {
    let world = pairs().await;
    let error = |id: &'static str, options: LoadOptions| {
        let world = &world;
        async move {
            world
                .load(TaskType::Sts, hub(id), options)
                .await
                .unwrap_err()
                .to_string()
        }
    };
    let several = error("org/pairs", LoadOptions::default()).await;
    assert!(
        several.contains("several configurations and none is chosen") && several.contains("de (test), en (test)"),
        "{several}"
    );
    assert!(
        error("org/pairs:fr", LoadOptions::default())
            .await
            .contains("no configuration `fr`")
    );
    let unknown = error("org/none", LoadOptions::default()).await;
    assert!(
        unknown.contains("org/none")
            && unknown.contains("no repository or revision")
            && unknown.contains("check the spelling"),
        "{unknown}"
    );
    let closed = DatasetLocator {
        rules: HubRules::owner(),
        folders: Vec::new(),
        hub: None,
    };
    let refused = read(&closed, TaskType::Sts, hub("org/pairs"), LoadOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(refused, DatasetError::Hub { .. }), "{refused}");
    assert!(refused.to_string().contains("has no access to the hub"), "{refused}");
}

const PARTS: &[u8] =
    b"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: test\n    path: qrels/test.jsonl\n\
                       - config_name: corpus\n  data_files:\n  - split: corpus\n    path: corpus.jsonl\n\
                       - config_name: queries\n  data_files:\n  - split: queries\n    path: queries.jsonl\n\
                       - config_name: top_ranked\n  data_files:\n  - split: test\n    path: top.jsonl\n---\n";

#[tokio::test]
async fn retrieval_and_reranking_are_put_together_from_their_configurations() {
    let files: &[(&str, &[u8])] = &[
        ("README.md", PARTS),
        (
            "corpus.jsonl",
            b"{\"_id\":\"d\",\"title\":\"T\",\"text\":\"one\"}\n{\"_id\":\"e\",\"text\":\"two\"}\n",
        ),
        ("queries.jsonl", b"{\"_id\":\"q\",\"text\":\"first\"}\n"),
        (
            "qrels/test.jsonl",
            b"{\"query-id\":\"q\",\"corpus-id\":\"e\",\"score\":1.0}\n",
        ),
        ("top.jsonl", b"{\"query-id\":\"q\",\"corpus-ids\":[\"d\",\"e\"]}\n"),
    ];
    let world = World::new(&[("org/parts", files)]).await;
    let texts = |dataset: &Dataset| dataset.texts().iter().map(|text| text.text.clone()).collect::<Vec<_>>();
    let retrieval = world
        .load(TaskType::Retrieval, hub("org/parts"), LoadOptions::default())
        .await
        .unwrap();
    assert_eq!(texts(&retrieval), ["first", "T one", "two"]);
    let reranking = world
        .load(TaskType::Reranking, hub("org/parts"), LoadOptions::default())
        .await
        .unwrap();
    assert_eq!(texts(&reranking), ["first", "two", "T one"]);
}

#[tokio::test]
async fn a_name_of_the_catalogue_is_looked_for_in_folders_and_then_on_the_hub() {
    let files: &[(&str, &[u8])] = &[("README.md", b"# none\n"), ("test.jsonl", ROWS)];
    let world = World::new(&[("mteb/stsbenchmark-sts", files)]).await;
    let name = || Source::Catalogue("stsbenchmark".to_owned());
    let from_hub = world.load(TaskType::Sts, name(), LoadOptions::default()).await.unwrap();
    assert_eq!((from_hub.name(), from_hub.items()), ("STSBenchmark", 2));
    assert!(from_hub.notes().iter().any(|note| note.contains("STSBenchmark.v2")));
    assert_eq!(from_hub.revision(), Some("b0fddb56ed78048fa8b90373c8a3cfc37b684831"));
    assert_eq!(from_hub.languages().unwrap(), ["eng-Latn"]);

    let asked = world.asked();
    let folder = world.folder.path().join("data/STSBenchmark");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("test.csv"),
        "sentence1,sentence2,score\na,b,1\nc,d,2\ne,f,3\n",
    )
    .unwrap();
    let from_folder = world.load(TaskType::Sts, name(), LoadOptions::default()).await.unwrap();
    assert_eq!(
        (from_folder.name(), from_folder.items(), from_folder.revision()),
        ("STSBenchmark", 3, None)
    );
    assert_eq!(world.asked(), asked);

    let other = world
        .load(TaskType::Retrieval, name(), LoadOptions::default())
        .await
        .unwrap_err();
    let wrong_task = |error: &DatasetError| matches!(error, DatasetError::OtherTask { task, asked, .. } if (*task, *asked) == (TaskType::Sts, TaskType::Retrieval));
    assert!(wrong_task(&other), "{other}");
    let typo = world
        .load(
            TaskType::Sts,
            Source::Catalogue("STSBenchmrk".into()),
            LoadOptions::default(),
        )
        .await
        .unwrap_err();
    assert!(
        matches!(&typo, DatasetError::UnknownName { nearest: Some(name), .. } if name == "STSBenchmark"),
        "{typo}"
    );
}

#[tokio::test]
async fn a_name_that_cannot_be_reached_says_where_it_was_looked_for_and_how_to_get_it() {
    let world = World::new(&[]).await;
    let lost = read(
        &world.places(true),
        TaskType::Sts,
        Source::Catalogue("BIOSSES".into()),
        LoadOptions::default(),
    )
    .await;
    let lost = lost.unwrap_err();
    assert!(
        matches!(&lost, DatasetError::Unreachable { name, tried, .. } if name == "BIOSSES" && tried.len() == 2),
        "{lost:?}"
    );
    let said = lost.to_string();
    for part in [
        "data/BIOSSES",
        "offline",
        "hf download --repo-type dataset mteb/biosses-sts --revision d3fb88f8",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let which = read(
        &world.places(true),
        TaskType::Sts,
        Source::Catalogue("STS17".into()),
        LoadOptions::default(),
    )
    .await;
    let said = which.unwrap_err().to_string();
    assert!(said.contains("choose a language") && said.contains("en-tr"), "{said}");
}

#[tokio::test]
async fn scores_over_the_wire_name_the_commit() {
    let world = pairs().await;
    let any = EvalConfig {
        hub: HubAccess::Any,
        ..EvalConfig::default()
    };
    let mut harness = house_on_hub(any, world.resolver(false)).await;
    let request = |dataset: DatasetRef| ScoreRequest {
        task_type: proto::TaskType::Sts.into(),
        input: Some(score_request::Input::Dataset(DatasetInput {
            dataset: Some(dataset),
            encoder_id: "fake".into(),
            ..DatasetInput::default()
        })),
        ..ScoreRequest::default()
    };
    let wanted = DatasetRef {
        source: Some(dataset_ref::Source::HubId("org/pairs".into())),
        config: "en".into(),
        ..DatasetRef::default()
    };
    // The operator decides which data sets are fetched; by default a caller's choice is refused.
    let mut closed = house_on_hub(EvalConfig::default(), world.resolver(false)).await;
    let refused = closed.tasks.score(request(wanted.clone())).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    assert!(refused.message().contains("eval.hub"), "{refused}");
    let scored = harness.tasks.score(request(wanted.clone())).await.unwrap().into_inner();
    let document = mteb_result::to_json(&scored.mteb_result.unwrap());
    assert_eq!(document["dataset_revision"], COMMIT);
    assert_eq!(
        document["scores"]["test"][0]["languages"],
        serde_json::json!(["eng-Latn"])
    );

    let named = DatasetRef {
        source: Some(dataset_ref::Source::Named("org/pairs:en".into())),
        ..DatasetRef::default()
    };
    assert_eq!(
        harness
            .tasks
            .score(request(named))
            .await
            .unwrap()
            .into_inner()
            .main_score,
        scored.main_score
    );

    let wrong = DatasetRef {
        source: Some(dataset_ref::Source::HubId("pairs".into())),
        ..DatasetRef::default()
    };
    let fault = Fault::from_status(&harness.tasks.score(request(wrong)).await.unwrap_err());
    assert_eq!(
        (fault.code, fault.field.as_deref()),
        (Code::InvalidArgument, Some("dataset.dataset.hub_id"))
    );
    let misplaced = DatasetRef {
        source: Some(dataset_ref::Source::Builtin("quick/sts".into())),
        revision: "main".into(),
        ..DatasetRef::default()
    };
    let fault = Fault::from_status(&harness.tasks.score(request(misplaced)).await.unwrap_err());
    assert_eq!(fault.field.as_deref(), Some("dataset.dataset.revision"));
    let lost = DatasetRef {
        source: Some(dataset_ref::Source::HubId("org/none".into())),
        ..DatasetRef::default()
    };
    promised(
        "TaskService.Score UNAVAILABLE DATASET_UNREACHABLE dataset",
        &harness.tasks.score(request(lost)).await.unwrap_err().into(),
    );
}

#[tokio::test]
async fn the_catalogue_is_listed_by_collection_and_says_what_lies_here() {
    let world = World::new(&[]).await;
    let data = world.folder.path().join("data");
    fs::create_dir_all(data.join("STSBenchmark.v2")).unwrap();
    let config = EvalConfig {
        dataset_dirs: vec![data.clone()],
        ..EvalConfig::default()
    };
    let mut harness = house_on_hub(config, world.resolver(true)).await;
    let mut names = Vec::new();
    let mut request = proto::ListDatasetsRequest {
        family: "hteb-english".into(),
        page_size: 7,
        ..proto::ListDatasetsRequest::default()
    };
    loop {
        let page = harness.tasks.list_datasets(request.clone()).await.unwrap().into_inner();
        names.extend(page.datasets);
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(names.len(), 19);
    let sts = names.iter().find(|info| info.name == "STSBenchmark.v2").unwrap();
    assert_eq!(
        (sts.task_type(), sts.main_score.as_str()),
        (proto::TaskType::Sts, "cosine_spearman")
    );
    assert_eq!(PathBuf::from(&sts.path), data.join("STSBenchmark.v2"));
    assert!(names.iter().filter(|info| info.path.is_empty()).count() == 18);
    request.family = "mteb".into();
    let fault = Fault::from_status(&harness.tasks.list_datasets(request).await.unwrap_err());
    assert_eq!((fault.code, fault.field.as_deref()), (Code::NotFound, Some("family")));
}

/// Name, language, task and number of items of a data set of the catalogue.
type CatalogueRow = (&'static str, Option<&'static str>, TaskType, usize);

async fn names_find(cases: &[CatalogueRow], data: PathBuf) {
    let places = DatasetLocator {
        rules: HubRules::owner(),
        folders: vec![data],
        hub: None,
    };
    for &(name, language, task, items) in cases {
        let wanted = DatasetRequest {
            task: None,
            source: Source::Catalogue(name.into()),
            split: None,
            options: LoadOptions {
                language: language.map(str::to_owned),
                ..LoadOptions::default()
            },
        };
        let located = places.locate(wanted).await.unwrap_or_else(|error| panic!("{error}"));
        let dataset = load(located.task, &located.source, &located.options).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((dataset.task(), dataset.items(), dataset.name()), (task, items, name));
    }
}

#[tokio::test]
async fn names_find_published_data_sets_with_their_tasks_and_options() {
    let cases = [
        ("STS17", Some("en-en"), TaskType::Sts, 250),
        ("Banking77Classification", None, TaskType::Classification, 3080),
    ];
    names_find(&cases, published("")).await;
}

#[tokio::test]
#[ignore = "tests/more data: licences forbid a copy of the data sets"]
async fn names_find_shared_data_sets_with_their_tasks_and_options() {
    let cases = [
        ("STSBenchmark", None, TaskType::Sts, 1379),
        ("MasakhaNEWSClusteringS2S", Some("eng"), TaskType::Clustering, 948),
        ("SummEval", None, TaskType::Summarisation, 100),
        ("NFCorpus", None, TaskType::Retrieval, 323),
    ];
    names_find(&cases, shared("")).await;
}
