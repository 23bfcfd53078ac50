//! Documents by relevance.

use isomer_proto::{
    common::v1::Usage,
    encoder::v1::{Activation, RerankRequest, RerankResponse, rerank_response},
};
use isomer_service_kit::{Fault, choice, telemetry::gen_ai::Operation};

use isomer_usage::sum;

use super::{Facts, Foreign, RerankOrder, number, unserved};
use crate::{estimate, limits::Deadline, rest::bad_answer};

impl Foreign {
    pub(super) async fn ranked(
        &self,
        model: &str,
        facts: &Facts,
        request: RerankRequest,
        deadline: Deadline,
    ) -> Result<RerankResponse, Fault> {
        let sizes = estimate::documents(&request);
        let RerankRequest {
            query,
            documents,
            top_n,
            label,
            activation,
            ..
        } = request;
        if documents.is_empty() {
            return Err(Fault::invalid("documents", "is empty").hint("give at least one document"));
        }
        if !label.is_empty() {
            return Err(
                Fault::invalid("label", format!("`{model}` has one score, without a name")).hint("leave it out"),
            );
        }
        let logits = choice("activation", activation)? == Some(Activation::Identity);
        if logits && !self.protocol.gives_logits() {
            let fault = unserved(self.protocol.abilities().kind, "gives no logits");
            return Err(fault
                .field("activation")
                .hint("leave it out: its scores are from 0 to 1"));
        }
        let batches = self.batches(self.protocol.abilities().most_documents, facts);
        let in_pieces = self.protocol.rerank_in_pieces();
        if !in_pieces && !batches.items.allows(documents.len()) {
            return Err(Fault::invalid(
                "documents",
                format!(
                    "holds {}, the provider takes {} at once",
                    documents.len(),
                    batches.items.number()
                ),
            )
            .hint("send fewer: scores of several requests cannot be compared"));
        }
        let pieces = match in_pieces {
            true => batches.cut(&sizes),
            false => std::iter::once(0..documents.len()).collect(),
        };
        let several = pieces.len() > 1;
        let answers = batches.each(pieces, |range| {
            let order = RerankOrder {
                model,
                query: &query,
                documents: &documents[range.clone()],
                // The best documents of one part may not be among the best of all.
                top_n: top_n.filter(|_| !several),
                logits,
            };
            let estimate = estimate::usage(&sizes[range.clone()]);
            async move {
                let _permit = self.limiter.turn(estimate.tokens, deadline).await?;
                let ranking = self.protocol.rerank(order, deadline);
                let (scores, usage) = self
                    .traced(Operation::Rerank, model, estimate, ranking, |scores| scores.tokens)
                    .await?;
                self.check_scores(&order, &scores.scores)?;
                Ok((range.start, scores.scores, usage))
            }
        });
        let mut results = Vec::with_capacity(documents.len());
        let mut whole = Usage::default();
        for (start, scores, usage) in answers.await? {
            sum::add(&mut whole, &usage);
            results.extend(scores.into_iter().map(|(index, score)| rerank_response::Result {
                index: number((start + index) as u64),
                score,
                token_count: number(sizes[start + index]),
                ..rerank_response::Result::default()
            }));
        }
        results.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.index.cmp(&b.index)));
        if let Some(top) = top_n {
            results.truncate(top as usize);
        }
        Ok(RerankResponse {
            results,
            usage: Some(whole),
            labels: Vec::new(),
        })
    }

    fn check_scores(&self, order: &RerankOrder<'_>, scores: &[(usize, f32)]) -> Result<(), Fault> {
        let count = order.documents.len();
        let expected = order.top_n.map_or(count, |top| count.min(top as usize));
        if scores.len() < expected {
            return Err(bad_answer(
                &self.id,
                format!("{} scores for {count} documents", scores.len()),
            ));
        }
        let mut seen = vec![false; count];
        for (index, score) in scores {
            match seen.get_mut(*index) {
                Some(seen @ false) if score.is_finite() => *seen = true,
                Some(false) => {
                    return Err(bad_answer(
                        &self.id,
                        format!("the score of document {index} is not finite"),
                    ));
                }
                Some(true) => return Err(bad_answer(&self.id, format!("two scores for document {index}"))),
                None => return Err(bad_answer(&self.id, format!("a score for document {index} of {count}"))),
            }
        }
        Ok(())
    }
}
