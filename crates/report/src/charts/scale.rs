//! A linear scale with round ticks.

/// Maps values to positions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    step: f64,
}

impl Scale {
    /// A scale that includes all values with a margin, between two positions and with about five
    /// ticks.
    pub(super) fn new(values: &[f64], from: f64, to: f64) -> Self {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let (low, high) = (
            finite().fold(f64::INFINITY, f64::min),
            finite().fold(f64::NEG_INFINITY, f64::max),
        );
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let span = (high - low).max(1.0);
        let step = round_step(span * 1.2 / 4.0);
        let low = ((low - span * 0.06) / step).floor() * step;
        let high = ((high + span * 0.06) / step).ceil() * step;
        Self::between(low, high, step, from, to)
    }

    /// A scale from 0 to the largest value, with about five ticks.
    pub(super) fn from_zero(values: &[f64], from: f64, to: f64) -> Self {
        let high = values
            .iter()
            .copied()
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max);
        let high = if high > 0.0 { high } else { 1.0 };
        let step = round_step(high / 4.0);
        Self::between(0.0, (high * 1.04 / step).ceil() * step, step, from, to)
    }

    /// A scale between two values, with a tick every `step`.
    pub(super) fn between(low: f64, high: f64, step: f64, from: f64, to: f64) -> Self {
        Self {
            low,
            high,
            from,
            to,
            step,
        }
    }

    /// Position of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    pub(super) fn ticks(&self) -> Vec<f64> {
        let count = ((self.high - self.low) / self.step).round() as usize;
        (0..=count).map(|i| self.low + i as f64 * self.step).collect()
    }

    /// A tick as text, with as many decimals as the step needs.
    pub(super) fn tick(&self, value: f64) -> String {
        let decimals = (-self.step.log10().floor()).max(0.0) as usize;
        let text = format!("{value:.decimals$}");
        text.replacen('-', "−", 1)
    }
}

/// 1, 2 or 5 times a power of ten, and at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps
        .into_iter()
        .find(|step| *step >= least * 0.999)
        .unwrap_or(power * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_between_the_first_and_the_last_tick() {
        let values = [81.23, 74.9, 79.0];
        let scale = Scale::new(&values, 100.0, 400.0);
        for value in values {
            assert!((100.0..=400.0).contains(&scale.at(value)));
        }
        let ticks = scale.ticks();
        assert!((3..=9).contains(&ticks.len()), "{ticks:?}");
        assert_eq!(scale.at(ticks[0]), 100.0);
    }

    #[test]
    fn costs_begin_at_zero_and_small_steps_keep_their_decimals() {
        let scale = Scale::from_zero(&[0.031, 0.11], 0.0, 100.0);
        let ticks: Vec<String> = scale.ticks().into_iter().map(|tick| scale.tick(tick)).collect();
        assert_eq!(ticks, ["0.00", "0.05", "0.10", "0.15"]);
        assert!(scale.at(0.11) < 100.0);
        assert_eq!(Scale::from_zero(&[0.0], 0.0, 100.0).at(0.0), 0.0);
    }

    #[test]
    fn equal_values_and_no_values_still_make_a_scale() {
        for values in [&[50.0, 50.0][..], &[], &[f64::NAN]] {
            let scale = Scale::new(values, 0.0, 10.0);
            assert!(scale.ticks().len() >= 2);
            assert!(scale.at(50.0).is_finite());
        }
    }
}
