//! Rows of tables in Markdown, and the text in their cells.

/// Data in running text and cells: without markup, line breaks or cell borders.
pub(crate) fn plain(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => safe.push(' '),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '!' | '~' => {
                safe.push('\\');
                safe.push(c);
            }
            _ => safe.push(c),
        }
    }
    safe
}

pub(crate) fn row(page: &mut String, cells: &[String]) {
    page.push_str(&format!("| {} |\n", cells.join(" | ")));
}

/// A table head whose first `left` columns contain words and whose other columns contain numbers.
pub(crate) fn header(page: &mut String, cells: &[&str], left: usize) {
    let rules: Vec<&str> = (0..cells.len()).map(|i| if i < left { "---" } else { "--:" }).collect();
    page.push_str(&format!("| {} |\n| {} |\n", cells.join(" | "), rules.join(" | ")));
}
