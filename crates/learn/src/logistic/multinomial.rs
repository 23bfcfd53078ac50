//! The multinomial loss over blocks of rows, with its gradient.
//!
//! Both products of an evaluation have operands in f32, at twice the speed of f64, if the error is
//! far too small to change the fit. Sums over rows and iterations are f64.
//! * Scores are kept from one point to the next. Only their change is computed in f32, in blocks
//!   where it is at most [`MOST_CHANGE`].
//! * The sums `rowsᵀ · slopes` are kept too. Only their change is computed in f32, in blocks whose
//!   share of the error stays below [`ERROR`] of the gradient's length. The error is estimated as
//!   the rounding of f32 times the lengths of the rows and of the changes. If the accumulated
//!   errors of a task are too large, its sums are computed again from zero.
//!
//! The choice of precision depends only on the data, never on the number of threads.

use std::{cell::Cell, ops::Range};

use rayon::prelude::*;

use super::lbfgs::Objective;
use crate::linalg::{
    BLOCK, Block, CHUNK, Element, GROUP, PANEL, RowBlocks, axpy, backward, dispatched, dot, exp, fma, forward,
};

/// Maximum number of tasks of an evaluation. The number is fixed, so that sums are added in the
/// same order on any machine.
const TASKS: usize = 16;
/// Minimum number of blocks per task, because adding a task's sums to the others has a cost.
const BLOCKS_A_TASK: usize = 3;
/// Maximum change of a score that is computed in f32. Its error is then at most about 1e-6.
const MOST_CHANGE: f64 = 4.0;
/// Accepted error of the gradient, relative to its length.
const ERROR: f64 = 3e-8;
/// Maximum ratio of the previous gradient's length to the new one's. The error was judged by the
/// previous length, so a gradient that is even shorter is computed again in f64.
const SHORTER: f64 = 4.0;
/// Columns of a panel of f32.
const NARROW: usize = <f32 as Element>::PANEL;

/// Mean softmax cross-entropy plus half `penalty` times the squared weights (intercepts are not
/// penalised), as in scikit-learn's `LinearModelLoss`. Parameters are stored in panels of [`PANEL`]
/// classes: `[panel][dimension, then intercept][class]`. Parameters of missing classes and
/// dimensions are always zero.
pub(super) struct Multinomial<'a> {
    rows: &'a RowBlocks,
    classes_of: &'a [usize],
    shape: Shape,
    penalty: f64,
    tasks: Vec<Task>,
    line: Line,
    /// Length of the last gradient; `None` before the first.
    length: Option<f64>,
}

/// The line along which the function is evaluated.
struct Line {
    direction: Vec<f64>,
    /// The direction in panels of f32, without intercepts.
    narrow: Vec<f32>,
    /// The direction's intercepts.
    intercepts: Vec<f64>,
    /// Whether the products of the direction with the rows must still be computed.
    is_new: bool,
    /// The step of the last evaluated point.
    at: f64,
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

    /// Columns of scores, including missing classes.
    pub(super) fn width(self) -> usize {
        self.panels() * PANEL
    }

    /// Columns in panels of f32.
    fn narrow_width(self) -> usize {
        self.width().next_multiple_of(NARROW)
    }

    /// Index of a panel's first intercept.
    fn intercepts_of(self, panel: usize) -> usize {
        panel * self.panel_len() + self.groups * GROUP * PANEL
    }

    /// Index of a weight, or of the intercept if `dimension` is `groups · GROUP`.
    pub(super) fn at(self, class: usize, dimension: usize) -> usize {
        class / PANEL * self.panel_len() + dimension * PANEL + class % PANEL
    }
}

