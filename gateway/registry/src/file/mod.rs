//! Providers in TOML: one `[[provider]]` table each, with the proto's names, the kind by its short
//! name (`tei-grpc`), durations in seconds. The gateway's providers file and the input of
//! `isomer providers apply` have this format.
//!
//! Parsed by hand rather than with serde, so that each error can name the line, the path and the
//! nearest known name.

use std::{collections::HashMap, ops::Range};

use isomer_proto::{
    ProtoEnum,
    gateway::v1::{Provider, ProviderKind, ProviderLimits, SecretRef, TlsSettings, secret_ref::Source},
};
use isomer_service_kit::{Fault, config::suggest};
use prost_types::Duration;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

const PROVIDER: &[&str] = &[
    "id",
    "kind",
    "address",
    "encoders",
    "limits",
    "secret",
    "tls",
    "headers",
    "price_per_million_tokens",
    "lease",
    "input_types",
];
const LIMITS: &[&str] = &[
    "max_batch_items",
    "max_batch_tokens",
    "requests_per_second",
    "tokens_per_second",
    "max_concurrency",
    "timeout",
];
const SECRET: &[&str] = &["environment", "file"];
const TLS: &[&str] = &["ca_file", "certificate_file", "key_file", "server_name"];

/// A parsed provider, with the lines of its fields.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderTable {
    /// The provider. Its fields have the right types; their values are not validated yet.
    pub provider: Provider,
    /// The line of each path in the file; `provider` is the table itself.
    lines: HashMap<String, usize>,
}

impl ProviderTable {
    /// The line of a field's path (`provider.limits.timeout`), or of the nearest enclosing table.
    pub fn line(&self, path: &str) -> usize {
        let ends = path.match_indices(['.', '[']).map(|(end, _)| end).chain([path.len()]);
        let mut paths: Vec<&str> = ends.map(|end| &path[..end]).collect();
        paths.reverse();
        paths
            .iter()
            .find_map(|path| self.lines.get(*path))
            .copied()
            .unwrap_or(1)
    }
}

/// Reads the providers of a file, in the file's order.
///
/// # Errors
/// `INVALID_ARGUMENT` with the line in the message, the path as the field
/// (`provider[1].limits.timeout`) and the hint.
pub fn read(text: &str) -> Result<Vec<ProviderTable>, Fault> {
    let document = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line(text, &span));
        Fault::new(
            tonic::Code::InvalidArgument,
            "INVALID_FILE",
            format!("line {line}: is not TOML: {}", error.message()),
        )
        .hint("fix the line named")
    })?;
    let mut written = Vec::new();
    for (key, value) in document.get_ref() {
        let place = FieldValue::of(text, "", key, value);
        if key.get_ref() != "provider" {
            return Err(place.unknown(&["provider"]));
        }
        let tables = place
            .value
            .as_array()
            .ok_or_else(|| place.refuse("is not a list", "write [[provider]] above each provider"))?;
        for (index, table) in tables.iter().enumerate() {
            let mut lines = HashMap::new();
            let place = FieldValue {
                text,
                key: "provider",
                path: format!("provider[{index}]"),
                span: table.span(),
                value: table.get_ref(),
            };
            let provider = provider(&place, &mut lines)?;
            // A request names one provider, so lines are looked up by the path in such a request.
            let inner = |path: String| path.replacen(&place.path, "provider", 1);
            written.push(ProviderTable {
                provider,
                lines: lines.into_iter().map(|(path, line)| (inner(path), line)).collect(),
            });
        }
    }
    Ok(written)
}

fn provider(place: &FieldValue<'_>, lines: &mut HashMap<String, usize>) -> Result<Provider, Fault> {
    let mut provider = Provider::default();
    for field in place.fields(lines)? {
        match field.key {
            "id" => provider.id = field.text()?,
            "kind" => {
                let name = field.text()?;
                let kind = ProviderKind::named(&name).ok_or_else(|| {
                    field.refuse(
                        &format!("`{name}` is not a kind of provider"),
                        &suggest(&name, &ProviderKind::all().map(ProtoEnum::dashed).collect::<Vec<_>>()),
                    )
                })?;
                provider.set_kind(kind);
            }
            "address" => provider.address = field.text()?,
            "encoders" => provider.encoders = field.names(lines)?,
            "limits" => provider.limits = Some(limits(&field, lines)?),
            "secret" => provider.secret = Some(secret(&field, lines)?),
            "tls" => provider.tls = Some(tls(&field, lines)?),
            "headers" => provider.headers = field.names(lines)?,
            "price_per_million_tokens" => provider.price_per_million_tokens = field.number()?,
            "lease" => provider.lease = Some(field.seconds()?),
            "input_types" => provider.input_types = field.names(lines)?,
            _ => return Err(field.unknown(PROVIDER)),
        }
    }
    Ok(provider)
}

fn limits(place: &FieldValue<'_>, lines: &mut HashMap<String, usize>) -> Result<ProviderLimits, Fault> {
    let mut limits = ProviderLimits::default();
    for field in place.fields(lines)? {
        match field.key {
            "max_batch_items" => limits.max_batch_items = field.whole()?,
            "max_batch_tokens" => limits.max_batch_tokens = field.whole()?,
            "requests_per_second" => limits.requests_per_second = field.number()?,
            "tokens_per_second" => limits.tokens_per_second = field.number()?,
            "max_concurrency" => limits.max_concurrency = field.whole()?,
            "timeout" => limits.timeout = Some(field.seconds()?),
            _ => return Err(field.unknown(LIMITS)),
        }
    }
    Ok(limits)
}

