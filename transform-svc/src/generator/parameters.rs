//! Parameters of a request that some servers refuse.

/// An optional parameter of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Parameter {
    MaxTokens,
    Temperature,
    TopP,
    TopK,
    Seed,
}

isomer_names::names!(Parameter {
    MaxTokens = "max_tokens", Temperature = "temperature", TopP = "top_p", TopK = "top_k", Seed = "seed"
});

impl Parameter {
    /// A description of the change to later requests.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_completion_tokens is sent in its place",
            _ => "it is left out, and the server's own value counts",
        }
    }

    /// The parameter that an error names, in its field for that or in quotes in its message.
    pub(super) fn named_by(field: &str, message: &str) -> Option<Self> {
        let quoted = |name: &str| {
            ["'", "`", "\""]
                .iter()
                .any(|quote| message.contains(&format!("{quote}{name}{quote}")))
        };
        Self::ALL
            .into_iter()
            .find(|parameter| field == parameter.name() || (field.is_empty() && quoted(parameter.name())))
    }
}

/// The parameters that a request leaves out.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OmittedParameters(u8);

impl OmittedParameters {
    pub(super) fn add(&mut self, parameter: Parameter) {
        self.0 |= 1 << parameter as u8;
    }

    pub(super) fn has(self, parameter: Parameter) -> bool {
        self.0 & (1 << parameter as u8) != 0
    }

    /// A value, unless its parameter is left out.
    pub(super) fn unless<T>(self, parameter: Parameter, value: T) -> Option<T> {
        (!self.has(parameter)).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_found_in_its_field_or_in_quotes() {
        let named = |field, message| Parameter::named_by(field, message).map(Parameter::name);
        assert_eq!(named("temperature", "Unsupported value"), Some("temperature"));
        assert_eq!(
            named(
                "",
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
            ),
            Some("max_tokens")
        );
        assert_eq!(named("", "`top_k` is unknown"), Some("top_k"));
        // Another parameter is the cause.
        assert_eq!(named("messages", "'temperature' stands in a message"), None);
        assert_eq!(named("", "the temperature of the room"), None);
    }

    #[test]
    fn a_parameter_is_left_out_and_no_other() {
        let mut omitted = OmittedParameters::default();
        assert_eq!(omitted.unless(Parameter::Seed, 7), Some(7));
        omitted.add(Parameter::Seed);
        assert_eq!(omitted.unless(Parameter::Seed, 7), None);
        assert_eq!(omitted.unless(Parameter::TopP, 0.5), Some(0.5));
    }
}
