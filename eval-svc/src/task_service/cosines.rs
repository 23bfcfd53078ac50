//! Cosines of texts with their variants (Table 5 of the GASE paper), for tasks whose items are
//! pairs of texts.

use std::collections::BTreeMap;

use isomer_proto::{
    eval::v1::DatasetAugmentation,
    transform::v1::{AugmentationMode, AugmentationPooling, AugmentationSpec},
};
use ndarray::ArrayView2;

use crate::{
    dataset::Dataset,
    metric::{matrix::Rows, similarity::cosine},
    task::TaskType,
};

/// The augmentation for the variants' own vectors. `None` if the table cannot be computed: items
/// are not pairs, a text has variants of several sources, or a second request may get variants that
/// differ from the first one's.
pub(super) fn alone(task: TaskType, wanted: &DatasetAugmentation) -> Option<DatasetAugmentation> {
    let spec = wanted.spec.as_ref()?;
    let pairs = matches!(task, TaskType::Sts | TaskType::PairClassification | TaskType::Bitext);
    (pairs && !wanted.queries_only && used(spec) == 1 && repeats(spec)).then(|| DatasetAugmentation {
        pooling: AugmentationPooling::Weighted.into(),
        original_weight: Some(0.0),
        plain: None,
        ..wanted.clone()
    })
}

/// Sources that a spec uses.
fn used(spec: &AugmentationSpec) -> usize {
    let all = spec.sources.len();
    spec.k.map_or(all, |k| all.min(k as usize))
}

/// Whether the caches contain, for a second request, the variants of the first.
fn repeats(spec: &AugmentationSpec) -> bool {
    let waits = match spec.mode() {
        AugmentationMode::Unspecified => spec.generation_budget.is_none(),
        AugmentationMode::Always => true,
        AugmentationMode::Budget | AugmentationMode::Cached | AugmentationMode::Cascade => false,
    };
    waits && !spec.bypass_cache
}

/// One value per pair: NaN if a text of the pair has no variant. `plain` are the vectors of the
/// texts, `variants` those of their variants; `varied` marks the texts that have one.
pub(super) fn columns(
    dataset: &Dataset,
    plain: ArrayView2<'_, f32>,
    variants: ArrayView2<'_, f32>,
    varied: &[bool],
) -> BTreeMap<String, Vec<f64>> {
    let (plain, variants) = (Rows::new(plain), Rows::new(variants));
    let pairs: Vec<[usize; 2]> = dataset
        .item_texts()
        .iter()
        .filter_map(|texts| match texts.as_slice() {
            [first, second] => Some([*first as usize, *second as usize]),
            _ => None,
        })
        .collect();
    let column = |of: &dyn Fn(usize, usize) -> f32, needs: [bool; 2]| -> Vec<f64> {
        let value = |[first, second]: &[usize; 2]| {
            let there = [*first, *second]
                .into_iter()
                .zip(needs)
                .all(|(text, needed)| !needed || varied.get(text) == Some(&true));
            if there {
                f64::from(of(*first, *second))
            } else {
                f64::NAN
            }
        };
        pairs.iter().map(value).collect()
    };
    BTreeMap::from([
        (
            "cosine_original_variant_1".to_owned(),
            column(&|first, _| cosine(plain.row(first), variants.row(first)), [true, false]),
        ),
        (
            "cosine_original_variant_2".to_owned(),
            column(
                &|_, second| cosine(plain.row(second), variants.row(second)),
                [false, true],
            ),
        ),
        (
            "cosine_variants".to_owned(),
            column(
                &|first, second| cosine(variants.row(first), variants.row(second)),
                [true, true],
            ),
        ),
        (
            "cosine_originals".to_owned(),
            column(
                &|first, second| cosine(plain.row(first), plain.row(second)),
                [false, false],
            ),
        ),
    ])
}
