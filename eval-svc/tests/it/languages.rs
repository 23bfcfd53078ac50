//! Languages of data sets found by their catalogue names.

use isomer_eval::{
    dataset::{LoadOptions, Role, Source, load},
    locate::{DatasetLocator, DatasetRequest, HubRules},
    profile::LanguageGroup,
};

/// Loads a data set of the catalogue from a folder of its name.
async fn loaded(name: &str, files: &[(&str, &str)], language: Option<&str>) -> isomer_eval::dataset::Dataset {
    let home = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = home.path().join(name).join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let places = DatasetLocator {
        rules: HubRules::owner(),
        folders: vec![home.path().to_owned()],
        hub: None,
    };
    let wanted = DatasetRequest {
        task: None,
        source: Source::Catalogue(name.to_owned()),
        split: None,
        options: LoadOptions {
            language: language.map(str::to_owned),
            ..LoadOptions::default()
        },
    };
    let located = places.locate(wanted).await.unwrap_or_else(|error| panic!("{error}"));
    load(located.task, &located.source, &located.options).unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn a_data_set_without_subsets_has_the_language_that_the_catalogue_knows() {
    let files = [
        (
            "corpus.jsonl",
            "{\"_id\": \"d\", \"text\": \"Aarhus er en by i Danmark.\"}\n",
        ),
        ("queries.jsonl", "{\"_id\": \"q\", \"text\": \"Hvor ligger Aarhus?\"}\n"),
        ("qrels/train.tsv", "query-id\tcorpus-id\tscore\nq\td\t1\n"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\td\t1\n"),
    ];
    let dataset = loaded("TwitterHjerneRetrieval", &files, None).await;
    assert_eq!(dataset.sides(), Some(("dan-Latn", "dan-Latn")));
    assert_eq!(dataset.language_group(), LanguageGroup::Other);
    // The language is not a subset: the split's files have no language in their names, and mteb
    // calls the subset `default`.
    assert_eq!(dataset.language(), None);
}

#[tokio::test]
async fn a_subset_of_two_languages_has_one_for_each_side() {
    let rows = "{\"sentence1\": \"A dog.\", \"sentence2\": \"كلب.\", \"score\": 5}\n\
                {\"sentence1\": \"A cow.\", \"sentence2\": \"قطار.\", \"score\": 0}\n";
    let files = [("test.en-ar.jsonl", rows)];
    let dataset = loaded("STS17", &files, Some("en-ar")).await;
    assert_eq!(dataset.language_of(Role::First), Some("eng-Latn"));
    assert_eq!(dataset.language_of(Role::Second), Some("ara-Arab"));
    assert_eq!(dataset.language_group(), LanguageGroup::Other);
}
