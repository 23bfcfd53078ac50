//! The profile on some of the rewrites: the `subsets` section of `report.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{percent, signed};
use crate::{profile::SubsetRow, terms::Texts};

/// The profile's differences on rewrites of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubsetReport {
    /// Rewrites that it covers: an item counts if all its rewritten texts are of this kind.
    pub texts: Texts,
    /// Accepted ones: the least similarity that the judge gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<f64>,
    /// Why there are no rows: the judge's ratings do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Per encoder: the total, each axis, each transformation.
    pub rows: Vec<SubsetRow>,
}

impl SubsetReport {
    pub fn title(&self) -> String {
        match (self.texts, self.accept) {
            (Texts::Accepted, Some(accept)) => format!("Accepted rewrites only (rated {accept} or more of 5)"),
            (Texts::Accepted, None) => "Accepted rewrites only".to_owned(),
            (Texts::Changed, _) => "Changed texts only".to_owned(),
            (Texts::All, _) => "All rewrites".to_owned(),
        }
    }

    /// The heading of the last column: what the texts that are not of this kind add.
    pub fn others(&self) -> &'static str {
        match self.texts {
            Texts::Accepted => "Added by other rewrites",
            Texts::Changed | Texts::All => "Added by unchanged texts",
        }
    }

    /// The cells of a row except its first two, which are names.
    pub fn cells(row: &SubsetRow) -> [String; 4] {
        let points_text = |points: Option<f64>| points.map_or("–".to_owned(), signed);
        let share = if row.of_items == 0 {
            0.0
        } else {
            row.items as f64 / row.of_items as f64
        };
        [
            points_text(row.all),
            points_text(row.chosen),
            points_text(row.contribution()),
            format!("{} of {} ({})", row.items, row.of_items, percent(share)),
        ]
    }
}
