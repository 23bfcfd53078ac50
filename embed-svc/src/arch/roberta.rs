//! RoBERTa (Liu et al. 2019), XLM-RoBERTa (Conneau et al. 2020) and CamemBERT: BERT with positions
//! counted from the padding token's id. multilingual-e5, BGE-M3, paraphrase-multilingual-mpnet and
//! others.

use super::{bert, encoder::Numbering, settings::Settings};
use crate::{error::EmbedError, folder::ModelFolder};

/// Reads and checks a folder's configuration; `name` is its `model_type`.
///
/// # Errors
/// If a key is missing, invalid, or requests an unsupported feature; the error names the key.
pub(super) fn read(folder: &ModelFolder, name: &'static str) -> Result<bert::Config, EmbedError> {
    let settings = Settings::of(folder);
    let padding = settings.count_or("pad_token_id", 1)?;
    let rows = settings.size("max_position_embeddings")?;
    if rows <= padding + 1 {
        return Err(settings.refuse(
            format!("max_position_embeddings {rows} leaves no position after pad_token_id {padding}"),
            "fetch the model again",
        ));
    }
    let numbering = Numbering::AfterPadding(u32::try_from(padding).unwrap_or_default());
    bert::Config::common(settings, name, &["", "roberta."], rows - padding - 1, numbering, 1e-12)
}
