//! The texts that belong to each scored item.

use super::{Dataset, Labels};

impl Dataset {
    /// Indices in [`Dataset::texts`] of the texts that belong to one item only, item by item: both
    /// texts of a pair, a query, a test text, a document that is clustered, the summaries of a
    /// text, a source with its target and distractors, an anchor with its candidates. Documents and
    /// candidates of retrieval and reranking belong to no item, because every query may find them.
    /// Train texts of a classifier belong to no item either.
    pub fn item_texts(&self) -> Vec<Vec<u32>> {
        let alone =
            |first: usize, items: usize| -> Vec<Vec<u32>> { (0..items).map(|i| vec![position(first + i)]).collect() };
        match &self.labels {
            Labels::Sts(_) | Labels::PairClassification(_) | Labels::Bitext(_) => (0..self.items())
                .map(|pair| vec![position(2 * pair), position(2 * pair + 1)])
                .collect(),
            Labels::Retrieval(labels) => alone(0, labels.query_ids.len()),
            Labels::Classification {
                labels: [train, test], ..
            } => alone(train.len(), test.len()),
            Labels::Clustering { labels, .. } => alone(0, labels.labels.len()),
            Labels::Reranking(labels) => runs(0, labels.items.iter().map(|item| item.queries)),
            Labels::Summarisation(texts) => {
                let human = texts.iter().map(|text| text.human);
                let all = human.clone().sum();
                joined(runs(0, human), runs(all, texts.iter().map(|text| text.relevance.len())))
            }
            Labels::Clsd(labels) => {
                let rows = labels.counts.len();
                let pairs = joined(alone(0, rows), alone(rows, rows));
                joined(pairs, runs(2 * rows, labels.counts.iter().copied()))
            }
            Labels::GradedRanking(counts) => joined(alone(0, counts.len()), runs(counts.len(), counts.iter().copied())),
        }
    }
}

fn position(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Consecutive indices starting at `first`, a given number for each item.
fn runs(first: usize, counts: impl Iterator<Item = usize>) -> Vec<Vec<u32>> {
    let mut next = first;
    counts
        .map(|count| {
            let own = (next..next + count).map(position).collect();
            next += count;
            own
        })
        .collect()
}

fn joined(left: Vec<Vec<u32>>, right: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
    left.into_iter().zip(right).map(|(a, b)| [a, b].concat()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use isomer_scoring::task::TaskType;

    use crate::{Dataset, InlineFile, LoadOptions, Source};

    fn load(task: TaskType, files: &[(&str, &str)]) -> Dataset {
        let file = |(path, content): &(&str, &str)| InlineFile {
            path: (*path).to_owned(),
            content: content.as_bytes().to_vec(),
        };
        let source = Source::Inline(files.iter().map(file).collect());
        crate::load(task, &source, &LoadOptions::default()).unwrap()
    }

    fn texts(dataset: &Dataset) -> Vec<Vec<&str>> {
        let items = dataset.item_texts();
        assert_eq!(items.len(), dataset.items());
        let of = |own: &Vec<u32>| own.iter().map(|t| dataset.texts()[*t as usize].text.as_str()).collect();
        items.iter().map(of).collect()
    }

    #[test]
    fn every_task_names_the_texts_of_its_items() {
        let pairs = "{\"sentence1\":\"a\",\"sentence2\":\"b\",\"score\":1}\n{\"sentence1\":\"c\",\"sentence2\":\"d\",\"score\":2}";
        assert_eq!(
            texts(&load(TaskType::Sts, &[("test.jsonl", pairs)])),
            [["a", "b"], ["c", "d"]]
        );
        let train = "{\"text\":\"t\",\"label\":\"x\"}\n{\"text\":\"u\",\"label\":\"y\"}";
        let test = "{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\"b\",\"label\":\"y\"}";
        let labelled = load(
            TaskType::Classification,
            &[("train.jsonl", train), ("test.jsonl", test)],
        );
        assert_eq!(texts(&labelled), [["a"], ["b"]]);
        let sets = "{\"sentences\":[\"a\",\"b\"],\"labels\":[\"x\",\"y\"]}\n{\"sentences\":[\"c\"],\"labels\":[\"x\"]}";
        assert_eq!(
            texts(&load(TaskType::Clustering, &[("test.jsonl", sets)])),
            [["a"], ["b"], ["c"]]
        );
        let ranked = "{\"query\":[\"q\",\"r\"],\"positive\":[\"p\"],\"negative\":[\"n\"]}\n{\"query\":\"s\",\"positive\":[\"o\"],\"negative\":[\"m\"]}";
        let found = load(TaskType::Reranking, &[("test.jsonl", ranked)]);
        assert_eq!(texts(&found), [vec!["q", "r"], vec!["s"]]);
        let summaries = "{\"text\":\"t\",\"human_summaries\":[\"h\"],\"machine_summaries\":[\"m\",\"n\"],\"relevance\":[1,2]}\n\
                         {\"text\":\"u\",\"human_summaries\":[\"i\",\"j\"],\"machine_summaries\":[\"o\"],\"relevance\":[3]}";
        let found = load(TaskType::Summarisation, &[("test.jsonl", summaries)]);
        assert_eq!(texts(&found), [vec!["h", "m", "n"], vec!["i", "j", "o"]]);
        let clsd = "{\"source\":\"s\",\"target\":\"t\",\"distractors\":[\"d\",\"e\"]}\n{\"source\":\"u\",\"target\":\"v\",\"distractors\":[\"f\"]}";
        let found = load(TaskType::Clsd, &[("test.jsonl", clsd)]);
        assert_eq!(texts(&found), [vec!["s", "t", "d", "e"], vec!["u", "v", "f"]]);
        let graded =
            "{\"anchor\":\"a\",\"candidates\":[\"b\",\"c\"]}\n{\"anchor\":\"d\",\"candidates\":[\"e\",\"f\",\"g\"]}";
        let found = load(TaskType::GradedRanking, &[("test.jsonl", graded)]);
        assert_eq!(texts(&found), [vec!["a", "b", "c"], vec!["d", "e", "f", "g"]]);
    }
}
