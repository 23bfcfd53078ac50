//! Collections that older versions of `isomer index` filled.

use clap::Args;
use isomer_index::encode::Encoder;

use crate::heading;

/// Collections of older versions.
#[derive(Args, Debug)]
#[command(next_help_heading = heading::ENCODERS)]
pub(crate) struct OlderCollectionArgs {
    /// Use collections that an older isomer filled, which did not record the encoder's settings:
    /// they are taken for those of now.
    #[arg(long, env = "ISOMER_ACCEPT_UNRECORDED_SETTINGS")]
    pub(crate) accept_unrecorded_settings: bool,
}

impl OlderCollectionArgs {
    /// The encoder as such a collection needs it, if the flag is given.
    pub(crate) fn apply(&self, encoder: Encoder) -> Encoder {
        match self.accept_unrecorded_settings {
            true => encoder.with_unrecorded_settings(),
            false => encoder,
        }
    }
}
