//! The folder where a server keeps its own files.

use std::{env, path::PathBuf};

use etcetera::BaseStrategy as _;

/// `ISOMER_HOME`, else `isomer` in the user's cache folder.
pub fn folder() -> PathBuf {
    from_env().unwrap_or_else(|| user_cache().join("isomer"))
}

/// `ISOMER_HOME`, if it is set.
pub fn from_env() -> Option<PathBuf> {
    env::var_os("ISOMER_HOME")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// The user's cache folder: `XDG_CACHE_HOME`, else what is usual on the platform.
pub fn user_cache() -> PathBuf {
    etcetera::choose_base_strategy().map_or_else(|_| env::temp_dir(), |strategy| strategy.cache_dir())
}
