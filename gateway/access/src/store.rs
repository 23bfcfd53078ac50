//! Keys and counts in the database.

use isomer_database::{Database, failed};
use isomer_service_kit::Fault;
use sqlx::{Any, AnyConnection, Row, Transaction, any::AnyRow};

use crate::{
    calendar::{Day, month_begin},
    key::KeyDigest,
    limits::Limits,
    meter::{PeriodUsage, Sums},
    scope::Scopes,
};

/// The tables. A released step is never changed; new steps are appended.
const STEPS: &[&str] = &[
    "CREATE TABLE api_keys (id TEXT NOT NULL PRIMARY KEY, digest TEXT NOT NULL, name TEXT NOT NULL, scopes TEXT NOT NULL, \
     limits TEXT NOT NULL, created BIGINT NOT NULL, created_by TEXT NOT NULL, expires BIGINT NOT NULL, revoked BIGINT NOT NULL, \
     changed BIGINT NOT NULL)",
    "CREATE INDEX api_keys_changed ON api_keys (changed)",
    "CREATE TABLE access_counters (name TEXT NOT NULL PRIMARY KEY, value BIGINT NOT NULL)",
    "INSERT INTO access_counters (name, value) VALUES ('keys', 0)",
    "CREATE TABLE access_usage (principal TEXT NOT NULL, day BIGINT NOT NULL, requests BIGINT NOT NULL, tokens BIGINT NOT NULL, \
     cost BIGINT NOT NULL, last_used BIGINT NOT NULL, PRIMARY KEY (principal, day))",
    "CREATE TABLE audit_events (seq BIGINT NOT NULL PRIMARY KEY, at BIGINT NOT NULL, who TEXT NOT NULL, act TEXT NOT NULL, \
     target TEXT NOT NULL, outcome TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE audit_head (id BIGINT NOT NULL PRIMARY KEY, seq BIGINT NOT NULL, hash TEXT NOT NULL)",
    "INSERT INTO audit_head (id, seq, hash) VALUES (1, 0, '')",
    // Deferred charges: how much of some work's usage has been charged to which account, which
    // process follows the work, and until when.
    "CREATE TABLE access_tabs (work TEXT NOT NULL PRIMARY KEY, principal TEXT NOT NULL, name TEXT NOT NULL, tokens BIGINT NOT NULL, \
     cost BIGINT NOT NULL, opened BIGINT NOT NULL, holder TEXT NOT NULL, lease BIGINT NOT NULL)",
    // A gateway's reservations for a caller's requests in flight, and their expiry. The row without
    // a holder is the lock.
    "CREATE TABLE access_reserved (principal TEXT NOT NULL, holder TEXT NOT NULL, tokens BIGINT NOT NULL, cost BIGINT NOT NULL, \
     lease BIGINT NOT NULL, PRIMARY KEY (principal, holder))",
    // Secrets that gateways of one database share, each a random text.
    "CREATE TABLE access_secrets (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)",
];

const COLUMNS: &str = "id, digest, name, scopes, limits, created, created_by, expires, revoked, changed";

/// A key as stored. Times are in microseconds since 1970.
#[derive(Debug, Clone)]
pub struct KeyRecord {
    /// The public part: 12 characters; shown as `iso_ID`.
    pub id: String,
    pub(crate) digest: KeyDigest,
    /// Its name for people.
    pub name: String,
    pub scopes: Scopes,
    pub limits: Limits,
    /// When it was created.
    pub created: i64,
    pub created_by: String,
    /// When it expires; absent: never.
    pub expires: Option<i64>,
    /// When it was revoked; absent: not revoked.
    pub revoked: Option<i64>,
    /// Number of the last change. It grows with every change to any key.
    pub(crate) changed: i64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Since 00:00 UTC.
    pub day: UsageTotals,
    /// Since 00:00 UTC on the first of the month.
    pub month: UsageTotals,
    pub total: UsageTotals,
    /// Last request, in microseconds since 1970; absent: none yet.
    pub last_used: Option<i64>,
}

