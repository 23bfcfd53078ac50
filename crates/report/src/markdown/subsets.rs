//! The profile restricted to subsets of the rewrites.

use super::{Report, plain};
use crate::{SubsetReport, text_table::TextTable};

pub(super) fn write(page: &mut String, report: &Report) {
    for one in &report.subsets {
        page.push_str(&format!("## {}\n\n", one.title()));
        if let Some(why) = &one.refused {
            page.push_str(&format!("Not computed: {}.\n\n", plain(why)));
            continue;
        }
        page.push_str(
            "Differences in points on all items, and on those all of whose rewritten texts are of this kind; original and rewritten texts are \
             scored on the same items.\n\n",
        );
        let heads = [
            "All items",
            "These items",
            one.others(),
            "Items × transformations × seeds",
        ];
        TextTable::of(&one.rows)
            .words("Encoder", |own| plain(&own.encoder))
            .words("Of", |own| plain(&own.of))
            .numbers(heads, SubsetReport::cells)
            .write(page);
    }
}
