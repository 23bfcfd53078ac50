//! Vector spaces under prompts: their comparability and their names in keys.

use isomer_proto::common::v1::VectorSpace;

use super::{Part, RequestPrompt};

/// Part of every key of scores under prompts.
const SCHEME: &str = "isomer.prompts/1";

/// Whether two spaces have the same weights, pipeline, scaling, dimensions and element type, so
/// that they differ at most in the prompt. Vectors of such spaces may be compared.
pub(crate) fn same_but_prompt(a: &VectorSpace, b: &VectorSpace) -> bool {
    let bare = |space: &VectorSpace| VectorSpace {
        digest: String::new(),
        prompt: String::new(),
        ..space.clone()
    };
    bare(a) == bare(b)
}

/// Checks that vectors requested with a prompt were computed with it, in a space that differs from
/// the encoder's described space only in the prompt.
///
/// # Errors
/// The problem.
pub(crate) fn check(
    described: Option<&VectorSpace>,
    answered: Option<&VectorSpace>,
    sent: &RequestPrompt,
) -> Result<(), String> {
    let Some(answered) = answered else {
        return Err(format!(
            "names no vector space, so it cannot be checked whether the prompt {} was used",
            words(sent)
        ));
    };
    if let Some(described) = described
        && !same_but_prompt(described, answered)
    {
        return Err(format!(
            "its vector space changed from `{}` to `{}` in more than the prompt; vectors of two spaces cannot be compared",
            described.digest, answered.digest
        ));
    }
    used(answered, sent)
}

/// Checks that a space names the prompt that was sent. Providers of other kinds write the kind of
/// input on the preceding line.
fn used(answered: &VectorSpace, sent: &RequestPrompt) -> Result<(), String> {
    let Some(text) = sent.text() else { return Ok(()) };
    let last = answered
        .prompt
        .strip_prefix("input_type:")
        .map(|rest| match rest.split_once('\n') {
            Some((_, literal)) => literal,
            None => "",
        });
    if answered.prompt == text || last == Some(text) {
        return Ok(());
    }
    Err(format!(
        "was asked for the prompt {} but returned vectors for the prompt `{}`",
        words(sent),
        answered.prompt
    ))
}

fn words(sent: &RequestPrompt) -> String {
    match sent {
        RequestPrompt::Literal(text) => format!("`{text}`"),
        RequestPrompt::Named { name, .. } => format!("named `{name}`"),
    }
}

/// The name, for keys, of the vectors of texts under their prompts: the described space's digest if
/// every prompt is the one in the description, else a digest of it and of the prompts by part.
pub(crate) fn key<'a>(
    described: &VectorSpace,
    parts: impl Iterator<Item = (Part, Option<&'a RequestPrompt>)>,
) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut put = |part: &str| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    };
    put(SCHEME);
    put(&described.digest);
    let mut plain = true;
    for (part, sent) in parts {
        put(part.name());
        match sent {
            None => put(&described.prompt),
            Some(RequestPrompt::Named { name, text: None }) => {
                plain = false;
                put("by name");
                put(name);
            }
            Some(sent) => {
                let text = sent.text().unwrap_or_default();
                plain &= text == described.prompt;
                put(text);
            }
        }
    }
    if plain {
        described.digest.clone()
    } else {
        hasher.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(digest: &str, prompt: &str) -> VectorSpace {
        VectorSpace {
            digest: digest.to_owned(),
            prompt: prompt.to_owned(),
            model_id: "m".to_owned(),
            weights_digest: "w".to_owned(),
            pooling: "mean".to_owned(),
            normalised: true,
            dimensions: 8,
            dtype: 1,
            ..VectorSpace::default()
        }
    }

    fn literal(text: &str) -> RequestPrompt {
        RequestPrompt::Literal(text.to_owned())
    }

    #[test]
    fn spaces_may_differ_in_the_prompt_and_in_nothing_else() {
        let base = space("a", "");
        assert!(same_but_prompt(&base, &space("b", "query: ")));
        let others: [fn(&mut VectorSpace); 8] = [
            |s| s.model_id.push('x'),
            |s| s.weights_digest.push('x'),
            |s| s.pooling.push('x'),
            |s| s.normalised = false,
            |s| s.dimensions = 4,
            |s| s.dtype = 2,
            |s| s.augmentation.push('x'),
            |s| s.quantisation.push('x'),
        ];
        for change in others {
            let mut other = space("b", "query: ");
            change(&mut other);
            assert!(!same_but_prompt(&base, &other));
            assert!(check(Some(&base), Some(&other), &literal("query: ")).is_err());
        }
    }

    #[test]
    fn a_prompt_that_was_not_used_is_noticed() {
        let base = space("a", "");
        let sent = literal("query: ");
        assert!(check(Some(&base), Some(&space("b", "query: ")), &sent).is_ok());
        assert!(check(Some(&base), Some(&space("b", "input_type:search\nquery: ")), &sent).is_ok());
        assert!(check(Some(&base), Some(&base), &sent).is_err());
        assert!(check(Some(&base), Some(&space("b", "bad query: ")), &sent).is_err());
        assert!(check(Some(&base), None, &sent).is_err());
        // An empty prompt instead of a default one.
        assert!(
            check(
                Some(&space("d", "default: ")),
                Some(&space("d", "default: ")),
                &literal("")
            )
            .is_err()
        );
    }

    #[test]
    fn a_key_depends_on_the_prompt_of_each_part() {
        let base = space("a", "");
        let of = |query: Option<&RequestPrompt>, document: Option<&RequestPrompt>| {
            key(&base, [(Part::Query, query), (Part::Document, document)].into_iter())
        };
        let (q, p, none) = (literal("query: "), literal("passage: "), literal(""));
        // Vectors without a prompt keep their previous name.
        assert_eq!(of(None, None), "a");
        assert_eq!(of(Some(&none), None), "a");
        let keys = [
            of(Some(&q), Some(&p)),
            of(Some(&p), Some(&q)),
            of(Some(&q), None),
            of(None, Some(&q)),
            of(Some(&q), Some(&q)),
        ];
        for (i, one) in keys.iter().enumerate() {
            assert!(!keys[..i].contains(one) && *one != "a");
        }
        // The text is the same whether it is given by name or literally.
        let named = RequestPrompt::Named {
            name: "query".to_owned(),
            text: Some("query: ".to_owned()),
        };
        assert_eq!(of(Some(&named), None), of(Some(&q), None));
    }
}
