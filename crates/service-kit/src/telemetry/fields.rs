//! The fields of spans in the JSON log.
//!
//! Every request has spans, but few spans appear in a log line. tracing-subscriber's own format
//! parses and rewrites all fields of a span whenever another field is recorded. This one appends
//! the new field.

use std::fmt::{self, Debug, Write};

use tracing::{
    field::{Field, Visit},
    span::Record,
};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{FormatFields, FormattedFields, format::Writer},
};

/// Initial capacity, enough for the fields of most spans.
const USUAL: usize = 512;

/// Fields as a JSON object. A field that is recorded twice appears twice; the later value counts.
#[derive(Debug)]
pub(super) struct Json;

impl<'writer> FormatFields<'writer> for Json {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        // `Writer` is a trait object: writing each piece separately would cost a virtual call per
        // piece.
        let mut text = String::with_capacity(USUAL);
        text.push('{');
        let mut members = Members {
            out: &mut text,
            first: true,
            outcome: Ok(()),
        };
        fields.record(&mut members);
        members.outcome?;
        text.push('}');
        writer.write_str(&text)
    }

    fn add_fields(&self, current: &'writer mut FormattedFields<Self>, fields: &Record<'_>) -> fmt::Result {
        let text = &mut current.fields;
        text.pop();
        let mut members = Members {
            first: text.as_str() == "{",
            out: text,
            outcome: Ok(()),
        };
        fields.record(&mut members);
        let outcome = members.outcome;
        text.push('}');
        outcome
    }
}

/// Writes fields as members of an open JSON object.
struct Members<'a> {
    out: &'a mut String,
    first: bool,
    outcome: fmt::Result,
}

impl Members<'_> {
    fn member(&mut self, field: &Field, value: impl FnOnce(&mut String) -> fmt::Result) {
        if self.outcome.is_ok() {
            self.outcome = self.try_member(field, value);
        }
    }

    fn try_member(&mut self, field: &Field, value: impl FnOnce(&mut String) -> fmt::Result) -> fmt::Result {
        self.out.write_str(if self.first { "\"" } else { ",\"" })?;
        self.first = false;
        // Names come from the code, which writes `r#type` for `type`.
        let name = field.name();
        JsonEscaper(self.out).write_str(name.strip_prefix("r#").unwrap_or(name))?;
        self.out.write_str("\":")?;
        value(self.out)
    }
}

impl Visit for Members<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        if value.is_finite() {
            self.member(field, |out| write!(out, "{value:?}"));
        } else {
            self.member(field, |out| out.write_str("null"));
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.member(field, |out| write!(out, "{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.member(field, |out| write!(out, "{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.member(field, |out| write!(out, "{value}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.member(field, |out| {
            out.write_char('"')?;
            JsonEscaper(out).write_str(value)?;
            out.write_char('"')
        });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.member(field, |out| {
            out.write_char('"')?;
            write!(JsonEscaper(out), "{value:?}")?;
            out.write_char('"')
        });
    }
}

/// Escapes text for a JSON string.
struct JsonEscaper<'a>(&'a mut String);

impl Write for JsonEscaper<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
        // Texts rarely need escapes. Without an early exit the compiler vectorises this loop.
        if !text.bytes().fold(false, |any, byte| any | special(byte)) {
            return self.0.write_str(text);
        }
        let mut plain = 0;
        for (at, byte) in text.bytes().enumerate() {
            if !special(byte) {
                continue;
            }
            self.0.write_str(&text[plain..at])?;
            plain = at + 1;
            match byte {
                b'"' => self.0.write_str("\\\""),
                b'\\' => self.0.write_str("\\\\"),
                b'\n' => self.0.write_str("\\n"),
                byte => write!(self.0, "\\u{byte:04x}"),
            }?;
        }
        self.0.write_str(&text[plain..])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{io, sync::Arc};

    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The span's fields in a log line written inside it.
    fn logged(within: impl FnOnce() -> tracing::Span) -> Value {
        let lines = Lines::default();
        let writer = lines.clone();
        let logs = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(logs.json().flatten_event(true).fmt_fields(Json));
        tracing::subscriber::with_default(subscriber, || within().in_scope(|| tracing::info!("here")));
        let line: Value = serde_json::from_slice(&lines.0.lock()).unwrap();
        assert_eq!(line["message"], "here");
        line["span"].clone()
    }

    #[test]
    fn fields_of_every_kind_are_members() {
        let span = logged(|| {
            tracing::info_span!(
                "work",
                text = "a \"word\" \\ and\nmore\u{1} ü",
                number = -3,
                large = u64::MAX,
                share = 0.5,
                odd = f64::NAN,
                yes = true,
                debug = ?Some("x"),
                display = %"y",
                r#type = "z",
                absent = tracing::field::Empty,
            )
        });
        let expected = json!({
            "name": "work", "text": "a \"word\" \\ and\nmore\u{1} ü", "number": -3, "large": u64::MAX, "share": 0.5, "odd": null,
            "yes": true, "debug": "Some(\"x\")", "display": "y", "type": "z",
        });
        assert_eq!(span, expected);
    }

    #[test]
    fn what_is_recorded_later_is_there_and_counts() {
        let span = logged(|| {
            let span = tracing::info_span!("work", code = tracing::field::Empty, id = 1);
            span.record("code", 200);
            span.record("id", "2");
            span
        });
        assert_eq!(span, json!({"name": "work", "code": 200, "id": "2"}));
        let span = logged(|| {
            let span = tracing::info_span!("work", code = tracing::field::Empty);
            span.record("code", 200);
            span
        });
        assert_eq!(span, json!({"name": "work", "code": 200}));
    }
}
