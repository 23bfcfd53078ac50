//! The tenant of a call's texts. Cached results of one tenant are not served to other tenants.

use http::HeaderMap;
use isomer_access::Caller;
use isomer_service_kit::Tenant;

/// The tenant of a call: its caller's tenant, and within it the tenant that the headers name. So a
/// service with its own key separates the tenants that it works for, and nobody reaches the caches
/// of another key by naming its tenant.
pub(crate) fn of_call(caller: Option<&Caller>, headers: &HeaderMap) -> Tenant {
    Tenant::of_headers(headers).within(&of_caller(caller))
}

/// The tenant of a call, ignoring its headers.
pub(crate) fn of_caller(caller: Option<&Caller>) -> Tenant {
    caller.map_or_else(Tenant::default, Caller::tenant)
}

/// The gateway's own request to another service on behalf of a caller, to whom its texts belong.
pub(crate) fn request<T>(caller: Option<&Caller>, message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller.clone());
    }
    request
}
