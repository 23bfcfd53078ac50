//! Statistics against scipy (`eval-svc/fixtures/statistics.json`) and the shared reference numbers.

use isomer_stats::{
    Alternative, Method, WilcoxonOptions, average_ranks, hodges_lehmann, holm, kendall_tau_b, mean, pearson, quantile,
    sample_sd, spearman, wilcoxon_signed_rank, wilcoxon_with,
};

use crate::support::{close, fixture, floats, golden};

#[test]
fn signed_rank_tests_equal_scipy_on_designs_with_ties_and_zeros() {
    let designs = fixture("statistics.json")["wilcoxon"].as_array().unwrap().clone();
    assert!(designs.len() >= 200);
    for (i, design) in designs.iter().enumerate() {
        let d = floats(&design["d"]);
        let sides = [
            ("two-sided", Alternative::TwoSided),
            ("greater", Alternative::Greater),
            ("less", Alternative::Less),
        ];
        for (name, alternative) in sides {
            let expected = floats(&design["tests"][name]);
            let found = wilcoxon_signed_rank(&d, alternative).unwrap();
            close(
                found.statistic,
                expected[0],
                1e-9,
                &format!("statistic of design {i}, {name}"),
            );
            close(
                found.p_value,
                expected[1],
                1e-9,
                &format!("p of design {i}, {name}, n {}", d.len()),
            );
        }
    }
}

#[test]
fn hodges_lehmann_mean_and_sd_equal_numpy() {
    for (i, design) in fixture("statistics.json")["wilcoxon"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        let d = floats(&design["d"]);
        let what = format!("design {i}");
        close(
            hodges_lehmann(&d).unwrap(),
            design["hodges_lehmann"].as_f64().unwrap(),
            1e-12,
            &what,
        );
        close(mean(&d).unwrap(), design["mean"].as_f64().unwrap(), 1e-12, &what);
        match design["sd"].as_f64() {
            Some(sd) => close(sample_sd(&d).unwrap(), sd, 1e-12, &what),
            None => assert_eq!(sample_sd(&d), None),
        }
    }
}

#[test]
fn correlations_and_ranks_equal_scipy() {
    let designs = fixture("statistics.json")["correlation"].as_array().unwrap().clone();
    assert!(designs.len() > 50);
    for (i, design) in designs.iter().enumerate() {
        let (x, y) = (floats(&design["x"]), floats(&design["y"]));
        let what = format!("design {i}");
        assert_eq!(average_ranks(&x), floats(&design["ranks_x"]));
        close(
            pearson(&x, &y).unwrap(),
            design["pearson"].as_f64().unwrap(),
            1e-9,
            &what,
        );
        close(
            spearman(&x, &y).unwrap(),
            design["spearman"].as_f64().unwrap(),
            1e-9,
            &what,
        );
        close(
            kendall_tau_b(&x, &y).unwrap(),
            design["kendall"].as_f64().unwrap(),
            1e-9,
            &what,
        );
    }
}

#[test]
fn holm_and_quantiles_equal_the_reference() {
    let fixture = fixture("statistics.json");
    for design in fixture["holm"].as_array().unwrap() {
        for (found, expected) in holm(&floats(&design["p"])).iter().zip(floats(&design["adjusted"])) {
            close(*found, expected, 1e-12, "holm");
        }
    }
    for design in fixture["quantile"].as_array().unwrap() {
        let x = floats(&design["x"]);
        for (q, expected) in floats(&design["q"]).iter().zip(floats(&design["expected"])) {
            close(quantile(&x, *q).unwrap(), expected, 1e-12, "quantile");
        }
    }
}

#[test]
fn golden_paired_statistics() {
    let golden = golden();
    let paired = &golden["paired_stats"];
    let d: Vec<f64> = floats(&paired["x"])
        .iter()
        .zip(floats(&paired["y"]))
        .map(|(x, y)| x - y)
        .collect();
    let methods = [
        ("wilcoxon_exact", Method::Exact),
        ("wilcoxon_approx", Method::Normal),
        ("wilcoxon_auto", Method::Auto),
    ];
    for (key, method) in methods {
        let expected = floats(&paired[key]);
        let found = wilcoxon_with(
            &d,
            &WilcoxonOptions {
                method,
                ..WilcoxonOptions::default()
            },
        )
        .unwrap();
        close(found.statistic, expected[0], 1e-6, key);
        close(found.p_value, expected[1], 1e-6, key);
    }
    assert_eq!(
        wilcoxon_signed_rank(&d, Alternative::TwoSided),
        wilcoxon_with(&d, &WilcoxonOptions::default())
    );
    let shift = paired["hodges_lehmann_walsh_median"].as_f64().unwrap();
    close(hodges_lehmann(&d).unwrap(), shift, 1e-6, "Hodges-Lehmann");
    let adjusted = floats(&golden["holm"]["adjusted"]);
    for (found, expected) in holm(&floats(&golden["holm"]["p"])).iter().zip(adjusted) {
        close(*found, expected, 1e-6, "holm");
    }
}
