use isomer_proto::eval::v1::ScoreResponse;

/// The score of one encoder on one dataset.
pub(crate) struct Outcome {
    pub(crate) model: String,
    pub(crate) data: String,
    pub(crate) response: ScoreResponse,
}
