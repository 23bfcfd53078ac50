//! Moves a name to vectors of another space while it is searched.
//!
//! A migration proceeds in steps; [`crate::name`] determines the due one. From its beginning until
//! its end, a run under the name ([`run_both`]) writes to both collections, first to the one that
//! does not serve. So the other collection has everything that the serving one has, wherever a run
//! is killed. If the other one cannot be written to, the record states so before the serving one is
//! written.

use parking_lot::Mutex;

use crate::{
    compare::Comparison,
    encode::Encoder,
    error::{IndexError, Result},
    mark::Mark,
    name::{Agreement, Next, State},
    run::{Counts, Outcome, Settings, Work, pass},
    source::{Document, Source},
    store::{Names, VectorStore},
};

/// Maximum number of restarts of a step because the record changed in between.
const MOST_ROUNDS: usize = 50;

/// The record after a step.
#[derive(Debug, Clone, PartialEq)]
pub struct MigrationStep {
    /// The record.
    pub state: State,
    /// Whether the step had already been made.
    pub already: bool,
}

/// Begins a migration to vectors of this mark.
///
/// # Errors
/// If another migration is in progress, or there is nothing to migrate from.
pub async fn start(names: &dyn Names, from: Option<&str>, mark: &Mark, now: u64) -> Result<MigrationStep> {
    let (state, began) = names.begin(from, mark, now).await?;
    if !began {
        let migration = state.migration("start a migration of")?;
        let theirs = names.mark(&migration.new).await?;
        if let Err(other) = theirs.check(&migration.new, mark) {
            return Err(IndexError::Order {
                name: names.shown().to_owned(),
                step: "start a migration of",
                message: format!("one to `{}` is in progress; {other}", migration.new),
                hint: "end it first: `isomer index migrate finish` or `isomer index migrate abandon`",
            });
        }
    }
    Ok(MigrationStep { state, already: !began })
}

/// Makes a step.
///
/// # Errors
/// If the step is not due, or a precondition is not met.
pub async fn step(
    names: &dyn Names,
    name: &'static str,
    next: impl Fn(&State) -> Result<Next> + Send + Sync,
) -> Result<MigrationStep> {
    for _ in 0..MOST_ROUNDS {
        let state = state(names, name).await?;
        match next(&state)? {
            Next::Already => return Ok(MigrationStep { state, already: true }),
            Next::Change(change) => {
                if names.change(&state, &change).await? {
                    return Ok(MigrationStep {
                        state: change.after,
                        already: false,
                    });
                }
            }
        }
    }
    Err(IndexError::Unavailable {
        doing: format!("changing {}", names.shown()),
        message: "its record was changed by others each time".to_owned(),
    })
}

/// The record of a name, which a step needs.
///
/// # Errors
/// If it does not exist.
pub async fn state(names: &dyn Names, step: &'static str) -> Result<State> {
    names.state().await?.ok_or_else(|| IndexError::Order {
        name: names.shown().to_owned(),
        step,
        message: "no migration was begun under this name".to_owned(),
        hint: "begin one: `isomer index migrate start`",
    })
}

/// Records the agreement of both collections' lists.
///
/// # Errors
/// Those of [`step`].
pub async fn agree(names: &dyn Names, comparison: &Comparison, k: u64, now: u64) -> Result<MigrationStep> {
    let agreement = Agreement {
        queries: comparison.queries as u64,
        k,
        overlap: comparison.overlap.mean,
        rank_biased_overlap: comparison.rank_biased_overlap.mean,
        at: now,
    };
    step(names, "compare", |state| state.agree(agreement.clone())).await
}

/// A collection behind a name, with its encoder.
#[derive(Debug)]
pub struct Member {
    /// The collection.
    pub store: Box<dyn VectorStore>,
    pub mark: Mark,
    /// The encoder that computes its vectors.
    pub encoder: Encoder,
}

