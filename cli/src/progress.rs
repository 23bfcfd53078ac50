//! Progress on stderr: bars on a terminal, plain lines elsewhere (at most one every few seconds),
//! nothing with `--quiet`.

use std::{
    collections::HashMap,
    io::{IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use indicatif::{HumanBytes, HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Shows the progress of named pieces of work.
pub(crate) struct Display {
    form: Form,
    work: Mutex<HashMap<String, Work>>,
    has_ended: AtomicBool,
}

enum Form {
    Bars(MultiProgress),
    Lines,
    Silent,
}

enum Work {
    Bar(ProgressBar),
    Line { last: Instant, finished: bool },
}

/// The progress of one piece of work.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step<'a> {
    /// Units done.
    pub(crate) done: u64,
    /// Total units, if known.
    pub(crate) total: Option<u64>,
    /// Number of `done` units that came from a cache.
    pub(crate) cached: u64,
    /// Remaining time, if it can be estimated.
    pub(crate) remaining: Option<Duration>,
    /// Description of the current work.
    pub(crate) detail: &'a str,
    /// Whether units are bytes.
    pub(crate) bytes: bool,
}

impl Display {
    /// Chooses the display for this terminal.
    pub(crate) fn new(quiet: bool) -> Self {
        let form = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Form::Silent,
            (false, true) => Form::Bars(MultiProgress::new()),
            (false, false) => Form::Lines,
        };
        Self {
            form,
            work: Mutex::default(),
            has_ended: AtomicBool::new(false),
        }
    }

    pub(crate) fn message(&self, text: &str) {
        if !matches!(self.form, Form::Silent) {
            self.note(text);
        }
    }

    /// Shows an important message, even with `--quiet`.
    pub(crate) fn note(&self, text: &str) {
        match &self.form {
            // The work does not fail if drawing on the terminal fails.
            Form::Bars(bars) if !self.has_ended.load(Ordering::Relaxed) => drop(bars.println(text)),
            // The work does not fail if a line cannot be written.
            Form::Silent | Form::Lines | Form::Bars(_) => drop(writeln!(std::io::stderr(), "{text}")),
        }
    }

    /// Leaves the bars as they are. Results follow, and bars that are drawn again would cover their
    /// last lines.
    pub(crate) fn end(&self) {
        if let Form::Bars(bars) = &self.form {
            bars.set_draw_target(ProgressDrawTarget::hidden());
        }
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Updates one piece of work.
    pub(crate) fn step(&self, name: &str, step: &Step<'_>) {
        let mut work = self.work.lock();
        let finished = step.total.is_some_and(|total| step.done >= total);
        match &self.form {
            Form::Silent => {}
            Form::Bars(bars) => {
                let entry = work
                    .entry(name.to_owned())
                    .or_insert_with(|| Work::Bar(bar(bars, name, step.bytes)));
                if let Work::Bar(bar) = entry {
                    if let Some(total) = step.total {
                        bar.set_length(total);
                    }
                    bar.set_position(step.done);
                    bar.set_message(tail(step));
                    if finished && !bar.is_finished() {
                        bar.finish();
                    }
                }
            }
            Form::Lines => {
                let now = Instant::now();
                let entry = work.entry(name.to_owned()).or_insert_with(|| Work::Line {
                    last: now - LINE_INTERVAL,
                    finished: false,
                });
                if let Work::Line { last, finished: said } = entry
                    && !*said
                    && (finished || now.duration_since(*last) >= LINE_INTERVAL)
                {
                    *last = now;
                    *said = finished;
                    let _ = writeln!(std::io::stderr(), "{name:<12} {}  {}", count(step), tail(step));
                }
            }
        }
    }
}

fn bar(bars: &MultiProgress, name: &str, bytes: bool) -> ProgressBar {
    let template = if bytes {
        "{prefix:<12} [{bar:30}] {bytes}/{total_bytes} {msg}"
    } else {
        "{prefix:<12} [{bar:30}] {pos}/{len} {msg}"
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bars.add(ProgressBar::new(0))
        .with_style(style.progress_chars("=> "))
        .with_prefix(name.to_owned())
}

fn count(step: &Step<'_>) -> String {
    let show = |n: u64| {
        if step.bytes {
            HumanBytes(n).to_string()
        } else {
            n.to_string()
        }
    };
    match step.total {
        Some(total) => format!("{}/{}", show(step.done), show(total)),
        None => show(step.done),
    }
}

fn tail(step: &Step<'_>) -> String {
    let mut parts = Vec::new();
    if step.cached > 0 {
        parts.push(format!("{} from cache", step.cached));
    }
    if let Some(remaining) = step.remaining.filter(|_| step.total.is_none_or(|t| step.done < t)) {
        parts.push(format!("about {} left", HumanDuration(remaining)));
    }
    if !step.detail.is_empty() {
        parts.push(step.detail.to_owned());
    }
    parts.join(", ")
}

impl isomer_models::Progress for Display {
    fn update(&self, what: &str, done: u64, total: Option<u64>) {
        self.step(
            what,
            &Step {
                done,
                total,
                bytes: true,
                ..Step::default()
            },
        );
    }
}
