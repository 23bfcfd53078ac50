//! The database tables of a gateway.

use isomer_access::Keys;
use isomer_database::Database;
use isomer_service_kit::Fault;

use crate::{proxy::claims, routing};

/// Brings every table up to date: keys and the audit log, providers, the providers' first
/// fingerprints, and claims on variants. A gateway does the same when it starts. If this was done
/// before, the gateway starts without waiting for it.
///
/// # Errors
/// If the database cannot be read or written.
pub async fn migrate(database: &Database) -> Result<(), Fault> {
    Keys::open(database.clone()).await?;
    isomer_registry::prepare(database).await?;
    routing::prepare(database).await?;
    claims::prepare(database).await
}