impl Member {
    /// Requires that the encoder answers in the space of the collection.
    ///
    /// # Errors
    /// [`IndexError::OtherSpace`] with the differences.
    pub fn new(store: Box<dyn VectorStore>, mark: Mark, encoder: Encoder) -> Result<Self> {
        mark.check(store.name(), &encoder.mark(mark.chunking()?, mark.with_text))?;
        Ok(Self { store, mark, encoder })
    }
}

/// The result of a run under a name.
#[derive(Debug)]
pub struct Outcomes {
    /// The result for the serving collection.
    pub serving: Outcome,
    /// The result for the other collection, or why it could not be brought up to date; `None` if
    /// there is none.
    pub other: Option<Result<Outcome>>,
}

/// Brings the collections behind a name up to date with a source.
///
/// # Errors
/// Those of a run on the serving collection; [`IndexError::Moved`] if a step was made in between.
/// In that case the same run can continue with the new record.
pub async fn run_both(
    source: &Source,
    names: &dyn Names,
    state: &State,
    (serving, other): (&Member, Option<&Member>),
    settings: &Settings,
    watch: &(dyn Fn(&Counts) + Send + Sync),
) -> Result<Outcomes> {
    let limiter = settings.limiter()?;
    let beside = match other {
        Some(other) => Some(StandbyWork {
            names,
            work: Work::new(other.store.as_ref(), &other.encoder, &other.mark, &limiter, &|_| {})?,
            failed: Mutex::default(),
        }),
        None => None,
    };
    let watch_both = |counts: &Counts| {
        let mut sum = counts.clone();
        sum.written += beside.as_ref().map_or(0, |beside| beside.work.written());
        watch(&sum);
    };
    let work = Work::new(
        serving.store.as_ref(),
        &serving.encoder,
        &serving.mark,
        &limiter,
        &watch_both,
    )?;
    let seen = pass(source, settings, |documents| async {
        if let Some(beside) = &beside {
            beside.batch(&documents).await?;
        }
        work.batch(documents).await
    })
    .await?;
    let mut outcome = None;
    if let Some(beside) = &beside {
        outcome = beside.attempt(beside.work.close(&seen, settings)).await?;
    }
    let serving = work.close(&seen, settings).await?;
    let Some(beside) = beside else {
        return Ok(Outcomes { serving, other: None });
    };
    let other = match (outcome, beside.failed.into_inner()) {
        (Some(outcome), None) => {
            let skipped = state.migration("fill both collections of")?.skipped;
            let epoch = state.epoch;
            step(names, "fill both collections of", move |now| match now.epoch == epoch {
                true => now.levelled(skipped),
                false => Err(IndexError::Moved {
                    collection: now.name.clone(),
                    message: "a step of its migration was made".to_owned(),
                }),
            })
            .await?;
            Ok(outcome)
        }
        (_, Some(error)) => Err(error),
        (None, None) => Err(IndexError::Unavailable {
            doing: "filling both collections".to_owned(),
            message: "the second one was left out".to_owned(),
        }),
    };
    Ok(Outcomes {
        serving,
        other: Some(other),
    })
}

/// The collection that does not serve. If it fails, the run continues with the serving one.
struct StandbyWork<'a> {
    names: &'a dyn Names,
    work: Work<'a>,
    failed: Mutex<Option<IndexError>>,
}

impl StandbyWork<'_> {
    async fn batch(&self, documents: &[Document]) -> Result<()> {
        self.attempt(self.work.batch(documents.to_vec())).await.map(drop)
    }

    /// After the first failure nothing more is attempted. The record states the failure before the
    /// serving collection gets rows that this one lacks.
    async fn attempt<T>(&self, work: impl Future<Output = Result<T>>) -> Result<Option<T>> {
        if self.failed.lock().is_some() {
            return Ok(None);
        }
        match work.await {
            Ok(done) => Ok(Some(done)),
            Err(moved @ IndexError::Moved { .. }) => Err(moved),
            Err(error) => {
                step(self.names, "fill both collections of", State::skip).await?;
                self.failed.lock().get_or_insert(error);
                Ok(None)
            }
        }
    }
}
