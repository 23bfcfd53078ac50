//! Names of the values of enums, written once.

/// Declares the names of an enum's values: `ALL` has the values in braces, in order, `name` gives
/// the name of each, and `named` finds one of `ALL`. Values after the braces are in no list that a
/// user chooses from.
#[macro_export]
macro_rules! names {
    ($kind:ty { $($listed:ident = $name:literal),+ } $($other:ident = $other_name:literal),*) => {
        impl $kind {
            /// The values, in order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$listed),+];

            /// The name in suites, on the command line, in messages and in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$listed => $name,)+
                    $(Self::$other => $other_name,)*
                }
            }

            /// The value of this name among ALL.
            #[allow(dead_code, reason = "not every list is read by name")]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #![allow(unreachable_pub, reason = "the macro declares public items")]

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Side {
        Left,
        Right,
        Neither,
    }

    names!(Side { Left = "left", Right = "right" } Neither = "neither");

    #[test]
    fn a_value_outside_the_list_has_a_name_too() {
        assert_eq!(Side::ALL, [Side::Left, Side::Right]);
        assert_eq!(
            [Side::Left, Side::Right, Side::Neither].map(Side::name),
            ["left", "right", "neither"]
        );
    }

    #[test]
    fn only_a_value_of_the_list_is_found_by_its_name() {
        assert_eq!(
            ["left", "right", "neither", "Left", ""].map(Side::named),
            [Some(Side::Left), Some(Side::Right), None, None, None]
        );
    }
}
