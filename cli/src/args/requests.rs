//! The requests that commands build of their flags.

use super::{Command, TransformCommand};
#[cfg(feature = "registry")]
use crate::flags::REGISTRY_RUN;
use crate::flags::{
    AUGMENT, CREATE_RUN, ENCODE, ENCODE_AUGMENTED, ESTIMATE, JUDGE, PLAN_RUN, RERANK, RequestFlags, SCORE, TRANSFORM,
};

/// The requests that a command builds of its flags; empty: its errors keep the names of fields.
pub(crate) fn requests(command: &Command) -> &'static [RequestFlags] {
    match command {
        Command::Check(_) => &[CREATE_RUN, PLAN_RUN],
        #[cfg(feature = "registry")]
        Command::Registry(_) => &[REGISTRY_RUN],
        Command::Eval(_) => &[SCORE, AUGMENT],
        Command::Embed(args) if args.augmentation.augment.is_empty() => &[ENCODE],
        Command::Embed(args) if args.plan => &[ESTIMATE],
        Command::Embed(_) => &[ENCODE_AUGMENTED],
        Command::Transform(args) => match &args.command {
            None => &[TRANSFORM],
            Some(TransformCommand::Judge(_)) => &[JUDGE],
            Some(_) => &[],
        },
        Command::Rerank(_) => &[RERANK],
        _ => &[],
    }
}
