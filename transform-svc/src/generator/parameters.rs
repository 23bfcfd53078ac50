//! Parameters of a request that some servers refuse.

pub(super) use crate::config::Parameter;

impl Parameter {
    /// A description of the change to later requests.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_completion_tokens is sent in its place",
            Self::ResponseFormat => "it is left out, and answers are plain text",
            _ => "it is left out, and the server's own value counts",
        }
    }

    /// The parameter that an error names, in its field for that or in quotes in its message: the
    /// first one, because the message may go on with a parameter to use instead.
    pub(super) fn named_by(field: &str, message: &str) -> Option<Self> {
        if !field.is_empty() {
            let name = field.split('.').next().unwrap_or_default();
            return Self::named(name);
        }
        let place = |parameter: &Self| {
            let name = parameter.name();
            let quoted = ["'", "`", "\""].map(|quote| [format!("{quote}{name}{quote}"), format!("{quote}{name}.")]);
            quoted.iter().flatten().filter_map(|quoted| message.find(quoted)).min()
        };
        let named = Self::ALL
            .into_iter()
            .filter_map(|parameter| Some((place(&parameter)?, parameter)));
        named.min_by_key(|(place, _)| *place).map(|(_, parameter)| parameter)
    }
}

/// The parameters that a request leaves out.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OmittedParameters(u8);

impl FromIterator<Parameter> for OmittedParameters {
    fn from_iter<I: IntoIterator<Item = Parameter>>(parameters: I) -> Self {
        let mut omitted = Self::default();
        parameters.into_iter().for_each(|parameter| omitted.add(parameter));
        omitted
    }
}

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
        assert_eq!(
            named("", "'max_completion_tokens' is unknown; use 'max_tokens'"),
            Some("max_completion_tokens")
        );
        assert_eq!(named("", "`top_k` is unknown"), Some("top_k"));
        assert_eq!(
            named("response_format.type", "Input should be 'text'"),
            Some("response_format")
        );
        assert_eq!(
            named("", "'response_format.type' must be 'text'"),
            Some("response_format")
        );
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
