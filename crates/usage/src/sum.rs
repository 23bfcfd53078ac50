//! The sum of usage.
//!
//! All sums saturate, so that a hostile server's huge numbers cannot cause overflow.

use isomer_proto::common::v1::Usage;

/// Adds every field of `more` to `sum`.
pub fn add(sum: &mut Usage, more: &Usage) {
    // Every field is named, so that the compiler reports a new one.
    let Usage {
        texts,
        tokens,
        cached_texts,
        generated_tokens,
        generator_calls,
        tokens_estimated,
        cost_nano_usd,
    } = *more;
    *sum = Usage {
        texts: sum.texts.saturating_add(texts),
        tokens: sum.tokens.saturating_add(tokens),
        cached_texts: sum.cached_texts.saturating_add(cached_texts),
        generated_tokens: sum.generated_tokens.saturating_add(generated_tokens),
        generator_calls: sum.generator_calls.saturating_add(generator_calls),
        tokens_estimated: sum.tokens_estimated || tokens_estimated,
        cost_nano_usd: sum.cost_nano_usd.saturating_add(cost_nano_usd),
    };
}

/// The sum of several usages.
pub fn total<'a>(parts: impl IntoIterator<Item = &'a Usage>) -> Usage {
    let mut sum = Usage::default();
    parts.into_iter().for_each(|part| add(&mut sum, part));
    sum
}

/// The difference of `later` and `earlier`, two states of one growing sum. A number that decreased
/// counts as 0.
pub fn beyond(later: &Usage, earlier: &Usage) -> Usage {
    let Usage {
        texts,
        tokens,
        cached_texts,
        generated_tokens,
        generator_calls,
        tokens_estimated,
        cost_nano_usd,
    } = *later;
    Usage {
        texts: texts.saturating_sub(earlier.texts),
        tokens: tokens.saturating_sub(earlier.tokens),
        cached_texts: cached_texts.saturating_sub(earlier.cached_texts),
        generated_tokens: generated_tokens.saturating_sub(earlier.generated_tokens),
        generator_calls: generator_calls.saturating_sub(earlier.generator_calls),
        tokens_estimated,
        cost_nano_usd: cost_nano_usd.saturating_sub(earlier.cost_nano_usd),
    }
}

/// The tokens that are charged: prompt tokens and generated tokens.
pub fn charged_tokens(usage: &Usage) -> u64 {
    usage.tokens.saturating_add(usage.generated_tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn of(n: u64, tokens_estimated: bool) -> Usage {
        Usage {
            texts: n,
            tokens: n + 1,
            cached_texts: n + 2,
            generated_tokens: n + 3,
            generator_calls: n + 4,
            tokens_estimated,
            cost_nano_usd: n + 5,
        }
    }

    #[test]
    fn a_sum_is_over_every_field_and_undone_by_the_difference() {
        let mut sum = of(1, false);
        add(&mut sum, &of(10, true));
        let expected = Usage {
            texts: 11,
            tokens: 13,
            cached_texts: 15,
            generated_tokens: 17,
            generator_calls: 19,
            tokens_estimated: true,
            cost_nano_usd: 21,
        };
        assert_eq!(sum, expected);
        assert_eq!(beyond(&sum, &of(1, false)), of(10, true));
        assert_eq!(total([&of(1, false), &of(10, true)]), expected);
    }

    #[test]
    fn numbers_of_a_hostile_server_do_not_wrap() {
        let huge = of(u64::MAX - 10, false);
        let mut sum = huge;
        add(&mut sum, &huge);
        assert_eq!((sum.tokens, sum.cost_nano_usd), (u64::MAX, u64::MAX));
        assert_eq!(charged_tokens(&sum), u64::MAX);
        assert_eq!(beyond(&of(1, false), &huge).tokens, 0);
    }
}