/// Requests, tokens and costs of a period.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UsageTotals {
    /// Requests admitted.
    pub requests: u64,
    /// Tokens charged.
    pub tokens: u64,
    /// US dollars charged.
    pub cost_usd: f64,
}

impl From<PeriodUsage> for UsageTotals {
    fn from(spent: PeriodUsage) -> Self {
        Self {
            requests: spent.requests,
            tokens: spent.tokens,
            cost_usd: spent.cost as f64 / crate::limits::NANO,
        }
    }
}

pub(crate) async fn prepare(database: &Database) -> Result<(), Fault> {
    database.migrate("access", STEPS).await
}

/// The secret from which tenant names are derived. The first gateway of a database creates it.
pub(crate) async fn tenant_secret(database: &Database, new: &str) -> Result<String, Fault> {
    let query = "INSERT INTO access_secrets (name, value) VALUES ('tenants', $1) ON CONFLICT DO NOTHING";
    sqlx::query(query)
        .bind(new)
        .execute(database.pool())
        .await
        .map_err(failed)?;
    sqlx::query("SELECT value FROM access_secrets WHERE name = 'tenants'")
        .fetch_one(database.pool())
        .await
        .and_then(|row| row.try_get(0))
        .map_err(failed)
}

/// Returns the number of a change to the keys. As the first statement of a transaction it
/// serialises writers, so that the numbers become visible in order.
pub(crate) async fn next_change(transaction: &mut Transaction<'_, Any>) -> Result<i64, Fault> {
    sqlx::query("UPDATE access_counters SET value = value + 1 WHERE name = 'keys' RETURNING value")
        .fetch_one(&mut **transaction)
        .await
        .and_then(|row| row.try_get(0))
        .map_err(failed)
}

pub(crate) async fn insert(transaction: &mut Transaction<'_, Any>, key: &KeyRecord) -> Result<(), Fault> {
    let query = "INSERT INTO api_keys (id, digest, name, scopes, limits, created, created_by, expires, revoked, changed) VALUES \
                 ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    sqlx::query(query)
        .bind(&key.id)
        .bind(key.digest.to_hex())
        .bind(&key.name)
        .bind(key.scopes.joined())
        .bind(json(&key.limits)?)
        .bind(key.created)
        .bind(&key.created_by)
        .bind(key.expires.unwrap_or(0))
        .bind(key.revoked.unwrap_or(0))
        .bind(key.changed)
        .execute(&mut **transaction)
        .await
        .map_err(failed)?;
    Ok(())
}

pub(crate) async fn update(transaction: &mut Transaction<'_, Any>, key: &KeyRecord) -> Result<(), Fault> {
    let query = "UPDATE api_keys SET name = $2, scopes = $3, limits = $4, expires = $5, revoked = $6, changed = $7 WHERE id = $1";
    sqlx::query(query)
        .bind(&key.id)
        .bind(&key.name)
        .bind(key.scopes.joined())
        .bind(json(&key.limits)?)
        .bind(key.expires.unwrap_or(0))
        .bind(key.revoked.unwrap_or(0))
        .bind(key.changed)
        .execute(&mut **transaction)
        .await
        .map_err(failed)?;
    Ok(())
}

pub(crate) async fn one(transaction: &mut Transaction<'_, Any>, id: &str) -> Result<Option<KeyRecord>, Fault> {
    sqlx::query(sqlx::AssertSqlSafe(format!(
        "SELECT {COLUMNS} FROM api_keys WHERE id = $1"
    )))
    .bind(id)
    .fetch_optional(&mut **transaction)
    .await
    .map_err(failed)?
    .map(|row| record(&row))
    .transpose()
}

/// Keys that changed after the change `since`, oldest change first.
pub(crate) async fn changed_since(database: &Database, since: i64) -> Result<Vec<KeyRecord>, Fault> {
    let query = format!("SELECT {COLUMNS} FROM api_keys WHERE changed > $1 ORDER BY changed");
    sqlx::query(sqlx::AssertSqlSafe(query))
        .bind(since)
        .fetch_all(database.pool())
        .await
        .map_err(failed)?
        .iter()
        .map(record)
        .collect()
}

