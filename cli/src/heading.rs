//! The headings of flags. Each flag has one of them.

/// The heading of flags that `-h` shows, which clap calls "Options".
pub(crate) const FIRST: Option<&str> = None;
pub(crate) const DATA: &str = "More: data and samples";
pub(crate) const TASKS: &str = "More: single tasks";
pub(crate) const ENCODERS: &str = "More: encoders";
pub(crate) const GENERATION: &str = "More: generation";
pub(crate) const PARAMETERS: &str = "More: single transformations";
pub(crate) const PROMPTS: &str = "More: prompts of the generator";
pub(crate) const JUDGE: &str = "More: judge";
pub(crate) const SEPARATION: &str = "More: separation";
pub(crate) const AUGMENTATION: &str = "More: augmentation";
pub(crate) const SETTINGS: &str = "More: several settings of augmentation";
pub(crate) const GATE: &str = "More: gate";
pub(crate) const INTERVALS: &str = "More: intervals";
pub(crate) const COST: &str = "More: cost";
pub(crate) const SOURCE: &str = "More: source";
pub(crate) const PASS: &str = "More: pass";
pub(crate) const REGISTRY: &str = "More: registry";
pub(crate) const REQUESTS: &str = "More: requests";
pub(crate) const LIMITS: &str = "More: limits";
pub(crate) const FLEET: &str = "More: workers";
/// Flags of every command.
pub(crate) const GLOBAL: &str = "Connection and files";

/// The headings of flags that only `--help` shows.
pub(crate) const MORE: [&str; 19] = [
    DATA,
    TASKS,
    ENCODERS,
    GENERATION,
    PARAMETERS,
    PROMPTS,
    JUDGE,
    SEPARATION,
    AUGMENTATION,
    SETTINGS,
    GATE,
    INTERVALS,
    COST,
    SOURCE,
    PASS,
    REGISTRY,
    REQUESTS,
    LIMITS,
    FLEET,
];
