//! Names that are nearly right, and names with wildcards.

/// Whether `name` matches `pattern`, in which `*` stands for any run of characters (`/` included) and `?` for one.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    // Where the last `*` was, and how much of the name it has swallowed so far.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || Some(&c) == name.get(n) => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, swallowed)) => {
                    star = Some((at, swallowed + 1));
                    p = at + 1;
                    n = swallowed + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// Longest id, in bytes, that is compared with others.
const LONGEST_ID: usize = 200;

/// The ids of similar spelling, best first, at most three; none for an id of more than 200 bytes.
pub(crate) fn nearest<'a>(id: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    // Comparing takes time in proportion to the length, and no known id is nearly so long.
    if id.len() > LONGEST_ID {
        return Vec::new();
    }
    let wanted = id.rsplit('/').next().unwrap_or(id).to_lowercase();
    let mut scored: Vec<(usize, &str)> = known
        .filter_map(|candidate| {
            let lower = candidate.to_lowercase();
            let distance = edit_distance(&wanted, &lower);
            let contains = wanted.len() >= 3 && (lower.contains(&wanted) || wanted.contains(&lower));
            let close = distance * 2 <= wanted.chars().count().max(lower.chars().count());
            (contains || close).then_some((if contains { distance / 4 } else { distance }, candidate))
        })
        .collect();
    scored.sort();
    scored
        .into_iter()
        .take(3)
        .map(|(_, candidate)| candidate.to_owned())
        .collect()
}

/// Levenshtein distance in characters.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_cross_slashes_and_question_marks_take_one() {
        assert!(matches("*/data/part*.bin", "pkg/data/part01.bin"));
        assert!(matches("*.part0?", "x/gemma.gguf.part03"));
        assert!(!matches("*.part0?", "x/gemma.gguf.part013"));
        assert!(matches("model.safetensors", "model.safetensors"));
        assert!(!matches("model.safetensors", "xmodel.safetensors"));
        assert!(matches("*desktop.ini", "1_Pooling/desktop.ini"));
        assert!(matches("a**b", "ab"));
        assert!(!matches("", "a"));
    }

    #[test]
    fn a_misspelt_id_finds_its_neighbour_first() {
        let known = ["all-MiniLM-L6-v2", "all-mpnet-base-v2", "smollm2-135m-instruct"];
        assert_eq!(nearest("all-minilm-l6-v2", known.into_iter())[0], "all-MiniLM-L6-v2");
        assert_eq!(nearest("all-MiniLM-L12-v2", known.into_iter())[0], "all-MiniLM-L6-v2");
        assert_eq!(nearest("smollm2", known.into_iter()), ["smollm2-135m-instruct"]);
        assert_eq!(
            nearest("sentence-transformers/all-mpnet-base", known.into_iter())[0],
            "all-mpnet-base-v2"
        );
        assert!(nearest("zzzz", known.into_iter()).is_empty());
    }
}
