//! Fits equal scikit-learn 1.8's: the same number of iterations, the same predictions, coefficients
//! to about 1e-6.

use isomer_learn::{
    LearnError,
    logistic::{LogisticRegression, Stop},
};
use ndarray::{array, s};

use crate::common::{self, case_vectors, clusters, fixture, integer, integers, list, numbers};

#[test]
fn fits_are_those_of_scikit_learn() {
    for case in list(&fixture("learn.json")["logistic"]) {
        let name = case["name"].as_str().unwrap();
        let (cols, classes) = (integer(&case["cols"]), integer(&case["classes"]));
        let factor = case["factor"].as_f64().unwrap() as f32;
        let (mut x, y) = case_vectors(case);
        x.iter_mut().for_each(|v| *v *= factor);
        let (spread, norm) = (case["spread"].as_f64().unwrap(), case["norm"].as_bool().unwrap());
        let seed = case["seed"].as_u64().unwrap();
        let (mut test, _) = clusters(seed, 500, cols, classes, spread, norm);
        let (noise, _) = clusters(seed + 100, 500, cols, classes, spread, norm);
        test.iter_mut()
            .zip(noise)
            .for_each(|(t, n)| *t = (*t + n) * (0.5 * factor));

        let max_iter = integer(&case["max_iter"]);
        let settings = LogisticRegression {
            max_iter,
            ..LogisticRegression::default()
        };
        let model = settings.fit(x.view(), &y, classes).unwrap();

        let expected_iterations = integer(&case["n_iter"]);
        assert_eq!(model.iterations(), expected_iterations, "{name}");
        assert_eq!(
            model.stop() == Stop::Iterations,
            expected_iterations == max_iter,
            "{name}"
        );
        let predicted = model.predict(test.view()).unwrap();
        assert_eq!(predicted, integers(&case["predictions"]), "{name}");
        let coefficients = model.coefficients();
        let length = coefficients.iter().map(|c| c * c).sum::<f64>().sqrt();
        // Relative to the size of the coefficients.
        let tolerance = length * 1e-6;
        common::assert_close(name, length, case["coef_norm"].as_f64().unwrap(), tolerance);
        for (row, expected) in coefficients.rows().into_iter().zip(numbers(&case["coef_row_sums"])) {
            common::assert_close(name, row.iter().sum(), expected, tolerance * 3.0);
        }
        let first = coefficients.slice(s![.., ..4]);
        for (got, expected) in first.iter().zip(numbers(&case["coef_first"])) {
            common::assert_close(name, *got, expected, tolerance);
        }
        for (got, expected) in model.intercepts().iter().zip(numbers(&case["intercept"])) {
            common::assert_close(name, *got, expected, tolerance);
        }
    }
}

#[test]
fn a_fit_is_the_same_on_one_thread_and_on_many() {
    let (x, y) = clusters(9, 700, 48, 20, 2.0, true);
    let fit = |threads| {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap()
            .install(|| {
                let vectors = x.view();
                let two: Vec<usize> = y.iter().map(|c| c % 2).collect();
                let many = LogisticRegression::default().fit(vectors, &y, 20).unwrap();
                (
                    many.coefficients(),
                    LogisticRegression::default()
                        .fit(vectors, &two, 2)
                        .unwrap()
                        .coefficients(),
                )
            })
    };
    assert!(fit(1) == fit(3));
}

#[test]
fn what_cannot_be_fitted_is_said() {
    let x = array![[0.0], [1.0], [2.0], [3.0]];
    let fit = |y: &[usize], classes| LogisticRegression::default().fit(x.view(), y, classes).unwrap_err();
    assert!(matches!(
        fit(&[0, 1, 0], 2),
        LearnError::Labels {
            expected: 4,
            found: 3,
            ..
        }
    ));
    assert!(matches!(
        fit(&[0, 1, 0, 2], 2),
        LearnError::OutOfRange { at: 3, value: 2, .. }
    ));
    assert!(matches!(
        fit(&[0, 0, 2, 2], 3),
        LearnError::ClassWithoutRows { class: 1 }
    ));
    assert!(matches!(fit(&[0, 0, 0, 0], 1), LearnError::OneClass { .. }));
    let model = LogisticRegression::default().fit(x.view(), &[0, 0, 1, 1], 2).unwrap();
    let error = model.predict(array![[1.0], [f32::NAN]].view()).unwrap_err();
    assert!(matches!(error, LearnError::NotFinite { row: 1, col: 0, .. }), "{error}");
    let error = model.predict(array![[0.0, 1.0], [2.0, 3.0]].view()).unwrap_err();
    assert!(
        matches!(
            error,
            LearnError::Width {
                expected: 1,
                found: 2,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn values_so_large_that_the_loss_overflows_are_an_error_or_a_finite_fit() {
    let x = array![[f32::MAX], [-f32::MAX], [f32::MAX / 2.0], [1.0]];
    match LogisticRegression::default().fit(x.view(), &[0, 1, 2, 1], 3) {
        Ok(model) => assert!(model.coefficients().iter().all(|c| c.is_finite())),
        Err(error) => assert!(matches!(error, LearnError::Diverged { .. })),
    }
}