/// A page of keys in the order of creation, starting after `(created, id)`.
pub(crate) async fn page(database: &Database, after: (i64, &str), most: i64) -> Result<Vec<KeyRecord>, Fault> {
    let query = format!(
        "SELECT {COLUMNS} FROM api_keys WHERE created > $1 OR (created = $1 AND id > $2) ORDER BY created, id LIMIT $3"
    );
    sqlx::query(sqlx::AssertSqlSafe(query))
        .bind(after.0)
        .bind(after.1)
        .bind(most)
        .fetch_all(database.pool())
        .await
        .map_err(failed)?
        .iter()
        .map(record)
        .collect()
}

/// Adds to a caller's usage of a day.
pub(crate) async fn add_usage(
    transaction: &mut Transaction<'_, Any>,
    principal: &str,
    day: Day,
    spent: PeriodUsage,
    last_used: i64,
) -> Result<(), Fault> {
    let query = "INSERT INTO access_usage (principal, day, requests, tokens, cost, last_used) VALUES ($1, $2, $3, $4, $5, $6) ON \
                 CONFLICT (principal, day) DO UPDATE SET \
                 requests = CASE WHEN access_usage.requests > $7 - excluded.requests THEN $7 ELSE access_usage.requests + excluded.requests END, \
                 tokens = CASE WHEN access_usage.tokens > $7 - excluded.tokens THEN $7 ELSE access_usage.tokens + excluded.tokens END, \
                 cost = CASE WHEN access_usage.cost > $7 - excluded.cost THEN $7 ELSE access_usage.cost + excluded.cost END, \
                 last_used = CASE WHEN excluded.last_used > access_usage.last_used THEN excluded.last_used ELSE access_usage.last_used END";
    sqlx::query(query)
        .bind(principal)
        .bind(day)
        .bind(count(spent.requests))
        .bind(count(spent.tokens))
        .bind(count(spent.cost))
        .bind(last_used)
        .bind(LARGEST)
        .execute(&mut **transaction)
        .await
        .map_err(failed)?;
    Ok(())
}

/// Usage of the day, of the month and in total; the time of the last request; and the reservations
/// at `$5` of gateways other than `$4`.
///
/// This is one statement, because a gateway moves its counts from one table to the other. Between
/// two statements the counts would be in neither.
const SUMS: &str = "SELECT \
                    CAST(COALESCE(SUM(CASE WHEN day >= $2 THEN requests ELSE 0 END), 0) AS BIGINT), \
                    CAST(COALESCE(SUM(CASE WHEN day >= $2 THEN tokens ELSE 0 END), 0) AS BIGINT), \
                    CAST(COALESCE(SUM(CASE WHEN day >= $2 THEN cost ELSE 0 END), 0) AS BIGINT), \
                    CAST(COALESCE(SUM(CASE WHEN day >= $3 THEN requests ELSE 0 END), 0) AS BIGINT), \
                    CAST(COALESCE(SUM(CASE WHEN day >= $3 THEN tokens ELSE 0 END), 0) AS BIGINT), \
                    CAST(COALESCE(SUM(CASE WHEN day >= $3 THEN cost ELSE 0 END), 0) AS BIGINT), \
                    CAST(COALESCE(SUM(requests), 0) AS BIGINT), \
                    CAST(COALESCE(SUM(tokens), 0) AS BIGINT), \
                    CAST(COALESCE(SUM(cost), 0) AS BIGINT), \
                    CAST(COALESCE(MAX(last_used), 0) AS BIGINT), \
                    CAST(COALESCE((SELECT SUM(CASE WHEN tokens > $6 THEN $6 ELSE tokens END) FROM access_reserved \
                    WHERE principal = $1 AND holder <> $4 AND lease > $5), 0) AS BIGINT), \
                    CAST(COALESCE((SELECT SUM(CASE WHEN cost > $6 THEN $6 ELSE cost END) FROM access_reserved \
                    WHERE principal = $1 AND holder <> $4 AND lease > $5), 0) AS BIGINT) \
                    FROM (SELECT day, last_used, \
                    CASE WHEN requests > $6 THEN $6 ELSE requests END AS requests, \
                    CASE WHEN tokens > $6 THEN $6 ELSE tokens END AS tokens, \
                    CASE WHEN cost > $6 THEN $6 ELSE cost END AS cost \
                    FROM access_usage WHERE principal = $1) AS bounded";

