#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_precision_loss)]

use half::f16;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{choice::tiles, int8::multiply, int8_portable, *};

const KINDS: [QuantType; 8] = [
    QuantType::Q4_0,
    QuantType::Q4_1,
    QuantType::Q5_0,
    QuantType::Q5_1,
    QuantType::Q8_0,
    QuantType::Q4K,
    QuantType::Q5K,
    QuantType::Q6K,
];

/// Blocks of random codes with scales between 0.001 and 0.01.
fn random_blocks(kind: QuantType, n: usize, k: usize, rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = vec![0; kind.row_bytes(k).unwrap() * n];
    rng.fill_bytes(&mut bytes);
    for block in bytes.chunks_exact_mut(kind.block_bytes()) {
        let mut half = |at: usize| {
            let value = f16::from_f32(rng.random_range(0.001..0.01));
            block[at..at + 2].copy_from_slice(&value.to_le_bytes());
        };
        match kind {
            QuantType::Q4_1 | QuantType::Q5_1 | QuantType::Q4K | QuantType::Q5K => {
                half(0);
                half(2);
            }
            QuantType::Q6K => half(208),
            _ => half(0),
        }
        if kind == QuantType::Q8_0 {
            // No quantiser writes -128, the only byte without a positive counterpart.
            for code in &mut block[2..] {
                *code = if *code == 128 { 0 } else { *code };
            }
        }
    }
    bytes
}

fn random_rows(m: usize, k: usize, rng: &mut ChaCha8Rng) -> Vec<f32> {
    (0..m * k).map(|_| rng.random_range(-2.0f32..2.0)).collect()
}

fn dequantized(kind: QuantType, bytes: &[u8], n: usize, k: usize) -> Vec<f32> {
    let mut weights = vec![0.0; n * k];
    let row = kind.row_bytes(k).unwrap();
    for (bytes, out) in bytes.chunks_exact(row).zip(weights.chunks_exact_mut(k)) {
        dequantize_row(kind, bytes, out);
    }
    weights
}

/// `x · Wᵀ` in f64, and `|x| · |W|ᵀ` for a tolerance.
fn exact(x: &[f32], weights: &[f32], k: usize) -> Vec<(f64, f64)> {
    x.chunks_exact(k)
        .flat_map(|x| weights.chunks_exact(k).map(move |w| (x, w)))
        .map(|(x, w)| {
            x.iter().zip(w).fold((0.0, 0.0), |(sum, size), (&x, &w)| {
                let product = f64::from(x) * f64::from(w);
                (sum + product, size + product.abs())
            })
        })
        .collect()
}

/// Every 32 inputs rounded like in the int8 product.
fn rounded(x: &[f32]) -> Vec<f32> {
    x.chunks_exact(32)
        .flat_map(|x| {
            let largest = x.iter().fold(0.0f32, |a, b| a.max(b.abs()));
            let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
            x.iter().map(move |x| (x * inverse).round() * (largest / 127.0))
        })
        .collect()
}

fn check(found: &[f32], expected: &[(f64, f64)], what: &str) {
    for (i, (found, (sum, size))) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - sum).abs();
        assert!(
            error <= 2e-6 * size + 1e-9,
            "{what}: output {i} is {found}, expected {sum}, error {error:e} of {size}"
        );
    }
}

#[test]
fn f32_product_equals_the_product_with_unpacked_weights() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for kind in KINDS {
        for (m, n, k) in [(1, 1, 256), (7, 35, 512), (13, 48, 768), (3, 16, 1280)] {
            let bytes = random_blocks(kind, n, k, &mut rng);
            let x = random_rows(m, k, &mut rng);
            let matrix = QuantMatrix::pack(kind, &bytes, n, k).unwrap();
            let mut out = vec![f32::NAN; m * n];
            gemm_quant(&x, m, &matrix, &mut out);
            check(&out, &exact(&x, &dequantized(kind, &bytes, n, k), k), kind.name());
        }
    }
}

#[test]
fn int8_product_equals_the_product_of_rounded_inputs_with_unpacked_weights() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for kind in KINDS {
        for (m, n, k) in [(1, 1, 256), (7, 35, 512), (13, 48, 768), (3, 16, 1280)] {
            let bytes = random_blocks(kind, n, k, &mut rng);
            let x = random_rows(m, k, &mut rng);
            let matrix = QuantMatrix::pack(kind, &bytes, n, k).unwrap();
            let expected = exact(&rounded(&x), &dequantized(kind, &bytes, n, k), k);
            let mut out = vec![f32::NAN; m * n];
            gemm_quant_int8(&x, m, &matrix, &mut Int8Rows::default(), &mut out);
            // Formats with a centre subtract two large sums; the tolerance is relative to both.
            let tolerant: Vec<_> = expected.iter().map(|(sum, size)| (*sum, 4.0 * size)).collect();
            check(&out, &tolerant, kind.name());
        }
    }
}

