//! Whether encoders distinguish rewrites from changes of meaning.

use super::{Report, plain};
use crate::{
    format::{percent, share, signed_fine},
    text_table::{TextTable, dash},
};

pub(super) fn write(page: &mut String, report: &Report) {
    let Some(separation) = &report.separation else { return };
    page.push_str(&format!(
        "## Separation\n\nShare of texts whose rewrite is nearer to the text than to a copy of it with one small edit that changes the \
         meaning (cosine, by more than rounding). Chance is 0.50; a blind encoder is at or below it, however robust it looks. At most {} \
         texts of each data set, of at most {} words; rewrites by {}; one that differs in one word or less is left out, and so is a comparison in \
         which the encoder cut a text at its length. A text counts once; 95 % Clopper–Pearson interval over texts. \
         Margin: in parallel gaps. Overlap alone: what counting shared words would separate. Moves less: share of texts that the whole \
         rewording moves by less than the one edit.\n\n",
        separation.texts_per_dataset,
        separation.most_words,
        match separation.transformations.as_slice() {
            [] => "none that stay in the text's language".to_owned(),
            labels => plain(&labels.join(", ")),
        }
    ));
    for sentence in separation.asked_sentences() {
        page.push_str(&format!("- {}\n", plain(&sentence)));
    }
    for one in &separation.encoders {
        page.push_str(&format!("- {}\n", plain(&one.sentence())));
    }
    page.push('\n');
    let encoders = separation.encoders.iter();
    let rows = encoders.flat_map(|encoder| encoder.rows().map(move |one| (encoder, one)));
    TextTable::of(rows)
        .words("Encoder", |(encoder, _)| plain(&encoder.encoder))
        .words("Of", |(_, one)| plain(&one.of_text()))
        .number("Separation", |(_, one)| one.share_text())
        .number("95 % interval", |(_, one)| one.interval_text())
        .number("Texts", |(_, one)| one.texts.to_string())
        .number("Margin", |(_, one)| one.margin.map_or_else(dash, signed_fine))
        .number("Overlap alone", |(_, one)| one.overlap_alone.map_or_else(dash, share))
        .number("Moves less", |(_, one)| {
            one.nearer_than_change.map_or_else(dash, percent)
        })
        .number("Comparisons", |(_, one)| one.comparisons.to_string())
        .number("Tied", |(_, one)| one.tied.to_string())
        .number("Undefined", |(_, one)| one.undefined.to_string())
        .write(page);
}