/// A caller's usage according to the database.
pub(crate) struct StoredUsage {
    pub(crate) sums: Sums,
    pub(crate) last_used: i64,
    /// Reservations of other gateways, including their unwritten counts.
    pub(crate) of_others: PeriodUsage,
}

/// A caller's usage so far in the database, and the time of its last request.
pub(crate) async fn sums(database: &Database, principal: &str, today: Day) -> Result<(Sums, i64), Fault> {
    let mut connection = database.pool().acquire().await.map_err(failed)?;
    let known = known(&mut connection, principal, today, ("", i64::MAX)).await?;
    Ok((known.sums, known.last_used))
}

/// The same with the reservations of gateways other than `holder`, in leases that are valid at
/// `now`.
pub(crate) async fn known(
    connection: &mut AnyConnection,
    principal: &str,
    today: Day,
    (holder, now): (&str, i64),
) -> Result<StoredUsage, Fault> {
    let row = sqlx::query(SUMS)
        .bind(principal)
        .bind(today)
        .bind(month_begin(today))
        .bind(holder)
        .bind(now)
        .bind(LARGEST)
        .fetch_one(connection)
        .await
        .map_err(failed)?;
    let number = |column: usize| row.try_get::<i64, _>(column).map_err(failed);
    let count = |column: usize| number(column).map(i64::unsigned_abs);
    let spent = |column: usize| -> Result<PeriodUsage, Fault> {
        Ok(PeriodUsage {
            requests: count(column)?,
            tokens: count(column + 1)?,
            cost: count(column + 2)?,
        })
    };
    Ok(StoredUsage {
        sums: Sums {
            as_of: today,
            day: spent(0)?,
            month: spent(3)?,
            total: spent(6)?,
        },
        last_used: number(9)?,
        of_others: PeriodUsage {
            requests: 0,
            tokens: count(10)?,
            cost: count(11)?,
        },
    })
}

/// Maximum number in a row. Twenty years of days with this number can still be added up.
const LARGEST: i64 = 1 << 50;

/// A number in the format of a row.
pub(crate) fn count(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(LARGEST).min(LARGEST)
}

fn json(limits: &Limits) -> Result<String, Fault> {
    serde_json::to_string(limits).map_err(|error| Fault::internal(format!("limits cannot be written: {error}")))
}

fn record(row: &AnyRow) -> Result<KeyRecord, Fault> {
    let text = |name: &str| row.try_get::<String, _>(name).map_err(failed);
    let number = |name: &str| row.try_get::<i64, _>(name).map_err(failed);
    let moment = |name: &str| number(name).map(|at| Some(at).filter(|at| *at != 0));
    let id = text("id")?;
    let broken = |what: &str| {
        Fault::new(
            tonic::Code::DataLoss,
            "BROKEN_RECORD",
            format!("the record of key iso_{id} has unreadable {what}"),
        )
        .hint("the database was changed by hand, or by a newer version; revoke the key and make another")
    };
    let scopes = text("scopes")?;
    Ok(KeyRecord {
        digest: KeyDigest::from_hex(&text("digest")?).ok_or_else(|| broken("digest"))?,
        name: text("name")?,
        scopes: Scopes::parse(scopes.split(',').filter(|word| !word.is_empty())).map_err(|_| broken("scopes"))?,
        limits: serde_json::from_str(&text("limits")?).map_err(|_| broken("limits"))?,
        created: number("created")?,
        created_by: text("created_by")?,
        expires: moment("expires")?,
        revoked: moment("revoked")?,
        changed: number("changed")?,
        id,
    })
}