/// Some blocks, and the sums over their rows.
struct Task {
    blocks: Range<usize>,
    /// Root mean square of the rows' lengths.
    row_length: f64,
    /// `[row][class]` at the last evaluated point.
    scores: Vec<f64>,
    /// Change of the scores by one step of the direction.
    along: Vec<f64>,
    /// The slopes from which `gradient` was computed.
    summed: Vec<f64>,
    gradient: Vec<f64>,
    /// Sum of the slopes of each class.
    intercepts: Vec<f64>,
    /// Sum of the losses at the last evaluated point.
    loss: f64,
    /// Estimated squared error of `gradient`.
    error: f64,
}

/// Memory for processing a block. It belongs to a thread, so that it stays in cache.
#[derive(Default)]
struct Room {
    /// Slopes, or their changes.
    slopes: Vec<f64>,
    /// Changes of one block's scores or slopes.
    narrow: Vec<f32>,
    /// One block's rows.
    rows: Vec<f64>,
    /// One block's scores.
    scores: Vec<f64>,
}

thread_local! {
    static ROOM: Cell<Room> = Cell::default();
}

impl<'a> Multinomial<'a> {
    pub(super) fn new(rows: &'a RowBlocks, classes_of: &'a [usize], classes: usize, penalty: f64) -> Self {
        let shape = Shape {
            classes,
            groups: rows.groups(),
        };
        let (blocks, count) = (rows.blocks(), TASKS.min(rows.blocks().div_ceil(BLOCKS_A_TASK)));
        let tasks = (0..count)
            .into_par_iter()
            .map(|t| Task::new(t * blocks / count..(t + 1) * blocks / count, rows, shape))
            .collect();
        let narrow_panels = shape.narrow_width() / NARROW;
        Self {
            rows,
            classes_of,
            shape,
            penalty,
            tasks,
            line: Line {
                direction: vec![0.0; shape.len()],
                narrow: vec![0.0; narrow_panels * shape.groups * GROUP * NARROW],
                intercepts: vec![0.0; shape.width()],
                is_new: false,
                at: 0.0,
            },
            length: None,
        }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Moves every task by `step` times the direction. Afterwards, the squared error of a task's
    /// sums is at most `most`.
    fn run_tasks(&mut self, step: f64, most: f64) {
        let shared = Shared {
            rows: self.rows,
            classes_of: self.classes_of,
            shape: self.shape,
            line: &self.line,
            step,
            most,
        };
        self.tasks.par_iter_mut().for_each(|task| {
            let mut room = ROOM.take();
            task.run(&shared, &mut room);
            ROOM.set(room);
        });
    }

    /// Adds up the tasks' sums; returns the gradient's length.
    fn gather(&self, x: &[f64], gradient: &mut [f64]) -> f64 {
        let share = 1.0 / self.rows.rows() as f64;
        let (shape, penalty, tasks) = (self.shape, self.penalty, &self.tasks);
        gradient.par_chunks_mut(CHUNK).enumerate().for_each(|(c, out)| {
            let start = c * CHUNK;
            let end = start + out.len();
            out.copy_from_slice(&tasks[0].gradient[start..end]);
            for task in &tasks[1..] {
                add(&task.gradient[start..end], out);
            }
            for (sum, w) in out.iter_mut().zip(&x[start..end]) {
                *sum = *sum * share + penalty * w;
            }
        });
        // Intercepts are not penalised.
        for panel in 0..shape.panels() {
            for i in 0..PANEL {
                let sum: f64 = tasks.iter().map(|task| task.intercepts[panel * PANEL + i]).sum();
                gradient[shape.intercepts_of(panel) + i] = sum * share;
            }
        }
        dot(gradient, gradient).sqrt()
    }

    /// The sum of the squared weights, without intercepts.
    fn squared_weights(&self, x: &[f64]) -> f64 {
        let parts: Vec<f64> = x.par_chunks(CHUNK).map(|x| dot(x, x)).collect();
        let intercepts = (0..self.shape.panels()).map(|panel| {
            let x = &x[self.shape.intercepts_of(panel)..][..PANEL];
            dot(x, x)
        });
        parts.iter().sum::<f64>() - intercepts.sum::<f64>()
    }
}

/// Scores of a block's rows, `[row][class]`.
pub(super) fn scores_of(block: Block<'_, f64>, shape: Shape, parameters: &[f64], scores: &mut [f64]) {
    let intercepts = shape.groups * GROUP;
    let start = |class| parameters[shape.at(class, intercepts)];
    forward(block, parameters, shape.panel_len(), start, scores);
}

/// Data that every task reads.
struct Shared<'a> {
    rows: &'a RowBlocks,
    classes_of: &'a [usize],
    shape: Shape,
    line: &'a Line,
    step: f64,
    most: f64,
}

