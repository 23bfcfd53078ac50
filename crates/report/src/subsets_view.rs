//! The section of `report.html` on subsets of the rewrites.

use minijinja::{Value, context};

use super::{Report, SubsetReport};

/// The values for the template, one entry for each kind of rewrites.
pub(super) fn view(report: &Report) -> Vec<Value> {
    report
        .subsets
        .iter()
        .map(|one| {
            let rows: Vec<Value> = one
                .rows
                .iter()
                .map(|row| {
                    let [all, chosen, others, items] = SubsetReport::cells(row);
                    context! { encoder => row.encoder.clone(), of => row.of.clone(), all, chosen, others, items }
                })
                .collect();
            context! { title => one.title(), others => one.others(), refused => one.refused.clone(), rows }
        })
        .collect()
}
