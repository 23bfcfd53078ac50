//! `docs/reference/providers.md`.

use isomer_adapters::kinds;
use isomer_proto::ProtoEnum;

use super::{cell, compare, head};

const INTRODUCTION: &str = "
Each kind of provider, and the requests that its protocol can express. Any other request is refused with `NOT_IN_PROTOCOL`, and
the server is not asked.

* *input types*: `Provider.input_types` maps prompt names to the provider's words, e.g. `search_query`. A literal prompt is put in
  front of each text.
* *texts that are too long*: values of `Truncation` that a request may name. If a request names none, the end of the text is cut
  where the protocol can say so; otherwise the server's default applies.
* *texts per call*: larger requests are split. `limits.max_batch_items` can lower the number.
";

#[test]
fn the_page_of_providers_is_up_to_date() {
    let first = kinds().next().unwrap();
    let columns = first.capabilities().map(|(column, _)| column);
    let mut page = head("Kinds of providers") + INTRODUCTION + "\n";
    page += &format!(
        "| kind | {} |\n|{}\n",
        columns.join(" | "),
        "---|".repeat(columns.len() + 1)
    );
    for kind in kinds() {
        let cells = kind.capabilities().map(|(_, content)| cell(&content));
        page += &format!("| `{}` | {} |\n", kind.value.dashed(), cells.join(" | "));
    }
    compare("providers.md", &page);
}
