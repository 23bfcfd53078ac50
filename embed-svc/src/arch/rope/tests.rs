#![allow(clippy::unwrap_used)]

use std::path::Path;

use serde_json::json;

use super::*;

/// The rotation of a file with these keys, for a head of 8 columns and texts of up to 64 tokens.
fn rotation(config: &Value) -> Result<Rotation, EmbedError> {
    read(Settings::new(config, Path::new("")), Rope::whole(8, 64), None)
}

fn close(got: &[f32], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((f64::from(*got) / want - 1.0).abs() < 3e-7, "{got} {want}");
    }
}

// Expected: ROPE_INIT_FUNCTIONS of transformers 5.23 with hidden_size 32, four heads,
// max_position_embeddings 64.
#[test]
fn each_kind_gives_the_references_frequencies() {
    let old = rotation(&json!({"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 4.0}})).unwrap();
    close(
        &old.frequencies,
        &[
            0.25,
            0.052_868_559_956_550_6,
            0.011_180_340_312_421_322,
            0.002_364_353_975_281_119_3,
        ],
    );
    let llama = json!({"rope_parameters": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 500.0}});
    let expected = [
        1.0,
        0.031_185_457_482_933_998,
        0.005_590_170_156_210_661,
        0.001_182_176_987_640_559_7,
    ];
    close(&rotation(&llama).unwrap().frequencies, &expected);
    let mut yarn =
        json!({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}});
    let plain = rotation(&yarn).unwrap();
    close(
        &plain.frequencies,
        &[
            1.0,
            0.100_000_001_490_116_12,
            0.006_249_999_627_470_97,
            0.000_250_000_011_874_362_8,
        ],
    );
    close(&[plain.factor], &[1.138_629_436_111_989]);
    for (key, value) in [
        ("beta_fast", json!(8)),
        ("mscale", json!(0.7)),
        ("mscale_all_dim", json!(1.0)),
        ("truncate", json!(false)),
    ] {
        yarn["rope_scaling"][key] = value;
    }
    let other = rotation(&yarn).unwrap();
    close(
        &other.frequencies,
        &[
            1.0,
            0.100_000_001_490_116_12,
            0.006_761_618_889_868_259,
            0.000_250_000_011_874_362_8,
        ],
    );
    close(&[other.factor], &[0.963_474_656_860_882_6]);
    let longrope = rotation(
        &json!({"original_max_position_embeddings": 16, "rope_scaling": {"type": "longrope",
        "short_factor": [1.0, 1.5, 2.0, 3.0], "long_factor": [2.0, 3.0, 5.0, 9.0]}}),
    )
    .unwrap();
    close(
        &longrope.frequencies,
        &[
            1.0,
            0.066_666_670_143_604_28,
            0.004_999_999_888_241_291,
            0.000_333_333_329_763_263_46,
        ],
    );
    close(&[longrope.factor], &[1.224_744_871_391_589]);
    assert!(longrope.is_beyond(17) && !longrope.is_beyond(16));
}

#[test]
fn settings_by_layer_type_are_told_apart() {
    let config = json!({"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 100.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0}}});
    let of = |kind| read(Settings::new(&config, Path::new("")), Rope::whole(4, 64), Some(kind)).unwrap();
    assert_eq!(of("full_attention").frequencies, [1.0, 0.1]);
    assert_eq!(of("sliding_attention").frequencies, [1.0, 0.01]);
}

#[test]
fn what_is_not_served_is_refused_by_its_key() {
    for (config, key) in [
        (
            json!({"rope_scaling": {"type": "ntk", "factor": 2.0}}),
            "rope_type `ntk`",
        ),
        (json!({"rope_scaling": {"type": "linear"}}), "rope_scaling.factor"),
        (
            json!({"rope_scaling": {"type": "longrope", "short_factor": [1.0]}}),
            "rope_scaling.short_factor",
        ),
        (json!({"rope_theta": -1.0}), "rope_theta"),
        (json!({"partial_rotary_factor": 0.4}), "partial_rotary_factor"),
    ] {
        let error = rotation(&config).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
}
