//! The releases of an encoder. eval-svc reads them from the runs that the caller may see.

use isomer_access::Caller;
use isomer_proto::{
    ProtoEnum,
    eval::v1::{GetHistoryRequest, HistoryQuantity, HistoryReference},
};
use isomer_service_kit::Fault;
use tonic::Request;

use super::{Pages, runs};

/// The history for a query string in one format, with its media type.
pub(super) async fn file(
    pages: &Pages,
    caller: Option<&Caller>,
    file: &str,
    query: &str,
) -> Result<(Vec<u8>, String), Fault> {
    let media_type = match file {
        "history.html" => "text/html; charset=utf-8",
        "history.json" => "application/json",
        "history.md" => "text/markdown; charset=utf-8",
        other => {
            return Err(
                Fault::not_found("NO_SUCH_PATH", format!("a history has no file `{other}`"))
                    .hint("one of history.html, history.json, history.md"),
            );
        }
    };
    let mut request = Request::new(read(query)?);
    runs::name(&mut request, caller);
    let found = runs::client(pages)?
        .get_history(request)
        .await
        .map_err(|status| Fault::from_status(&status))?
        .into_inner();
    let content = match file {
        "history.html" => found.html,
        "history.json" => found.json,
        _ => found.markdown,
    };
    Ok((content, media_type.to_owned()))
}

/// Parses a query string. Unknown keys are refused: a misspelt margin would otherwise silently fall
/// back to the default.
fn read(query: &str) -> Result<GetHistoryRequest, Fault> {
    let mut request = GetHistoryRequest::default();
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match key.as_ref() {
            "encoder" => request.encoder_id = value.into_owned(),
            "suite_digest" => request.suite_digest = value.into_owned(),
            "of" => {
                let of = HistoryQuantity::named(&value);
                request.set_of(of.ok_or_else(|| one_of("of", &value, "total, original"))?);
            }
            "against" => {
                let against = HistoryReference::named(&value);
                request.set_against(against.ok_or_else(|| one_of("against", &value, "baseline, first"))?);
            }
            "margin" => request.margin = Some(number("margin", &value)?),
            "alpha" => request.alpha = Some(number("alpha", &value)?),
            "earlier" => request.earlier = number("earlier", &value)?,
            other => {
                let known = "encoder, suite_digest, of, against, margin, alpha, earlier";
                return Err(Fault::invalid(other, "is not a parameter of a history").hint(format!("one of {known}")));
            }
        }
    }
    if request.encoder_id.is_empty() {
        return Err(Fault::invalid(
            "encoder",
            "is missing; give the id of an encoder: ?encoder=ID",
        ));
    }
    Ok(request)
}

fn one_of(name: &str, given: &str, known: &str) -> Fault {
    Fault::invalid(name, format!("is `{given}`; give one of {known}"))
}

fn number<T: std::str::FromStr>(name: &str, given: &str) -> Result<T, Fault> {
    given
        .parse()
        .map_err(|_| Fault::invalid(name, format!("is `{given}`; give a number")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_query_is_read_whole_or_refused_by_the_name_of_its_parameter() {
        let request = read("encoder=org%2Fmodel&margin=0.5&alpha=0.01&of=original&against=first&earlier=3").unwrap();
        let expected = GetHistoryRequest {
            encoder_id: "org/model".to_owned(),
            suite_digest: String::new(),
            of: HistoryQuantity::Original.into(),
            against: HistoryReference::First.into(),
            margin: Some(0.5),
            alpha: Some(0.01),
            earlier: 3,
        };
        assert_eq!(request, expected);
        for (query, field) in [
            ("", "encoder"),
            ("encoder=", "encoder"),
            ("encoder=a&margni=3", "margni"),
            ("encoder=a&margin=three", "margin"),
            ("encoder=a&earlier=-1", "earlier"),
            ("encoder=a&of=all", "of"),
            ("encoder=a&against=last", "against"),
        ] {
            let refused = read(query).unwrap_err();
            assert_eq!(refused.field.as_deref(), Some(field), "{query}");
        }
    }
}
