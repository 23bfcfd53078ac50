//! Pairs that commas separate, such as `max_drop=3,of=length`: rules of gates are written so.

use crate::spelling::suggest;

/// The pairs of a text, in their order.
#[derive(Debug)]
pub struct KeyValues<'a>(Vec<(&'a str, &'a str)>);

impl<'a> KeyValues<'a> {
    /// Reads a text whose keys are among `known`. `example` is a pair for the error message.
    ///
    /// # Errors
    /// A part that is not a pair, a key that is unknown or given twice, or one without a value.
    pub fn read(text: &'a str, known: &[&str], example: &str) -> Result<Self, String> {
        let mut given = Self(Vec::new());
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let pair = part.split_once('=');
            let (key, value) = pair.ok_or_else(|| format!("`{part}` is not a KEY=VALUE, e.g. {example}"))?;
            let (key, value) = (key.trim(), value.trim());
            if !known.contains(&key) {
                return Err(format!("unknown key `{key}`; {}", suggest(key, known)));
            }
            if given.get(key).is_some() {
                return Err(format!("`{key}` is there twice"));
            }
            if value.is_empty() {
                return Err(format!("`{key}` has no value"));
            }
            given.0.push((key, value));
        }
        Ok(given)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(own, _)| *own == key).map(|(_, value)| *value)
    }

    /// The number of a key.
    ///
    /// # Errors
    /// If the value is not a finite number.
    pub fn number(&self, key: &str) -> Result<Option<f64>, String> {
        let read = |value: &str| {
            let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
            number.ok_or_else(|| format!("`{key}` should be a number, is `{value}`"))
        };
        self.get(key).map(read).transpose()
    }

    /// The only one of these limits that the text names, with its number.
    ///
    /// # Errors
    /// If the text names none of them, or several.
    pub fn limit<T: Copy>(&self, limits: &[(&str, T)], example: &str) -> Result<(T, f64), String> {
        let named = |key: &str| limits.iter().find(|(name, _)| *name == key);
        let mut given = self.0.iter().filter_map(|(key, _)| named(key));
        let Some((key, limit)) = given.next() else {
            let names: Vec<&str> = limits.iter().map(|(name, _)| *name).collect();
            return Err(format!("names no limit: {}, e.g. {example}", names.join(", ")));
        };
        match given.next() {
            Some((second, _)) => Err(format!("`{second}` is a second limit; write a rule for each")),
            None => Ok((*limit, self.number(key)?.unwrap_or_default())),
        }
    }

    /// The value that a key names; `what` names the values in the error message.
    ///
    /// # Errors
    /// If the name is unknown.
    pub fn choice<T: Copy>(
        &self,
        key: &str,
        what: &str,
        all: impl IntoIterator<Item = T>,
        name: impl Fn(T) -> &'static str,
    ) -> Result<Option<T>, String> {
        let Some(given) = self.get(key) else { return Ok(None) };
        let named: Vec<(&str, T)> = all.into_iter().map(|one| (name(one), one)).collect();
        let found = named.iter().find(|(name, _)| *name == given);
        let names = || named.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        found
            .map(|(_, one)| Some(*one))
            .ok_or_else(|| format!("unknown {what} `{given}`; {}", suggest(given, &names())))
    }
}
