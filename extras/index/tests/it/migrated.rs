//! A name that moves to vectors of another space, over a real PostgreSQL with pgvector.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use isomer_index::{
    IndexError,
    chunk::Chunking,
    digest,
    migrate::{self, Member, MigrationStep, Outcomes, run_both},
    name::{Agreement, State},
    run::Settings,
    store::{self, Credentials, Names},
};
use isomer_stubs::{encoder::StubEncoder, wait::until};
use sqlx::{PgPool, Row};
use tokio::task::JoinHandle;

use crate::support::{encoder, fill, rows, settings, source, stub, vector_of, write};

struct Fixture {
    address: String,
    pool: PgPool,
    names: Box<dyn Names>,
    _folder: tempfile::TempDir,
    path: std::path::PathBuf,
}

impl Fixture {
    /// Forty documents in the table `docs`, in the space `w1`.
    async fn new(schema: &str) -> Option<(Self, StubEncoder)> {
        let url = crate::servers::pgvector(schema).await?;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("docs.jsonl");
        write(&path, &rows(40));
        let address = format!("{url}#docs");
        let first = stub("w1");
        fill(&path, &address, &first, &settings()).await.unwrap();
        let place = Self {
            names: store::names(&address, &Credentials::default(), Duration::from_secs(3))
                .unwrap()
                .unwrap(),
            pool: PgPool::connect(&url).await.unwrap(),
            address,
            _folder: folder,
            path,
        };
        Some((place, first))
    }

    async fn state(&self) -> State {
        self.names.state().await.unwrap().unwrap()
    }

    async fn start(&self, to: &StubEncoder) -> Result<MigrationStep, IndexError> {
        let mark = encoder(to).await.mark(Chunking::Whole, false);
        migrate::start(self.names.as_ref(), None, &mark, 1).await
    }

    async fn member(&self, state: &State, collection: &str, stub: &StubEncoder) -> Member {
        let mark = self.names.mark(collection).await.unwrap();
        Member::new(self.names.open(state, collection).unwrap(), mark, encoder(stub).await).unwrap()
    }

    /// A run under the name, whose record was read before.
    async fn run_from(
        &self,
        state: &State,
        [old, new]: [&StubEncoder; 2],
        settings: &Settings,
    ) -> Result<Outcomes, IndexError> {
        let migration = state.migration.as_ref().unwrap();
        let of = |collection: &str| if collection == migration.old { old } else { new };
        let serving = self.member(state, &state.serving, of(&state.serving)).await;
        let name = state.other().unwrap();
        let other = self.member(state, name, of(name)).await;
        run_both(
            &source(&self.path),
            self.names.as_ref(),
            state,
            (&serving, Some(&other)),
            settings,
            &|_| {},
        )
        .await
    }

    async fn run(&self, stubs: [&StubEncoder; 2]) -> Outcomes {
        self.run_from(&self.state().await, stubs, &settings()).await.unwrap()
    }

    async fn step(
        &self,
        next: impl Fn(&State) -> Result<isomer_index::name::Next, IndexError> + Send + Sync,
    ) -> Result<MigrationStep, IndexError> {
        migrate::step(self.names.as_ref(), "step", next).await
    }

    /// Keys and spaces of a table or view, by digests of the rows.
    async fn spaces(&self, table: &str) -> Vec<(String, String)> {
        let statement = format!("SELECT key, left(digest, 16) FROM {table} ORDER BY key");
        sqlx::query_as(sqlx::AssertSqlSafe(statement))
            .fetch_all(&self.pool)
            .await
            .unwrap()
    }

    async fn tables(&self) -> Vec<String> {
        let statement = "SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v') \
                         AND relname LIKE 'docs%' ORDER BY 1";
        sqlx::query_scalar(statement).fetch_all(&self.pool).await.unwrap()
    }
}

fn part(weights: &str) -> String {
    digest::space_part(&format!("{weights} document: "))
}

fn agreement() -> Agreement {
    Agreement {
        queries: 3,
        k: 10,
        overlap: 0.5,
        rank_biased_overlap: 0.5,
        at: 2,
    }
}

