//! mteb's procedures: the same rows, the same draws, the same scores.

use isomer_learn::{
    LearnError,
    protocol::{
        CrossValidation, FastClustering, FewShot, Multilabel, k_folds, legacy_report, legacy_set_score, whole_train,
    },
    random::{NumpyGenerator, PythonRandom},
};
use ndarray::{Array2, Axis, s};

use crate::common::{assert_close, clusters, fixture, integer, integers, list};

const NAMES: [&str; 6] = ["zeta", "Alpha", "beta", "été", "alpha", "Zoo"];

fn few_shot_data() -> (Array2<f32>, Vec<String>, Array2<f32>, Vec<String>) {
    let name = |y: Vec<usize>| y.into_iter().map(|c| NAMES[c].to_owned()).collect();
    let (x, y) = clusters(31, 250, 32, 6, 4.0, true);
    let (mut t, ty) = clusters(31, 180, 32, 6, 4.0, true);
    let (noise, _) = clusters(131, 180, 32, 6, 4.0, true);
    t.iter_mut().zip(noise).for_each(|(t, n)| *t = (*t + n) * 0.5);
    (x, name(y), t, name(ty))
}

#[test]
fn ten_experiments_choose_and_score_as_mteb_does() {
    let (x, y, t, ty) = few_shot_data();
    let (train, test) = (x.view(), t.view());
    let few_shot = FewShot::default();
    let selections = few_shot.selections(&y);
    let report = few_shot.score(train, &y, test, &ty).unwrap();
    let expected = fixture("learn.json");
    for ((rows, done), expected) in selections
        .experiments
        .iter()
        .zip(&report.experiments)
        .zip(list(&expected["few_shot"]))
    {
        assert_eq!(rows, &integers(&expected["rows"]));
        assert_close(
            "accuracy",
            done.scores.accuracy,
            expected["accuracy"].as_f64().unwrap(),
            1e-12,
        );
        assert_close("f1", done.scores.f1, expected["f1"].as_f64().unwrap(), 1e-12);
        assert!(done.stop.converged());
    }
    let mean = list(&expected["few_shot"])
        .iter()
        .map(|e| e["accuracy"].as_f64().unwrap())
        .sum::<f64>()
        / 10.0;
    assert_close("mean", report.mean.accuracy, mean, 1e-12);

    // Encoding only the needed rows gives the same scores.
    let needed = train.select(Axis(0), &selections.rows);
    assert_eq!(few_shot.score_needed(needed.view(), &y, test, &ty).unwrap(), report);
}

#[test]
fn folds_choose_and_score_as_mteb_does() {
    let (x, y, ..) = few_shot_data();
    let (_, classes) = clusters(31, 250, 32, 6, 4.0, true);
    let vectors = x.view();
    let expected = fixture("learn.json");
    let expected = list(&expected["folds"]);
    let folds: Vec<Vec<usize>> = expected.iter().map(|f| integers(&f["test"])).collect();
    assert_eq!(k_folds(250, 5, 42), folds);
    let report = CrossValidation::default().score(vectors, &classes).unwrap();
    for (done, expected) in report.experiments.iter().zip(expected) {
        assert_close(
            "accuracy",
            done.scores.accuracy,
            expected["accuracy"].as_f64().unwrap(),
            1e-12,
        );
    }
    assert_eq!(k_folds(11, 3, 1).iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 3]);
    assert!(matches!(
        CrossValidation {
            folds: 1,
            ..CrossValidation::default()
        }
        .score(vectors, &y),
        Err(LearnError::Setting { name: "folds", .. })
    ));
}

#[test]
fn clusterings_draw_and_score_as_mteb_does() {
    let (x, y) = clusters(41, 400, 24, 6, 2.0, true);
    let expected = &fixture("learn.json")["fast_clustering"];
    let fast = FastClustering {
        max_fraction: Some(0.3),
        clusterings: 3,
        documents_per_clustering: 700,
        ..FastClustering::default()
    };
    let mut random = PythonRandom::new(42);
    let documents = fast.documents(&mut random, 400).unwrap();
    assert_eq!(documents, integers(&expected["documents"]));
    let chosen = x.select(Axis(0), &documents);
    let labels: Vec<Vec<i64>> = documents
        .iter()
        .map(|&d| match d % 5 {
            0 => vec![y[d] as i64 / 3],
            _ => vec![y[d] as i64 / 3, y[d] as i64],
        })
        .collect();
    let vectors = chosen.view();
    let report = fast.score(&mut random, vectors, &labels).unwrap();
    let mut all = Vec::new();
    for (i, expected) in list(&expected["clusterings"]).iter().enumerate() {
        let level = &report.levels[integer(&expected["level"])];
        assert_close(
            "v_measure",
            level.v_measures[i % 3],
            expected["v_measure"].as_f64().unwrap(),
            1e-9,
        );
        assert_close("ami", level.ami_scores[i % 3], expected["ami"].as_f64().unwrap(), 1e-9);
        all.push(expected["v_measure"].as_f64().unwrap());
    }
    assert_close("mean", report.v_measure, all.iter().sum::<f64>() / 6.0, 1e-9);
    let text: Vec<Vec<String>> = labels.iter().map(|l| l.iter().map(i64::to_string).collect()).collect();
    // With string labels, documents without a label on a level are kept, as a separate class.
    let of_text = fast.score(&mut PythonRandom::new(42), vectors, &text).unwrap();
    assert_eq!(
        of_text.levels[1].assignments[0].0.iter().max(),
        Some(&(documents.len() - 1))
    );
}

