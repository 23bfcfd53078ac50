//! The part of an encoder's drop that is left in a form of it: the mean drop of the form divided by
//! that of the encoder, over the same items.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Figure, Grid, LEVEL, Quantity};
use crate::stats::{
    gate::items::{Evidence, Stratum},
    ratio::{Ratio, RatioCluster, RatioStratum, ratio_of_means},
};

/// The part of an encoder's drop that is left in a form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DropShare {
    /// Id of the encoder.
    pub encoder: String,
    /// Its form, e.g. `hybrid:rrf`.
    pub form: String,
    /// Total, axis or transformation.
    pub quantity: Quantity,
    /// Mean drop of the form divided by the encoder's; below 0 if one of them is a gain. Absent if
    /// the encoder does not drop at all, or no items are known.
    pub share: Option<f64>,
    /// Lower end of Fieller's interval over items; absent if the encoder's own drop may be 0.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Why a number is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The share of a drop, from the strata of both ([`super::strata`] of the drop).
///
/// # Errors
/// Why there is none.
pub fn drop_share(encoder: &[Stratum], form: &[Stratum]) -> Result<Ratio, String> {
    let strata: Option<Vec<RatioStratum>> = encoder.iter().zip(form).map(|(own, form)| paired(own, form)).collect();
    let strata = strata.filter(|strata| strata.len() == form.len());
    let strata = strata.ok_or("its score is not a mean over items")?;
    ratio_of_means(&strata, LEVEL).ok_or_else(|| "the encoder does not drop".to_owned())
}

fn paired(encoder: &Stratum, form: &Stratum) -> Option<RatioStratum> {
    let (Evidence::Items { clusters: own, .. }, Evidence::Items { clusters: other, .. }) =
        (&encoder.evidence, &form.evidence)
    else {
        return None;
    };
    let clusters = own.iter().zip(other).map(|(own, other)| {
        (own.items == other.items).then_some(RatioCluster {
            numerator: other.sum,
            denominator: own.sum,
            items: own.items,
        })
    });
    let clusters: Vec<RatioCluster> = clusters.collect::<Option<_>>()?;
    (clusters.len() == other.len() && own.len() == other.len()).then_some(RatioStratum {
        weight: encoder.weight,
        clusters,
    })
}

/// Everything that may drop, with the figure that computes it: the total if an axis counts, each
/// axis, each transformation.
pub fn drops(grid: &Grid) -> Vec<(Quantity, Figure)> {
    let figure = |quantity: &Quantity| {
        let axis = || grid.axes().into_iter().find(|axis| axis.name() == quantity.name);
        let column = || grid.columns.iter().position(|column| column.label == quantity.name);
        match quantity.level {
            super::Level::Original => None,
            super::Level::Total => Some(Figure::Total),
            super::Level::Axis => axis().map(Figure::Axis),
            super::Level::Transformation => column().map(Figure::Transformation),
        }
    };
    let all = Quantity::transformed(grid).into_iter();
    all.filter_map(|quantity| figure(&quantity).map(|figure| (quantity, figure)))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::stats::gate::bounded::Range;

    fn strata(values: &[f64]) -> Vec<Stratum> {
        let range = Range {
            low: -100.0,
            high: 100.0,
        };
        vec![Stratum::of_items(values, range)]
    }

    #[test]
    fn a_form_that_halves_every_items_drop_leaves_half_of_it() {
        let own = [10.0, 0.0, 40.0, 6.0, 0.0, 20.0, 14.0, 2.0];
        let found = drop_share(&strata(&own), &strata(&own.map(|drop| drop / 2.0))).unwrap();
        assert_eq!(found.estimate, 0.5);
        let (low, high) = found.interval.unwrap();
        assert!((low - 0.5).abs() < 1e-9 && (high - 0.5).abs() < 1e-9);
        assert_eq!(drop_share(&strata(&own), &strata(&[0.0; 8])).unwrap().estimate, 0.0);
    }

    #[test]
    fn without_a_drop_or_the_same_items_there_is_no_share() {
        let none = drop_share(&strata(&[1.0, -1.0]), &strata(&[1.0, 1.0])).unwrap_err();
        assert!(none.contains("does not drop"));
        let other = drop_share(&strata(&[1.0, 2.0]), &strata(&[1.0])).unwrap_err();
        assert!(other.contains("mean over items"));
    }
}
