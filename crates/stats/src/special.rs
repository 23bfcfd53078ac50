//! Distributions: normal, Student's t (central and not), chi-squared, F, the studentised range.
//!
//! They are statrs' distributions if these meet the tolerance of the tests against scipy
//! (`tests/it/reference`). `tests/it/reference/statrs.rs` shows the errors of the others: the tails
//! of the normal distribution, and Student's t around its centre and in its quantiles. statrs has
//! no noncentral t and no studentised range.

use statrs::{
    distribution::{ChiSquared, Continuous, ContinuousCDF, FisherSnedecor, Normal, StudentsT},
    function::beta::beta_reg,
};

/// The complementary error function, to about 1e-13 of its value: Kummer's series (all terms
/// positive) up to 2.5, Laplace's continued fraction beyond. Sources: Abramowitz and Stegun, 7.1.6
/// and 7.1.14.
fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    let scale = (-x * x).exp() / std::f64::consts::PI.sqrt();
    if x < 2.5 {
        let (mut term, mut sum, mut n) = (x, x, 3.0);
        while term > 1e-17 * sum {
            term *= 2.0 * x * x / n;
            sum += term;
            n += 2.0;
        }
        return 1.0 - 2.0 * scale * sum;
    }
    let fraction = (1..=60).rev().fold(x, |below, k| x + f64::from(k) / 2.0 / below);
    scale / fraction
}

/// P(Z ≤ z) of a standard normal variable. The relative precision is kept in the lower tail.
pub fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z / std::f64::consts::SQRT_2)
}

/// P(Z ≥ z) of a standard normal variable.
pub fn normal_sf(z: f64) -> f64 {
    normal_cdf(-z)
}

/// Density of a standard normal variable.
pub fn normal_pdf(z: f64) -> f64 {
    Normal::standard().pdf(z)
}

/// The z with P(Z ≤ z) = p; infinite at 0 and below, and at 1 and above.
pub fn normal_quantile(p: f64) -> f64 {
    if p.is_nan() {
        return p;
    }
    Normal::standard().inverse_cdf(p.clamp(0.0, 1.0))
}

/// P(T ≥ t) of Student's t with `freedom` degrees of freedom (> 0).
pub fn student_sf(t: f64, freedom: f64) -> f64 {
    // P(|T| > t) is the regularised incomplete beta function at freedom / (freedom + t²).
    let half = 0.5 * beta_complement(0.5, freedom / 2.0, t * t, freedom);
    if t >= 0.0 { half } else { 1.0 - half }
}

/// The t with P(T ≤ t) = p under `freedom` degrees of freedom.
pub fn student_quantile(p: f64, freedom: f64) -> f64 {
    if p == 0.5 {
        return 0.0;
    }
    if p > 0.5 {
        return -student_quantile(1.0 - p, freedom);
    }
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let Ok(centre) = StudentsT::new(0.0, 1.0, freedom).map(|law| law.pdf(0.0)) else {
        return f64::NAN;
    };
    let density = |t: f64| centre * (-(freedom + 1.0) / 2.0 * (t * t / freedom).ln_1p()).exp();
    // Newton's step on the logarithm of the upper tail, restricted to a bracket that every
    // evaluation narrows.
    let z = -normal_quantile(p);
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut t = z + (z * z * z + z) / (4.0 * freedom);
    for _ in 0..100 {
        let tail = student_sf(t, freedom);
        if tail > p {
            low = t;
        } else {
            high = t;
        }
        let mut next = t + tail / density(t) * (tail / p).ln();
        if !(next > low && next < high) {
            next = if high.is_finite() { 0.5 * (low + high) } else { 2.0 * t };
        }
        if (next - t).abs() <= 4.0 * f64::EPSILON * t {
            return -next;
        }
        t = next;
    }
    -t
}

/// P(X ≥ x) of chi-squared with `freedom` degrees of freedom; NaN unless `freedom` is positive.
pub fn chi_squared_sf(x: f64, freedom: f64) -> f64 {
    ChiSquared::new(freedom).map_or(f64::NAN, |law| law.sf(x))
}

/// P(X ≥ x) of Fisher's F with `numerator` and `denominator` degrees of freedom; NaN unless both
/// are positive.
pub fn f_sf(x: f64, numerator: f64, denominator: f64) -> f64 {
    FisherSnedecor::new(numerator, denominator).map_or(f64::NAN, |law| law.sf(x))
}

