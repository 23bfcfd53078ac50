//! Draws equal CPython's and numpy's, bit for bit.

use isomer_learn::random::{NumpyGenerator, NumpyLegacy, PythonRandom};

use crate::common::{self, fixture, integer, integers, list, numbers, signed};

#[test]
fn python_random_draws_as_cpython_does() {
    for case in list(&fixture("random.json")["python"]) {
        let mut r = PythonRandom::new(case["seed"].as_u64().unwrap());
        assert_eq!((0..5).map(|_| r.random()).collect::<Vec<_>>(), numbers(&case["random"]));
        for draw in list(&case["bits"]) {
            assert_eq!(
                r.getrandbits(draw[0].as_u64().unwrap() as u32),
                draw[1].as_u64().unwrap()
            );
        }
        for draw in list(&case["below"]) {
            assert_eq!(r.randbelow(draw[0].as_u64().unwrap()), draw[1].as_u64().unwrap());
        }
        for draw in list(&case["samples"]) {
            assert_eq!(r.sample(integer(&draw[0]), integer(&draw[1])), integers(&draw[2]));
        }
        for draw in list(&case["choices"]) {
            assert_eq!(r.choices(integer(&draw[0]), integer(&draw[1])), integers(&draw[2]));
        }
        let mut items: Vec<usize> = (0..50).collect();
        r.shuffle(&mut items);
        assert_eq!(items, integers(&case["shuffled"]));
        assert_eq!(r.random(), case["after"].as_f64().unwrap());
    }
}

#[test]
fn numpy_random_state_draws_as_numpy_does() {
    for case in list(&fixture("random.json")["legacy"]) {
        let mut r = NumpyLegacy::new(case["seed"].as_u64().unwrap() as u32);
        assert_eq!(
            (0..5).map(|_| r.random_sample()).collect::<Vec<_>>(),
            numbers(&case["random"])
        );
        assert_eq!(
            (0..5).map(|_| r.uniform(-2.0, 3.0)).collect::<Vec<_>>(),
            numbers(&case["uniform"])
        );
        for draw in list(&case["randint"]) {
            assert_eq!(
                r.randint(draw[0].as_i64().unwrap(), draw[1].as_i64().unwrap(), 20),
                signed(&draw[2])
            );
        }
        let mut items: Vec<usize> = (0..50).collect();
        r.shuffle(&mut items);
        assert_eq!(items, integers(&case["shuffled"]));
        let mut items: Vec<usize> = (0..37).collect();
        r.shuffle(&mut items);
        assert_eq!(items, integers(&case["shuffled_array"]));
        assert_eq!(r.permutation(64), integers(&case["permutation"]));
        assert_eq!(r.choice(30, 12), integers(&case["choice"]));
        assert_eq!(r.choice_without_replacement(40, 11), integers(&case["distinct"]));
        assert_eq!(r.choice_weighted(&numbers(&case["p"]), 40), integers(&case["weighted"]));
        for expected in numbers(&case["normal"]) {
            common::assert_close("normal", r.standard_normal(), expected, 1e-14);
        }
        assert_eq!(r.random_sample(), case["after"].as_f64().unwrap());
    }
}

#[test]
fn numpy_default_rng_draws_as_numpy_does() {
    for case in list(&fixture("random.json")["generator"]) {
        let mut r = NumpyGenerator::new(case["seed"].as_u64().unwrap());
        assert_eq!((0..5).map(|_| r.random()).collect::<Vec<_>>(), numbers(&case["random"]));
        for draw in list(&case["integers"]) {
            assert_eq!(
                r.integers(draw[0].as_i64().unwrap(), draw[1].as_i64().unwrap(), 20),
                signed(&draw[2])
            );
        }
        let mut items: Vec<usize> = (0..50).collect();
        r.shuffle(&mut items);
        assert_eq!(items, integers(&case["shuffled"]));
        let mut items: Vec<usize> = (0..37).collect();
        r.shuffle(&mut items);
        assert_eq!(items, integers(&case["shuffled_array"]));
        assert_eq!(r.permutation(64), integers(&case["permutation"]));
        assert_eq!(r.choice(30, 12), integers(&case["choice"]));
        for draw in list(&case["distinct"]) {
            let drawn = r.choice_without_replacement(integer(&draw[0]), integer(&draw[1]));
            assert_eq!(drawn, integers(&draw[2]), "{} of {}", draw[1], draw[0]);
        }
        assert_eq!(r.choice_weighted(&numbers(&case["p"]), 40), integers(&case["weighted"]));
        assert_eq!(r.random(), case["after"].as_f64().unwrap());
    }
}
