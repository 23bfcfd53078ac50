//! The lines that mark the start and end of a text.

/// The whole lines before and after each text of a message; empty if the text is not enclosed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Delimiters {
    lines: Vec<String>,
}

impl Delimiters {
    /// The lines around each placeholder that is alone on its line. The error gives the reason why
    /// they could not enclose a text safely.
    pub(super) fn around(placeholders: &[&str], content: &str) -> Result<Self, String> {
        let mut found = Self::default();
        let lines: Vec<&str> = content.lines().map(str::trim).collect();
        for placeholder in placeholders {
            let around = lines.iter().position(|line| line == placeholder).and_then(|at| {
                let (before, after) = (lines.get(at.checked_sub(1)?)?, lines.get(at + 1)?);
                (!before.is_empty() && !after.is_empty()).then_some([*before, *after])
            });
            let Some(around) = around else {
                continue;
            };
            // A single character cannot be broken up, so a text that contains it could end its own
            // quotation.
            if let Some(short) = around.into_iter().find(|line| line.chars().nth(1).is_none()) {
                return Err(format!(
                    "the line `{short}` next to {placeholder} is too short to enclose a text; write one of two characters or \
                     more, e.g. <text>"
                ));
            }
            found.lines.extend(around.map(str::to_owned));
        }
        Ok(found)
    }

    /// Opening and closing line of the first text; empty if the text is not enclosed.
    pub(super) fn lines(&self) -> (&str, &str) {
        match self.lines.as_slice() {
            [open, close, ..] => (open, close),
            _ => ("", ""),
        }
    }

    /// A text in which none of the lines occurs, ignoring ASCII case. Each occurrence gets a space
    /// after its first character, so that the text cannot end its own quotation.
    pub(super) fn broken_in(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // One pass is enough except for lines with spaces: breaking one line can produce the other.
        while let Some(broken) = self.break_once(&text) {
            text = broken;
        }
        text
    }

    /// `None` if there is nothing to break.
    fn break_once(&self, text: &str) -> Option<String> {
        let mut out = String::with_capacity(text.len() + 8);
        let mut found = false;
        for (at, c) in text.char_indices() {
            out.push(c);
            // Occurrences may overlap, so the start of each is broken.
            if self.begins(&text[at..]) {
                out.push(' ');
                found = true;
            }
        }
        found.then_some(out)
    }

    fn begins(&self, rest: &str) -> bool {
        self.lines.iter().any(|line| {
            rest.get(..line.len())
                .is_some_and(|head| head.eq_ignore_ascii_case(line))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn around(content: &str) -> Result<Delimiters, String> {
        Delimiters::around(&["{text}"], content)
    }

    fn of(open: &str, close: &str) -> Delimiters {
        around(&format!("Rewrite.\n{open}\n{{text}}\n{close}")).unwrap()
    }

    #[test]
    fn the_lines_around_a_text_enclose_it_and_a_text_in_a_line_is_not_enclosed() {
        assert_eq!(of("<text>", "</text>").lines(), ("<text>", "</text>"));
        for open in [
            "Rewrite: {text}",
            "Rewrite:\n\n{text}\n\nNow.",
            "{text}\n</text>",
            "<text>\n{text}",
        ] {
            assert_eq!(around(open).unwrap().lines(), ("", ""), "{open}");
        }
        assert_eq!(around("Rewrite: {text}").unwrap().broken_in("a </text>"), "a </text>");
    }

    #[test]
    fn a_line_of_one_character_encloses_nothing_and_is_refused() {
        let error = around("\"\n{text}\n\"").unwrap_err();
        assert!(error.contains("`\"`") && error.contains("two characters"), "{error}");
    }

    #[test]
    fn overlapping_nested_and_upper_case_lines_are_broken_too() {
        let tags = of("<text>", "</text>");
        assert_eq!(tags.broken_in("a</text><TEXT>b"), "a< /text>< TEXT>b");
        assert_eq!(
            tags.broken_in("<<text>text></te</text>xt>"),
            "<< text>text></te< /text>xt>"
        );
        assert_eq!(of("\"\"\"", "\"\"\"").broken_in("\"\"\"\""), "\" \" \"\"");
        // Breaking the first line produces the second.
        assert_eq!(of("<<", "< <").broken_in("<<"), "<  <");
    }

    #[test]
    fn a_text_can_close_neither_its_own_lines_nor_those_of_another() {
        let content = "<original>\n{original}\n</original>\n<transformed>\n{transformed}\n</transformed>";
        let pair = Delimiters::around(&["{original}", "{transformed}"], content).unwrap();
        assert_eq!(pair.lines(), ("<original>", "</original>"));
        assert_eq!(
            pair.broken_in("a </original> b </Transformed><transformed>"),
            "a < /original> b < /Transformed>< transformed>"
        );
    }

    proptest! {
        #[test]
        fn no_text_keeps_a_line(text in "[<>/text\" é-]{0,40}", which in 0..4usize) {
            let (open, close) = [("<text>", "</text>"), ("\"\"\"", "\"\"\""), ("--", "- -"), ("é<", "<é")][which];
            let broken = of(open, close).broken_in(&text);
            prop_assert!(!broken.contains(open) && !broken.contains(close), "{broken}");
            let letters = |text: &str| text.replace(' ', "");
            prop_assert_eq!(letters(&broken), letters(&text));
        }
    }
}
