//! Conversions between protos and the domain's separation.

use isomer_proto::eval::v1 as proto;
use isomer_service_kit::Fault;

use crate::separation::{Kind, Separation};

/// Reads a request's settings of separation.
pub(super) fn separation(separation: Option<proto::Separation>) -> Result<Separation, Fault> {
    let Some(separation) = separation else {
        return Ok(Separation::default());
    };
    if separation.texts == Some(0) {
        return Err(Fault::invalid("spec.separation.texts", "is 0").hint("give 1 or more, or set `off`"));
    }
    let mut kinds = Vec::with_capacity(separation.kinds.len());
    for (i, name) in separation.kinds.iter().enumerate() {
        let Some(kind) = Kind::named(name) else {
            let known = Kind::ALL.map(Kind::name).join(", ");
            let field = format!("spec.separation.kinds[{i}]");
            return Err(
                Fault::invalid(field, format!("unknown kind of change `{name}`")).hint(format!("give one of {known}"))
            );
        };
        kinds.push(kind);
    }
    Ok(Separation {
        off: separation.off,
        kinds,
        texts: separation.texts,
    })
}

/// A request's settings of separation as a proto.
pub(super) fn proto(separation: &Separation) -> Option<proto::Separation> {
    (*separation != Separation::default()).then(|| proto::Separation {
        off: separation.off,
        kinds: separation.kinds.iter().map(|kind| kind.name().to_owned()).collect(),
        texts: separation.texts,
    })
}