#[tokio::test]
async fn pgvector_moves_a_name_step_by_step() {
    let Some((place, first)) = Fixture::new("index_migrated").await else {
        return;
    };
    let second = stub("w2");
    let before = place.step(|state| state.switch(true, 1)).await.unwrap_err();
    assert!(before.to_string().contains("no migration was begun"), "{before}");

    // Started: the name is a view with the same rows and readers, and repeating changes nothing.
    sqlx::raw_sql("DROP ROLE IF EXISTS index_migrated_reader; CREATE ROLE index_migrated_reader; GRANT SELECT ON docs TO index_migrated_reader")
        .execute(&place.pool)
        .await
        .unwrap();
    let same = place.start(&first).await.unwrap_err();
    assert!(same.to_string().contains("these settings already"), "{same}");
    assert_eq!(place.tables().await, ["docs"]);
    let started = place.start(&second).await.unwrap();
    assert!(!started.already && started.state.serving == "docs_1");
    assert!(place.start(&second).await.unwrap().already);
    let other = place.start(&stub("w3")).await.unwrap_err();
    assert!(
        other.to_string().contains("to `docs_2` is in progress") && other.to_string().contains("w3"),
        "{other}"
    );
    assert_eq!(place.tables().await, ["docs", "docs_1", "docs_2"]);
    assert_eq!(place.spaces("docs").await.len(), 40);
    for on in ["docs", "isomer_index_names"] {
        let may = "SELECT has_table_privilege('index_migrated_reader', $1, 'SELECT')";
        let may: bool = sqlx::query_scalar(may).bind(on).fetch_one(&place.pool).await.unwrap();
        assert!(may, "{on}");
    }

    // A process that writes past the name gets an error.
    write(&place.path, &rows(45));
    let collection = |name: &str| place.address.replace("#docs", &format!("#{name}"));
    for (name, stub) in [("docs", &first), ("docs_1", &first), ("docs_2", &second)] {
        let refused = fill(&place.path, &collection(name), stub, &settings())
            .await
            .unwrap_err();
        assert!(matches!(refused, IndexError::Moved { .. }), "{name}: {refused}");
    }
    assert_eq!(place.spaces("docs_1").await.len(), 40);

    // Filled: both have all rows, each of its own space.
    let both = place.run([&first, &second]).await;
    let other = both.other.unwrap().unwrap();
    assert_eq!((both.serving.counts.written, other.counts.written), (5, 45));
    for (table, weights) in [("docs_1", "w1"), ("docs_2", "w2")] {
        let found = place.spaces(table).await;
        assert!(
            found.len() == 45 && found.iter().all(|(_, space)| *space == part(weights)),
            "{table}"
        );
    }

    // If the new one cannot be written to, the old one stays in use, and the record says so.
    let mut documents = rows(45);
    documents[3].1 = "changed".to_owned();
    write(&place.path, &documents);
    sqlx::raw_sql("ALTER TABLE docs_2 ADD CONSTRAINT \"full\" CHECK (key <> 'k3') NOT VALID")
        .execute(&place.pool)
        .await
        .unwrap();
    let failing = place.run([&first, &second]).await;
    sqlx::raw_sql("ALTER TABLE docs_2 DROP CONSTRAINT \"full\"")
        .execute(&place.pool)
        .await
        .unwrap();
    assert_eq!(failing.serving.counts.written, 1);
    assert!(failing.other.unwrap().is_err());
    let refused = place.step(|state| state.switch(true, 2)).await.unwrap_err();
    assert!(
        refused.to_string().contains("docs_2 does not have all rows"),
        "{refused}"
    );
    let both = place.run([&first, &second]).await;
    assert_eq!(
        (both.serving.counts.written, both.other.unwrap().unwrap().counts.written),
        (0, 1)
    );

    // A collection that lacks documents, or the index, does not serve.
    let refused = place.step(|state| state.switch(false, 2)).await.unwrap_err();
    assert!(refused.to_string().contains("not compared"), "{refused}");
    place.step(|state| state.agree(agreement())).await.unwrap();
    sqlx::raw_sql("DELETE FROM docs_2 WHERE key = 'k7'")
        .execute(&place.pool)
        .await
        .unwrap();
    let refused = place.step(|state| state.switch(false, 2)).await.unwrap_err();
    assert!(
        refused.to_string().contains("lacks 1 documents") && refused.to_string().contains("`k7`"),
        "{refused}"
    );
    place.run([&first, &second]).await;
    let state = place.state().await;
    let store = place.names.open(&state, "docs_1").unwrap();
    let mark = place.names.mark("docs_1").await.unwrap();
    store.build_index(&mark).await.unwrap();
    let refused = place.step(|state| state.switch(false, 2)).await.unwrap_err();
    assert!(refused.to_string().contains("no index"), "{refused}");
    let indexing = Settings {
        build_index: true,
        ..settings()
    };
    place.run_from(&state, [&first, &second], &indexing).await.unwrap();

    // Switched: every row that readers get is of the new space, and the guard finds none of the
    // old.
    let stale = place.state().await;
    place.step(|state| state.switch(false, 2)).await.unwrap();
    assert!(place.step(|state| state.switch(false, 3)).await.unwrap().already);
    let found = place.spaces("docs").await;
    assert!(found.len() == 45 && found.iter().all(|(_, space)| *space == part("w2")));
    let guard = "SELECT (SELECT count(*) FROM docs WHERE space = $1), (SELECT space FROM isomer_index_names), count(*) FROM docs \
                 WHERE space = (SELECT space FROM isomer_index_names)";
    let (old, space, new): (i64, String, i64) = sqlx::query_as(guard)
        .bind("w1 document: ")
        .fetch_one(&place.pool)
        .await
        .unwrap();
    assert_eq!((old, space.as_str(), new), (0, "w2 document: ", 45));
    // A run that began before goes no further.
    documents[4].1 = "changed too".to_owned();
    write(&place.path, &documents);
    let moved = place
        .run_from(&stale, [&first, &second], &settings())
        .await
        .unwrap_err();
    assert!(matches!(moved, IndexError::Moved { .. }), "{moved}");
    let both = place.run([&first, &second]).await;
    assert_eq!(
        (both.serving.counts.written, both.other.unwrap().unwrap().counts.written),
        (1, 1)
    );

    // Back, forth, and the end; then the next one.
    place.step(State::roll_back).await.unwrap();
    assert!(place.spaces("docs").await.iter().all(|(_, space)| *space == part("w1")));
    let refused = place.step(|state| state.finish(4)).await.unwrap_err();
    assert!(refused.to_string().contains("readers get docs_1"), "{refused}");
    place.step(|state| state.switch(false, 4)).await.unwrap();
    place.step(|state| state.finish(5)).await.unwrap();
    assert!(place.step(|state| state.finish(6)).await.unwrap().already);
    assert_eq!(place.tables().await, ["docs", "docs_2"]);
    let found = place.spaces("docs").await;
    assert!(found.len() == 45 && found.iter().all(|(_, space)| *space == part("w2")));
    let third = stub("w3");
    assert_eq!(place.start(&third).await.unwrap().state.other(), Some("docs_3"));
    place.step(|state| state.abandon(7)).await.unwrap();
    assert_eq!(place.tables().await, ["docs", "docs_2"]);
    assert_eq!(place.spaces("docs").await.len(), 45);
}

