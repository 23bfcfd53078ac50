//! Ranges for int8 vectors, from a calibration set or a request's vectors.

use std::{path::PathBuf, sync::Arc, time::Instant};

use isomer_service_kit::{Tenant, vectors::Ranges};

use super::{
    Inner,
    encode::{run, tokenise},
    finish::{Delivery, rows},
    request::{Item, prompt},
};
use crate::{engine::Priority, error::EmbedError, registry::LoadedEncoder, tokenise::Cut};

/// Minimum number of vectors for reliable ranges; sentence-transformers warns below this number.
const LEAST: usize = 100;
/// Maximum number of texts that are read from a calibration set.
const MOST: usize = 10_000;

/// The ranges for a delivery. Ranges from a calibration set are computed once and belong to the
/// encoder. Ranges from the request's own vectors (`vectors`, before delivery) belong only to that
/// request.
pub(super) async fn ranges(
    inner: &Inner,
    encoder: &Arc<LoadedEncoder>,
    delivery: Delivery,
    vectors: &[f32],
    deadline: Option<Instant>,
) -> Result<Arc<Ranges>, EmbedError> {
    let id = &encoder.source.id;
    let Some(file) = file(inner, encoder) else {
        if vectors.len() / delivery.width.max(1) < LEAST {
            return Err(EmbedError::invalid(
                "output_dtype",
                format!("DTYPE_INT8 needs the ranges of `{id}`, and {LEAST} texts at least to find them on"),
                format!(
                    "put texts, one per line, into calibration.txt in the model's folder or name a file under \
                     embed.calibration; or send {LEAST} texts or more at once"
                ),
            ));
        }
        let finished = rows(id, vectors, delivery, None)?;
        return of(&finished, delivery).map(Arc::new);
    };
    let key = (delivery.dimensions, delivery.normalise);
    let mut known = encoder.ranges.lock().await;
    if let Some(ranges) = known.get(&key) {
        return Ok(ranges.clone());
    }
    let text = std::fs::read_to_string(&file)
        .map_err(|error| EmbedError::file(&file, format!("cannot be read: {error}"), "give UTF-8 text"))?;
    let items: Vec<Item> = text
        .lines()
        .filter(|line| !line.is_empty())
        .take(MOST)
        .map(|line| Item::Text(line.to_owned()))
        .collect();
    if items.len() < LEAST {
        return Err(EmbedError::file(
            &file,
            format!("holds {} texts", items.len()),
            format!("give {LEAST} at least, one per line"),
        ));
    }
    // One set of ranges, that of the default prompt, serves queries and documents, so that they can
    // be compared.
    let prompt = prompt(&encoder.model.folder().prompts, None)?.into();
    let tokens = tokenise(inner, encoder, items, prompt, Cut::Tail, |index| {
        format!("calibration[{index}]")
    })
    .await?;
    let sequences = tokens.into_iter().map(Into::into).collect();
    // The texts of a calibration set belong to the operator.
    let texts = (sequences, &Tenant::default());
    let made = run(inner, encoder, texts, Priority::Batch, deadline).await?;
    let finished = rows(id, &made.outputs.text_vectors, delivery, None)?;
    let ranges = Arc::new(of(&finished, delivery)?);
    known.insert(key, ranges.clone());
    Ok(ranges)
}

fn of(rows: &[f32], delivery: Delivery) -> Result<Ranges, EmbedError> {
    Ranges::of_rows(rows.chunks_exact(delivery.dimensions.max(1)))
        .ok_or_else(|| EmbedError::Internal("no vectors to calibrate on".into()))
}

/// The calibration set: the configuration's, else the folder's.
fn file(inner: &Inner, encoder: &LoadedEncoder) -> Option<PathBuf> {
    let named = inner.config.calibration.get(&encoder.source.id).cloned();
    named.or_else(|| Some(encoder.source.path.join("calibration.txt")).filter(|file| file.is_file()))
}
