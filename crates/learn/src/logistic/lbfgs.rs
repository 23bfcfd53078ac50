//! L-BFGS-B 3.0 without bounds, with SciPy's stopping rules (`scipy.optimize.minimize`, 1.15 to
//! 1.17).

use super::{
    history::History,
    line_search::{LineSearch, NextAction},
};
use crate::{
    LearnError,
    linalg::{dot, largest, norm},
};

/// A function to minimise. It is informed of the line along which it is evaluated, so that terms
/// linear in the parameters are computed only once per line.
pub(super) trait Objective {
    /// The points evaluated next are the last one plus a multiple of `direction`.
    fn turn(&mut self, direction: &[f64]);
    /// The value at `x`, which lies `step` times the direction from the start of the line; its
    /// gradient is written into `gradient`. The first point is zero, before any direction.
    fn evaluate(&mut self, x: &[f64], step: f64, gradient: &mut [f64]) -> f64;
    /// Returns to the start of the line.
    fn go_back(&mut self);
}

/// The stopping rules.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Maximum gradient element that counts as zero.
    pub(super) gradient: f64,
    /// Maximum relative decrease that counts as no decrease.
    pub(super) decrease: f64,
    pub(super) iterations: usize,
    /// Maximum number of evaluations, checked after each iteration.
    pub(super) evaluations: usize,
    /// Maximum number of evaluations of one line search.
    pub(super) line_search: usize,
    /// Pairs kept in the history.
    pub(super) memory: usize,
}

/// Why the minimisation stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The gradient is small enough: converged.
    Gradient,
    /// The value hardly decreases any more: converged.
    Decrease,
    /// The limit of iterations: not converged.
    Iterations,
    /// The limit of evaluations: not converged.
    Evaluations,
    /// The line search found no better point: not converged.
    LineSearch,
}

impl Stop {
    /// Whether the fit converged; if not, scikit-learn warns.
    pub const fn converged(self) -> bool {
        matches!(self, Self::Gradient | Self::Decrease)
    }
}

/// The end of the minimisation.
#[derive(Debug)]
pub(super) struct Minimum {
    pub(super) x: Vec<f64>,
    pub(super) value: f64,
    pub(super) iterations: usize,
    pub(super) evaluations: usize,
    pub(super) stop: Stop,
}

/// Minimises over `len` parameters, starting at zero.
pub(super) fn minimise(objective: &mut impl Objective, len: usize, limits: Limits) -> Result<Minimum, LearnError> {
    let mut run = Run {
        gradient: vec![0.0; len],
        gradient_before: vec![0.0; len],
        x_before: vec![0.0; len],
        direction: vec![0.0; len],
        target: vec![0.0; len],
        x: vec![0.0; len],
        value: 0.0,
        evaluations: 0,
        objective,
    };
    run.evaluate(0.0);
    let mut iterations = 0;
    let mut history = History::new(limits.memory);
    let stop = if largest(&run.gradient) <= limits.gradient {
        Stop::Gradient
    } else {
        loop {
            if !run.value.is_finite() {
                return Err(LearnError::Diverged { iterations });
            }
            if history.is_empty() {
                for (d, g) in run.direction.iter_mut().zip(&run.gradient) {
                    *d = -g;
                }
            } else {
                history.direction(&run.gradient, &mut run.direction);
            }
            let value_before = run.value;
            let Some(accepted) = run.search(iterations == 0, limits.line_search) else {
                if history.is_empty() {
                    break Stop::LineSearch;
                }
                history.clear();
                continue;
            };
            iterations += 1;
            // SciPy checks its own limits before the algorithm checks convergence.
            if iterations >= limits.iterations {
                break Stop::Iterations;
            }
            if run.evaluations > limits.evaluations {
                break Stop::Evaluations;
            }
            if largest(&run.gradient) <= limits.gradient {
                break Stop::Gradient;
            }
            let scale = value_before.abs().max(run.value.abs()).max(1.0);
            if value_before - run.value <= limits.decrease * scale {
                break Stop::Decrease;
            }
            run.remember(&accepted, &mut history);
        }
    };
    if !run.value.is_finite() {
        return Err(LearnError::Diverged { iterations });
    }
    Ok(Minimum {
        x: run.x,
        value: run.value,
        iterations,
        evaluations: run.evaluations,
        stop,
    })
}

struct Run<'o, O> {
    objective: &'o mut O,
    x: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
    evaluations: usize,
    x_before: Vec<f64>,
    gradient_before: Vec<f64>,
    direction: Vec<f64>,
    /// `x + direction`, rounded.
    target: Vec<f64>,
}

/// A step that was taken along the direction.
struct AcceptedStep {
    step: f64,
    slope_before: f64,
    slope: f64,
}

impl<O: Objective> Run<'_, O> {
    fn evaluate(&mut self, step: f64) {
        self.value = self.objective.evaluate(&self.x, step, &mut self.gradient);
        self.evaluations += 1;
    }

    /// Searches along the direction; `None`, with the state restored, if no step is found.
    fn search(&mut self, first: bool, most: usize) -> Option<AcceptedStep> {
        for ((target, x), d) in self.target.iter_mut().zip(&self.x).zip(&mut self.direction) {
            *target = x + *d;
            *d = *target - x;
        }
        self.x_before.copy_from_slice(&self.x);
        self.gradient_before.copy_from_slice(&self.gradient);
        let value_before = self.value;
        let slope_before = dot(&self.gradient, &self.direction);
        if slope_before < 0.0 {
            let step = if first {
                (1.0 / norm(&self.direction)).min(LineSearch::longest())
            } else {
                1.0
            };
            self.objective.turn(&self.direction);
            let mut search = LineSearch::new(self.value, slope_before, step);
            for _ in 0..most {
                let step = search.step();
                if step == 1.0 {
                    self.x.copy_from_slice(&self.target);
                } else {
                    for ((x, before), d) in self.x.iter_mut().zip(&self.x_before).zip(&self.direction) {
                        *x = step * d + before;
                    }
                }
                self.evaluate(step);
                let slope = dot(&self.gradient, &self.direction);
                if search.report(self.value, slope) == NextAction::Take {
                    return Some(AcceptedStep {
                        step,
                        slope_before,
                        slope,
                    });
                }
            }
            self.objective.go_back();
        }
        self.x.copy_from_slice(&self.x_before);
        self.gradient.copy_from_slice(&self.gradient_before);
        self.value = value_before;
        None
    }

    /// Adds the step and the gradient's change to the history, unless the curvature is within
    /// rounding error.
    fn remember(&mut self, accepted: &AcceptedStep, history: &mut History) {
        for (before, now) in self.gradient_before.iter_mut().zip(&self.gradient) {
            *before = now - *before;
        }
        let (mut curvature, mut decrease) = (accepted.slope - accepted.slope_before, -accepted.slope_before);
        if accepted.step != 1.0 {
            curvature *= accepted.step;
            decrease *= accepted.step;
            for d in &mut self.direction {
                *d *= accepted.step;
            }
        }
        if curvature > f64::EPSILON * decrease {
            history.push(&self.direction, &self.gradient_before, curvature);
        }
    }
}
