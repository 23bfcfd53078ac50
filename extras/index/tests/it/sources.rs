//! PostgreSQL as a source: every row once, in the order of its key. Collections as sources: the
//! texts and payloads that they keep.

use std::time::Duration;

use futures::TryStreamExt;
use isomer_index::{
    IndexError,
    chunk::{Chunking, Window},
    run::{self, Settings},
    source::{CollectionRows, Columns, Document, Payload, PostgresRows, Source},
};
use isomer_stubs::postgres::empty_schema;

use crate::support::{encoder, fill, open, payload, rows, settings, stub, vector_of, write};

fn columns(key: &str, texts: &[&str], payload: Payload) -> Columns {
    Columns {
        key: key.to_owned(),
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        payload,
    }
}

async fn read(url: &str, query: Option<&str>, columns: Columns, most: usize) -> Result<Vec<Vec<Document>>, IndexError> {
    let rows = PostgresRows::open(url, query, columns, Duration::from_millis(10))?;
    Source::Postgres(rows).batches(most).try_collect().await
}

#[tokio::test]
async fn tables_and_queries_are_read_page_by_page() {
    let Some(url) = empty_schema("index_source").await else {
        return;
    };
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    let made = "CREATE TABLE \"odd \"\"name\" (id bigint PRIMARY KEY, \"the text\" text, title text, n int, tags text[]); \
                INSERT INTO \"odd \"\"name\" SELECT n, 'text ' || n, CASE WHEN n % 2 = 0 THEN 'title' END, n, ARRAY['a'] \
                FROM generate_series(1, 100) n; \
                CREATE TABLE twice (id int, t text); INSERT INTO twice SELECT n / 2, 'x' FROM generate_series(2, 21) n; \
                CREATE TABLE nulls (id int, t text); INSERT INTO nulls VALUES (1, 'a'), (NULL, 'b'); \
                CREATE TABLE uuids (id uuid PRIMARY KEY, t text); INSERT INTO uuids SELECT gen_random_uuid(), 't' FROM generate_series(1, 25)";
    sqlx::raw_sql(made).execute(&pool).await.unwrap();

    let table = format!("{url}#odd \"name");
    let found = read(&table, None, columns("id", &["title", "the text"], Payload::All), 9)
        .await
        .unwrap();
    assert_eq!(
        found.iter().map(Vec::len).collect::<Vec<_>>(),
        [vec![9; 11], vec![1]].concat()
    );
    let all: Vec<&Document> = found.iter().flatten().collect();
    // By number, not by the letters of the number.
    assert_eq!(
        all.iter().map(|d| d.key.parse::<usize>().unwrap()).collect::<Vec<_>>(),
        (1..=100).collect::<Vec<_>>()
    );
    assert_eq!(
        (all[0].text.as_str(), all[1].text.as_str()),
        ("text 1", "title\ntext 2")
    );
    assert_eq!(
        serde_json::Value::Object(all[2].payload.clone()),
        serde_json::json!({ "n": 3, "tags": ["a"] })
    );
    // A page that is exactly full is not followed by an empty one.
    let exact = read(&table, None, columns("id", &["title"], Payload::None), 50)
        .await
        .unwrap();
    assert_eq!(exact.iter().map(Vec::len).collect::<Vec<_>>(), [50, 50]);
    let uuids = read(&format!("{url}#uuids"), None, columns("id", &["t"], Payload::None), 4)
        .await
        .unwrap();
    assert_eq!(uuids.iter().map(Vec::len).sum::<usize>(), 25);

    let query = "SELECT n AS k, 'it''s ' || n AS t, n % 3 AS m FROM generate_series(1, 20) n;";
    let named = Payload::Named(vec!["m".to_owned()]);
    let found = read(&url, Some(query), columns("k", &["t"], named), 8).await.unwrap();
    let last = found.last().unwrap().last().unwrap();
    assert_eq!(
        (last.key.as_str(), last.text.as_str(), last.payload["m"].as_i64()),
        ("20", "it's 20", Some(2))
    );

    // A key that is there twice, once on each of two pages, would be passed over in silence.
    let twice = read(&format!("{url}#twice"), None, columns("id", &["t"], Payload::None), 3)
        .await
        .unwrap_err();
    assert!(matches!(twice, IndexError::SameKey { .. }), "{twice}");
    let null = read(&format!("{url}#nulls"), None, columns("id", &["t"], Payload::None), 1)
        .await
        .unwrap_err();
    assert!(null.to_string().contains("null"), "{null}");
    for (address, columns, part) in [
        (
            format!("{url}#nowhere"),
            columns("id", &["t"], Payload::None),
            "nowhere",
        ),
        (table.clone(), columns("no", &["title"], Payload::None), "no"),
        (
            table,
            columns("id\"; DROP TABLE twice; --", &["title"], Payload::None),
            "DROP",
        ),
    ] {
        let error = read(&address, None, columns, 5).await.unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    let there: i64 = sqlx::query_scalar("SELECT count(*) FROM twice")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(there, 20);
    let empty = read(
        &url,
        Some("SELECT 1 AS id, 'a' AS t WHERE false"),
        columns("id", &["t"], Payload::None),
        5,
    )
    .await;
    assert_eq!(empty.unwrap(), Vec::<Vec<Document>>::new());
}

async fn collection(address: &str, payload: Payload) -> Result<Option<CollectionRows>, IndexError> {
    CollectionRows::open(open(address), payload).await
}

async fn hold(address: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    let documents = rows(40);
    write(&path, &documents);
    let first = stub("w1");
    let none = collection(&format!("{address}nothing"), Payload::All).await.unwrap();
    assert!(none.is_none());
    let keeping = Settings {
        with_text: true,
        ..settings()
    };
    let kept = format!("{address}kept");
    fill(&path, &kept, &first, &keeping).await.unwrap();
    let source = Source::Collection(collection(&kept, Payload::All).await.unwrap().unwrap());
    let read: Vec<Vec<Document>> = source.batches(7).try_collect().await.unwrap();
    assert!(read.iter().all(|batch| batch.len() <= 7));
    let mut read: Vec<Document> = read.into_iter().flatten().collect();
    read.sort_by(|a, b| a.key.cmp(&b.key));
    let mut expected: Vec<Document> = documents
        .iter()
        .map(|(key, text, n)| Document {
            key: key.clone(),
            text: text.clone(),
            payload: payload(*n),
        })
        .collect();
    expected.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(read, expected);

    // Vectors of another encoder are made of what is kept, and rows are those of the first source.
    let second = stub("w2");
    let moved = folder.path().join("moved");
    let moved = moved.to_str().unwrap();
    let run = async || {
        run::run(
            &source,
            open(moved).as_ref(),
            &encoder(&second).await,
            &settings(),
            &|_| {},
        )
        .await
        .unwrap()
        .counts
    };
    assert_eq!(run().await.written, 40);
    assert_eq!((run().await.written, run().await.unchanged), (0, 40));
    let vectors = open(moved).vectors(&["k7".to_owned()]).await.unwrap();
    assert_eq!(vectors[0].vector, vector_of("w2", "document: ", &documents[7].1));
    assert_eq!(vectors[0].payload, payload(7));

    let named = collection(&kept, Payload::Named(vec!["lang".to_owned()]))
        .await
        .unwrap();
    let missing: Result<Vec<_>, _> = Source::Collection(named.unwrap()).batches(9).try_collect().await;
    assert!(missing.unwrap_err().to_string().contains("`lang`"));
    // A collection without whole texts is not a source.
    let bare = format!("{address}bare");
    fill(&path, &bare, &first, &settings()).await.unwrap();
    let refused = collection(&bare, Payload::None).await.unwrap_err();
    assert!(refused.to_string().contains("stores no texts"), "{refused}");
    let pieces = Settings {
        chunking: Chunking::Tokens(Window { size: 3, overlap: 1 }),
        ..keeping
    };
    let divided = format!("{address}pieces");
    fill(&path, &divided, &first, &pieces).await.unwrap();
    let refused = collection(&divided, Payload::None).await.unwrap_err();
    assert!(refused.to_string().contains("pieces of texts"), "{refused}");
}

#[tokio::test]
async fn a_collection_that_keeps_texts_is_a_source() {
    let folder = tempfile::tempdir().unwrap();
    hold(&format!("{}/", folder.path().display())).await;
    hold(&format!("qdrant+{}#", crate::servers::qdrant().await)).await;
    hold(&format!("chroma+{}#", crate::servers::chroma().await)).await;
    hold(&format!("milvus+{}#", crate::milvus::server().await)).await;
    for kind in ["opensearch", "elasticsearch"] {
        hold(&format!("{kind}+{}#", crate::servers::elastic().await)).await;
    }
    if let Some(url) = crate::servers::pgvector("index_collections").await {
        hold(&format!("{url}#")).await;
    }
}
