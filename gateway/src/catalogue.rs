//! The transformations that the transform service lists. Its version may differ from this
//! gateway's.

use isomer_proto::transform::v1::{
    ListTransformationsRequest, Transformation, TransformationInfo, transform_service_client::TransformServiceClient,
};
use isomer_service_kit::Fault;

use crate::proxy::Servers;

/// Transformations on one page of the list.
const PAGE: u32 = 1000;
/// Maximum number of pages that are read, so that a server with an endless list cannot hold a
/// request for ever.
const PAGES: usize = 10;

/// Fetches the list of transformations from the service.
///
/// # Errors
/// The service's error, or an error if no service is configured.
pub(crate) async fn served(servers: &Servers) -> Result<Vec<TransformationInfo>, Fault> {
    let mut client = TransformServiceClient::new(servers.clone());
    let (mut all, mut token) = (Vec::new(), String::new());
    for _ in 0..PAGES {
        let request = ListTransformationsRequest {
            page_size: PAGE,
            page_token: std::mem::take(&mut token),
        };
        let answer = client.list_transformations(request).await;
        let page = answer.map_err(|status| Fault::from_status(&status))?.into_inner();
        all.extend(page.transformations);
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    all.retain(|info| info.served);
    Ok(all)
}

/// The transformation with this name and default parameters, and whether it needs a generator.
///
/// # Errors
/// `INVALID_ARGUMENT` for a name that the service does not serve.
pub(crate) fn named(served: &[TransformationInfo], name: &str) -> Result<(Transformation, bool), Fault> {
    let Some(info) = served.iter().find(|info| info.name == name) else {
        let names: Vec<&str> = served.iter().map(|info| info.name.as_str()).collect();
        return Err(
            Fault::invalid("transformation", format!("unknown transformation `{name}`"))
                .hint(format!("the transform service serves {}", names.join(", "))),
        );
    };
    Ok((Transformation::named(name), info.needs_generator))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_proto::transform::v1::transformation::Kind;

    use super::*;

    #[test]
    fn what_the_service_serves_decides_and_not_what_this_gateway_was_built_with() {
        let info = |name: &str, needs_generator| TransformationInfo {
            name: name.to_owned(),
            needs_generator,
            ..TransformationInfo::default()
        };
        let served = [
            info("paraphrase", true),
            info("stopword_removal", false),
            info("of_tomorrow", true),
        ];
        let (paraphrase, needs_generator) = named(&served, "paraphrase").unwrap();
        assert!(matches!(paraphrase.kind, Some(Kind::Paraphrase(_))) && needs_generator);
        assert!(!named(&served, "stopword_removal").unwrap().1);
        // This gateway knows the transformation, but the service does not serve it.
        let fault = named(&served, "summarisation").unwrap_err();
        assert!(
            fault.to_string().contains("paraphrase, stopword_removal, of_tomorrow"),
            "{fault}"
        );
        // The transformation has no message in this version, and is passed on by name.
        let (newer, _) = named(&served, "of_tomorrow").unwrap();
        assert_eq!((newer.kind, newer.name.as_str()), (None, "of_tomorrow"));
    }
}
