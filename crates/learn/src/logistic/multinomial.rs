//! The multinomial loss over blocks of rows, with its gradient.

use rayon::prelude::*;

use super::lbfgs::Objective;
use crate::linalg::{BLOCK, CHUNK, GROUP, PANEL, RowBlocks, backward, dispatched, dot, exp, forward};

/// Most tasks of an evaluation. The number is fixed, so that sums are added in the same order on
/// any machine.
const TASKS: usize = 16;
/// Fewest blocks per task, since adding a task's sums to the others has a cost.
const BLOCKS_A_TASK: usize = 3;

/// Mean softmax cross-entropy plus half `penalty` times the squared weights (intercepts are not
/// penalised), as in scikit-learn's `LinearModelLoss`. Parameters are stored in panels of [`PANEL`]
/// classes: `[panel][dimension, then intercept][class]`; those of missing classes and dimensions
/// are zero and stay so.
pub(super) struct Multinomial<'a> {
    rows: &'a RowBlocks,
    classes_of: &'a [usize],
    shape: Shape,
    penalty: f64,
    tasks: Vec<Task>,
}

/// The layout of the parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) classes: usize,
    /// Groups of dimensions.
    pub(super) groups: usize,
}

impl Shape {
    pub(super) fn panels(self) -> usize {
        self.classes.div_ceil(PANEL)
    }

    /// Parameters of a panel.
    pub(super) fn panel_len(self) -> usize {
        (self.groups * GROUP + 1) * PANEL
    }

    pub(super) fn len(self) -> usize {
        self.panels() * self.panel_len()
    }

    /// Columns of scores, missing classes included.
    pub(super) fn width(self) -> usize {
        self.panels() * PANEL
    }

    /// Index of a weight, or of the intercept if `dimension` is `groups · GROUP`.
    pub(super) fn at(self, class: usize, dimension: usize) -> usize {
        class / PANEL * self.panel_len() + dimension * PANEL + class % PANEL
    }
}

/// The sums of one task.
struct Task {
    gradient: Vec<f64>,
    scores: Vec<f64>,
    loss: f64,
}

impl<'a> Multinomial<'a> {
    pub(super) fn new(rows: &'a RowBlocks, classes_of: &'a [usize], classes: usize, penalty: f64) -> Self {
        let shape = Shape {
            classes,
            groups: rows.groups(),
        };
        let tasks = (0..TASKS.min(rows.blocks().div_ceil(BLOCKS_A_TASK)))
            .map(|_| Task {
                gradient: vec![0.0; shape.len()],
                scores: vec![0.0; BLOCK * shape.width()],
                loss: 0.0,
            })
            .collect();
        Self {
            rows,
            classes_of,
            shape,
            penalty,
            tasks,
        }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }
}

/// Scores of a block's rows, `[row][class]`.
pub(super) fn scores_of(rows: &RowBlocks, block: usize, shape: Shape, parameters: &[f64], scores: &mut [f64]) {
    forward(rows.block(block), rows.rows_in(block), shape.groups, parameters, scores);
}

impl Task {
    fn run(&mut self, blocks: std::ops::Range<usize>, of: &Shared<'_>, parameters: &[f64]) {
        self.gradient.fill(0.0);
        self.loss = 0.0;
        let (shape, width) = (of.shape, of.shape.width());
        for block in blocks {
            scores_of(of.rows, block, shape, parameters, &mut self.scores);
            let real = of.rows.rows_in(block);
            let slopes = &mut self.scores[..real * width];
            for (scores, class) in slopes.chunks_exact_mut(width).zip(&of.classes_of[block * BLOCK..]) {
                self.loss += softmax(scores, shape.classes, *class);
            }
            backward(of.rows.block(block), real, shape.groups, slopes, &mut self.gradient);
            for (panel, sums) in self.gradient.chunks_mut(shape.panel_len()).enumerate() {
                let intercepts = &mut sums[shape.groups * GROUP * PANEL..];
                for slope in slopes.chunks(width) {
                    for (sum, s) in intercepts.iter_mut().zip(&slope[panel * PANEL..]) {
                        *sum += s;
                    }
                }
            }
        }
    }
}

/// Data that every task reads.
struct Shared<'a> {
    rows: &'a RowBlocks,
    classes_of: &'a [usize],
    shape: Shape,
}

impl Objective for Multinomial<'_> {
    fn evaluate(&mut self, x: &[f64], gradient: &mut [f64]) -> f64 {
        let shared = Shared {
            rows: self.rows,
            classes_of: self.classes_of,
            shape: self.shape,
        };
        let (blocks, count) = (self.rows.blocks(), self.tasks.len());
        self.tasks.par_iter_mut().enumerate().for_each(|(t, task)| {
            task.run(t * blocks / count..(t + 1) * blocks / count, &shared, x);
        });
        let share = 1.0 / self.rows.rows() as f64;
        let (shape, penalty, tasks) = (self.shape, self.penalty, &self.tasks);
        let squares: Vec<f64> = gradient
            .par_chunks_mut(CHUNK)
            .enumerate()
            .map(|(c, out)| {
                let start = c * CHUNK;
                let end = start + out.len();
                out.copy_from_slice(&tasks[0].gradient[start..end]);
                for task in &tasks[1..] {
                    for (sum, g) in out.iter_mut().zip(&task.gradient[start..end]) {
                        *sum += g;
                    }
                }
                for (sum, w) in out.iter_mut().zip(&x[start..end]) {
                    *sum = *sum * share + penalty * w;
                }
                dot(&x[start..end], &x[start..end])
            })
            .collect();
        // Intercepts are not penalised.
        let mut free = 0.0;
        for panel in 0..shape.panels() {
            let start = panel * shape.panel_len() + shape.groups * GROUP * PANEL;
            for (g, w) in gradient[start..start + PANEL].iter_mut().zip(&x[start..]) {
                *g -= penalty * w;
                free += w * w;
            }
        }
        let loss: f64 = self.tasks.iter().map(|t| t.loss).sum();
        loss * share + 0.5 * penalty * (squares.iter().sum::<f64>() - free)
    }
}

dispatched! {
    /// Turns a row's scores into its slopes (probability less the truth) and returns its loss.
    /// Columns from `classes` on become zero.
    fn softmax(scores: &mut [f64], classes: usize, class: usize) -> f64 {
        let (scores, missing) = scores.split_at_mut(classes);
        missing.fill(0.0);
        let mut lanes = [f64::NEG_INFINITY; 4];
        let (whole, rest) = scores.as_chunks::<4>();
        for x in whole {
            for i in 0..4 {
                lanes[i] = if x[i] > lanes[i] { x[i] } else { lanes[i] };
            }
        }
        let most = rest.iter().chain(&lanes).fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        let own = scores[class];
        // A separate loop, so that the compiler vectorises it four numbers at a time.
        for x in scores.iter_mut() {
            *x = exp::<FUSED>(*x - most);
        }
        let mut lanes = [0.0_f64; 4];
        let (whole, rest) = scores.as_chunks::<4>();
        for x in whole {
            for i in 0..4 {
                lanes[i] += x[i];
            }
        }
        let sum = rest.iter().fold((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]), |sum, x| sum + x);
        let share = 1.0 / sum;
        for x in scores.iter_mut() {
            *x *= share;
        }
        scores[class] -= 1.0;
        // A NaN in the scores propagates to the loss.
        sum.ln() + most - own
    }
}
