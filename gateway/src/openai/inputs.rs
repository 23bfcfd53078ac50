//! `input` of `/v1/embeddings` in OpenAI's four forms, deserialised without an intermediate buffer.
//!
//! serde's untagged enums buffer the whole list and then try each form in turn: two bytes of `""`
//! then cost a hundred bytes. Here the first element determines the form, and the number of
//! elements is bounded.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

/// Maximum number of texts, or of lists of token ids, in one request. Encoders accept fewer and
/// report their limit.
const MOST: usize = 65_536;
const FORMS: &str = "a string, a list of strings, a list of token ids, or a list of such lists";

/// A text, several texts, the token ids of one text, or those of several texts.
#[derive(Debug, PartialEq)]
pub(crate) enum Inputs {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    ManyTokens(Vec<Vec<u32>>),
}

impl Inputs {
    /// The texts; `None` for token ids.
    pub(crate) fn texts(self) -> Option<Vec<String>> {
        match self {
            Self::Text(text) => Some(vec![text]),
            Self::Texts(texts) => Some(texts),
            Self::Tokens(_) | Self::ManyTokens(_) => None,
        }
    }

    /// The token ids of each text; `None` for texts.
    pub(crate) fn token_ids(self) -> Option<Vec<Vec<u32>>> {
        match self {
            Self::Tokens(ids) => Some(vec![ids]),
            Self::ManyTokens(lists) => Some(lists),
            // An empty list does not show its kind.
            Self::Texts(texts) if texts.is_empty() => Some(Vec::new()),
            Self::Text(_) | Self::Texts(_) => None,
        }
    }
}

/// [`bounded`], with an empty list for `null`. For a field that may be absent, combine it with
/// `#[serde(default)]`.
///
/// # Errors
/// If the list is too long or an element is invalid.
pub(crate) fn bounded_or_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    bounded_or_none(deserializer).map(Option::unwrap_or_default)
}

/// [`bounded`], with `None` for `null`.
///
/// # Errors
/// If the list is too long or an element is invalid.
pub(crate) fn bounded_or_none<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    struct BoundedList<T>(Vec<T>);
    impl<'de, T: Deserialize<'de>> Deserialize<'de> for BoundedList<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            bounded(deserializer).map(Self)
        }
    }
    let list = Option::<BoundedList<T>>::deserialize(deserializer)?;
    Ok(list.map(|BoundedList(list)| list))
}

/// A list of no more elements than an input may hold.
pub(crate) fn bounded<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(BoundedVisitor(PhantomData))
}

struct BoundedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for BoundedVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        let too_many = || A::Error::custom(format!("holds more than {MOST} elements; send fewer at once"));
        while let Some(next) = list.next_element()? {
            if all.len() == MOST {
                return Err(too_many());
            }
            all.push(next);
        }
        // With many lists, each could take twice the memory of its content.
        all.shrink_to_fit();
        Ok(all)
    }
}

/// One element of a list.
enum Element {
    Text(String),
    Token(u32),
    Tokens(Vec<u32>),
}

impl<'de> Deserialize<'de> for Inputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InputsVisitor)
    }
}

struct InputsVisitor;

impl<'de> Visitor<'de> for InputsVisitor {
    type Value = Inputs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FORMS)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Inputs, E> {
        Ok(Inputs::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Inputs, E> {
        Ok(Inputs::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Inputs, A::Error> {
        let mixed = || A::Error::custom(format!("should be {FORMS}; this list holds two kinds"));
        let too_many = || A::Error::custom(format!("holds more than {MOST} elements; send fewer at once"));
        Ok(match list.next_element()? {
            // An empty list has no element to show its kind, so it is a list of no texts.
            None => Inputs::Texts(Vec::new()),
            Some(Element::Text(first)) => {
                let mut texts = vec![first];
                while let Some(next) = list.next_element()? {
                    let Element::Text(text) = next else { return Err(mixed()) };
                    if texts.len() == MOST {
                        return Err(too_many());
                    }
                    texts.push(text);
                }
                Inputs::Texts(texts)
            }
            Some(Element::Token(first)) => {
                // A text may have very many tokens, but in memory they take no more bytes than in
                // the request.
                let mut tokens = vec![first];
                while let Some(next) = list.next_element()? {
                    let Element::Token(token) = next else {
                        return Err(mixed());
                    };
                    tokens.push(token);
                }
                Inputs::Tokens(tokens)
            }
            Some(Element::Tokens(first)) => {
                let mut lists = vec![first];
                while let Some(next) = list.next_element()? {
                    let Element::Tokens(tokens) = next else {
                        return Err(mixed());
                    };
                    if lists.len() == MOST {
                        return Err(too_many());
                    }
                    lists.push(tokens);
                }
                Inputs::ManyTokens(lists)
            }
        })
    }
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ElementVisitor)
    }
}

struct ElementVisitor;

impl<'de> Visitor<'de> for ElementVisitor {
    type Value = Element;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a token id (a whole number below 2^32), or a list of token ids")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Element, E> {
        Ok(Element::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Element, E> {
        Ok(Element::Text(text))
    }

    fn visit_u64<E: Error>(self, token: u64) -> Result<Element, E> {
        let token = u32::try_from(token).map_err(|_| E::custom(format!("is {token}, which is not a token id")))?;
        Ok(Element::Token(token))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Element, A::Error> {
        let mut tokens = Vec::new();
        while let Some(token) = list.next_element()? {
            tokens.push(token);
        }
        Ok(Element::Tokens(tokens))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(json: &str) -> Result<Inputs, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn each_form_is_read() {
        assert_eq!(read(r#""a\u00e4""#).unwrap(), Inputs::Text("aä".to_owned()));
        assert_eq!(
            read(r#"["a", "b\n"]"#).unwrap(),
            Inputs::Texts(vec!["a".to_owned(), "b\n".to_owned()])
        );
        assert_eq!(read("[1, 4294967295]").unwrap(), Inputs::Tokens(vec![1, u32::MAX]));
        assert_eq!(read("[[1], []]").unwrap(), Inputs::ManyTokens(vec![vec![1], vec![]]));
        assert_eq!(read("[]").unwrap(), Inputs::Texts(Vec::new()));
    }

    #[test]
    fn what_is_none_of_them_is_refused() {
        for json in [
            "5",
            "null",
            "{}",
            "[1.5]",
            "[-1]",
            "[4294967296]",
            r#"["a", 1]"#,
            r#"[1, "a"]"#,
            "[[1], 2]",
            "[[[1]]]",
        ] {
            assert!(read(json).is_err(), "{json}");
        }
        assert!(read("5").unwrap_err().contains("a list of strings"));
    }

    #[test]
    fn elements_are_counted_while_they_are_read() {
        for element in [r#""""#, "[]"] {
            let list = |count: usize| format!("[{}]", vec![element; count].join(","));
            assert!(read(&list(MOST)).is_ok());
            // Nothing beyond the bound is read: the rest is not valid JSON.
            let cut = list(MOST + 1).replace(']', ",") + "@@@";
            if element == r#""""# {
                assert!(read(&cut).unwrap_err().contains("more than 65536"));
            }
            assert!(read(&list(MOST + 1)).unwrap_err().contains("more than 65536"));
        }
    }
}