/// One search as an application makes it. Returns whether the record had to be read again.
async fn searched(pool: &PgPool, text: &str) -> Result<bool, String> {
    let failed = |error: sqlx::Error| error.to_string();
    let mut again = false;
    for _ in 0..20 {
        let record =
            sqlx::query("SELECT model, space, mark->'space'->>'weights' FROM isomer_index_names WHERE name = 'docs'");
        let record = record.fetch_one(pool).await.map_err(failed)?;
        let (space, weights): (String, String) = (record.get(1), record.get(2));
        let vector: Vec<String> = vector_of(&weights, "document: ", text)
            .iter()
            .map(ToString::to_string)
            .collect();
        let found = sqlx::query(
            "SELECT key, space, left(digest, 16), (embedding <=> $2::vector)::float8 FROM docs WHERE space = $1 \
             ORDER BY embedding <=> $2::vector LIMIT 5",
        )
        .bind(&space)
        .bind(format!("[{}]", vector.join(",")))
        .fetch_all(pool)
        .await
        .map_err(failed)?;
        if found.is_empty() {
            again = true;
            continue;
        }
        let wanted = part(&weights);
        let own = |row: &sqlx::postgres::PgRow| row.get::<String, _>(1) == space && row.get::<String, _>(2) == wanted;
        // The nearest row is that of the text itself, at no distance.
        let nearest: f64 = found[0].get(3);
        if !found.iter().all(own) || nearest > 1e-6 {
            return Err(format!("mixed: {nearest}"));
        }
        return Ok(again);
    }
    Err("nothing found".to_owned())
}

