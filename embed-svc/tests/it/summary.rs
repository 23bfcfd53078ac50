//! The description of a model compared with the loaded model.

use std::fs;

use isomer_embed::{EmbedConfig, device::Device, model::Model, summary::Summary};

use crate::common::{fixtures, is_computed};

#[test]
fn a_folder_is_described_as_it_loads() {
    let folders = fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path());
    let mut checked = 0;
    for folder in folders
        .filter(|folder| is_computed(folder))
        .filter(|folder| folder.join("golden.json").is_file() && folder.join("config.json").is_file())
    {
        let name = folder.display();
        let model = Model::load(&folder, &Device::Cpu).unwrap();
        let summary = Summary::of(&folder, "folder", &EmbedConfig::default()).unwrap();
        let columns = Some(model.dimensions()).filter(|_| !model.is_cross_encoder());
        assert_eq!(summary.dimensions, columns, "{name}");
        assert_eq!(summary.max_tokens, Some(model.max_tokens()), "{name}");
        assert_eq!(summary.backend, model.device().backend(), "{name}");
        assert_eq!(summary.precision, model.device().precision().name(), "{name}");
        assert_eq!(summary.include_prompt, model.folder().include_prompt, "{name}");
        let named = summary.stages.last() == Some(&"normalize");
        assert_eq!(named, model.normalises(), "{name}");
        assert!(summary.weight_bytes > 0, "{name}");
        checked += 1;
    }
    assert!(checked >= 25, "the fixtures are not there: {checked}");
}

#[test]
fn a_family_that_is_not_served_is_refused_as_loading_refuses_it() {
    let folder = tempfile::tempdir().unwrap();
    crate::common::tiny(folder.path());
    crate::common::edit_json(&folder.path().join("config.json"), |config| {
        config["model_type"] = "longformer".into();
    });
    let described = Summary::of(folder.path(), "folder", &EmbedConfig::default()).unwrap_err();
    let loaded = Model::load(folder.path(), &Device::Cpu).err().unwrap();
    assert_eq!(described.to_string(), loaded.to_string());
}