/// 1 − I(a, b) at part / (part + rest), computed from the side that keeps its digits: near 1 the
/// argument of the mirrored function would be rounded to 1.
fn beta_complement(a: f64, b: f64, part: f64, rest: f64) -> f64 {
    let below = beta_reg(a, b, part / (part + rest));
    if below < 0.5 {
        1.0 - below
    } else {
        beta_reg(b, a, rest / (part + rest))
    }
}

/// P(Q ≥ q) of the studentised range of `groups` (≥ 2) normal variables with infinite degrees of
/// freedom.
///
/// 1 − k ∫ φ(z) (Φ(z) − Φ(z − q))^(k−1) dz, integrated as k ∫ φ(z) (Φ(z)^(k−1) − (Φ(z) − Φ(z −
/// q))^(k−1)) dz so that small probabilities keep their digits.
pub fn studentized_range_sf(q: f64, groups: usize) -> f64 {
    if q <= 0.0 {
        return 1.0;
    }
    let power = (groups.max(2) - 1) as f64;
    let tail = |z: f64| {
        let below = normal_cdf(z);
        if below == 0.0 {
            return 0.0;
        }
        // a^n − b^n = a^n (1 − (b/a)^n), and the last factor by expm1 and ln_1p.
        let share = normal_cdf(z - q) / below;
        let lost = if share >= 1.0 {
            1.0
        } else {
            -(power * (-share).ln_1p()).exp_m1()
        };
        normal_pdf(z) * below.powf(power) * lost
    };
    ((power + 1.0) * integrate(tail, -9.0, 9.0 + q.min(30.0), 96)).clamp(0.0, 1.0)
}

/// The q with P(Q ≥ q) = p of [`studentized_range_sf`].
pub fn studentized_range_quantile(upper: f64, groups: usize) -> f64 {
    solve_decreasing(upper, |q| studentized_range_sf(q, groups))
}

/// P(T ≥ t) of the noncentral t distribution: (Z + δ) / √(V / freedom), V chi-squared. For t ≥ 0.
pub fn noncentral_student_sf(t: f64, freedom: f64, delta: f64) -> f64 {
    let Ok(law) = ChiSquared::new(freedom) else {
        return f64::NAN;
    };
    // Integrates over s = √(V / freedom), whose density is concentrated around 1. statrs' density
    // itself overflows from about 250 degrees of freedom on; its logarithm does not.
    let density = |s: f64| 2.0 * freedom * s * law.ln_pdf(freedom * s * s).exp();
    let spread = 12.0 / (2.0 * freedom).sqrt();
    let (from, to) = ((1.0 - spread).max(0.0), 1.0 + spread);
    integrate(|s| density(s) * normal_sf(t * s - delta), from, to, 64).clamp(0.0, 1.0)
}

/// The x > 0 at which a decreasing function reaches `target`.
fn solve_decreasing(target: f64, f: impl Fn(f64) -> f64) -> f64 {
    if target <= 0.0 {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while f(high) > target {
        low = high;
        high *= 2.0;
        if high > 1e300 {
            return f64::INFINITY;
        }
    }
    // Bisection to the last bit: at most a few hundred evaluations, and it always converges.
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if f(middle) > target {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Gauss–Legendre quadrature with eight nodes on each of `panels` equal panels.
fn integrate(f: impl Fn(f64) -> f64, from: f64, to: f64, panels: usize) -> f64 {
    const NODES: [(f64, f64); 4] = [
        (0.183_434_642_495_649_8, 0.362_683_783_378_362),
        (0.525_532_409_916_329, 0.313_706_645_877_887_3),
        (0.796_666_477_413_626_7, 0.222_381_034_453_374_48),
        (0.960_289_856_497_536_3, 0.101_228_536_290_376_26),
    ];
    let half = (to - from) / (2.0 * panels as f64);
    (0..panels)
        .map(|panel| {
            let centre = from + (2 * panel + 1) as f64 * half;
            NODES
                .iter()
                .map(|(x, w)| w * (f(centre - half * x) + f(centre + half * x)))
                .sum::<f64>()
        })
        .sum::<f64>()
        * half
}
