//! The order in which a sequential gate looks at the data sets. Pure.
//!
//! Within a task type the order is by a hash of the names: it depends neither on the order of the
//! suite nor on any result, and a second run has the same order. The task types are then spread
//! evenly: at the end of any round, about the same share of each task type's data sets has been
//! run. A first round without retrieval would say nothing about retrieval.

use std::collections::BTreeMap;

use crate::{gate::DatasetTask, task::TaskType};

/// Positions of the data sets in the order in which rounds take them.
pub(crate) fn order(datasets: &[DatasetTask]) -> Vec<usize> {
    let mut tasks: BTreeMap<TaskType, Vec<(blake3::Hash, usize)>> = BTreeMap::new();
    for (position, DatasetTask { name, task }) in datasets.iter().enumerate() {
        let own = tasks.entry(*task).or_default();
        own.push((blake3::hash(name.as_bytes()), position));
    }
    let mut places: Vec<(f64, blake3::Hash, usize)> = Vec::with_capacity(datasets.len());
    for mut own in tasks.into_values() {
        own.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
        let count = own.len() as f64;
        // The position of the j-th of k is (j + ½) / k.
        let placed = own.into_iter().enumerate();
        places.extend(placed.map(|(j, (hash, position))| ((j as f64 + 0.5) / count, hash, position)));
    }
    places.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.as_bytes().cmp(b.1.as_bytes())));
    places.into_iter().map(|(.., position)| position).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Task types of `hteb-english`, and how many data sets each has.
    const HTEB: [(TaskType, usize); 7] = [
        (TaskType::Classification, 3),
        (TaskType::Clustering, 3),
        (TaskType::PairClassification, 3),
        (TaskType::Reranking, 3),
        (TaskType::Retrieval, 3),
        (TaskType::Sts, 3),
        (TaskType::Summarisation, 1),
    ];

    fn names() -> Vec<DatasetTask> {
        let sets = HTEB.iter().flat_map(|(task, count)| {
            (0..*count).map(move |i| DatasetTask {
                name: format!("{task:?}-{i}"),
                task: *task,
            })
        });
        sets.collect()
    }

    #[test]
    fn every_first_part_has_its_share_of_each_task() {
        let names = names();
        let order = order(&names);
        for taken in 1..=names.len() {
            let part = &order[..taken];
            for (task, count) in HTEB {
                let within = part.iter().filter(|position| names[**position].task == task).count() as f64;
                let share = taken as f64 / names.len() as f64 * count as f64;
                assert!(
                    (within - share).abs() <= 1.0,
                    "{task:?}: {within} of {share} among the first {taken}"
                );
            }
        }
        let mut all = order;
        all.sort_unstable();
        assert_eq!(all, (0..names.len()).collect::<Vec<_>>());
    }

    #[test]
    fn the_order_of_the_suite_does_not_matter() {
        let names = names();
        let mut turned = names.clone();
        turned.reverse();
        let ordered = |names: &[DatasetTask]| -> Vec<String> {
            let positions = order(names).into_iter();
            positions.map(|position| names[position].name.clone()).collect()
        };
        assert_eq!(ordered(&names), ordered(&turned));
        assert!(order(&[]).is_empty());
    }
}
