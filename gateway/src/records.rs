//! The tables of all that a gateway keeps.

use isomer_access::Keys;
use isomer_database::Database;
use isomer_service_kit::Fault;

use crate::{proxy::claims, routing};

/// Brings every table up to date: keys and the audit log, providers, what providers gave first,
/// which gateway makes which variants. A gateway does the same when it starts; done before, no
/// gateway has to wait for it.
///
/// # Errors
/// When the database cannot be read or written.
pub async fn migrate(database: &Database) -> Result<(), Fault> {
    Keys::open(database.clone()).await?;
    isomer_registry::prepare(database).await?;
    routing::prepare(database).await?;
    claims::prepare(database).await
}
