//! The fields that an update changes (AIP-134).

use isomer_proto::gateway::v1::Provider;
use isomer_service_kit::{Fault, config::suggest};
use prost_types::FieldMask;

/// Copies one field from the second provider to the first.
type Copy = fn(&mut Provider, &Provider);

/// Fields that the provider's owner sets.
const FIELDS: &[(&str, Copy)] = &[
    ("kind", |to, from| to.kind = from.kind),
    ("address", |to, from| to.address.clone_from(&from.address)),
    ("encoders", |to, from| to.encoders.clone_from(&from.encoders)),
    ("limits", |to, from| to.limits = from.limits),
    ("secret", |to, from| to.secret.clone_from(&from.secret)),
    ("tls", |to, from| to.tls.clone_from(&from.tls)),
    ("headers", |to, from| to.headers.clone_from(&from.headers)),
    ("price_per_million_tokens", |to, from| {
        to.price_per_million_tokens = from.price_per_million_tokens;
    }),
    ("lease", |to, from| to.lease = from.lease),
    ("input_types", |to, from| to.input_types.clone_from(&from.input_types)),
];

macro_rules! nested {
    ($message:ident . $field:ident) => {
        (concat!(stringify!($message), ".", stringify!($field)), |to, from| {
            let value = from.$message.clone().unwrap_or_default().$field;
            to.$message.get_or_insert_default().$field = value;
        })
    };
}

/// Fields of nested messages.
const NESTED: &[(&str, Copy)] = &[
    nested!(limits.max_batch_items),
    nested!(limits.max_batch_tokens),
    nested!(limits.requests_per_second),
    nested!(limits.tokens_per_second),
    nested!(limits.max_concurrency),
    nested!(limits.timeout),
    nested!(tls.ca_file),
    nested!(tls.certificate_file),
    nested!(tls.key_file),
    nested!(tls.server_name),
];

/// Fields that the gateway sets.
const OURS: &[&str] = &[
    "create_time",
    "update_time",
    "etag",
    "expire_time",
    "source",
    "state",
    "state_detail",
];

/// The changes of an update.
#[derive(Debug)]
pub(crate) struct Changes(Vec<Copy>);

impl Changes {
    /// The fields that a mask names; without a mask, the fields that are set in `wanted`.
    pub(crate) fn of(mask: Option<&FieldMask>, wanted: &Provider) -> Result<Self, Fault> {
        let all = || FIELDS.iter().map(|(_, copy)| *copy);
        let Some(mask) = mask else {
            let is_set = |copy: &Copy| {
                let mut probe = Provider::default();
                copy(&mut probe, wanted);
                probe != Provider::default()
            };
            return Ok(Self(all().filter(is_set).collect()));
        };
        match mask.paths.as_slice() {
            [] => Err(Fault::invalid("update_mask", "names no field").hint("name fields, or leave update_mask out")),
            [star] if star == "*" => Ok(Self(all().collect())),
            paths => paths.iter().map(|path| named(path)).collect::<Result<_, _>>().map(Self),
        }
    }

    /// The provider `to` after the changes.
    pub(crate) fn applied(&self, to: &Provider, wanted: &Provider) -> Provider {
        let mut changed = to.clone();
        for copy in &self.0 {
            copy(&mut changed, wanted);
        }
        changed
    }

    /// Whether the lease is one of the changed fields.
    pub(crate) fn has_lease(&self) -> bool {
        // Function pointers cannot be compared reliably, so their effects are compared.
        let probe = Provider {
            lease: Some(prost_types::Duration::default()),
            ..Provider::default()
        };
        self.applied(&Provider::default(), &probe).lease.is_some()
    }
}

