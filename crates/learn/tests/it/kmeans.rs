//! Clusters equal scikit-learn 1.8's.

use isomer_learn::{LearnError, Vectors, kmeans::MiniBatchKMeans, metrics::agreement};

use crate::common::{self, case_vectors, clusters, fixture, integer, integers, list, numbers};

#[test]
fn labels_steps_and_scores_are_those_of_scikit_learn() {
    for case in list(&fixture("learn.json")["kmeans"]) {
        let name = case["name"].as_str().unwrap();
        let (x, y) = case_vectors(case);
        let vectors = Vectors::new("vectors", &x, integer(&case["rows"]), integer(&case["cols"])).unwrap();
        let seed = integer(&case["random_state"]) as u32;
        let found = MiniBatchKMeans::new(integer(&case["clusters"]), integer(&case["batch"]), seed)
            .fit(vectors)
            .unwrap();
        assert_eq!(found.steps, integer(&case["steps"]), "{name}");
        assert_eq!(found.labels, integers(&case["labels"]), "{name}");
        for (centre, expected) in found.centres.iter().zip(numbers(&case["centres_sum"])) {
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
    let (x, _) = clusters(3, 40, 8, 4, 2.0, false);
    let vectors = Vectors::new("vectors", &x, 40, 8).unwrap();
    let positions: Vec<usize> = (0..200).map(|i| i * 7 % 40).collect();
    let copies: Vec<f32> = positions.iter().flat_map(|p| vectors.row(*p).to_vec()).collect();
    let kmeans = MiniBatchKMeans::new(4, 64, 42);
    let expected = kmeans.fit(Vectors::new("vectors", &copies, 200, 8).unwrap()).unwrap();
    assert_eq!(kmeans.fit_rows(vectors, &positions).unwrap(), expected);
}

#[test]
fn what_cannot_be_clustered_is_said() {
    let vectors = Vectors::new("vectors", &[0.0, 1.0], 2, 1).unwrap();
    let error = MiniBatchKMeans::new(3, 10, 42).fit(vectors).unwrap_err();
    assert_eq!(error.to_string(), "3 clusters cannot be had from 2 vectors");
    assert!(matches!(
        MiniBatchKMeans::new(0, 10, 42).fit(vectors),
        Err(LearnError::Setting { name: "clusters", .. })
    ));
}

#[test]
fn vectors_that_are_all_equal_are_one_cluster_each_time() {
    let found = MiniBatchKMeans::new(2, 10, 42)
        .fit(Vectors::new("vectors", &[1.0; 30], 15, 2).unwrap())
        .unwrap();
    assert!(found.labels.iter().all(|l| *l == found.labels[0]));
}