#[tokio::test]
async fn no_search_fails_or_sees_two_spaces_while_a_name_moves() {
    let Some((place, first)) = Fixture::new("index_moving").await else {
        return;
    };
    let second = stub("w2");
    place.start(&second).await.unwrap();
    place.run([&first, &second]).await;
    place.step(|state| state.agree(agreement())).await.unwrap();
    let (over, count, again) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
    );
    let readers: Vec<_> = (0..4)
        .map(|reader| {
            let (pool, over, count, again) = (
                place.pool.clone(),
                Arc::clone(&over),
                Arc::clone(&count),
                Arc::clone(&again),
            );
            tokio::spawn(async move {
                let texts: Vec<String> = rows(40).into_iter().map(|(_, text, _)| text).collect();
                let mut at = reader;
                while !over.load(Ordering::SeqCst) {
                    let reread = searched(&pool, &texts[at % 40]).await?;
                    count.fetch_add(1, Ordering::SeqCst);
                    again.fetch_add(usize::from(reread), Ordering::SeqCst);
                    at += 1;
                }
                Ok::<_, String>(())
            })
        })
        .collect();
    let searches_go_on = async || {
        let before = count.load(Ordering::SeqCst);
        until("searches go on, or fail", || {
            count.load(Ordering::SeqCst) >= before + 4 || readers.iter().any(JoinHandle::is_finished)
        })
        .await;
    };
    for _ in 0..15 {
        place.step(|state| state.switch(false, 1)).await.unwrap();
        searches_go_on().await;
        place.step(State::roll_back).await.unwrap();
        searches_go_on().await;
    }
    place.step(|state| state.switch(false, 1)).await.unwrap();
    place.step(|state| state.finish(1)).await.unwrap();
    searches_go_on().await;
    over.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.await.unwrap().unwrap();
    }
    let count = count.load(Ordering::SeqCst);
    println!(
        "{count} searches, {} read the record again",
        again.load(Ordering::SeqCst)
    );
    assert!(count > 50, "{count}");
    // The positive twin: what would be mixed is seen.
    sqlx::raw_sql("UPDATE docs_2 SET digest = 'another space' WHERE key = 'k0'")
        .execute(&place.pool)
        .await
        .unwrap();
    let text = rows(1).remove(0).1;
    assert!(searched(&place.pool, &text).await.unwrap_err().contains("mixed"));
}

#[tokio::test]
async fn a_name_is_made_over_another_table_and_not_over_what_it_would_uncover() {
    let Some((place, _)) = Fixture::new("index_adopted").await else {
        return;
    };
    let second = stub("w2");
    let mark = encoder(&second).await.mark(Chunking::Whole, false);
    let search = store::names(
        &place.address.replace("#docs", "#search"),
        &Credentials::default(),
        Duration::from_secs(3),
    )
    .unwrap()
    .unwrap();
    let nothing = migrate::start(search.as_ref(), None, &mark, 1).await.unwrap_err();
    assert!(matches!(nothing, IndexError::NoCollection { .. }), "{nothing}");
    sqlx::raw_sql("ALTER TABLE docs ENABLE ROW LEVEL SECURITY")
        .execute(&place.pool)
        .await
        .unwrap();
    let secured = migrate::start(search.as_ref(), Some("docs"), &mark, 1)
        .await
        .unwrap_err();
    assert!(secured.to_string().contains("row-level security"), "{secured}");
    sqlx::raw_sql("ALTER TABLE docs DISABLE ROW LEVEL SECURITY; CREATE VIEW taken AS SELECT 1 AS x")
        .execute(&place.pool)
        .await
        .unwrap();
    let started = migrate::start(search.as_ref(), Some("docs"), &mark, 1).await.unwrap();
    assert_eq!(
        (started.state.serving.as_str(), started.state.other()),
        ("docs", Some("search_1"))
    );
    assert_eq!(place.spaces("search").await.len(), 40);
    let taken = store::names(
        &place.address.replace("#docs", "#taken"),
        &Credentials::default(),
        Duration::from_secs(3),
    )
    .unwrap()
    .unwrap();
    let refused = migrate::start(taken.as_ref(), None, &mark, 1).await.unwrap_err();
    assert!(matches!(refused, IndexError::Foreign { .. }), "{refused}");
}

