//! Transformations as reports show them.

pub use isomer_transformations::Transformation;

/// Channel and dose of noise.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelDose {
    /// The channel's name.
    pub channel: String,
    /// Share of the units that change.
    pub dose: f64,
}

impl ChannelDose {
    /// Channel and dose of a noise transformation; `None` for any other transformation.
    pub fn of(transformation: &Transformation) -> Option<Self> {
        let parameters = transformation.parameters();
        Some(Self {
            channel: parameters.text("channel")?.to_owned(),
            dose: parameters.given_share("dose")?,
        })
    }
}
