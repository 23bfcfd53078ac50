//! A transformation with its parameters, as suites name it and reports show it.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeMap as _};
use serde_json::{Map, Value as Json, json};

use crate::{
    CATALOGUE, Declaration, Draw, Parameter, Parameters, Value, ValueExpansion, declaration, parameter::ParameterError,
    scorable,
};

/// A transformation with its parameters, and the prompt that replaces its default one.
#[derive(Debug, Clone, PartialEq)]
pub struct Transformation {
    declaration: &'static Declaration,
    given: Map<String, Json>,
    prompt: Option<String>,
}

impl Transformation {
    /// A row with these parameters. They are not checked: see [`Transformation::check`].
    pub fn new(declaration: &'static Declaration, given: Map<String, Json>) -> Self {
        Self {
            declaration,
            given,
            prompt: None,
        }
    }

    /// The transformation of this name with default parameters.
    pub fn named(name: &str) -> Option<Self> {
        declaration(name).map(|declaration| Self::new(declaration, Map::new()))
    }

    /// The same with a prompt that is not its default.
    #[must_use]
    pub fn worded(mut self, prompt: String) -> Self {
        self.prompt = Some(prompt);
        self
    }

    /// The same with another value of a parameter.
    #[must_use]
    pub fn with(mut self, parameter: &str, value: impl Into<Json>) -> Self {
        self.given.insert(parameter.to_owned(), value.into());
        self
    }

    /// Its row.
    pub fn declaration(&self) -> &'static Declaration {
        self.declaration
    }

    pub fn name(&self) -> &'static str {
        self.declaration.name
    }

    /// Values of the given parameters, and defaults of the others.
    pub fn parameters(&self) -> Parameters<'_> {
        Parameters::new(self.declaration, &self.given)
    }

    /// The parameters that are given.
    pub fn given(&self) -> &Map<String, Json> {
        &self.given
    }

    /// Id of the prompt that it is made with instead of the default.
    pub fn prompt(&self) -> Option<&str> {
        self.prompt.as_deref()
    }

    /// Checks names, types and bounds of the parameters. Those that are not `permitted` are
    /// unknown.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn check(&self, permitted: fn(&Parameter) -> bool) -> Result<(), ParameterError> {
        for (name, value) in &self.given {
            let Some(parameter) = self.declaration.parameter(name).filter(|one| permitted(one)) else {
                let known = self.declaration.parameters.iter().filter(|one| permitted(one));
                let known: Vec<&str> = known.map(|one| one.name).collect();
                return Err(ParameterError {
                    parameter: name.clone(),
                    problem: format!("is not a parameter of `{}`", self.name()),
                    hint: match known.as_slice() {
                        [] => "it has none".to_owned(),
                        known => format!("it has {}", known.join(", ")),
                    },
                });
            };
            parameter.check(value)?;
        }
        Ok(())
    }

    /// Whether something is drawn for each text: a pivot, a target, the words that stay. Two equal
    /// texts then each have their own draw.
    pub fn draws_per_text(&self) -> bool {
        let given = self.parameters();
        match self.declaration.draw {
            Draw::Nothing | Draw::Target => false,
            Draw::Words => true,
            Draw::TargetPerText => given.texts("target_languages").len() != 1,
            Draw::PivotPerText => given.text("pivot_language").is_none(),
        }
    }

    /// Whether something is drawn once for each seed and holds for every text: the target language.
    /// Scores under one seed then share what was drawn, whatever the data set.
    pub fn draws_per_seed(&self) -> bool {
        let given = self.parameters();
        let is_fixed = given.text("target_language").is_some() || given.flag("all_targets");
        self.declaration.draw == Draw::Target && !is_fixed
    }

    /// The transformations that this one stands for: itself, or one for each of the `values` of the
    /// parameters that it leaves open.
    pub fn each(self, values: impl Fn(&str) -> Vec<Json>) -> Vec<Self> {
        let mut all = vec![self];
        for parameter in all[0].declaration.parameters {
            let is_open = |one: &Self| match parameter.each {
                ValueExpansion::IfAbsent => !one.given.contains_key(parameter.name),
                ValueExpansion::If(flag) => one.parameters().flag(flag),
                ValueExpansion::Never => false,
            };
            let closed = |mut one: Self| {
                if !is_open(&one) {
                    return vec![one];
                }
                if let ValueExpansion::If(flag) = parameter.each {
                    one.given.remove(flag);
                }
                let each = values(parameter.name).into_iter();
                each.map(|value| one.clone().with(parameter.name, value)).collect()
            };
            all = all.into_iter().flat_map(closed).collect();
            if all.is_empty() {
                break;
            }
        }
        all
    }

    /// Name with parameters, unique within a suite, e.g. `translation(fr)` or
    /// `paraphrase(paraphrase-b)`.
    pub fn label(&self) -> String {
        let shown = self.declaration.parameters.iter().filter_map(|parameter| {
            let value = self.given.get(parameter.name).filter(|_| parameter.in_suites())?;
            match parameter.value {
                Value::Name | Value::Language => value.as_str().map(str::to_owned),
                Value::Languages => {
                    let all = self.parameters().texts(parameter.name);
                    (!all.is_empty()).then(|| all.join("+"))
                }
                Value::Whole { .. } => Some(value.to_string()),
                // A share that a suite varies is shown in percent.
                Value::Share { .. } if parameter.each == ValueExpansion::IfAbsent => Some(percent(value.as_f64()?)),
                Value::Share { .. } => Some(value.as_f64()?.to_string()),
                Value::Flag => value.as_bool()?.then(|| parameter.name.replace('_', " ")),
            }
        });
        let parameters = shown.collect::<Vec<_>>().join(" ");
        let parts: Vec<&str> = [parameters.as_str()]
            .into_iter()
            .filter(|own| !own.is_empty())
            .chain(self.prompt.as_deref())
            .collect();
        if parts.is_empty() {
            return self.name().to_owned();
        }
        format!("{}({})", self.name(), parts.join(", "))
    }
}