/// Takes an alias through a migration; `address` ends in front of its name.
async fn hold_alias(address: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    write(&path, &rows(40));
    let (first, second) = (stub("w1"), stub("w2"));
    let at = |name: &str| format!("{address}{name}");
    fill(&path, &at("first"), &first, &settings()).await.unwrap();
    let open_name = |name: &str| {
        store::names(&at(name), &Credentials::default(), Duration::from_secs(3))
            .unwrap()
            .unwrap()
    };
    let names = open_name("docs");
    let names = names.as_ref();
    let mark = encoder(&second).await.mark(Chunking::Whole, false);
    let nothing = migrate::start(names, None, &mark, 1).await.unwrap_err();
    assert!(nothing.to_string().contains("no alias"), "{nothing}");
    let started = migrate::start(names, Some("first"), &mark, 1).await.unwrap();
    assert_eq!((started.already, started.state.other()), (false, Some("docs_1")));
    assert!(migrate::start(names, None, &mark, 1).await.unwrap().already);
    // A collection behind the name is not written to past it.
    let past = open_name("first").state().await.unwrap_err();
    assert!(matches!(past, IndexError::Moved { .. }), "{past}");

    let run = async |state: &State| {
        let member = async |collection: &str, stub: &StubEncoder| {
            let mark = names.mark(collection).await.unwrap();
            Member::new(names.open(state, collection).unwrap(), mark, encoder(stub).await).unwrap()
        };
        let (old, new) = (member("first", &first).await, member("docs_1", &second).await);
        let (serving, other) = match state.serving == "first" {
            true => (old, new),
            false => (new, old),
        };
        let (source, settings) = (source(&path), settings());
        run_both(&source, names, state, (&serving, Some(&other)), &settings, &|_| {}).await
    };
    let state = async || names.state().await.unwrap().unwrap();
    let both = run(&state().await).await.unwrap();
    assert_eq!(
        (
            both.serving.counts.unchanged,
            both.other.unwrap().unwrap().counts.written
        ),
        (40, 40)
    );
    // A document that is missing keeps the name where it is.
    let gone = crate::support::open(&at("docs_1"));
    gone.write(&[], &["k7".to_owned()]).await.unwrap();
    gone.settle().await.unwrap();
    let refused = migrate::step(names, "switch", |state| state.switch(true, 2))
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("lacks 1 documents"), "{refused}");
    let begun = state().await;
    run(&begun).await.unwrap();
    migrate::step(names, "switch", |state| state.switch(true, 2))
        .await
        .unwrap();
    // The name is read as the new collection, and a run that began before writes nothing more.
    let read = || crate::support::open(&at("docs"));
    assert_eq!(read().mark().await.unwrap().unwrap().space.weights, "w2");
    let mut documents = rows(40);
    documents[3].1 = "changed".to_owned();
    write(&path, &documents);
    let moved = run(&begun).await.unwrap_err();
    assert!(matches!(moved, IndexError::Moved { .. }), "{moved}");
    run(&state().await).await.unwrap();
    migrate::step(names, "roll back", State::roll_back).await.unwrap();
    assert_eq!(read().mark().await.unwrap().unwrap().space.weights, "w1");
    migrate::step(names, "switch", |state| state.switch(true, 3))
        .await
        .unwrap();
    migrate::step(names, "finish", |state| state.finish(4)).await.unwrap();
    assert!(
        migrate::step(names, "finish", |state| state.finish(5))
            .await
            .unwrap()
            .already
    );
    assert!(crate::support::open(&at("first")).mark().await.unwrap().is_none());
    assert_eq!(crate::support::all(&at("docs")).await.len(), 40);
    let third = encoder(&stub("w3")).await.mark(Chunking::Whole, false);
    assert_eq!(
        migrate::start(names, None, &third, 6).await.unwrap().state.other(),
        Some("docs_2")
    );
    migrate::step(names, "abandon", |state| state.abandon(7)).await.unwrap();
    assert!(crate::support::open(&at("docs_2")).mark().await.unwrap().is_none());
    assert_eq!(state().await.serving, "docs_1");
}

#[tokio::test]
async fn aliases_of_qdrant_milvus_opensearch_and_elasticsearch_move() {
    Box::pin(hold_alias(&format!("qdrant+{}#", crate::servers::qdrant().await))).await;
    Box::pin(hold_alias(&format!("milvus+{}#", crate::milvus::server().await))).await;
    for kind in ["opensearch", "elasticsearch"] {
        Box::pin(hold_alias(&format!("{kind}+{}#", crate::servers::elastic().await))).await;
    }
}

#[tokio::test]
async fn stores_without_names_have_none() {
    for address in ["chroma+http://127.0.0.1:1#docs", "a/folder"] {
        let names = store::names(address, &Credentials::default(), Duration::from_secs(1)).unwrap();
        assert!(names.is_none(), "{address}");
    }
}
