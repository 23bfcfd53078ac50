//! The results of earlier checks in a watched registry: whether they are still valid, and the steps
//! that a process that ended in between still has to finish.

use crate::{
    check::{Checker, NONE},
    error::{RegistryError, Result},
    fetch::{FetchOutcome, listing_digest},
    registry::{AliasRegistry, Registry, Version},
    verdict::tag,
};

/// The reason why a version is checked although it has a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecheckReason {
    NoVerdict,
    /// Its files differ from the checked ones.
    Files,
    /// It passed but did not get the alias.
    Alias,
    /// It has the alias of passed versions, but was compared with another champion.
    Champion,
}

impl<R: Registry + AliasRegistry, E> Checker<R, E> {
    /// The reason why a version must be checked; `None` if its verdict is still valid.
    ///
    /// # Errors
    /// If the registry fails.
    pub async fn stale(&self, version: &Version) -> Result<Option<RecheckReason>> {
        let Some(_) = version.tag(tag::VERDICT) else {
            return Ok(Some(RecheckReason::NoVerdict));
        };
        let listing = match self.registry.files(version).await {
            Err(RegistryError::Store { .. }) => String::new(),
            files => listing_digest(&files?),
        };
        if version.tag(tag::LISTING).unwrap_or_default() != listing {
            return Ok(Some(RecheckReason::Files));
        }
        let holder = self.registry.at_alias(&version.model, &self.policy.passed).await?;
        // The process may have ended between the last tag and the alias.
        if version.has_passed() && holder.as_ref().is_none_or(|holder| version.is_after(holder)) {
            return Ok(Some(RecheckReason::Alias));
        }
        if holder.is_none_or(|holder| holder.number != version.number) {
            return Ok(None);
        }
        // A version that became the champion itself is compared with no other version.
        let other = self.registry.champion(version, &self.policy.champion).await?;
        let is_new = |other: Version| version.tag(tag::BASELINE) != Some(other.number.as_str());
        Ok(other.is_some_and(is_new).then_some(RecheckReason::Champion))
    }

    /// Removes the alias of passed versions from the version that has it, if its verdict is not
    /// `pass`. Returns whether it was removed.
    ///
    /// # Errors
    /// If the registry fails.
    pub async fn withdraw_unearned(&self, model: &str) -> Result<bool> {
        let found = self.registry.at_alias(model, &self.policy.passed).await?;
        match found.filter(|version| !version.has_passed()) {
            Some(_) => self
                .registry
                .remove_alias(model, &self.policy.passed)
                .await
                .map(|()| true),
            None => Ok(false),
        }
    }

    /// Promotes a version whose check ended between the alias of passed versions and that of the
    /// champion. Its tag records this, so that a champion that a person has chosen since is kept.
    /// Returns whether it was promoted.
    ///
    /// # Errors
    /// If the registry fails.
    pub async fn finish_promotion(&self, version: &Version) -> Result<bool> {
        if !self.policy.promote || version.tag(tag::PROMOTION) != Some(tag::DUE) || !version.has_passed() {
            return Ok(false);
        }
        let at = |alias| self.registry.at_alias(&version.model, alias);
        let holds = |found: &Option<Version>| found.as_ref().is_some_and(|found| found.number == version.number);
        if !holds(&at(&self.policy.passed).await?) {
            return Ok(false);
        }
        let champion = at(&self.policy.champion).await?;
        let moved = holds(&champion);
        if !moved {
            let compared_with = version.tag(tag::BASELINE).unwrap_or(NONE);
            if champion.as_ref().map_or(NONE, |found| &found.number) != compared_with {
                // It is first checked against that version.
                return Ok(false);
            }
            self.registry.promote(version, &self.policy.champion).await?;
        }
        self.registry.remove_tag(version, tag::PROMOTION).await?;
        Ok(!moved)
    }

    /// Reads all files of a version that passed again. If they differ from the files that passed,
    /// the alias is removed, and the version is [`RecheckReason::Files`] from then on. Returns
    /// whether they differ.
    ///
    /// # Errors
    /// If the registry fails.
    pub async fn reread(&self, version: &Version) -> Result<bool> {
        let Some(checked) = version.tag(tag::FILES).filter(|_| version.has_passed()) else {
            return Ok(false);
        };
        let fetched = self.folder.fetch(&self.registry, version, self.bounds).await?;
        if matches!(&fetched.outcome, FetchOutcome::Encoder(encoder) if encoder.digest == checked) {
            return Ok(false);
        }
        self.registry.withdraw(version, &self.policy.passed, None).await?;
        self.registry.remove_tag(version, tag::LISTING).await?;
        Ok(true)
    }
}
