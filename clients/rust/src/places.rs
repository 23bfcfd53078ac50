//! Places in lists, as errors name them: `inputs[3].text`.

/// Lists of requests that are divided.
const LISTS: [&str; 5] = ["inputs", "items", "documents", "texts", "pairs"];

/// The text with every place in a list of a request moved by `start`.
pub(crate) fn moved(text: &str, start: usize) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        let (before, after) = rest.split_at(open + 1);
        made.push_str(before);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (place, behind) = after.split_at(digits);
        match place.parse::<usize>() {
            Ok(place) if behind.starts_with(']') && names_a_list(&before[..open]) => {
                made.push_str(&place.saturating_add(start).to_string());
            }
            _ => made.push_str(place),
        }
        rest = behind;
    }
    made.push_str(rest);
    made
}

/// Whether the last word is one of the lists.
fn names_a_list(text: &str) -> bool {
    LISTS.iter().any(|list| {
        let before = text.strip_suffix(list);
        before.is_some_and(|before| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

#[cfg(test)]
mod tests {
    use super::moved;

    #[test]
    fn places_in_lists_of_the_request_are_moved_and_no_others() {
        for (text, due) in [
            ("inputs[3].text is empty", "inputs[19].text is empty"),
            ("inputs[0] and inputs[12]", "inputs[16] and inputs[28]"),
            ("`documents[1]`", "`documents[17]`"),
            ("my_inputs[3], prompts[2]", "my_inputs[3], prompts[2]"),
            ("inputs[x], inputs[3", "inputs[x], inputs[3"),
            ("no list", "no list"),
            ("grün inputs[1]", "grün inputs[17]"),
        ] {
            assert_eq!(moved(text, 16), due);
        }
    }
}
