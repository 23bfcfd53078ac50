//! Names of files that exist once per encoder of a report.

/// The file of one of several encoders. Ids may be paths or names with `/`.
fn file_of(kind: &str, encoder: &str, end: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '-'
        }
    };
    let safe: String = encoder.chars().map(plain).collect();
    format!("{kind}-{}{end}", safe.trim_matches(['-', '.']))
}

/// One file per encoder; its name includes the encoder if there are several.
pub(super) fn of_encoders(kind: &str, all: Vec<(String, Vec<u8>)>, end: &str) -> Vec<(String, Vec<u8>)> {
    let several = all.len() > 1;
    let mut files: Vec<(String, Vec<u8>)> = Vec::with_capacity(all.len());
    for (encoder, content) in all {
        let mut name = if several {
            file_of(kind, &encoder, end)
        } else {
            format!("{kind}{end}")
        };
        if files.iter().any(|(taken, _)| *taken == name) {
            name = file_of(kind, &format!("{encoder}-{}", files.len() + 1), end);
        }
        files.push((name, content));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_an_encoder_stays_in_its_folder() {
        let name = |encoder| file_of("card", encoder, ".md");
        assert_eq!(name("all-MiniLM-L6-v2"), "card-all-MiniLM-L6-v2.md");
        assert_eq!(name("org/model"), "card-org-model.md");
        assert_eq!(name("../../etc/passwd"), "card-etc-passwd.md");
        assert_eq!(name("/models/é"), "card-models.md");
    }

    #[test]
    fn encoders_of_similar_ids_have_files_of_their_own() {
        let names = |ids: &[&str]| {
            let all = ids.iter().map(|id| ((*id).to_owned(), Vec::new())).collect();
            let files = of_encoders("card", all, ".md").into_iter();
            files.map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["a/b"]), ["card.md"]);
        assert_eq!(
            names(&["a/b", "a-b", "a b"]),
            ["card-a-b.md", "card-a-b-2.md", "card-a-b-3.md"]
        );
    }
}
