//! Common parts of reading and writing PostgreSQL.

use std::{str::FromStr, time::Duration};

use sqlx::{
    ConnectOptions, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use crate::{
    address::StoreAddress,
    error::{IndexError, Result},
};

/// Maximum length of a name that PostgreSQL does not truncate, in bytes.
const LONGEST_NAME: usize = 63;
const CONNECTIONS: u32 = 8;
const ACQUIRE: Duration = Duration::from_secs(10);
/// The server ends the transaction of a process that was stopped in the middle of it. Otherwise its
/// rows would stay locked.
const TRANSACTIONS: &str = "SET idle_in_transaction_session_timeout = '30s'";

/// A quoted name, e.g. `"docs"` or `"search"."docs"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// The form in statements.
    pub(crate) quoted: String,
    /// The last part, without quotes.
    pub(crate) last: String,
    /// The prefix in statements: a schema with its dot, or nothing.
    schema: String,
}

impl Name {
    /// A table, with or without its schema in front.
    pub(crate) fn table(field: &'static str, text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split('.').collect();
        if parts.len() > 2 {
            return Err(unfit(field, text));
        }
        let schema = match parts.as_slice() {
            [schema, _] => format!("{}.", quoted(field, schema)?),
            _ => String::new(),
        };
        let last = parts.last().copied().unwrap_or_default();
        Self::within(field, schema, last)
    }

    /// Another name in the same schema.
    pub(crate) fn beside(&self, field: &'static str, last: &str) -> Result<Self> {
        Self::within(field, self.schema.clone(), last)
    }

    fn within(field: &'static str, schema: String, last: &str) -> Result<Self> {
        Ok(Self {
            quoted: format!("{schema}{}", quoted(field, last)?),
            last: last.to_owned(),
            schema,
        })
    }
}

/// A quoted name, which is taken literally whatever it contains.
pub(crate) fn quoted(field: &'static str, name: &str) -> Result<String> {
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
        return Err(unfit(field, name));
    }
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}

/// A text literal in a statement. With standard strings, a backslash is an ordinary character.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn unfit(field: &'static str, name: &str) -> IndexError {
    IndexError::Setting {
        field,
        message: format!("`{name}` is not a name in PostgreSQL"),
        hint: "a name has 1 to 63 bytes; write TABLE or SCHEMA.TABLE",
    }
}

/// A pool that connects when it is first used. PGPASSWORD may contain the password.
pub(crate) fn pool(field: &'static str, place: &StoreAddress) -> Result<PgPool> {
    let options = PgConnectOptions::from_str(place.url.as_str()).map_err(|error| IndexError::Setting {
        field,
        message: format!("the address of {} cannot be used: {error}", place.shown),
        hint: "write it as postgres://USER@HOST:PORT/DATABASE",
    })?;
    // A logged statement may contain a query of the user's, with the user's values.
    let options = options.application_name("isomer index").disable_statement_logging();
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(ACQUIRE)
        .after_connect(|connection, _| {
            Box::pin(async move {
                sqlx::raw_sql(TRANSACTIONS).execute(&mut *connection).await?;
                Ok(())
            })
        })
        .connect_lazy_with(options);
    Ok(pool)
}

/// The kind of error depends on whether the same statement may succeed later.
pub(crate) fn failed(doing: &str) -> impl FnOnce(sqlx::Error) -> IndexError {
    let doing = doing.to_owned();
    move |error| {
        let passes = match &error {
            sqlx::Error::Database(told) => told.code().is_some_and(|code| {
                // Errors of connections, resources, shutdown, deadlocks and serialisation, and
                // locks that could not be obtained in time.
                ["08", "53", "57P", "40", "55P03"]
                    .iter()
                    .any(|class| code.starts_with(class))
            }),
            sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed | sqlx::Error::Protocol(_) => {
                true
            }
            _ => false,
        };
        let message = match &error {
            sqlx::Error::Database(told) => told.message().to_owned(),
            other => other.to_string(),
        };
        match passes {
            true => IndexError::Unavailable { doing, message },
            false => IndexError::Refused { doing, message },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_means_itself_whatever_is_in_it() {
        assert_eq!(Name::table("t", "docs").unwrap().quoted, "\"docs\"");
        let odd = Name::table("t", "my schema.a\"; DROP TABLE x; --").unwrap();
        assert_eq!(odd.quoted, "\"my schema\".\"a\"\"; DROP TABLE x; --\"");
        let beside = odd.beside("t", "b").unwrap();
        assert_eq!(
            (beside.quoted.as_str(), beside.last.as_str()),
            ("\"my schema\".\"b\"", "b")
        );
        assert_eq!(literal("it's"), "'it''s'");
        for bad in ["", "a.b.c", ".a", &"x".repeat(64), "a\0b"] {
            assert!(Name::table("t", bad).is_err(), "{bad}");
        }
    }
}
