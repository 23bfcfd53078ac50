//! Moré and Thuente's line search (ACM TOMS 20, 1994): finds a step that decreases the function
//! enough and flattens its slope. It has the form and the constants of L-BFGS-B 3.0.

const DECREASE: f64 = 1e-3;
const CURVATURE: f64 = 0.9;
const INTERVAL: f64 = 0.1;
const STEP_MAX: f64 = 1e10;

/// A trial point: the step, the function there and its slope along the direction.
#[derive(Debug, Clone, Copy)]
struct Point {
    step: f64,
    value: f64,
    slope: f64,
}

impl Point {
    /// This point for the function minus `slope` times the step.
    fn tilted(self, slope: f64) -> Self {
        Self {
            step: self.step,
            value: self.value - self.step * slope,
            slope: self.slope - slope,
        }
    }
}

/// The next action after a tried step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NextAction {
    /// Evaluate at this step and report back.
    Try(f64),
    /// Accept the last tried step.
    Take,
}

/// The state of a search.
#[derive(Debug)]
pub(super) struct LineSearch {
    start: Point,
    /// Best point so far.
    best: Point,
    /// The other end of the interval.
    other: Point,
    bracketed: bool,
    second_stage: bool,
    step: f64,
    low: f64,
    high: f64,
    width: f64,
    width_before: f64,
}

impl LineSearch {
    /// A search from a point with a negative slope; the first step to try is `step`.
    pub(super) fn new(value: f64, slope: f64, step: f64) -> Self {
        let start = Point {
            step: 0.0,
            value,
            slope,
        };
        Self {
            start,
            best: start,
            other: start,
            bracketed: false,
            second_stage: false,
            step,
            low: 0.0,
            high: step + 4.0 * step,
            width: STEP_MAX,
            width_before: 2.0 * STEP_MAX,
        }
    }

    /// The maximum step.
    pub(super) const fn longest() -> f64 {
        STEP_MAX
    }

    /// The step to evaluate.
    pub(super) fn step(&self) -> f64 {
        self.step
    }

    /// Receives the function's value and slope at [`Self::step`].
    pub(super) fn report(&mut self, value: f64, slope: f64) -> NextAction {
        let tilt = DECREASE * self.start.slope;
        let enough = self.start.value + self.step * tilt;
        if !self.second_stage && value <= enough && slope >= 0.0 {
            self.second_stage = true;
        }
        let exhausted = self.bracketed
            && (self.step <= self.low || self.step >= self.high || self.high - self.low <= INTERVAL * self.high);
        let at_longest = self.step == STEP_MAX && value <= enough && slope <= tilt;
        let at_shortest = self.step == 0.0 && (value > enough || slope >= tilt);
        let found = value <= enough && slope.abs() <= CURVATURE * -self.start.slope;
        if exhausted || at_longest || at_shortest || found {
            return NextAction::Take;
        }
        let tried = Point {
            step: self.step,
            value,
            slope,
        };
        // In the first stage a value that is lower, but not low enough, is judged by the tilted
        // function.
        if !self.second_stage && value <= self.best.value && value > enough {
            let (mut best, mut other) = (self.best.tilted(tilt), self.other.tilted(tilt));
            self.narrow(&mut best, &mut other, tried.tilted(tilt));
            self.best = best.tilted(-tilt);
            self.other = other.tilted(-tilt);
        } else {
            let (mut best, mut other) = (self.best, self.other);
            self.narrow(&mut best, &mut other, tried);
            self.best = best;
            self.other = other;
        }
        if self.bracketed {
            let now = (self.other.step - self.best.step).abs();
            if now >= 0.66 * self.width_before {
                self.step = self.best.step + 0.5 * (self.other.step - self.best.step);
            }
            self.width_before = self.width;
            self.width = now;
            self.low = self.best.step.min(self.other.step);
            self.high = self.best.step.max(self.other.step);
        } else {
            self.low = self.step + 1.1 * (self.step - self.best.step);
            self.high = self.step + 4.0 * (self.step - self.best.step);
        }
        self.step = self.step.clamp(0.0, STEP_MAX);
        let no_room = self.step <= self.low || self.step >= self.high || self.high - self.low <= INTERVAL * self.high;
        if self.bracketed && no_room {
            self.step = self.best.step;
        }
        NextAction::Try(self.step)
    }