impl Task {
    fn new(blocks: Range<usize>, rows: &RowBlocks, shape: Shape) -> Self {
        let count: usize = blocks.clone().map(|b| rows.rows_in(b)).sum();
        let squares = |b| rows.block(b).values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
        let squares: f64 = blocks.clone().map(squares).sum();
        let table = || vec![0.0; count * shape.width()];
        Self {
            blocks,
            row_length: (squares / count as f64).sqrt(),
            scores: table(),
            along: table(),
            summed: table(),
            gradient: vec![0.0; shape.len()],
            intercepts: vec![0.0; shape.width()],
            loss: 0.0,
            error: f64::INFINITY,
        }
    }

    /// The part of a table for one block.
    fn part(&self, block: usize, of: &Shared<'_>) -> Range<usize> {
        let start = (block - self.blocks.start) * BLOCK * of.shape.width();
        start..start + of.rows.rows_in(block) * of.shape.width()
    }

    fn run(&mut self, of: &Shared<'_>, room: &mut Room) {
        let (shape, width, narrow_width) = (of.shape, of.shape.width(), of.shape.narrow_width());
        room.slopes.resize(BLOCK * width, 0.0);
        room.narrow.resize(BLOCK * narrow_width, 0.0);
        room.scores.resize(BLOCK * width, 0.0);
        self.loss = 0.0;
        self.intercepts.fill(0.0);
        // Half of the error budget is for earlier additions, half for the current one.
        let most = of.most / 2.0;
        let most_of_block = most / self.blocks.len() as f64;
        if self.error > most {
            self.error = 0.0;
            self.gradient.fill(0.0);
            self.summed.fill(0.0);
        }
        for block in self.blocks.clone() {
            let part = self.part(block, of);
            if of.line.is_new {
                self.multiply(block, part.clone(), of, room);
            }
            let mut distance = 0.0;
            let tables = self.scores[part.clone()]
                .chunks_exact_mut(width)
                .zip(self.along[part.clone()].chunks_exact(width))
                .zip(self.summed[part.clone()].chunks_exact(width))
                .zip(room.slopes.chunks_exact_mut(width));
            for ((((scores, along), summed), slopes), class) in tables.zip(&of.classes_of[block * BLOCK..]) {
                let row = Row {
                    step: of.step,
                    along,
                    scores,
                    summed,
                    slopes,
                    intercepts: &mut self.intercepts,
                };
                let (loss, square) = move_row(row, shape.classes, *class);
                self.loss += loss;
                distance += square;
            }
            let summed = self.summed[part].chunks_exact_mut(width);
            let error = (f64::from(f32::EPSILON) / 2.0 * self.row_length).powi(2) * distance;
            if error <= most_of_block {
                self.error += error;
                let changes = room.narrow.chunks_exact_mut(narrow_width);
                for ((summed, slopes), changes) in summed.zip(room.slopes.chunks_exact(width)).zip(changes) {
                    follow(summed, slopes, changes);
                }
                let rows = of.rows.block(block);
                backward(rows, &room.narrow, &mut self.gradient, shape.panel_len());
            } else {
                for (summed, slopes) in summed.zip(room.slopes.chunks_exact_mut(width)) {
                    follow_exactly(summed, slopes);
                }
                let rows = of.rows.widened(block, &mut room.rows);
                backward(rows, &room.slopes, &mut self.gradient, shape.panel_len());
            }
        }
    }

