//! Doses.

/// The share of eligible units that change: six levels, each about twice the one before, so that
/// they are evenly spaced on a logarithmic scale.
///
/// Typists leave 1 to 2 % of characters wrong (V. Dhakal et al., "Observations on Typing from 136
/// Million Keystrokes", CHI 2018: 1.2 % on keyboards; K. Palin et al., "How do People Type on
/// Mobile Devices?", MobileHCI 2019: 2.3 % on telephones). The two lowest levels are those. The
/// upper levels go on to a text that a reader hardly recognises, because the dose at half of the
/// effect can be read only from a curve that has left its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dose {
    /// 1 %.
    Trace,
    /// 2 %.
    Slight,
    /// 5 %.
    Light,
    /// 10 %.
    Moderate,
    /// 20 %.
    Strong,
    /// 40 %.
    Severe,
}

isomer_names::names!(Dose {
    Trace = "trace", Slight = "slight", Light = "light", Moderate = "moderate", Strong = "strong",
    Severe = "severe"
});

impl Dose {
    /// The share of eligible units that change.
    pub fn share(self) -> f64 {
        match self {
            Self::Trace => 0.01,
            Self::Slight => 0.02,
            Self::Light => 0.05,
            Self::Moderate => 0.1,
            Self::Strong => 0.2,
            Self::Severe => 0.4,
        }
    }

    pub fn of_share(share: f64) -> Option<Self> {
        Self::ALL.into_iter().find(|dose| (dose.share() - share).abs() < 1e-9)
    }
}
