//! Several results of one pass.

use futures::{TryStreamExt, stream};
use isomer_encoder_client::{
    answer::{self, ExpectedAnswer},
    join::Joiner,
};
use isomer_proto::{
    common::v1 as common,
    encoder::v1::{EncodeRequest, EncodeResponse, Output, SparseVector},
};
use prost::Message;

use crate::{
    Client, Dtype, Embeddings, EncodeOptions, Error, Matrix, TokenEmbeddings, Usage, VectorSpace,
    collection::mismatch,
    encode::{Checker, Results, text_input},
    failed::all_well,
    results::{embeddings, item_errors},
};

/// A sparse vector for each text.
#[derive(Debug, Clone, PartialEq)]
pub struct SparseEmbeddings {
    /// Weights of tokens of the encoder's vocabulary: ascending token ids, and one weight above 0
    /// each.
    pub texts: Vec<SparseVector>,
    /// The space of the vectors.
    pub space: VectorSpace,
    /// Usage of the call.
    pub usage: Usage,
}

/// Results of one pass, each in a vector space of its own; `None` if it was not asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Outputs {
    /// One dense vector per text.
    pub text_vector: Option<Embeddings>,
    /// One sparse vector per text.
    pub sparse: Option<SparseEmbeddings>,
    /// One vector per token.
    pub token_vectors: Option<TokenEmbeddings>,
    /// Usage of the call.
    pub usage: Usage,
}

impl Client {
    /// Several results of one pass: dense, sparse and token vectors. `dimensions`, `normalise`,
    /// `dtype` and `collection` of the options apply to [`Output::TextVector`].
    ///
    /// # Errors
    /// As [`Client::encode`].
    pub async fn encode_outputs<T: Into<String>>(
        &self,
        texts: impl IntoIterator<Item = T>,
        outputs: &[Output],
        options: impl Into<EncodeOptions>,
    ) -> Result<Outputs, Error> {
        let options = options.into();
        let inputs: Vec<_> = texts.into_iter().map(text_input).collect();
        for (field, is_empty) in [("outputs", outputs.is_empty()), ("texts", inputs.is_empty())] {
            if is_empty {
                return Err(Error::invalid(field, "is empty", "give at least one"));
            }
        }
        let count = inputs.len();
        let results = Results::Several(outputs.to_vec());
        let mut call = self.begin(&options, results, stream::iter(inputs)).await?;
        let mut first = None;
        let name = format!("encoder `{}`", options.encoder);
        let mut joiner = Joiner::new(&name, count);
        while let Some(part) = call.answers.try_next().await? {
            all_well(&item_errors(part.answer.errors.clone(), part.start), None)?;
            let expected = ExpectedAnswer {
                inputs: part.count,
                ..call.checker.expected
            };
            answer::check(&part.answer, expected)
                .map_err(|what| Error::bad_answer(format!("`{}` {what}", options.encoder)))?;
            let spaces = spaces(&part.answer);
            match &first {
                None => call.checker.check_spaces(&spaces, &call.request)?,
                Some(first) => same_spaces(first, &spaces)?,
            }
            first.get_or_insert(spaces);
            joiner.add(part.start, part.answer)?;
        }
        Ok(split(joiner.finish(), call.checker.expected, count))
    }
}

/// Spaces of dense, sparse and token vectors.
type Spaces = [Option<VectorSpace>; 3];

fn spaces(answer: &EncodeResponse) -> Spaces {
    [
        &answer.vector_space,
        &answer.sparse_vector_space,
        &answer.token_vector_space,
    ]
    .map(|space| space.clone().map(VectorSpace::from))
}

fn same_spaces(first: &Spaces, others: &Spaces) -> Result<(), Error> {
    let pairs = first
        .iter()
        .zip(others)
        .filter_map(|(first, other)| first.as_ref().zip(other.as_ref()));
    for (first, other) in pairs {
        if first.digest != other.digest {
            return Err(mismatch(first, other, "the texts before them in the same call"));
        }
    }
    Ok(())
}

impl Checker {
    /// Holds the space of each result against those that the client and the caller know.
    fn check_spaces(&self, spaces: &Spaces, request: &EncodeRequest) -> Result<(), Error> {
        if let (Some(collection), Some(space)) = (&self.collection, &spaces[0]) {
            collection.check(space)?;
        }
        let Some((known, _)) = &self.known else { return Ok(()) };
        for (space, question) in spaces.iter().zip(questions(request)) {
            if let Some(space) = space {
                known.check(&self.encoder, &question.encode_to_vec(), space)?;
            }
        }
        Ok(())
    }
}

/// The request on which the space of each result depends.
fn questions(request: &EncodeRequest) -> [EncodeRequest; 3] {
    let dense = EncodeRequest {
        outputs: Vec::new(),
        max_active_dimensions: None,
        priority: 0,
        truncation: 0,
        ..request.clone()
    };
    // Settings of dense vectors do not change the spaces of the others.
    let other = EncodeRequest {
        dimensions: None,
        normalise: None,
        output_dtype: Dtype::F32.into(),
        ..dense.clone()
    };
    let sparse = EncodeRequest {
        outputs: vec![Output::Sparse.into()],
        ..other.clone()
    };
    let tokens = EncodeRequest {
        output: Output::TokenVectors.into(),
        ..other
    };
    [dense, sparse, tokens]
}

/// The results of a checked answer.
fn split(mut whole: EncodeResponse, expected: ExpectedAnswer, count: usize) -> Outputs {
    let usage = whole.usage.unwrap_or_default();
    let own = |space: Option<common::VectorSpace>| VectorSpace::from(space.unwrap_or_default());
    let tokens = whole.token_embeddings.take().map(|matrix| {
        let matrix = Matrix::of(matrix);
        let mut row = 0;
        let texts = whole.row_counts.iter().map(|count| {
            let start = row;
            row += *count as usize;
            matrix.slice(start, row)
        });
        TokenEmbeddings {
            texts: texts.collect(),
            space: own(whole.token_vector_space.take()),
            usage,
        }
    });
    let sparse = expected.sparse.then(|| SparseEmbeddings {
        texts: std::mem::take(&mut whole.sparse_embeddings),
        space: own(whole.sparse_vector_space.take()),
        usage,
    });
    Outputs {
        text_vector: expected.vectors.map(|_| embeddings(whole, 0, count)),
        sparse,
        token_vectors: tokens,
        usage,
    }
}