/// A share in whole percent; a share above zero but under one percent is shown as such.
pub fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.01 {
        "< 1 %".to_owned()
    } else {
        format!("{:.0} %", share * 100.0)
    }
}

/// Name of the form that holds another prompt beside the transformation in `of`.
const WORDED: &str = "worded";

impl Serialize for Transformation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut form = serializer.serialize_map(None)?;
        if let Some(prompt) = &self.prompt {
            let of = Self {
                prompt: None,
                ..self.clone()
            };
            form.serialize_entry("name", WORDED)?;
            form.serialize_entry("of", &of)?;
            form.serialize_entry("prompt", prompt)?;
        } else {
            form.serialize_entry("name", self.name())?;
            // In the order of the row, whatever the order in which they were given.
            let known = self.declaration.parameters.iter().map(|parameter| parameter.name);
            let unknown = self.given.keys().map(String::as_str);
            let unknown = unknown.filter(|name| self.declaration.parameter(name).is_none());
            for name in known.chain(unknown) {
                if let Some(value) = self.given.get(name) {
                    form.serialize_entry(name, value)?;
                }
            }
        }
        form.end()
    }
}

impl<'de> Deserialize<'de> for Transformation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut form = Map::deserialize(deserializer)?;
        let name = form.remove("name");
        let name = name.as_ref().and_then(Json::as_str).unwrap_or_default();
        if name == WORDED {
            let of = form.remove("of").unwrap_or_default();
            let prompt = form
                .remove("prompt")
                .and_then(|prompt| prompt.as_str().map(str::to_owned));
            let of = serde_json::from_value::<Self>(of).map_err(D::Error::custom)?;
            return Ok(Self { prompt, ..of });
        }
        let declaration =
            declaration(name).ok_or_else(|| D::Error::custom(format!("unknown transformation `{name}`")))?;
        Ok(Self::new(declaration, form))
    }
}

/// The names that a report may have, for its schema.
struct Name;

impl JsonSchema for Name {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TransformationName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let worded = (WORDED, "One of the others, made with a prompt that is not its default.");
        let names = CATALOGUE.iter().map(|row| (row.name, row.description)).chain([worded]);
        let names = names.map(|(name, about)| json!({"type": "string", "const": name, "description": about}));
        schemars::json_schema!({
            "oneOf": names.collect::<Vec<_>>(),
            "description": "A name of the catalogue of transformations.",
        })
    }
}

impl JsonSchema for Transformation {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Transformation".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let about = "A transformation that turns each text into one text, with its parameters by name. `worded`: the \
                     transformation in `of`, made with the prompt of the id in `prompt`.";
        let mut properties = Map::from_iter([
            ("name".to_owned(), generator.subschema_for::<Name>().to_value()),
            (
                "of".to_owned(),
                json!({"anyOf": [{"$ref": "#/$defs/Transformation"}, {"type": "null"}]}),
            ),
            ("prompt".to_owned(), json!({"type": ["string", "null"]})),
        ]);
        let parameters = scorable().flat_map(|row| row.parameters.iter().map(move |parameter| (row, parameter)));
        for (row, parameter) in parameters.filter(|(_, parameter)| parameter.in_suites()) {
            let mut property = parameter.value.schema();
            property["description"] = format!("`{}`: {}", row.name, parameter.description).into();
            properties.insert(parameter.name.to_owned(), property);
        }
        schemars::json_schema!({
            "type": "object",
            "properties": properties,
            "required": ["name"],
            "description": about,
        })
    }
}
