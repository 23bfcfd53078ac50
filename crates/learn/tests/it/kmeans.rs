//! Clusters equal scikit-learn 1.8's.

use isomer_learn::{LearnError, kmeans::MiniBatchKMeans, metrics::agreement};
use ndarray::{Array2, Axis, array};

use crate::common::{self, case_vectors, clusters, fixture, integer, integers, list, numbers};

#[test]
fn labels_steps_and_scores_are_those_of_scikit_learn() {
    for case in list(&fixture("learn.json")["kmeans"]) {
        let name = case["name"].as_str().unwrap();
        let (x, y) = case_vectors(case);
        let seed = integer(&case["random_state"]) as u32;
        let found = MiniBatchKMeans::new(integer(&case["clusters"]), integer(&case["batch"]), seed)
            .fit(x.view())
            .unwrap();
        assert_eq!(found.steps, integer(&case["steps"]), "{name}");
        assert_eq!(found.labels, integers(&case["labels"]), "{name}");
        for (centre, expected) in found.centres.rows().into_iter().zip(numbers(&case["centres_sum"])) {
            common::assert_close(name, centre.iter().map(|v| f64::from(*v)).sum(), expected, 1e-5);
        }
        let scores = agreement(&y, &found.labels);
        for (key, got) in [
            ("homogeneity", scores.homogeneity),
            ("completeness", scores.completeness),
            ("v_measure", scores.v_measure),
            ("ami", scores.ami),
        ] {
            common::assert_close(name, got, case[key].as_f64().unwrap(), 1e-9);
        }
    }
}

#[test]
fn rows_that_repeat_are_clustered_as_copies_would_be() {
    let (vectors, _) = clusters(3, 40, 8, 4, 2.0, false);
    let positions: Vec<usize> = (0..200).map(|i| i * 7 % 40).collect();
    let copies = vectors.select(Axis(0), &positions);
    let kmeans = MiniBatchKMeans::new(4, 64, 42);
    let expected = kmeans.fit(copies.view()).unwrap();
    assert_eq!(kmeans.fit_rows(vectors.view(), &positions).unwrap(), expected);
}

#[test]
fn what_cannot_be_clustered_is_said() {
    let vectors = array![[0.0], [1.0]];
    let error = MiniBatchKMeans::new(3, 10, 42).fit(vectors.view()).unwrap_err();
    assert!(
        matches!(
            error,
            LearnError::TooFew {
                needed: 3,
                found: 2,
                ..
            }
        ),
        "{error}"
    );
    assert!(matches!(
        MiniBatchKMeans::new(0, 10, 42).fit(vectors.view()),
        Err(LearnError::Setting { name: "clusters", .. })
    ));
}

#[test]
fn vectors_that_are_all_equal_are_one_cluster_each_time() {
    let found = MiniBatchKMeans::new(2, 10, 42)
        .fit(Array2::ones((15, 2)).view())
        .unwrap();
    assert!(found.labels.iter().all(|l| *l == found.labels[0]));
}
