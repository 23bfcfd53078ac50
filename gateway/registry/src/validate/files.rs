//! Validates the locations of secrets and TLS files. The gateway reads them on behalf of a caller
//! and sends secrets to addresses that the caller names, so a caller may name only locations that
//! the operator permits.

use std::path::{Component, Path};

use isomer_proto::gateway::v1::{SecretRef, TlsSettings, secret_ref::Source};
use isomer_service_kit::Fault;

use super::{Author, address::legal_host, shown};
use crate::config::ProvidersConfig;

const LONGEST: usize = 4096;

pub(super) struct FileRules<'a> {
    pub(super) author: Author,
    pub(super) config: &'a ProvidersConfig,
}

impl FileRules<'_> {
    pub(super) fn secret(&self, secret: &SecretRef) -> Result<(), Fault> {
        match &secret.source {
            None => Err(Fault::invalid("provider.secret", "says nothing")
                .hint("name an environment variable or a file of the gateway, or leave secret out")),
            Some(Source::Environment(name)) => self.variable(name),
            Some(Source::File(path)) => self.file("provider.secret.file", path),
        }
    }

    fn variable(&self, name: &str) -> Result<(), Fault> {
        let field = "provider.secret.environment";
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || name.len() > 255 || !name.bytes().all(legal) || name.as_bytes()[0].is_ascii_digit() {
            // A secret pasted here by mistake must not appear in the error.
            return Err(Fault::invalid(field, "is not the name of an environment variable")
                .hint("give the variable's name, e.g. OPENAI_API_KEY, not the secret"));
        }
        let allowed = &self.config.secret_environment;
        if self.author == Author::Caller && !allowed.iter().any(|pattern| matches(pattern, name)) {
            let hint = match allowed.as_slice() {
                [] => "declare the provider in the gateway's file of providers, or let the operator allow it in \
                       providers.secret_environment"
                    .to_owned(),
                allowed => format!(
                    "name one of {}, or let the operator add it to providers.secret_environment",
                    allowed.join(", ")
                ),
            };
            return Err(Fault::invalid(field, format!("`{}` is not for providers", shown(name))).hint(hint));
        }
        Ok(())
    }

    pub(super) fn tls(&self, tls: &TlsSettings) -> Result<(), Fault> {
        let files = [
            ("provider.tls.ca_file", &tls.ca_file),
            ("provider.tls.certificate_file", &tls.certificate_file),
            ("provider.tls.key_file", &tls.key_file),
        ];
        let mut given = files.into_iter().filter(|(_, file)| !file.is_empty());
        given.try_for_each(|(field, file)| self.file(field, file))?;
        if tls.certificate_file.is_empty() != tls.key_file.is_empty() {
            let missing = match tls.key_file.is_empty() {
                true => "provider.tls.key_file",
                false => "provider.tls.certificate_file",
            };
            return Err(
                Fault::invalid(missing, "is missing: certificate_file and key_file go together")
                    .hint("give both or neither"),
            );
        }
        if !tls.server_name.is_empty() && !legal_host(&tls.server_name) {
            return Err(Fault::invalid(
                "provider.tls.server_name",
                format!("`{}` is not the name of a host", shown(&tls.server_name)),
            )
            .hint("give the name in the server's certificate, e.g. encoder.example.com"));
        }
        Ok(())
    }

    fn file(&self, field: &str, path: &str) -> Result<(), Fault> {
        let refuse = |problem: String, hint: &str| Err(Fault::invalid(field, problem).hint(hint));
        let place = Path::new(path);
        let climbs = place.components().any(|part| part == Component::ParentDir);
        if !place.is_absolute() || climbs || path.len() > LONGEST || path.contains('\0') {
            return refuse(
                format!("`{}` is not an absolute path", shown(path)),
                "begin it with /, without ..",
            );
        }
        if self.author == Author::Operator {
            return Ok(());
        }
        let folders = &self.config.file_dirs;
        if !folders
            .iter()
            .any(|folder| place.starts_with(folder) && place != folder)
        {
            let hint = "let the operator add its folder to providers.file_dirs, or declare the provider in the gateway's file of \
                        providers";
            return refuse(format!("`{}` is not in a folder for providers", shown(path)), hint);
        }
        Ok(())
    }
}

/// Whether a name matches a pattern, in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, rest)) => name.strip_prefix(before).is_some_and(|left| {
            (0..=left.len()).any(|skipped| left.get(skipped..).is_some_and(|left| matches(rest, left)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name) in [
            ("*_API_KEY", "OPENAI_API_KEY"),
            ("A*B*C", "AxxBC"),
            ("*", ""),
            ("X", "X"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*_API_KEY", "API_KEY"), ("A*B", "ABx"), ("X", "XY"), ("", "X")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
