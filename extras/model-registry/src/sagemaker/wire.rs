//! The used parts of the messages of SageMaker's API.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorBody {
    #[serde(rename = "__type")]
    pub(super) kind: String,
    #[serde(alias = "Message")]
    pub(super) message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct PackageList {
    pub(super) model_package_summary_list: Vec<Summary>,
    pub(super) next_token: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Summary {
    pub(super) model_package_arn: String,
    pub(super) model_package_version: Option<u64>,
}

/// A status of approval.
pub(super) const APPROVED: &str = "Approved";
pub(super) const REJECTED: &str = "Rejected";
pub(super) const PENDING: &str = "PendingManualApproval";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Package {
    pub(super) model_package_arn: String,
    pub(super) model_package_version: Option<u64>,
    #[serde(default)]
    pub(super) model_package_group_name: Option<String>,
    #[serde(default)]
    pub(super) model_package_status: Option<String>,
    #[serde(default)]
    pub(super) model_approval_status: Option<String>,
    #[serde(default)]
    pub(super) customer_metadata_properties: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) inference_specification: Option<Inference>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Inference {
    pub(super) containers: Vec<Container>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Container {
    pub(super) model_data_url: Option<String>,
    pub(super) model_data_source: Option<DataSource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct DataSource {
    #[serde(rename = "S3DataSource")]
    pub(super) s3: Option<S3Source>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct S3Source {
    #[serde(rename = "S3Uri")]
    pub(super) uri: String,
    pub(super) compression_type: String,
}

impl Package {
    /// The location of its files: the URI, and whether it is an archive. If there are several
    /// containers, the first with data counts.
    pub(super) fn data(&self) -> Option<(String, bool)> {
        let containers = self.inference_specification.iter().flat_map(|one| &one.containers);
        containers.into_iter().find_map(|container| {
            let source = container
                .model_data_source
                .as_ref()
                .and_then(|source| source.s3.as_ref());
            match (source, &container.model_data_url) {
                (Some(source), _) => Some((source.uri.clone(), source.compression_type != "None")),
                (None, Some(url)) => Some((url.clone(), true)),
                (None, None) => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn files_are_an_archive_unless_they_are_said_to_be_none() {
        let of = |container: &str| {
            let text = format!(
                r#"{{"ModelPackageArn":"arn","ModelPackageVersion":1,"InferenceSpecification":{{"Containers":[{{"Image":"x"}},{container}]}}}}"#
            );
            serde_json::from_str::<Package>(&text).unwrap().data()
        };
        let url = "s3://b/model.tar.gz".to_owned();
        assert_eq!(
            of(r#"{"Image":"i","ModelDataUrl":"s3://b/model.tar.gz"}"#),
            Some((url.clone(), true))
        );
        let source = |kind: &str, uri: &str| {
            of(&format!(
                r#"{{"ModelDataSource":{{"S3DataSource":{{"S3Uri":"{uri}","S3DataType":"S3Prefix","CompressionType":"{kind}"}}}}}}"#
            ))
        };
        assert_eq!(source("Gzip", &url), Some((url, true)));
        assert_eq!(source("None", "s3://b/m/"), Some(("s3://b/m/".to_owned(), false)));
        assert_eq!(of(r#"{"Image":"i"}"#), None);
    }
}
