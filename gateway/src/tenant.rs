//! Whose texts the texts of a call are: what they leave in caches is not served to other tenants.

use http::HeaderMap;
use isomer_access::Caller;
use isomer_service_kit::Tenant;

/// The tenant of a call: that of its caller, and within it the one that the headers name. So a
/// service with a key of its own tells the tenants that it works for apart, and nobody reaches the
/// caches of another key by naming its tenant.
pub(crate) fn of_call(caller: Option<&Caller>, headers: &HeaderMap) -> Tenant {
    Tenant::of_headers(headers).within(&of_caller(caller))
}

/// The tenant of a call whose headers are not read.
pub(crate) fn of_caller(caller: Option<&Caller>) -> Tenant {
    caller.map_or_else(Tenant::default, Caller::tenant)
}

/// A request of this gateway's own to another service, for a caller: its texts are the caller's.
pub(crate) fn request<T>(caller: Option<&Caller>, message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller.clone());
    }
    request
}