    /// The product of a block's rows with the direction.
    fn multiply(&mut self, block: usize, part: Range<usize>, of: &Shared<'_>, room: &mut Room) {
        let (shape, width, narrow_width) = (of.shape, of.shape.width(), of.shape.narrow_width());
        let along = &mut self.along[part];
        let panel_len = shape.groups * GROUP * NARROW;
        forward(
            of.rows.block(block),
            &of.line.narrow,
            panel_len,
            |_| 0.0,
            &mut room.narrow,
        );
        let rows = along.len() / width;
        let most = largest_f32(&room.narrow[..rows * narrow_width]);
        if f64::from(most) * of.step.abs() <= MOST_CHANGE {
            for (to, from) in along
                .chunks_exact_mut(width)
                .zip(room.narrow.chunks_exact(narrow_width))
            {
                widen_and_add(from, &of.line.intercepts, to);
            }
        } else {
            let values = of.rows.widened(block, &mut room.rows);
            scores_of(values, shape, &of.line.direction, &mut room.scores);
            along.copy_from_slice(&room.scores[..along.len()]);
        }
    }
}

impl Objective for Multinomial<'_> {
    fn turn(&mut self, direction: &[f64]) {
        let shape = self.shape;
        self.line.direction.copy_from_slice(direction);
        let panel_len = shape.groups * GROUP * NARROW;
        for (panel, from) in direction.chunks_exact(shape.panel_len()).enumerate() {
            let (weights, intercepts) = from.split_at(shape.groups * GROUP * PANEL);
            self.line.intercepts[panel * PANEL..][..PANEL].copy_from_slice(intercepts);
            let to = &mut self.line.narrow[panel * PANEL / NARROW * panel_len + panel * PANEL % NARROW..];
            for (to, from) in to.chunks_mut(NARROW).zip(weights.chunks_exact(PANEL)) {
                for (to, from) in to.iter_mut().zip(from) {
                    *to = *from as f32;
                }
            }
        }
        self.line.is_new = true;
        self.line.at = 0.0;
    }

    fn go_back(&mut self) {
        let step = -self.line.at;
        self.tasks
            .par_iter_mut()
            .for_each(|task| axpy(step, &task.along, &mut task.scores));
        self.line.at = 0.0;
    }

    fn evaluate(&mut self, x: &[f64], step: f64, gradient: &mut [f64]) -> f64 {
        let rows = self.rows.rows() as f64;
        // The limit is squared, and applies to the sums, which are `rows` times the gradient.
        let accepted = |length: f64| (ERROR * length * rows).powi(2);
        // Errors of tasks are independent, so their squares add up.
        let most = self
            .length
            .map_or(0.0, |length| accepted(length) / self.tasks.len() as f64);
        self.run_tasks(step - self.line.at, most);
        self.line.is_new = false;
        self.line.at = step;
        let mut length = self.gather(x, gradient);
        if self.tasks.iter().map(|task| task.error).sum::<f64>() > accepted(SHORTER * length) {
            self.run_tasks(0.0, 0.0);
            length = self.gather(x, gradient);
        }
        self.length = Some(length);
        let loss: f64 = self.tasks.iter().map(|task| task.loss).sum();
        loss / rows + 0.5 * self.penalty * self.squared_weights(x)
    }
}

dispatched! {
    /// `to += from`.
    fn add(from: &[f64], to: &mut [f64]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to += from;
        }
    }
}

dispatched! {
    /// `to = from + intercepts`.
    fn widen_and_add(from: &[f32], intercepts: &[f64], to: &mut [f64]) {
        for ((to, from), intercept) in to.iter_mut().zip(from).zip(intercepts) {
            *to = f64::from(*from) + intercept;
        }
    }
}

