//! A process that is limited to narrower instructions uses none of the wider ones. It needs its own
//! process (nextest starts one for each test), because the limit is set once.

use isomer_kernels::{
    Instructions, Kernel, LimitConflict, PackedMatrix, bf16::Bf16Kernel, gemm, int8::Int8Kernel, limit_to, rows,
};

#[test]
fn a_limit_holds_for_all_kernels_and_cannot_be_changed_later() {
    limit_to(Instructions::Avx2).unwrap();
    limit_to(Instructions::Avx2).unwrap();
    let names: Vec<&str> = Kernel::available()
        .iter()
        .map(|kernel| kernel.name())
        .chain(Bf16Kernel::available().iter().map(|kernel| kernel.name()))
        .chain(Int8Kernel::available().iter().map(|kernel| kernel.name()))
        .collect();
    assert!(
        !names.iter().any(|name| name.contains("512") || name.contains("amx")),
        "{names:?}"
    );
    assert!(!isomer_kernels::class().contains("512"));
    assert!(names.contains(&"portable"), "{names:?}");

    // Data packed for the narrower kernel is computed with that kernel.
    let (x, weights) = ([1.0, 2.0, 3.0], [1.0, 0.0, 0.0, 0.5, 0.5, 0.5]);
    let mut out = [0.0; 2];
    gemm(&x, 1, &PackedMatrix::pack(&weights, 2, 3), None, &mut out);
    assert_eq!(out, [1.0, 3.0]);
    let mut values = [0.0, 0.0, f32::NEG_INFINITY, 0.0];
    rows::softmax(&mut values, 4, 1.0);
    assert!((values[0] - 1.0 / 3.0).abs() < 1e-7 && values[2] == 0.0);

    assert_eq!(limit_to(Instructions::Best), Err(LimitConflict(Instructions::Avx2)));
    assert_eq!(limit_to(Instructions::Portable), Err(LimitConflict(Instructions::Avx2)));
}
