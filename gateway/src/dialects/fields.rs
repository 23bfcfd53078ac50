//! Declares the fields of a request once: the struct that serde reads, the refusals, and the table
//! of `docs/reference/http-fields.md`.

use isomer_service_kit::Fault;

/// How a server treats a field of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handling {
    /// The field is obeyed.
    Read,
    /// Any value is accepted. It changes nothing, as on the server whose API this is.
    Ignored,
    /// A value that changes nothing is accepted. Any other value is refused.
    Harmless,
    /// A number of tokens is accepted if it is at least the encoder's maximum.
    Length,
    /// Any value except null is refused.
    Refused,
}

isomer_names::names!(Handling {
    Read = "read", Ignored = "ignored", Harmless = "harmless", Length = "length", Refused = "refused"
});

/// A field of a request.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub name: &'static str,
    pub handling: Handling,
    /// Lines of its documentation, or the reason of a refusal.
    pub note: &'static [&'static str],
}

/// The fields of the requests of some paths.
#[derive(Debug, Clone, Copy)]
pub struct RequestFields {
    /// The server whose API this is.
    pub api: &'static str,
    pub paths: &'static [&'static str],
    pub fields: &'static [Field],
    /// How fields that are not listed are treated: ignored or refused.
    pub others: Handling,
}

/// A request whose fields [`fields`] declares.
pub(crate) trait Fields {
    const FIELDS: &'static [Field];
    const OTHERS: Handling;

    /// # Errors
    /// For a field that would change the result and is not supported.
    fn check(&self) -> Result<(), Fault>;

    /// The request of these paths, for the documentation.
    fn at(api: &'static str, paths: &'static [&'static str]) -> RequestFields {
        RequestFields {
            api,
            paths,
            fields: Self::FIELDS,
            others: Self::OTHERS,
        }
    }
}

/// Declares the fields of a request. `rest` says what happens to all others: `ignored`, if the
/// server whose API this is ignores them too, or `refused`, so that no misspelt field changes the
/// result silently. The sections may be left out, and have this order:
///
/// * `read`: fields of the struct, with their types; their comments are the documentation.
/// * `ignored`: names only; no value is kept.
/// * `harmless`: a type, a condition for the values that change nothing, and a refusal.
/// * `length`: numbers of tokens; [`super::model::check_lengths`] compares them with the encoder's
///   maximum.
/// * `refused`: a refusal.
///
/// A refusal is a message, and after `=>` a hint.
macro_rules! fields {
    (@rest ignored $item:item) => {
        #[derive(Debug, serde::Deserialize)]
        $item
    };
    (@rest refused $item:item) => {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $item
    };
    (@handling ignored) => { $crate::dialects::fields::Handling::Ignored };
    (@handling refused) => { $crate::dialects::fields::Handling::Refused };
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident, rest = $rest:ident;
        $(read { $(
            $(#[doc = $doc:literal])*
            $(#[serde($($serde:tt)*)])?
            $field_vis:vis $field:ident: $kind:ty,
        )* })?
        $(ignored { $($ignored:ident),* $(,)? })?
        $(harmless { $(
            $harmless:ident: $harmless_kind:ty, $condition:expr, $reason:literal => $remedy:literal;
        )* })?
        $(length { $($length:ident),* $(,)? })?
        $(refused { $($refused:ident: $why:literal => $hint:literal;)* })?
    ) => {
        $crate::dialects::fields::fields! { @rest $rest
            $(#[$meta])*
            $vis struct $name {
                $($(
                    $(#[doc = $doc])*
                    $(#[serde($($serde)*)])?
                    $field_vis $field: $kind,
                )*)?
                $($($ignored: Option<serde::de::IgnoredAny>,)*)?
                $($($harmless: Option<$harmless_kind>,)*)?
                $($($length: Option<u64>,)*)?
                $($($refused: Option<serde::de::IgnoredAny>,)*)?
            }
        }

        impl $crate::dialects::fields::Fields for $name {
            const FIELDS: &'static [$crate::dialects::fields::Field] = {
                use $crate::dialects::fields::{Field, Handling};
                &[
                    $($(Field {
                        name: stringify!($field),
                        handling: Handling::Read,
                        note: &[$($doc),*],
                    },)*)?
                    $($(Field { name: stringify!($ignored), handling: Handling::Ignored, note: &[] },)*)?
                    $($(Field { name: stringify!($harmless), handling: Handling::Harmless, note: &[$reason] },)*)?
                    $($(Field { name: stringify!($length), handling: Handling::Length, note: &[] },)*)?
                    $($(Field { name: stringify!($refused), handling: Handling::Refused, note: &[$why] },)*)?
                ]
            };
            const OTHERS: $crate::dialects::fields::Handling = $crate::dialects::fields::fields!(@handling $rest);

            fn check(&self) -> Result<(), isomer_service_kit::Fault> {
                $($(let _ = &self.$ignored;)*)?
                $($(
                    let is_harmless: fn(&$harmless_kind) -> bool = $condition;
                    if self.$harmless.as_ref().is_some_and(|value| !is_harmless(value)) {
                        return Err(isomer_service_kit::Fault::invalid(stringify!($harmless), $reason).hint($remedy));
                    }
                )*)?
                $($(
                    if self.$refused.is_some() {
                        return Err(isomer_service_kit::Fault::invalid(stringify!($refused), $why).hint($hint));
                    }
                )*)?
                Ok(())
            }
        }

        impl $name {
            /// The given numbers of tokens, each with the name of its field.
            #[allow(dead_code, reason = "not every request has such fields")]
            fn lengths(&self) -> Vec<(&'static str, u64)> {
                let given: &[(&'static str, Option<u64>)] = &[$($((stringify!($length), self.$length),)*)?];
                given.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect()
            }
        }
    };
}
pub(crate) use fields;