    /// Chooses the next step from cubic and quadratic models through the points and narrows the
    /// interval.
    fn narrow(&mut self, best: &mut Point, other: &mut Point, tried: Point) {
        let same_sign = tried.slope * (best.slope / best.slope.abs());
        let quadratic_by_slopes = tried.step + (tried.slope / (tried.slope - best.slope)) * (best.step - tried.step);
        let next = if tried.value > best.value {
            // Higher: a minimum lies between. Take the cubic step if it is nearer to the best
            // point, else the mean of both.
            let (theta, gamma) = cubic(*best, tried, tried.step < best.step, false);
            let r = ((gamma - best.slope) + theta) / (((gamma - best.slope) + gamma) + tried.slope);
            let cubic = best.step + r * (tried.step - best.step);
            let chord = (best.value - tried.value) / (tried.step - best.step);
            let quadratic = best.step + ((best.slope / (chord + best.slope)) / 2.0) * (tried.step - best.step);
            self.bracketed = true;
            if (cubic - best.step).abs() < (quadratic - best.step).abs() {
                cubic
            } else {
                cubic + (quadratic - cubic) / 2.0
            }
        } else if same_sign < 0.0 {
            // Lower with a slope of the other sign: a minimum lies between.
            let (theta, gamma) = cubic(*best, tried, tried.step > best.step, false);
            let r = ((gamma - tried.slope) + theta) / (((gamma - tried.slope) + gamma) + best.slope);
            let cubic = tried.step + r * (best.step - tried.step);
            self.bracketed = true;
            if (cubic - tried.step).abs() > (quadratic_by_slopes - tried.step).abs() {
                cubic
            } else {
                quadratic_by_slopes
            }
        } else if tried.slope.abs() < best.slope.abs() {
            // Lower, same sign, flatter: the cubic may have no minimum ahead.
            let (theta, gamma) = cubic(*best, tried, tried.step > best.step, true);
            let r = ((gamma - tried.slope) + theta) / ((gamma + (best.slope - tried.slope)) + gamma);
            let cubic = if r < 0.0 && gamma != 0.0 {
                tried.step + r * (best.step - tried.step)
            } else if tried.step > best.step {
                self.high
            } else {
                self.low
            };
            let cubic_is_nearer = (cubic - tried.step).abs() < (quadratic_by_slopes - tried.step).abs();
            if self.bracketed {
                let next = if cubic_is_nearer { cubic } else { quadratic_by_slopes };
                let bound = tried.step + 0.66 * (other.step - tried.step);
                if tried.step > best.step {
                    next.min(bound)
                } else {
                    next.max(bound)
                }
            } else {
                let cubic_is_farther = (cubic - tried.step).abs() > (quadratic_by_slopes - tried.step).abs();
                let next = if cubic_is_farther { cubic } else { quadratic_by_slopes };
                next.min(self.high).max(self.low)
            }
        } else if self.bracketed {
            // Lower, same sign, not flatter.
            let (theta, gamma) = cubic(*other, tried, tried.step > other.step, false);
            let r = ((gamma - tried.slope) + theta) / (((gamma - tried.slope) + gamma) + other.slope);
            tried.step + r * (other.step - tried.step)
        } else if tried.step > best.step {
            self.high
        } else {
            self.low
        };
        if tried.value > best.value {
            *other = tried;
        } else {
            if same_sign < 0.0 {
                *other = *best;
            }
            *best = tried;
        }
        self.step = next;
    }
}

/// The two quantities that give the minimum of the cubic through `from` and `to`.
fn cubic(from: Point, to: Point, negate: bool, clamp: bool) -> (f64, f64) {
    let theta = 3.0 * (from.value - to.value) / (to.step - from.step) + from.slope + to.slope;
    let scale = theta.abs().max(from.slope.abs()).max(to.slope.abs());
    let square = (theta / scale).powi(2) - (from.slope / scale) * (to.slope / scale);
    let gamma = scale * if clamp { square.max(0.0) } else { square }.sqrt();
    (theta, if negate { -gamma } else { gamma })
}
