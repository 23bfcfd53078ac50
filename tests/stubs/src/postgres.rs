//! Empty schemas of the PostgreSQL server of the tests.

use std::env;

use sqlx::{AnyPool, AssertSqlSafe, any::install_default_drivers};

/// The address of an empty schema with this name, which replaces an existing one.
///
/// `ISOMER_TEST_POSTGRES` names a database in which schemas may be created, for example
/// `postgres://isomer@127.0.0.1/test`. Without it the test reports that it is skipped, and gets
/// `None`.
pub async fn empty_schema(name: &str) -> Option<String> {
    let Ok(url) = env::var("ISOMER_TEST_POSTGRES") else {
        crate::skip("no PostgreSQL");
        return None;
    };
    install_default_drivers();
    let pool = AnyPool::connect(&url).await.unwrap();
    let anew = format!("DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}");
    sqlx::raw_sql(AssertSqlSafe(anew)).execute(&pool).await.unwrap();
    pool.close().await;
    let separator = if url.contains('?') { '&' } else { '?' };
    Some(format!("{url}{separator}options[search_path]={name}"))
}