#[test]
fn neighbours_of_several_labels_choose_and_score_as_mteb_does() {
    let (x, y) = clusters(51, 120, 18, 6, 3.0, false);
    let (mut t, ty) = clusters(52, 60, 18, 6, 3.0, false);
    t.iter_mut().zip(&x).for_each(|(t, x)| *t = *t * 0.2 + x);
    let lists = |y: &[usize]| -> Vec<Vec<&str>> {
        let names = |y: &usize| {
            [
                ("even", y.is_multiple_of(2)),
                ("third", y.is_multiple_of(3)),
                ("high", *y > 3),
            ]
        };
        y.iter()
            .map(|y| names(y).into_iter().filter(|n| n.1).map(|n| n.0).collect())
            .collect()
    };
    let (train_labels, test_labels) = (lists(&y), lists(&ty));
    let multilabel = Multilabel::default();
    let selections = multilabel.selections(&mut NumpyGenerator::new(42), &train_labels);
    let report = multilabel
        .score(
            &mut NumpyGenerator::new(42),
            x.view(),
            &train_labels,
            t.view(),
            &test_labels,
        )
        .unwrap();
    for ((rows, done), expected) in selections
        .iter()
        .zip(&report.experiments)
        .zip(list(&fixture("learn.json")["multilabel"]))
    {
        assert_eq!(rows, &integers(&expected["rows"]));
        assert_close("accuracy", done.accuracy, expected["accuracy"].as_f64().unwrap(), 1e-12);
        assert_close("lrap", done.lrap, expected["lrap"].as_f64().unwrap(), 1e-12);
        assert_close("f1", done.f1, expected["f1"].as_f64().unwrap(), 1e-12);
    }
}

#[test]
fn labels_that_do_not_fit_are_said_with_their_row() {
    let (x, y, t, mut ty) = few_shot_data();
    let (train, test) = (x.view(), t.view());
    let classifier = FewShot::default().classifier;
    let one: Vec<String> = vec!["only".to_owned(); 250];
    let error = whole_train(train, &one, test, &one[..180], classifier).unwrap_err();
    assert!(
        matches!(&error, LearnError::OneClass { label, .. } if label == "only"),
        "{error}"
    );
    ty[17] = "new".to_owned();
    let error = FewShot::default().score(train, &y, test, &ty).unwrap_err();
    assert!(
        matches!(&error, LearnError::LabelNotInTrain { row: 17, label } if label == "new"),
        "{error}"
    );
    let error = FewShot::default().score(train, &y[1..], test, &ty).unwrap_err();
    assert!(
        matches!(
            error,
            LearnError::Labels {
                expected: 250,
                found: 249,
                ..
            }
        ),
        "{error}"
    );
    assert!(legacy_report(Vec::new()).is_err());
}

#[test]
fn views_that_are_not_contiguous_score_as_their_copies() {
    let (x, y, t, ty) = few_shot_data();
    // Column-major, as in numpy's Fortran order.
    let turned = |m: &Array2<f32>| m.t().as_standard_layout().into_owned().reversed_axes();
    let (train, test) = (turned(&x), turned(&t));
    assert!(!train.is_standard_layout() && train == x);
    let few_shot = FewShot::default();
    assert_eq!(
        few_shot.score(train.view(), &y, test.view(), &ty).unwrap(),
        few_shot.score(x.view(), &y, t.view(), &ty).unwrap()
    );
    // Every second row and column.
    let part = x.slice(s![..;2, ..;2]);
    let labels: Vec<&String> = y.iter().step_by(2).collect();
    let copy = part.to_owned();
    assert_eq!(
        legacy_set_score(part, &labels, 42).unwrap(),
        legacy_set_score(copy.view(), &labels, 42).unwrap()
    );
}
