//! Parameters of transformations.

use serde_json::{Map, Value as Json, json};

use crate::Declaration;

/// A setting of a transformation, as the catalogue declares it.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its name, e.g. `target_language`.
    pub name: &'static str,
    /// One sentence.
    pub description: &'static str,
    /// Type, bounds and default.
    pub value: Value,
    /// Where it may be given.
    pub scope: Scope,
    /// When it stands for each of its values.
    pub each: ValueExpansion,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A name out of a list of the transform service.
    Name,
    /// A BCP-47 language.
    Language,
    /// Several of them.
    Languages,
    Whole {
        /// Lower bound, inclusive.
        least: u32,
        /// Upper bound, inclusive.
        most: u32,
        /// Where it is absent.
        default: u32,
    },
    /// A number above 0, at most 1.
    Share {
        /// Where it is absent.
        default: f64,
    },
    /// Yes or no.
    Flag,
}

/// Where a parameter may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In suites and in requests.
    Both,
    /// In requests alone.
    Requests,
    /// In suites alone: requests do not have it.
    Suites,
}

/// When a transformation in a suite stands for one with each value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueExpansion {
    /// Never: an absent parameter has its default.
    Never,
    /// If the suite does not give the parameter.
    IfAbsent,
    /// If the suite sets this flag.
    If(&'static str),
}

/// Why a parameter is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterError {
    /// Name of the parameter.
    pub parameter: String,
    /// Why its value is refused.
    pub problem: String,
    /// How to fix it.
    pub hint: String,
}

impl Value {
    /// JSON schema of a value that may be absent.
    pub(crate) fn schema(self) -> Json {
        match self {
            Self::Name | Self::Language => json!({"type": ["string", "null"]}),
            Self::Languages => json!({"type": "array", "items": {"type": "string"}}),
            Self::Whole { least, most, .. } => json!({"type": ["integer", "null"], "minimum": least, "maximum": most}),
            Self::Share { .. } => json!({"type": ["number", "null"], "format": "double"}),
            Self::Flag => json!({"type": "boolean"}),
        }
    }
}

impl Parameter {
    /// Whether a suite may give it.
    pub fn in_suites(&self) -> bool {
        self.scope != Scope::Requests
    }

    /// Whether a request may give it.
    pub fn in_requests(&self) -> bool {
        self.scope != Scope::Suites
    }

    /// The greatest whole number; 0 for other values.
    pub fn most(&self) -> usize {
        match self.value {
            Value::Whole { most, .. } => most as usize,
            _ => 0,
        }
    }

    /// The value in words, e.g. for a message on another type.
    pub fn expected(&self) -> String {
        match self.value {
            Value::Name => "a name".to_owned(),
            Value::Language => "a BCP-47 language such as `en` or `pt-BR`".to_owned(),
            Value::Languages => "a list of BCP-47 languages".to_owned(),
            Value::Whole { least, most, .. } => format!("a whole number from {least} to {most}"),
            Value::Share { .. } => "a number above 0, at most 1".to_owned(),
            Value::Flag => "true or false".to_owned(),
        }
    }

    /// The value that a text from a command line stands for.
    ///
    /// # Errors
    /// If it is not a value of this parameter.
    pub fn parse(&self, text: &str) -> Result<Json, ParameterError> {
        let parsed = match self.value {
            Value::Name | Value::Language => Some(Json::from(text)),
            Value::Languages => Some(text.split(',').map(str::trim).collect::<Json>()),
            Value::Whole { .. } => text.parse::<u64>().ok().map(Json::from),
            Value::Share { .. } => text.parse::<f64>().ok().map(Json::from),
            Value::Flag => text.parse::<bool>().ok().map(Json::from),
        };
        let value = parsed.ok_or_else(|| self.refused(format!("`{text}`")))?;
        self.check(&value)?;
        Ok(value)
    }

    /// Checks type and bounds. Languages and names are checked by the transform service, which
    /// knows them.
    ///
    /// # Errors
    /// The given value and the accepted ones.
    pub fn check(&self, value: &Json) -> Result<(), ParameterError> {
        let fits = match self.value {
            Value::Name | Value::Language => value.is_string(),
            Value::Languages => value.as_array().is_some_and(|all| all.iter().all(Json::is_string)),
            Value::Whole { least, most, .. } => {
                whole(value).is_some_and(|number| (u64::from(least)..=u64::from(most)).contains(&number))
            }
            Value::Share { .. } => value.as_f64().is_some_and(|share| share > 0.0 && share <= 1.0),
            Value::Flag => value.is_boolean(),
        };
        if fits {
            Ok(())
        } else {
            Err(self.refused(value.to_string()))
        }
    }

    fn refused(&self, given: String) -> ParameterError {
        ParameterError {
            parameter: self.name.to_owned(),
            problem: format!("is {given}"),
            hint: format!("give {}", self.expected()),
        }
    }
}

/// A whole number, also one that a message of the protocol carries as 3.0.
fn whole(value: &Json) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
        (0.0..=f64::from(u32::MAX)).contains(&number).then_some(number as u64)
    })
}

/// Given parameters of a transformation. A parameter that is absent has its default.
#[derive(Debug, Clone, Copy)]
pub struct Parameters<'a> {
    declaration: &'static Declaration,
    given: &'a Map<String, Json>,
}

impl<'a> Parameters<'a> {
    /// Of one of the rows.
    pub fn new(declaration: &'static Declaration, given: &'a Map<String, Json>) -> Self {
        Self { declaration, given }
    }

    /// A whole number within its bounds; 0 if the parameter is unknown.
    pub fn whole(&self, name: &str) -> u32 {
        let given = self.given.get(name).and_then(whole);
        match self.declaration.parameter(name).map(|parameter| parameter.value) {
            Some(Value::Whole { least, most, default }) => given.map_or(default, |number| {
                u32::try_from(number).unwrap_or(u32::MAX).clamp(least, most)
            }),
            _ => 0,
        }
    }

    /// A whole number, if it is given.
    pub fn given_whole(&self, name: &str) -> Option<u32> {
        self.given.contains_key(name).then(|| self.whole(name))
    }

    /// A share; 0 if the parameter is unknown.
    pub fn share(&self, name: &str) -> f64 {
        let given = self.given.get(name).and_then(Json::as_f64);
        match self.declaration.parameter(name).map(|parameter| parameter.value) {
            Some(Value::Share { default }) => given.unwrap_or(default),
            _ => 0.0,
        }
    }

    /// A share, if it is given.
    pub fn given_share(&self, name: &str) -> Option<f64> {
        self.given.contains_key(name).then(|| self.share(name))
    }

    /// A name or a language, if it is given.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.given.get(name).and_then(Json::as_str)
    }

    /// The languages of a list; none if it is absent.
    pub fn texts(&self, name: &str) -> Vec<&'a str> {
        let given = self.given.get(name).and_then(Json::as_array);
        given.into_iter().flatten().filter_map(Json::as_str).collect()
    }

    /// Whether a flag is set.
    pub fn flag(&self, name: &str) -> bool {
        self.given.get(name).and_then(Json::as_bool).unwrap_or_default()
    }
}
