//! The number of bits of the codes.

/// Bits of the codes. They affect the result: other widths give other numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Widths {
    inputs: u32,
    weights: u32,
}

impl Widths {
    /// Eight and eight bits: the most exact choice, but fast only with dot-product instructions for
    /// bytes.
    pub const FULL: Self = Self { inputs: 8, weights: 8 };
    /// Eight bits for inputs, seven for weights: the maximum that AVX2 multiplies without widening
    /// first.
    pub const EIGHT_SEVEN: Self = Self { inputs: 8, weights: 7 };
    /// Seven and seven bits: on AVX2 two products can be added before they are widened.
    pub const SEVEN: Self = Self { inputs: 7, weights: 7 };

    pub const ALL: [Self; 3] = [Self::FULL, Self::EIGHT_SEVEN, Self::SEVEN];

    /// Bits of an input's code, unsigned.
    pub fn inputs(self) -> u32 {
        self.inputs
    }

    /// Bits of a weight's code, sign included.
    pub fn weights(self) -> u32 {
        self.weights
    }

    /// Largest code of an input: 255, 127.
    pub(super) fn largest_input(self) -> i32 {
        (1 << self.inputs) - 1
    }

    /// Largest code of a weight: 127, 63. The smallest code is its negative.
    pub(super) fn largest_weight(self) -> i32 {
        (1 << (self.weights - 1)) - 1
    }

    /// Number of pairs of products that can be added in 16 signed bits.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) fn fits(self) -> i32 {
        i32::from(i16::MAX) / (2 * self.largest_input() * self.largest_weight())
    }
}