fn named(path: &str) -> Result<Copy, Fault> {
    let refuse = |problem: String, hint: String| Err(Fault::invalid("update_mask", problem).hint(hint));
    if let Some((_, copy)) = FIELDS.iter().chain(NESTED).find(|(name, _)| *name == path) {
        return Ok(*copy);
    }
    if path == "id" {
        return refuse(
            "`id` never changes".to_owned(),
            "register a provider of the new id and delete this one".to_owned(),
        );
    }
    if OURS.contains(&path) {
        return refuse(format!("`{path}` is set by the gateway"), "leave it out".to_owned());
    }
    if path == "*" {
        return refuse(
            "`*` is given together with other fields".to_owned(),
            "give it alone".to_owned(),
        );
    }
    // A mask can name a map or a secret only as a whole, but each field of a message.
    if let Some((parent, _)) = path.split_once('.') {
        let within: Vec<&str> = NESTED
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| name.starts_with(&format!("{parent}.")))
            .collect();
        if FIELDS.iter().any(|(name, _)| *name == parent) && within.is_empty() {
            return refuse(
                format!("`{path}` goes too deep"),
                format!("name `{parent}` and give all of it"),
            );
        }
        if !within.is_empty() {
            return refuse(format!("`{path}` is not a field of a provider"), suggest(path, &within));
        }
    }
    let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
    refuse(format!("`{path}` is not a field of a provider"), suggest(path, &names))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_proto::gateway::v1::ProviderLimits;

    use super::*;

    fn mask(paths: &[&str]) -> FieldMask {
        FieldMask {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        }
    }

    fn before() -> Provider {
        Provider {
            id: "a".to_owned(),
            kind: 4,
            address: "http://old".to_owned(),
            price_per_million_tokens: 2.0,
            limits: Some(ProviderLimits {
                max_batch_items: 10,
                max_concurrency: 3,
                ..ProviderLimits::default()
            }),
            ..Provider::default()
        }
    }

    fn changed(paths: Option<&[&str]>, wanted: &Provider) -> Provider {
        let mask = paths.map(mask);
        Changes::of(mask.as_ref(), wanted).unwrap().applied(&before(), wanted)
    }

    #[test]
    fn named_fields_change_even_to_nothing_and_others_stay() {
        let wanted = Provider {
            address: "http://new".to_owned(),
            ..Provider::default()
        };
        let after = changed(Some(&["price_per_million_tokens"]), &wanted);
        assert_eq!(
            (after.price_per_million_tokens, after.address.as_str()),
            (0.0, "http://old")
        );
        let after = changed(Some(&["address", "limits.max_concurrency"]), &wanted);
        assert_eq!(after.address, "http://new");
        let limits = after.limits.unwrap();
        assert_eq!((limits.max_batch_items, limits.max_concurrency), (10, 0));
    }

    #[test]
    fn without_a_mask_what_is_set_changes_and_with_a_star_everything() {
        let wanted = Provider {
            address: "http://new".to_owned(),
            etag: "ignored".to_owned(),
            ..Provider::default()
        };
        let after = changed(None, &wanted);
        assert_eq!(
            after,
            Provider {
                address: "http://new".to_owned(),
                ..before()
            }
        );
        let after = changed(Some(&["*"]), &wanted);
        let all = Provider {
            id: "a".to_owned(),
            address: "http://new".to_owned(),
            ..Provider::default()
        };
        assert_eq!(after, all);
    }

    #[test]
    fn a_path_that_is_no_field_is_refused_with_the_nearest() {
        for (path, hint) in [
            ("adress", "did you mean `address`?"),
            ("limits.timout", "did you mean `limits.timeout`?"),
            ("encoders.minilm", "name `encoders` and give all of it"),
            ("secret.file", "name `secret` and give all of it"),
            ("id", "register a provider of the new id"),
            ("expire_time", "leave it out"),
            ("pricePerMillionTokens", "did you mean `price_per_million_tokens`?"),
            ("", "use one of kind"),
        ] {
            let fault = Changes::of(Some(&mask(&[path])), &Provider::default()).unwrap_err();
            assert_eq!(fault.field.as_deref(), Some("update_mask"));
            assert!(fault.hint.as_ref().unwrap().contains(hint), "{path}: {fault}");
        }
        assert!(Changes::of(Some(&mask(&["*", "kind"])), &Provider::default()).is_err());
        assert!(Changes::of(Some(&mask(&[])), &Provider::default()).is_err());
    }

    #[test]
    fn every_field_of_the_proto_can_be_named_or_is_the_gateways() {
        let set = isomer_proto::FILE_DESCRIPTOR_SET;
        let set = <prost_types::FileDescriptorSet as prost::Message>::decode(set).unwrap();
        let file = set
            .file
            .iter()
            .find(|file| file.package() == "isomer.gateway.v1" && file.name().ends_with("provider.proto"))
            .unwrap();
        let fields = |message: &str| -> Vec<String> {
            let message = file.message_type.iter().find(|m| m.name() == message).unwrap();
            message.field.iter().map(|field| field.name().to_owned()).collect()
        };
        for field in fields("Provider") {
            let known = FIELDS.iter().any(|(name, _)| *name == field) || OURS.contains(&field.as_str());
            assert!(known || field == "id", "{field}");
        }
        for (message, prefix) in [("ProviderLimits", "limits"), ("TlsSettings", "tls")] {
            for field in fields(message) {
                let path = format!("{prefix}.{field}");
                assert!(NESTED.iter().any(|(name, _)| *name == path), "{path}");
            }
        }
    }

    #[test]
    fn an_update_knows_whether_it_has_the_lease() {
        let wanted = Provider {
            lease: Some(prost_types::Duration { seconds: 5, nanos: 0 }),
            ..Provider::default()
        };
        assert!(Changes::of(None, &wanted).unwrap().has_lease());
        assert!(!Changes::of(None, &before()).unwrap().has_lease());
        assert!(
            Changes::of(Some(&mask(&["kind", "lease"])), &before())
                .unwrap()
                .has_lease()
        );
    }
}
