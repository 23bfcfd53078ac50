//! `docs/reference/gate.md` is written by hand, but for the table of limits.

use isomer_eval::gate::{Rule, RuleKind};

use super::{catalogues::table, compare_part, read};

#[test]
fn the_page_of_the_gate_names_every_key_of_a_rule() {
    let page = read("docs/reference/gate.md");
    for key in Rule::keys() {
        let named = [format!("\n{key} = "), format!("`{key}`"), format!("`{key}=")];
        assert!(
            named.iter().any(|form| page.contains(form)),
            "docs/reference/gate.md does not name `{key}`"
        );
    }
}

#[test]
fn the_table_of_limits_is_up_to_date() {
    let rows = RuleKind::ALL.map(|kind| {
        let (row, measure) = (kind.row(), kind.measure().row());
        let (low, high) = measure.limits;
        let baseline = if measure.needs_baseline { "needed" } else { "" };
        [
            format!("`{}`", row.name),
            row.help.to_owned(),
            format!("{low} to {high}"),
            format!("`{}`", measure.quantity),
            measure.basis.name().to_owned(),
            baseline.to_owned(),
        ]
    });
    let columns = [
        "limit",
        "meaning",
        "range",
        "default of `of`",
        "default basis",
        "baseline",
    ];
    compare_part("gate.md", "limits", &table(columns, rows));
}
