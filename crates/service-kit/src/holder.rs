//! The holder of stored data that a call relies on: a run, or a unit of work.

/// Metadata that names the holder, as one line of text. If a service finds or stores something in a
/// store that machines share, it records there that the holder relies on it. Only the services of
/// one process use this: the gateway removes it from the requests of its callers.
pub const HOLDER: &str = "isomer-holder";

/// The holder that the metadata of a request name.
pub fn of_request<T>(request: &tonic::Request<T>) -> Option<&str> {
    request.metadata().get(HOLDER)?.to_str().ok()
}

/// A request with its holder, if there is one.
pub fn with_holder<T>(mut request: tonic::Request<T>, holder: Option<&str>) -> tonic::Request<T> {
    if let Some(value) = holder.and_then(|holder| holder.parse().ok()) {
        request.metadata_mut().insert(HOLDER, value);
    }
    request
}
