//! Enum fields of requests.

use isomer_proto::ProtoEnum;

use crate::Fault;

/// The value of an enum field of a request; `None` if it was left out.
///
/// # Errors
/// `INVALID_ARGUMENT` for a number that this version does not know.
pub fn choice<E: ProtoEnum>(field: &str, number: i32) -> Result<Option<E>, Fault> {
    E::given(number).map_err(|unknown| {
        let known: Vec<_> = E::all()
            .map(|value| format!("{} ({})", value.into(), value.name()))
            .collect();
        Fault::invalid(field, unknown.to_string()).hint(format!("give {}, or leave it out", known.join(", ")))
    })
}
