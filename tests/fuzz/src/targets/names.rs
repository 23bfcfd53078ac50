//! Names that become parts of paths.

use std::path::{Component, Path};

use isomer_eval::dataset::HubRef;
use isomer_models::{
    fuzz,
    hub::{HubDataset, HubModel},
};

use crate::input::text;

fn assert_stays(name: &str) {
    let path = Path::new(name);
    assert!(!name.is_empty() && !name.contains('\0'), "{name:?}");
    assert!(
        path.components().all(|part| matches!(part, Component::Normal(_))),
        "{name:?} points outside the cache's folder"
    );
    let cache = Path::new("/cache");
    assert!(cache.join(path).starts_with(cache));
}

/// Names of repositories, revisions, files and etags. A name that is accepted stays inside the
/// cache's folder, and is the same when it is written and read again.
pub(super) fn hub_names(data: &[u8]) {
    let all = text(data);
    if let Some(model) = HubModel::parse(&all) {
        for name in [Some(&model.repo), model.revision.as_ref(), model.file.as_ref()]
            .into_iter()
            .flatten()
        {
            assert_stays(name);
        }
        let again = HubModel::parse(&model.to_string());
        assert_eq!(
            again.map(|again| (again.repo, again.revision)),
            Some((model.repo, model.revision))
        );
    }
    if let Some(hub) = HubRef::parse(&all) {
        assert_stays(&hub.repo);
        hub.revision.iter().for_each(|revision| assert_stays(revision));
        assert_eq!(HubRef::parse(&hub.to_string()).as_ref(), Some(&hub));
    }
    let (repo, revision) = all.split_once('@').unwrap_or((&all, "main"));
    if let Some(dataset) = HubDataset::new(repo, Some(revision)) {
        assert_stays(&dataset.repo);
        assert_stays(revision);
    }
    if fuzz::is_listable(&all) {
        assert_stays(&all);
    }
    if fuzz::is_plain_name(&all) || fuzz::is_etag(&all) {
        assert_stays(&all);
        assert!(!all.contains('/'));
    }
}
