//! The tables of the ledger. A step never changes once it has been released: add a new one.

/// Steps for [`isomer_database::Database::migrate`].
pub(super) const STEPS: &[&str] = &[
    "CREATE TABLE eval_runs (
        id TEXT NOT NULL PRIMARY KEY,
        request TEXT,
        owner TEXT,
        active BIGINT NOT NULL,
        state TEXT NOT NULL,
        ended BIGINT,
        leader TEXT NOT NULL,
        fence BIGINT NOT NULL,
        cancel TEXT,
        record TEXT NOT NULL,
        sequence BIGINT NOT NULL
    )",
    "CREATE UNIQUE INDEX eval_runs_request ON eval_runs (request)",
    "CREATE INDEX eval_runs_active ON eval_runs (active, leader)",
    "CREATE TABLE eval_run_events (
        run TEXT NOT NULL,
        sequence BIGINT NOT NULL,
        time BIGINT NOT NULL,
        event TEXT NOT NULL,
        PRIMARY KEY (run, sequence)
    )",
    "CREATE TABLE eval_run_looks (
        run TEXT NOT NULL,
        number BIGINT NOT NULL,
        look TEXT NOT NULL,
        PRIMARY KEY (run, number)
    )",
    "CREATE TABLE eval_run_files (
        run TEXT NOT NULL,
        name TEXT NOT NULL,
        content TEXT NOT NULL,
        PRIMARY KEY (run, name)
    )",
    "CREATE TABLE eval_replicas (
        id TEXT NOT NULL PRIMARY KEY,
        beat BIGINT NOT NULL
    )",
    "CREATE TABLE eval_attempts (
        subject TEXT NOT NULL,
        run TEXT NOT NULL,
        owner TEXT NOT NULL,
        evidence TEXT NOT NULL,
        made BIGINT NOT NULL,
        PRIMARY KEY (subject, run)
    )",
];
