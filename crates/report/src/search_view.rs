//! The section on searches by terms in reports: the drop of each encoder by its vectors alone, by
//! terms, and by both.

use minijinja::{Value, context};

use super::{
    Report,
    format::{percent, points, signed},
};
use crate::{
    evidence::interval::DeltaInterval,
    profile::{DropShare, EncoderProfile, Level, Moved, Quantity},
};

pub(super) const LEGEND: &str = "Retrieval by the encoder's vectors alone (dense), by BM25, and by both fused. Change: rewritten less \
                                 original, in points. Left: the change of the search divided by that of the vectors, over the same \
                                 queries. Intervals are 95 % over queries; that of the share is Fieller's. Both are missing if the \
                                 change of the vectors may be 0.";
pub(super) const HEAD: [&str; 8] = [
    "Encoder",
    "Search",
    "Texts",
    "Original",
    "Change",
    "95 % interval",
    "Left",
    "95 % interval",
];
/// More transformations than this are shown by axis alone.
const MOST_TRANSFORMATIONS: usize = 12;

/// Rows for each encoder and quantity: its vectors, then its searches.
pub(super) fn rows(report: &Report) -> Vec<Vec<String>> {
    let single = report.suite.transformations.len() <= MOST_TRANSFORMATIONS;
    let mut rows = Vec::new();
    let mut last: Option<(&str, &Quantity)> = None;
    for (encoder, quantity) in report
        .drop_shares
        .iter()
        .map(|one| (one.encoder.as_str(), &one.quantity))
    {
        if last == Some((encoder, quantity)) || (quantity.level == Level::Transformation && !single) {
            continue;
        }
        last = Some((encoder, quantity));
        rows.extend(row(report, (encoder, "dense"), quantity, None));
        let own = report.drop_shares.iter();
        let own = own.filter(|one| one.encoder == encoder && one.quantity == *quantity);
        rows.extend(own.filter_map(|one| row(report, (encoder, &one.form), quantity, Some(one))));
    }
    rows
}

fn row(
    report: &Report,
    (encoder, search): (&str, &str),
    quantity: &Quantity,
    share: Option<&DropShare>,
) -> Option<Vec<String>> {
    let is_own = |id: &str| {
        let info = report.encoders.iter().find(|info| info.id == id);
        let variant = info.and_then(|info| info.variant.as_ref());
        match share {
            None => id == encoder,
            Some(share) => variant.is_some_and(|one| one.encoder == encoder && one.form.as_ref() == Some(&share.form)),
        }
    };
    let profile = report.profile.encoders.iter().find(|own| is_own(&own.encoder))?;
    let moved = moved(profile, quantity)?;
    let dash = || "–".to_owned();
    let ends = |interval: &DeltaInterval| format!("{} to {}", signed(interval.low), signed(interval.high));
    Some(vec![
        encoder.to_owned(),
        search.to_owned(),
        quantity.name.clone(),
        points(profile.original),
        signed(moved.delta),
        moved.intervals.items.as_ref().map_or_else(dash, ends),
        share
            .filter(|one| one.low.is_some())
            .and_then(|one| one.share)
            .map_or_else(dash, percent),
        share
            .and_then(|one| one.low.zip(one.high))
            .map_or_else(dash, |(low, high)| format!("{} to {}", percent(low), percent(high))),
    ])
}

fn moved<'a>(profile: &'a EncoderProfile, quantity: &Quantity) -> Option<&'a Moved> {
    let name = quantity.name.as_str();
    match quantity.level {
        Level::Original => None,
        Level::Total => profile.total.as_ref(),
        Level::Axis => profile
            .axes
            .iter()
            .find(|one| one.axis.name() == name)
            .map(|one| &one.moved),
        Level::Transformation => {
            let own = profile.transformations.iter().find(|one| one.transformation == name);
            own.map(|one| &one.moved)
        }
    }
}

/// The values of the template; `None` without a search by terms.
pub(super) fn view(report: &Report) -> Option<Value> {
    let rows = rows(report);
    (!rows.is_empty()).then(|| context! { legend => LEGEND, head => HEAD, rows })
}
