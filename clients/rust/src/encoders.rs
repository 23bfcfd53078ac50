//! Encoders, and what they make of texts beside vectors.

use std::sync::Arc;

use futures::stream::BoxStream;
use isomer_proto::encoder::v1::{
    CountTokensRequest, DetokenizeRequest, Encoder, GetEncoderRequest, ListEncodersRequest, Token, TokenizeRequest,
    count_tokens_request, encoder_service_client::EncoderServiceClient,
};

use crate::{Client, EncodeOptions, Error, call::unary, pages::pages};

impl Client {
    /// Encoders that can be asked for, loaded or not.
    pub fn encoders(&self) -> BoxStream<'static, Result<Encoder, Error>> {
        let calls = self.calls.clone();
        pages(move |page_token| {
            let calls = calls.clone();
            async move {
                let request = ListEncodersRequest {
                    page_token,
                    ..ListEncodersRequest::default()
                };
                let path = unary!(
                    calls,
                    EncoderServiceClient.list_encoders,
                    "/isomer.encoder.v1.EncoderService/ListEncoders",
                    request
                );
                path.map(|answer| (answer.encoders, answer.next_page_token))
            }
        })
    }

    /// Describes one encoder; the server loads it if need be.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is none of that id.
    pub async fn encoder(&self, id: &str) -> Result<Arc<Encoder>, Error> {
        let answer = unary!(
            self.calls,
            EncoderServiceClient.get_encoder,
            "/isomer.encoder.v1.EncoderService/GetEncoder",
            GetEncoderRequest { id: id.to_owned() }
        )?;
        let encoder = answer
            .encoder
            .ok_or_else(|| Error::bad_answer("the server answered without an encoder"))?;
        let encoder = Arc::new(encoder);
        self.encoders.lock().insert(id.to_owned(), Arc::clone(&encoder));
        Ok(encoder)
    }

    /// Describes an encoder; the description is cached.
    pub(crate) async fn known(&self, id: &str) -> Result<Arc<Encoder>, Error> {
        let known = self.encoders.lock().get(id).cloned();
        match known {
            Some(encoder) => Ok(encoder),
            None => self.encoder(id).await,
        }
    }

    /// The tokens of each text as [`Client::encode`] would see them, before truncation.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn count_tokens<T: Into<String>>(
        &self,
        texts: impl IntoIterator<Item = T>,
        options: impl Into<EncodeOptions>,
    ) -> Result<Vec<u32>, Error> {
        let options = options.into();
        let prompt = match (options.prompt, options.prompt_name) {
            (Some(literal), _) => Some(count_tokens_request::Prompt::LiteralPrompt(literal)),
            (None, Some(name)) => Some(count_tokens_request::Prompt::PromptName(name)),
            (None, None) => None,
        };
        let request = CountTokensRequest {
            encoder_id: options.encoder,
            texts: texts.into_iter().map(Into::into).collect(),
            prompt,
        };
        let answer = unary!(
            self.calls,
            EncoderServiceClient.count_tokens,
            "/isomer.encoder.v1.EncoderService/CountTokens",
            request
        );
        Ok(answer?.token_counts)
    }

    /// The tokens of each text, with the part of the text that each stands for.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn tokenize(&self, request: TokenizeRequest) -> Result<Vec<Vec<Token>>, Error> {
        let answer = unary!(
            self.calls,
            EncoderServiceClient.tokenize,
            "/isomer.encoder.v1.EncoderService/Tokenize",
            request
        );
        Ok(answer?.texts.into_iter().map(|text| text.tokens).collect())
    }

    /// The text of each list of token ids.
    ///
    /// # Errors
    /// If the server refuses the request.
    pub async fn detokenize(&self, request: DetokenizeRequest) -> Result<Vec<String>, Error> {
        let answer = unary!(
            self.calls,
            EncoderServiceClient.detokenize,
            "/isomer.encoder.v1.EncoderService/Detokenize",
            request
        );
        Ok(answer?.texts)
    }
}
