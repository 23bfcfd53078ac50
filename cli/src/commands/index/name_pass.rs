//! `isomer index run` under the name of a migration: the store names the collections to fill and
//! their encoders.

use std::{process::ExitCode, sync::Arc, time::Duration};

use isomer_index::{
    IndexError,
    encode::{Encoder, Workers},
    mark::Mark,
    migrate::{Member, run_both},
    name::State,
    plan, run,
    source::Source,
    store::Names,
};
use isomer_models::ModelKind;
use isomer_service_kit::shutdown;

use super::{super::augment::prefetch_generator, encoded_all, failure, interrupted, show, watch, workers};
use crate::{args::Global, connect::Connection, exit::Failure, progress::Display};

/// Maximum number of restarts of a pass because a step of the migration was made in between.
const MOST_PASSES: usize = 10;
/// The generator id of a source that needs no generator.
const NO_GENERATOR: &str = "none";

/// A pass over a source, into the collections behind a name.
pub(super) struct NamePass<'a> {
    pub(super) names: &'a dyn Names,
    pub(super) source: &'a Source,
    pub(super) settings: &'a run::Settings,
    pub(super) patience: Duration,
    /// The mark given by the encoder's flags, if any.
    pub(super) given: Option<Mark>,
}

impl NamePass<'_> {
    pub(super) async fn fill(
        &self,
        global: &Global,
        connection: &Connection,
        display: &Display,
    ) -> Result<ExitCode, Failure> {
        for _ in 0..MOST_PASSES {
            let state = self.state().await?;
            let watch = watch(display);
            let pass = async {
                let by = workers::of(connection);
                let (serving, other) = self.members(&state, connection, by, display).await?;
                let members = (&serving, other.as_ref());
                let both = run_both(self.source, self.names, &state, members, self.settings, &watch).await;
                Ok((both.map_err(failure)?, serving, other))
            };
            let done: Result<_, Failure> = tokio::select! {
                done = pass => done,
                () = shutdown::signal() => {
                    connection.flush().await;
                    return Err(interrupted());
                }
            };
            connection.flush().await;
            match done {
                // The failure may be due to a change of the collections.
                Err(failed) => {
                    if self.state().await?.epoch == state.epoch {
                        return Err(failed);
                    }
                    display.message("a step of the migration was made meanwhile; beginning anew");
                }
                Ok((both, serving, other)) => {
                    let other = other.as_ref().map(|member| member.store.name());
                    show::both(global.format, self.names.shown(), serving.store.name(), other, &both)?;
                    return match both.other {
                        Some(Err(error)) => Err(failure(error).of_flag(&format!(
                            "{} was brought up to date, and {} was not",
                            serving.store.name(),
                            other.unwrap_or_default()
                        ))),
                        Some(Ok(outcome)) => encoded_all(&both.serving.counts).and(encoded_all(&outcome.counts)),
                        None => encoded_all(&both.serving.counts),
                    };
                }
            }
        }
        Err(Failure::dependency(
            "steps of the migration were made each time; run the same command again to resume",
        ))
    }

    pub(super) async fn plan(
        &self,
        global: &Global,
        connection: &Connection,
        display: &Display,
    ) -> Result<ExitCode, Failure> {
        let state = self.state().await?;
        let (serving, other) = self.members(&state, connection, None, display).await?;
        for member in [Some(&serving), other.as_ref()].into_iter().flatten() {
            let settings = run::Settings {
                chunking: member.mark.chunking().map_err(failure)?,
                with_text: member.mark.with_text,
                ..self.settings.clone()
            };
            let plan = plan::plan(self.source, member.store.as_ref(), &member.encoder, &settings).await;
            display.message(member.store.name());
            show::plan(global.format, &plan.map_err(failure)?, member.encoder.augments())?;
        }
        connection.flush().await;
        Ok(ExitCode::SUCCESS)
    }

    async fn state(&self) -> Result<State, Failure> {
        let state = self.names.state().await.map_err(failure)?;
        state.ok_or_else(|| {
            failure(IndexError::NoCollection {
                collection: self.names.shown().to_owned(),
            })
        })
    }

    /// The serving collection and the other one; `by` encodes their texts, unless this process
    /// does.
    async fn members(
        &self,
        state: &State,
        connection: &Connection,
        by: Option<Arc<dyn Workers>>,
        display: &Display,
    ) -> Result<(Member, Option<Member>), Failure> {
        let serving = self.names.mark(&state.serving).await.map_err(failure)?;
        let other = match state.other() {
            Some(other) => Some((other, self.names.mark(other).await.map_err(failure)?)),
            None => None,
        };
        if let Some(given) = &self.given
            && other.as_ref().is_none_or(|(_, mark)| mark != given)
        {
            serving.check(self.names.shown(), given).map_err(failure)?;
        }
        let serving = (state.serving.as_str(), serving);
        let serving = self.member(state, serving, connection, by.clone(), display).await?;
        let other = match other {
            Some(other) => Some(self.member(state, other, connection, by, display).await?),
            None => None,
        };
        Ok((serving, other))
    }

    async fn member(
        &self,
        state: &State,
        (collection, mark): (&str, Mark),
        connection: &Connection,
        by: Option<Arc<dyn Workers>>,
        display: &Display,
    ) -> Result<Member, Failure> {
        let recipe = mark.recipe(collection, self.patience).map_err(failure)?;
        connection
            .prefetch(&recipe.encoder, ModelKind::Encoder, display)
            .await?;
        let sources = recipe.augmentation.iter().flat_map(|own| &own.spec.sources);
        for source in sources.filter(|source| source.generator_id != NO_GENERATOR) {
            prefetch_generator(connection, &source.generator_id, display).await?;
        }
        let encoder = Encoder::connect(connection.channel.clone(), recipe)
            .await
            .map_err(failure)?
            .by(by);
        let store = self.names.open(state, collection).map_err(failure)?;
        Member::new(store, mark, encoder).map_err(failure)
    }
}