fn secret(place: &FieldValue<'_>, lines: &mut HashMap<String, usize>) -> Result<SecretRef, Fault> {
    let mut source = None;
    for field in place.fields(lines)? {
        if source.is_some() {
            return Err(place.refuse("names two places", "give either environment or file"));
        }
        source = Some(match field.key {
            "environment" => Source::Environment(field.text()?),
            "file" => Source::File(field.text()?),
            _ => return Err(field.unknown(SECRET)),
        });
    }
    Ok(SecretRef { source })
}

fn tls(place: &FieldValue<'_>, lines: &mut HashMap<String, usize>) -> Result<TlsSettings, Fault> {
    let mut tls = TlsSettings::default();
    for field in place.fields(lines)? {
        match field.key {
            "ca_file" => tls.ca_file = field.text()?,
            "certificate_file" => tls.certificate_file = field.text()?,
            "key_file" => tls.key_file = field.text()?,
            "server_name" => tls.server_name = field.text()?,
            _ => return Err(field.unknown(TLS)),
        }
    }
    Ok(tls)
}

/// A value of the file, with its path and position.
struct FieldValue<'a> {
    text: &'a str,
    key: &'a str,
    path: String,
    span: Range<usize>,
    value: &'a DeValue<'a>,
}

impl<'a> FieldValue<'a> {
    fn of(
        text: &'a str,
        parent: &str,
        key: &'a Spanned<std::borrow::Cow<'a, str>>,
        value: &'a Spanned<DeValue<'a>>,
    ) -> Self {
        let dot = if parent.is_empty() { "" } else { "." };
        Self {
            text,
            key: key.get_ref(),
            path: format!("{parent}{dot}{}", key.get_ref()),
            span: key.span(),
            value: value.get_ref(),
        }
    }

    /// The entries of a table; records their lines.
    fn fields(&self, lines: &mut HashMap<String, usize>) -> Result<Vec<FieldValue<'a>>, Fault> {
        lines.insert(self.path.clone(), line(self.text, &self.span));
        let table = self.value.as_table().ok_or_else(|| self.misfit("a table"))?;
        let fields: Vec<FieldValue<'a>> = table
            .iter()
            .map(|(key, value)| FieldValue::of(self.text, &self.path, key, value))
            .collect();
        for field in &fields {
            lines.insert(field.path.clone(), line(self.text, &field.span));
        }
        Ok(fields)
    }

    fn text(&self) -> Result<String, Fault> {
        self.value
            .as_str()
            .map(ToOwned::to_owned)
            .ok_or_else(|| self.misfit("a text in quotes"))
    }

    /// A table of strings.
    fn names(&self, lines: &mut HashMap<String, usize>) -> Result<HashMap<String, String>, Fault> {
        lines.insert(self.path.clone(), line(self.text, &self.span));
        let table = self.value.as_table().ok_or_else(|| self.misfit("a table of names"))?;
        let entry = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'a>>)| {
            let place = FieldValue::of(self.text, &self.path, key, value);
            lines.insert(
                format!("{}[\"{}\"]", self.path, key.get_ref()),
                line(self.text, &place.span),
            );
            // A dot in a bare key creates a table. This is a common mistake with names of models.
            let value = place.value.as_str().ok_or_else(|| match place.value.as_table() {
                Some(_) => place.refuse("is a table", "put a name with dots into quotes"),
                None => place.misfit("a text in quotes"),
            })?;
            Ok((key.get_ref().to_string(), value.to_owned()))
        };
        table.iter().map(entry).collect()
    }

    fn number(&self) -> Result<f64, Fault> {
        let number = match self.value {
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .ok()
                .map(|number| number as f64),
            _ => None,
        };
        number.ok_or_else(|| self.misfit("a number"))
    }

    fn whole(&self) -> Result<u32, Fault> {
        let number = self.value.as_integer().ok_or_else(|| self.misfit("a whole number"))?;
        u32::from_str_radix(number.as_str(), number.radix())
            .map_err(|_| self.refuse(&format!("{number} is out of range"), "give 0 to 4294967295"))
    }

    fn seconds(&self) -> Result<Duration, Fault> {
        let seconds = self.number()?;
        let duration = std::time::Duration::try_from_secs_f64(seconds)
            .ok()
            .and_then(|duration| Duration::try_from(duration).ok());
        duration.ok_or_else(|| self.refuse(&format!("{seconds} is not a valid duration"), "give seconds"))
    }

    fn misfit(&self, wanted: &str) -> Fault {
        self.refuse(
            &format!("{} does not fit", self.value.type_str()),
            &format!("give {wanted}"),
        )
    }

    fn unknown(&self, names: &[&str]) -> Fault {
        self.refuse(&format!("unknown key `{}`", self.key), &suggest(self.key, names))
    }

    fn refuse(&self, problem: &str, hint: &str) -> Fault {
        Fault::invalid(&self.path, format!("line {}: {problem}", line(self.text, &self.span))).hint(hint)
    }
}

/// The line, counted from 1, in which a span begins.
fn line(text: &str, span: &Range<usize>) -> usize {
    let before = text.as_bytes().get(..span.start).unwrap_or_default();
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests;
