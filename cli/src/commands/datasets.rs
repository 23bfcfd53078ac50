//! `isomer datasets`: the catalogue of data sets.

use std::{io::Write, process::ExitCode};

use isomer_proto::{
    ProtoEnum,
    eval::v1::{DatasetInfo, ListDatasetsRequest, TaskType, task_service_client::TaskServiceClient},
};
use serde_json::{Value, json};

use super::{eval::score_request::task_named, stdout_failure};
use crate::{
    args::{DatasetsArgs, Format},
    connect::Session,
    exit::Failure,
    table::{Table, TextTable},
};

pub(super) async fn run(session: &Session, args: DatasetsArgs) -> Result<ExitCode, Failure> {
    let task_type = match &args.task {
        Some(task) => task_named(task)?,
        None => TaskType::Unspecified,
    };
    let connection = session.connect().await?;
    let mut client = TaskServiceClient::new(connection.channel.clone());
    let mut request = ListDatasetsRequest {
        family: args.family.unwrap_or_default(),
        task_type: task_type.into(),
        ..ListDatasetsRequest::default()
    };
    let mut datasets = Vec::new();
    loop {
        let page = client.list_datasets(request.clone()).await?.into_inner();
        datasets.extend(page.datasets);
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    let mut out = std::io::stdout().lock();
    match session.global.format {
        Format::Json => datasets
            .iter()
            .try_for_each(|dataset| writeln!(out, "{}", document(dataset))),
        Format::Text => writeln!(out, "{}", table(&datasets)),
    }
    .map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}

fn task(dataset: &DatasetInfo) -> &'static str {
    dataset.task_type().dashed()
}

fn document(dataset: &DatasetInfo) -> Value {
    let families = dataset
        .families
        .iter()
        .map(|f| json!({ "name": f.name, "subsets": f.subsets }));
    let mut fields: Vec<_> = dataset.fields.iter().collect();
    fields.sort();
    json!({
        "name": dataset.name,
        "task": task(dataset),
        "main_score": dataset.main_score,
        "split": dataset.split,
        "hub_id": dataset.hub_id,
        "revision": dataset.revision,
        "fields": fields.into_iter().map(|(ours, theirs)| (ours.clone(), json!(theirs))).collect::<serde_json::Map<_, _>>(),
        "transformed_fields": dataset.transformed_fields,
        "subsets": dataset.subsets,
        "languages": dataset.languages,
        "families": families.collect::<Vec<_>>(),
        "path": Some(&dataset.path).filter(|path| !path.is_empty()),
    })
}

fn table(datasets: &[DatasetInfo]) -> Table {
    let families = |dataset: &DatasetInfo| -> String {
        let families = dataset.families.iter().map(|family| family.name.as_str());
        families.collect::<Vec<_>>().join(", ")
    };
    TextTable::of(datasets)
        .words("name", |dataset| dataset.name.clone())
        .words("task", |dataset| task(dataset).to_owned())
        .words("main score", |dataset| dataset.main_score.clone())
        // --language accepts the subsets; for a data set without subsets, its language codes are
        // shown.
        .words("languages", |dataset| match dataset.subsets.as_slice() {
            [] => few(&dataset.languages),
            subsets => few(subsets),
        })
        .words("in", families)
        .words("where", |dataset| match dataset.path.as_str() {
            "" => dataset.hub_id.clone(),
            path => path.to_owned(),
        })
        .into()
}

/// The first few names of many.
fn few(names: &[String]) -> String {
    const SHOWN: usize = 6;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(" ");
    match names.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        Some(more) => format!("{shown} + {more}"),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use isomer_proto::eval::v1::dataset_info::Family;

    use super::*;

    fn long() -> DatasetInfo {
        DatasetInfo {
            name: "MassiveIntentClassification".into(),
            task_type: TaskType::Classification.into(),
            main_score: "accuracy".into(),
            subsets: ["ar", "de", "en", "es", "fr", "hi", "ja"].map(Into::into).to_vec(),
            families: ["hteb-english", "hteb-multilingual", "pteb"]
                .map(|name| Family {
                    name: name.into(),
                    ..Family::default()
                })
                .to_vec(),
            hub_id: "mteb/amazon_massive_intent".into(),
            ..DatasetInfo::default()
        }
    }

    #[test]
    fn a_table_fits_a_terminal_of_80_columns() {
        let mut table = table(&[long()]);
        assert!(crate::table::width_on_80(&mut table) <= 80, "{table}");
        assert!(table.to_string().contains("accuracy"), "{table}");
    }
}