#[test]
fn int8_tiles_agree_and_those_that_fuse_additions_give_the_same_bits() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for kind in KINDS {
        // 15 rows and 5 octets: whole tiles and rests of both.
        let (m, n, k) = (15, 35, 512);
        let bytes = random_blocks(kind, n, k, &mut rng);
        let x = random_rows(m, k, &mut rng);
        let blocks = Blocks::pack(kind, &bytes, n, k);
        let mut rows = Int8Rows::default();
        gemm_quant_int8(
            &x,
            m,
            &QuantMatrix(Form::Blocks(blocks.clone())),
            &mut rows,
            &mut vec![0.0; m * n],
        );
        let product = |tile| {
            let mut out = vec![f32::NAN; m * n];
            multiply(&rows, m, &blocks, tile, &mut out);
            out
        };
        let plain = product(int8_portable::tile(kind));
        let largest = plain.iter().fold(0.0f32, |a, b| a.max(b.abs()));
        let mut fused = tiles(kind);
        fused.pop();
        let fused: Vec<Vec<f32>> = fused.into_iter().map(product).collect();
        for fast in &fused {
            assert_eq!(fast, &fused[0], "{}", kind.name());
            for (fast, plain) in fast.iter().zip(&plain) {
                let apart = (fast - plain).abs();
                assert!(apart <= 1e-5 * largest, "{}: {fast} {plain}", kind.name());
            }
        }
    }
}

#[test]
fn largest_codes_and_inputs_do_not_overflow() {
    for kind in KINDS {
        let (n, k) = (8, 256);
        let mut bytes = vec![0xFF; kind.row_bytes(k).unwrap() * n];
        for block in bytes.chunks_exact_mut(kind.block_bytes()) {
            let one = f16::from_f32(1.0).to_le_bytes();
            let at: &[usize] = match kind {
                QuantType::Q4_1 | QuantType::Q5_1 | QuantType::Q4K | QuantType::Q5K => &[0, 2],
                QuantType::Q6K => &[208],
                _ => &[0],
            };
            for &at in at {
                block[at..at + 2].copy_from_slice(&one);
            }
            if kind == QuantType::Q8_0 {
                block[2..].fill(0x81);
            }
        }
        let x = [1.0f32, -1.0].map(|x| vec![x; k]).concat();
        let mut out = vec![0.0; 2 * n];
        let matrix = QuantMatrix::pack(kind, &bytes, n, k).unwrap();
        gemm_quant_int8(&x, 2, &matrix, &mut Int8Rows::default(), &mut out);
        let expected = exact(&x, &dequantized(kind, &bytes, n, k), k);
        for (found, (sum, size)) in out.iter().zip(expected) {
            assert!(
                (f64::from(*found) - sum).abs() <= 1e-4 * size.max(1.0),
                "{}: {found} {sum}",
                kind.name()
            );
        }
    }
}

#[test]
fn a_row_has_the_same_bits_alone_and_in_any_batch_on_any_number_of_threads() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let (m, n, k) = (37, 203, 512);
    let x = random_rows(m, k, &mut rng);
    for kind in KINDS {
        let matrix = QuantMatrix::pack(kind, &random_blocks(kind, n, k, &mut rng), n, k).unwrap();
        let product = |x: &[f32], int8: bool, threads: usize| {
            let m = x.len() / k;
            let mut out = vec![0.0; m * n];
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                if int8 {
                    gemm_quant_int8(x, m, &matrix, &mut Int8Rows::default(), &mut out);
                } else {
                    gemm_quant(x, m, &matrix, &mut out);
                }
            });
            out
        };
        for int8 in [false, true] {
            let batch = product(&x, int8, 3);
            assert_eq!(batch, product(&x, int8, 1), "{} int8 {int8}: threads", kind.name());
            for row in [0, 5, 36] {
                let alone = product(&x[row * k..(row + 1) * k], int8, 2);
                assert_eq!(
                    alone,
                    batch[row * n..(row + 1) * n],
                    "{} int8 {int8}: row {row}",
                    kind.name()
                );
            }
        }
    }
}

#[test]
fn plain_numbers_are_multiplied_in_f32() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (m, n, k) = (3, 20, 40);
    let weights = random_rows(n, k, &mut rng);
    let x = random_rows(m, k, &mut rng);
    let halves: Vec<u8> = weights.iter().flat_map(|w| f16::from_f32(*w).to_le_bytes()).collect();
    let matrix = QuantMatrix::pack(QuantType::F16, &halves, n, k).unwrap();
    let mut out = vec![0.0; m * n];
    gemm_quant_int8(&x, m, &matrix, &mut Int8Rows::default(), &mut out);
    let mut unpacked = vec![0.0; n * k];
    dequantize_row(QuantType::F16, &halves, &mut unpacked);
    check(&out, &exact(&x, &unpacked, k), "F16");
}

#[test]
fn wrong_lengths_are_refused() {
    assert_eq!(
        QuantMatrix::pack(QuantType::Q4K, &[], 1, 288).unwrap_err(),
        QuantError::Depth {
            kind: QuantType::Q4K,
            k: 288
        }
    );
    let error = QuantMatrix::pack(QuantType::Q8_0, &[0; 34], 2, 32).unwrap_err();
    assert_eq!(
        error,
        QuantError::Length {
            expected: 68,
            found: 34
        }
    );
    assert_eq!(error.to_string(), "the shape takes 68 bytes, 34 are there");
}

#[test]
fn a_row_of_more_bytes_than_can_be_counted_has_no_size() {
    for kind in [QuantType::F32, QuantType::F16, QuantType::Bf16] {
        assert_eq!(kind.row_bytes(1 << (usize::BITS - 1)), None);
        assert!(kind.row_bytes(1 << 32).is_some());
    }
}
