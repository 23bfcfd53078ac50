//! Ends the references of a run.

use futures::TryStreamExt;
use isomer_blobs::BlobStore;

use crate::{
    RetentionError,
    holder::{Holder, RUNS},
};

/// Removes the references of a run. Blobs on which only this run relied may then be swept. Call it
/// when a run is deleted or has expired, never while it is active. It may be called again, and for
/// a run without references.
///
/// # Errors
/// If the store fails. Remaining references still hold their blobs.
pub async fn release(blobs: &BlobStore, run: &str) -> Result<(), RetentionError> {
    let Some(Holder::Run(id)) = Holder::run(run) else {
        return Ok(());
    };
    let listed = blobs.list(&format!("{RUNS}/{id}"));
    let names: Vec<String> = listed.map_ok(|one| one.name).try_collect().await?;
    for chunk in names.chunks(1000) {
        blobs.remove_all(chunk.to_vec()).await?;
    }
    Ok(())
}
