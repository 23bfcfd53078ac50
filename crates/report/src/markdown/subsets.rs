//! The profile restricted to subsets of the rewrites.

use super::{Report, header, plain, row};
use crate::SubsetReport;

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
        let cells = [
            "Encoder",
            "Of",
            "All items",
            "These items",
            one.others(),
            "Items × transformations × seeds",
        ];
        header(page, &cells, 2);
        for own in &one.rows {
            let mut cells = vec![plain(&own.encoder), plain(&own.of)];
            cells.extend(SubsetReport::cells(own));
            row(page, &cells);
        }
        page.push('\n');
    }
}
