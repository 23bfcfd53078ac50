//! Candle's kernels count the elements of a launch in 32 bits, some of them signed. Beyond 2³¹ - 1
//! a kernel reads outside its tensors, repeats a part or never ends. So such a launch is refused
//! before it is computed.

use candle_core::{Error, Result};

/// Refuses a tensor of this shape if it has more than 2³¹ - 1 elements.
pub(super) fn counted(shape: &[usize]) -> Result<()> {
    let elements = shape
        .iter()
        .try_fold(1usize, |elements, size| elements.checked_mul(*size));
    if elements.is_some_and(|elements| i32::try_from(elements).is_ok()) {
        return Ok(());
    }
    let shape = shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(" x ");
    Err(Error::Msg(format!(
        "{shape} values are too many for one launch, which counts to {}: lower embed.max_batch_tokens; a single text \
         or a model that is this large needs the CPU",
        i32::MAX
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use candle_core::{DType, Device, Tensor};

    use super::{
        super::{Activation, Candle, Layers, Plan, Span},
        *,
    };
    use crate::{backend::Backend, batch::TokenBatch, device::Precision};

    #[test]
    fn what_31_bits_count_passes_and_more_is_refused() {
        for shape in [&[][..], &[0, usize::MAX], &[i32::MAX as usize], &[32_768, 65_535]] {
            counted(shape).unwrap();
        }
        for shape in [
            &[1 << 31][..],
            &[32_768, 65_536],
            &[65_535, 65_537],
            &[1 << 40, 1 << 40],
            &[usize::MAX, 2],
        ] {
            let refused = counted(shape).unwrap_err().to_string();
            assert!(refused.contains("lower embed.max_batch_tokens"), "{refused}");
        }
    }

    #[test]
    fn a_product_with_too_many_values_is_refused_before_it_is_computed() {
        let on = Candle::new(Device::Cpu, Precision::F32).unwrap();
        let layer = on.linear(&[1.0; 4], None, 4, 1).unwrap();
        // Rows that share their memory.
        let rows = |count: usize| {
            let row = Tensor::ones((1, 1), DType::F32, &Device::Cpu).unwrap();
            row.broadcast_as((count, 1)).unwrap()
        };
        let refused = on
            .apply(&rows(1 << 30), &layer, Activation::Identity, None)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("1073741824 x 4 values"), "{refused}");
        let made = on.apply(&rows(3), &layer, Activation::Identity, None).unwrap();
        assert_eq!(made.to_vec2::<f32>().unwrap(), [[1.0; 4]; 3]);
    }

    #[test]
    fn a_text_with_too_many_pairs_of_tokens_is_refused() {
        let near = Span { before: 1, after: 1 };
        let pairs = |tokens: usize| {
            let plan = Plan::new(&TokenBatch::pack(&[vec![0u32; tokens]]), &Device::Cpu);
            let group = &plan.groups().unwrap()[0];
            let mask = group.mask(near, &Device::Cpu).map(|mask| mask.unwrap().elem_count());
            let distances = group.distances(&Device::Cpu).map(|distances| distances.elem_count());
            [mask, distances].map(|made| made.map_err(|refused| refused.to_string()))
        };
        for refused in pairs(65_536) {
            let refused = refused.unwrap_err();
            assert!(refused.contains("65536 x 65536 values"), "{refused}");
        }
        assert_eq!(pairs(5), [Ok(25), Ok(25)]);
    }
}
