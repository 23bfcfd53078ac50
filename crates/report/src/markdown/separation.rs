//! Whether encoders distinguish rewrites from changes of meaning.

use super::{Report, header, plain, row};
use crate::{
    EncoderSeparation, SeparationRow,
    format::{percent, share, signed_fine},
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
    let cells = [
        "Encoder",
        "Of",
        "Separation",
        "95 % interval",
        "Texts",
        "Margin",
        "Overlap alone",
        "Moves less",
        "Comparisons",
        "Tied",
        "Undefined",
    ];
    header(page, &cells, 2);
    for encoder in &separation.encoders {
        for one in encoder.rows() {
            row(page, &row_cells(encoder, one));
        }
    }
    page.push('\n');
}

fn row_cells(encoder: &EncoderSeparation, one: &SeparationRow) -> Vec<String> {
    vec![
        plain(&encoder.encoder),
        plain(&one.of_text()),
        one.share_text(),
        one.interval_text(),
        one.texts.to_string(),
        one.margin.map_or("–".to_owned(), signed_fine),
        one.overlap_alone.map_or("–".to_owned(), share),
        one.nearer_than_change.map_or("–".to_owned(), percent),
        one.comparisons.to_string(),
        one.tied.to_string(),
        one.undefined.to_string(),
    ]
}
