//! Names of the values of enums.

/// An enum of the protocol. Value 0 stands for a field that was left out.
pub trait ProtoEnum: Copy + Default + Eq + TryFrom<i32> + Into<i32> + 'static {
    /// Every value but the unspecified one, in the order of the file, with its name in lower case
    /// and without the enum's prefix: `signed_rank` and `signed-rank`.
    const VALUES: &'static [(Self, &'static str, &'static str)];

    /// Every value but the unspecified one.
    fn all() -> impl ExactSizeIterator<Item = Self> {
        Self::VALUES.iter().map(|(value, ..)| *value)
    }

    /// Name with underscores, e.g. `signed_rank`.
    fn name(self) -> &'static str {
        let value = Self::VALUES.iter().find(|(value, ..)| *value == self);
        value.map_or("unspecified", |(_, name, _)| name)
    }

    /// Name with hyphens, as flags have it: `signed-rank`.
    fn dashed(self) -> &'static str {
        let value = Self::VALUES.iter().find(|(value, ..)| *value == self);
        value.map_or("unknown", |(.., name)| name)
    }

    /// The value of this name, with underscores or hyphens.
    fn named(name: &str) -> Option<Self> {
        let value = Self::VALUES
            .iter()
            .find(|(_, one, other)| *one == name || *other == name);
        value.map(|(value, ..)| *value)
    }

    /// The value of the same name in another list.
    fn among<T: Copy>(self, all: impl IntoIterator<Item = T>, name: impl Fn(T) -> &'static str) -> Option<T> {
        all.into_iter().find(|one| Self::named(name(*one)) == Some(self))
    }

    /// The name of the value of this number; `unknown` if a newer version sent it.
    fn name_of(number: i32) -> &'static str {
        Self::try_from(number).map_or("unknown", Self::name)
    }

    /// The value of a field; `None` if it was left out.
    ///
    /// # Errors
    /// The number, if no value of this version has it.
    fn given(number: i32) -> Result<Option<Self>, UnknownValue> {
        let value = Self::try_from(number).map_err(|_| UnknownValue {
            number,
            known: Self::VALUES.iter().map(|(_, name, _)| *name).collect(),
        })?;
        Ok(Some(value).filter(|value| *value != Self::default()))
    }
}

/// A number that no value of an enum has: a newer version sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownValue {
    number: i32,
    known: Vec<&'static str>,
}

impl std::fmt::Display for UnknownValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} is not a value that this version knows: {}",
            self.number,
            self.known.join(", ")
        )
    }
}

impl std::error::Error for UnknownValue {}

macro_rules! proto_enum {
    ($kind:ty: $($variant:ident = $name:literal $dashed:literal,)*) => {
        impl ProtoEnum for $kind {
            const VALUES: &'static [(Self, &'static str, &'static str)] = &[$((Self::$variant, $name, $dashed)),*];
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                let unknown = || serde::de::Error::unknown_variant(&name, &[$($dashed),*]);
                Self::named(&name).ok_or_else(unknown)
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/enums.rs"));
