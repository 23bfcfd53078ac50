//! Names with wildcards.

/// Whether `name` matches `pattern`, in which `*` stands for any run of characters (`/` included)
/// and `?` for one.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    // Position of the last `*`, and how much of the name it has matched so far.
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
}
