//! Messages that the tests of several crates send.

use isomer_proto::{
    encoder::v1::{EncodeRequest, Input, input},
    eval::v1::{
        CreateRunRequest, DatasetInput, DatasetRef, InlineFile, InlineFiles, RunSpec, ScoreRequest, SuiteRef, TaskType,
        dataset_ref, score_request, suite_ref,
    },
};

/// A request for the vectors of texts.
pub fn encode<T: Into<String>>(encoder: &str, texts: impl IntoIterator<Item = T>) -> EncodeRequest {
    let input = |text: T| Input {
        input: Some(input::Input::Text(text.into())),
    };
    EncodeRequest {
        encoder_id: encoder.to_owned(),
        inputs: texts.into_iter().map(input).collect(),
        ..EncodeRequest::default()
    }
}

/// A dataset that is sent with the request: paths and contents of its files.
pub fn inline<P: Into<String>, C: Into<Vec<u8>>>(files: impl IntoIterator<Item = (P, C)>) -> dataset_ref::Source {
    let file = |(path, content): (P, C)| InlineFile {
        path: path.into(),
        content: content.into(),
    };
    dataset_ref::Source::Inline(InlineFiles {
        files: files.into_iter().map(file).collect(),
    })
}

/// A request for the score of an encoder on a dataset.
pub fn score(task: TaskType, encoder: &str, source: dataset_ref::Source) -> ScoreRequest {
    let dataset = DatasetRef {
        source: Some(source),
        ..DatasetRef::default()
    };
    let input = DatasetInput {
        dataset: Some(dataset),
        encoder_id: encoder.to_owned(),
        ..DatasetInput::default()
    };
    ScoreRequest {
        task_type: task.into(),
        input: Some(score_request::Input::Dataset(input)),
        ..ScoreRequest::default()
    }
}

/// The dataset of a request for a score, for a test to change.
pub fn dataset(request: &mut ScoreRequest) -> &mut DatasetInput {
    match &mut request.input {
        Some(score_request::Input::Dataset(input)) => input,
        _ => panic!("the request has no dataset"),
    }
}

/// A suite that is sent with the request.
pub fn suite(toml: impl Into<String>) -> SuiteRef {
    SuiteRef {
        source: Some(suite_ref::Source::Toml(toml.into())),
        ..SuiteRef::default()
    }
}

/// A suite of a small built-in dataset, with one transformation and one seed.
pub const SMALL_SUITE: &str = "name = \"small\"
seeds = [1]
transformations = [\"paraphrase\"]
[[dataset]]
task = \"sts\"
builtin = \"quick/sts\"
";

/// A request for a run of the small suite.
pub fn small_run(encoder: &str) -> CreateRunRequest {
    CreateRunRequest {
        spec: Some(RunSpec {
            suite: Some(suite(SMALL_SUITE)),
            encoder_ids: vec![encoder.to_owned()],
            limit: Some(8),
            ..RunSpec::default()
        }),
        ..CreateRunRequest::default()
    }
}