dispatched! {
    /// Writes `slopes - summed` in f32 into `changes`, and adds the written values to `summed`.
    fn follow(summed: &mut [f64], slopes: &[f64], changes: &mut [f32]) {
        for ((summed, slope), change) in summed.iter_mut().zip(slopes).zip(changes) {
            *change = (slope - *summed) as f32;
            *summed += f64::from(*change);
        }
    }
}

dispatched! {
    /// [`follow`] in f64, which leaves the changes in place of the slopes.
    fn follow_exactly(summed: &mut [f64], slopes: &mut [f64]) {
        for (summed, slope) in summed.iter_mut().zip(slopes) {
            let change = *slope - *summed;
            *summed = *slope;
            *slope = change;
        }
    }
}

dispatched! {
    /// The largest absolute value; NaN if any is NaN.
    fn largest_f32(values: &[f32]) -> f32 {
        let (mut lanes, mut zero) = ([0.0_f32; NARROW], [0.0_f32; NARROW]);
        for values in values.as_chunks::<NARROW>().0 {
            for i in 0..NARROW {
                let value = values[i].abs();
                lanes[i] = if value > lanes[i] { value } else { lanes[i] };
                zero[i] += value * 0.0;
            }
        }
        zero.iter().sum::<f32>() + lanes.into_iter().fold(0.0, f32::max)
    }
}

/// A row of each table, and the sums of slopes over rows.
struct Row<'a> {
    step: f64,
    along: &'a [f64],
    scores: &'a mut [f64],
    summed: &'a [f64],
    slopes: &'a mut [f64],
    intercepts: &'a mut [f64],
}

dispatched! {
    /// Moves a row's scores by `step` times `along`, writes its slopes (probability minus the
    /// truth; zero from column `classes` on) and adds them to the intercepts' sums. Returns the
    /// row's loss and the squared distance between its slopes and `summed`.
    fn move_row(row: Row<'_>, classes: usize, class: usize) -> (f64, f64) {
        let Row { step, along, scores, summed, slopes, intercepts } = row;
        for ((slope, score), along) in slopes.iter_mut().zip(&mut *scores).zip(along) {
            *score = fma::<FUSED>(step, *along, *score);
            *slope = *score;
        }
        let own = slopes[class];
        // This makes the exponentials of missing classes (nearly) zero.
        slopes[classes..].fill(f64::NEG_INFINITY);
        let (panels, _) = slopes.as_chunks_mut::<PANEL>();
        let mut lanes = [f64::NEG_INFINITY; PANEL];
        for x in panels.iter() {
            for i in 0..PANEL {
                lanes[i] = if x[i] > lanes[i] { x[i] } else { lanes[i] };
            }
        }
        let most = lanes.into_iter().fold(f64::NEG_INFINITY, f64::max);
        // A separate loop, so that the compiler vectorises it.
        for x in panels.as_flattened_mut() {
            *x = exp::<FUSED>(*x - most);
        }
        let mut lanes = [0.0_f64; PANEL];
        for x in panels.iter() {
            for i in 0..PANEL {
                lanes[i] += x[i];
            }
        }
        let sum = lanes.iter().sum::<f64>();
        let share = 1.0 / sum;
        slopes[classes..].fill(0.0);
        for x in slopes.iter_mut() {
            *x *= share;
        }
        slopes[class] -= 1.0;
        let mut lanes = [0.0_f64; PANEL];
        let panels = slopes.as_chunks::<PANEL>().0.iter().zip(summed.as_chunks::<PANEL>().0);
        for ((slopes, summed), sums) in panels.zip(intercepts.as_chunks_mut::<PANEL>().0) {
            for i in 0..PANEL {
                sums[i] += slopes[i];
                lanes[i] = fma::<FUSED>(slopes[i] - summed[i], slopes[i] - summed[i], lanes[i]);
            }
        }
        // A NaN in the scores propagates to the loss.
        (sum.ln() + most - own, lanes.iter().sum())
    }
}
