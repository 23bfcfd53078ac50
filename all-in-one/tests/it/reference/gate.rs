//! `docs/reference/gate.md` is written by hand.

use isomer_eval::gate::Rule;

use super::read;

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
