//! Stores in memory that speak the protocols of real ones, as far as runs use them, and a real
//! PostgreSQL.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use isomer_scoring::metric::similarity::cosine;
use isomer_stubs::{
    http::{Call, Reply, Stub},
    postgres::empty_schema,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// An empty schema of a PostgreSQL that has pgvector.
pub(crate) async fn pgvector(name: &str) -> Option<String> {
    let url = empty_schema(name).await?;
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    let there = "SELECT EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector')";
    let there: bool = sqlx::query_scalar(there).fetch_one(&pool).await.unwrap();
    if !there {
        isomer_stubs::skip("no pgvector");
        return None;
    }
    // In a schema of its own, so that no test takes the type away from another. Tests that begin
    // together would make it twice.
    let made = "SELECT pg_advisory_lock(4711); CREATE SCHEMA IF NOT EXISTS types; CREATE EXTENSION IF NOT EXISTS vector SCHEMA types; \
                SELECT pg_advisory_unlock(4711)";
    sqlx::raw_sql(made).execute(&pool).await.unwrap();
    Some(url.replace(&format!("search_path]={name}"), &format!("search_path]={name},types")))
}

/// Rows of collections by id.
type Collections = Arc<Mutex<BTreeMap<String, Collection>>>;

#[derive(Debug, Default)]
struct Collection {
    about: Value,
    rows: BTreeMap<String, Value>,
}

fn parts(call: &Call) -> Vec<String> {
    call.path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

fn strings(value: &Value) -> HashSet<String> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

fn floats(value: &Value) -> Vec<f32> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap() as f32)
        .collect()
}

fn nearest<'a>(
    rows: impl Iterator<Item = &'a Value>,
    field: &str,
    query: &[f32],
    most: usize,
) -> Vec<(f32, &'a Value)> {
    let mut scored: Vec<(f32, &Value)> = rows.map(|row| (cosine(query, &floats(&row[field])), row)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.truncate(most);
    scored
}

/// Collections by alias.
type Aliases = Mutex<BTreeMap<String, String>>;

/// Qdrant's REST API.
pub(crate) async fn qdrant() -> String {
    let all: Collections = Arc::default();
    let aliases: Aliases = Mutex::default();
    Stub::start(move |call| {
        let parts = parts(call);
        let mut parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let mut all = all.lock();
        let ok = |result: Value| Reply::ok(json!({ "status": "ok", "result": result }));
        let body = &call.body;
        let mut aliases = aliases.lock();
        if parts == ["collections", "aliases"] {
            for action in body["actions"].as_array().unwrap() {
                let name = |action: &Value| action["alias_name"].as_str().unwrap().to_owned();
                if let Some(gone) = action.get("delete_alias") {
                    aliases.remove(&name(gone)).unwrap();
                } else {
                    let made = &action["create_alias"];
                    let to = made["collection_name"].as_str().unwrap().to_owned();
                    assert!(all.contains_key(&to) && !all.contains_key(&name(made)));
                    assert_eq!(aliases.insert(name(made), to), None);
                }
            }
            return ok(true.into());
        }
        if parts == ["aliases"] {
            let told = aliases
                .iter()
                .map(|(alias, to)| json!({ "alias_name": alias, "collection_name": to }));
            return ok(json!({ "aliases": told.collect::<Vec<_>>() }));
        }
        if let Some(to) = aliases.get(parts[1]) {
            parts[1] = to;
        }
        match (call.method.as_str(), &parts[..]) {
            ("PUT", ["collections", name]) => {
                let vectors = &body["vectors"];
                let dense = vectors.get("dense").unwrap_or(vectors);
                assert!(dense["size"].is_u64() && dense["distance"] == "Cosine", "{body}");
                if let Some(tokens) = vectors.get("tokens") {
                    assert_eq!(tokens["multivector_config"]["comparator"], "max_sim");
                }
                let about = body["metadata"].clone();
                all.insert(
                    (*name).to_owned(),
                    Collection {
                        about,
                        ..Collection::default()
                    },
                );
                return ok(true.into());
            }
            (_, ["collections", name, ..]) if !all.contains_key(*name) => {
                return Reply::of(404, json!({ "status": { "error": "Not found: Collection" } }));
            }
            _ => {}
        }
        if call.method == "DELETE" {
            all.remove(parts[1]);
            return ok(true.into());
        }
        let collection = all.get_mut(parts[1]).unwrap();
        match (call.method.as_str(), &parts[2..]) {
            ("PATCH", []) => {
                let merged = body["metadata"].as_object().unwrap().clone();
                collection.about.as_object_mut().unwrap().extend(merged);
                ok(true.into())
            }
            ("GET", []) => ok(json!({ "config": { "metadata": collection.about } })),
            ("PUT", ["index"]) => ok(json!({})),
            ("PUT", ["points"]) => {
                for point in body["points"].as_array().unwrap() {
                    // A point's id is a number or a UUID.
                    let id = uuid::Uuid::parse_str(point["id"].as_str().unwrap())
                        .unwrap()
                        .to_string();
                    let mut point = point.clone();
                    // Vectors that are compared by their cosine are kept with unit length.
                    let unit = |vector: &Value| -> Value {
                        let norm = floats(vector).iter().map(|x| x * x).sum::<f32>().sqrt();
                        floats(vector).iter().map(|x| x / norm).collect()
                    };
                    if point["vector"].is_array() {
                        point["vector"] = unit(&point["vector"]);
                    } else {
                        point["vector"]["dense"] = unit(&point["vector"]["dense"]);
                        let tokens = point["vector"]["tokens"].as_array().cloned();
                        if let Some(tokens) = tokens {
                            point["vector"]["tokens"] = tokens.iter().map(unit).collect();
                        }
                    }
                    collection.rows.insert(id, point);
                }
                ok(json!({}))
            }
            ("POST", ["points", "delete"]) => {
                let gone = strings(&body["points"]);
                collection.rows.retain(|id, _| !gone.contains(id));
                ok(json!({}))
            }
            ("POST", ["points"]) => {
                let ids = strings(&body["ids"]);
                ok(collection
                    .rows
                    .iter()
                    .filter(|(id, _)| ids.contains(*id))
                    .map(|(_, row)| row.clone())
                    .collect())
            }
            ("POST", ["points", "scroll"]) => {
                let wanted = body.pointer("/filter/must/0/match/any").map(strings);
                let rows = collection.rows.iter().filter(|(id, row)| {
                    let document = row["payload"]["isomer_document"].as_str().unwrap();
                    wanted.as_ref().is_none_or(|wanted| wanted.contains(document))
                        && body["offset"].as_str().is_none_or(|from| id.as_str() >= from)
                });
                // Pages are short here, whatever size is requested.
                let mut rows: Vec<_> = rows.take(11).collect();
                let next = (rows.len() == 11).then(|| rows.pop().unwrap().0.clone());
                ok(json!({ "points": rows.iter().map(|(_, row)| row).collect::<Vec<_>>(), "next_page_offset": next }))
            }
            ("POST", ["points", "query"]) => {
                let most = body["limit"].as_u64().unwrap() as usize;
                let rows = collection.rows.values().map(|row| match body["using"].as_str() {
                    None => row.clone(),
                    Some(name) => json!({ "vector": row["vector"][name], "payload": row["payload"] }),
                });
                let rows: Vec<Value> = rows.collect();
                let found = nearest(rows.iter(), "vector", &floats(&body["query"]), most);
                let points: Vec<Value> = found
                    .iter()
                    .map(|(score, row)| json!({ "score": score, "payload": row["payload"] }))
                    .collect();
                ok(json!({ "points": points }))
            }
            other => panic!("{other:?}"),
        }
    })
    .await
    .address
}

/// Chroma's REST API.
pub(crate) async fn chroma() -> String {
    let all: Collections = Arc::default();
    Stub::start(move |call| {
        let parts = parts(call);
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let mut all = all.lock();
        let body = &call.body;
        if parts == ["api", "v2", "pre-flight-checks"] {
            return Reply::ok(json!({ "max_batch_size": 9 }));
        }
        assert_eq!(
            parts[..7],
            [
                "api",
                "v2",
                "tenants",
                "default_tenant",
                "databases",
                "default_database",
                "collections"
            ]
        );
        let about =
            |name: &str, collection: &Collection| json!({ "id": format!("id-{name}"), "metadata": collection.about });
        match (call.method.as_str(), &parts[7..]) {
            ("POST", []) => {
                let name = body["name"].as_str().unwrap();
                let created = Collection {
                    about: body["metadata"].clone(),
                    ..Collection::default()
                };
                let reply = about(name, &created);
                all.insert(name.to_owned(), created);
                Reply::ok(reply)
            }
            ("GET", [name]) => match all.get(*name) {
                Some(collection) => Reply::ok(about(name, collection)),
                None => Reply::of(404, json!({ "error": "NotFoundError", "message": "does not exist" })),
            },
            ("POST", [id, what]) => {
                let collection = all.get_mut(id.strip_prefix("id-").unwrap()).unwrap();
                rows_of_chroma(collection, what, body)
            }
            other => panic!("{other:?}"),
        }
    })
    .await
    .address
}

fn rows_of_chroma(collection: &mut Collection, what: &str, body: &Value) -> Reply {
    match what {
        "upsert" => {
            let ids = body["ids"].as_array().unwrap();
            assert!(ids.len() <= 9, "the server said so");
            for (at, id) in ids.iter().enumerate() {
                let metadata = &body["metadatas"][at];
                assert!(
                    metadata
                        .as_object()
                        .unwrap()
                        .values()
                        .all(|value| !value.is_array() && !value.is_object() && !value.is_null())
                );
                let row = json!({ "metadata": metadata, "embedding": body["embeddings"][at] });
                collection.rows.insert(id.as_str().unwrap().to_owned(), row);
            }
            Reply::ok(json!({}))
        }
        "delete" => {
            let gone = strings(&body["ids"]);
            collection.rows.retain(|id, _| !gone.contains(id));
            Reply::ok(json!({}))
        }
        "get" => {
            let ids = body.get("ids").map(strings);
            let documents = body.pointer("/where/isomer_document/$in").map(strings);
            let rows = collection.rows.iter().filter(|(id, row)| {
                ids.as_ref().is_none_or(|ids| ids.contains(*id))
                    && documents
                        .as_ref()
                        .is_none_or(|all| all.contains(row["metadata"]["isomer_document"].as_str().unwrap()))
            });
            let rows: Vec<_> = rows
                .skip(body["offset"].as_u64().unwrap_or(0) as usize)
                .take(body["limit"].as_u64().unwrap_or(u64::MAX) as usize)
                .collect();
            Reply::ok(json!({
                "ids": rows.iter().map(|(id, _)| id).collect::<Vec<_>>(),
                "metadatas": rows.iter().map(|(_, row)| &row["metadata"]).collect::<Vec<_>>(),
                "embeddings": rows.iter().map(|(_, row)| &row["embedding"]).collect::<Vec<_>>(),
            }))
        }
        "query" => {
            let most = body["n_results"].as_u64().unwrap() as usize;
            let found = nearest(
                collection.rows.values(),
                "embedding",
                &floats(&body["query_embeddings"][0]),
                most,
            );
            let metadatas: Vec<&Value> = found.iter().map(|(_, row)| &row["metadata"]).collect();
            let distances: Vec<f32> = found.iter().map(|(score, _)| 1.0 - score).collect();
            Reply::ok(json!({ "metadatas": [metadatas], "distances": [distances] }))
        }
        other => panic!("{other}"),
    }
}

/// The API that OpenSearch and Elasticsearch share. The first bulk request is answered 200, with
/// one item that is to be sent again.
pub(crate) async fn elastic() -> String {
    let all: Collections = Arc::default();
    let aliases: Aliases = Mutex::default();
    let bulks = Mutex::new(0);
    Stub::start(move |call| {
        let parts = parts(call);
        let mut parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let mut all = all.lock();
        let body = &call.body;
        let mut aliases = aliases.lock();
        if parts == ["_aliases"] {
            for action in body["actions"].as_array().unwrap() {
                let of = |action: &Value| ["alias", "index"].map(|field| action[field].as_str().unwrap().to_owned());
                if let Some(gone) = action.get("remove") {
                    let [alias, index] = of(gone);
                    assert_eq!(aliases.remove(&alias), Some(index));
                } else {
                    let [alias, index] = of(&action["add"]);
                    assert!(all.contains_key(&index) && !all.contains_key(&alias));
                    aliases.insert(alias, index);
                }
            }
            return Reply::ok(json!({ "acknowledged": true }));
        }
        if let ["_alias", alias] = parts[..] {
            return match aliases.get(alias) {
                Some(index) => Reply::ok(json!({ index: { "aliases": { alias: {} } } })),
                None => Reply::of(404, json!({ "error": "alias missing", "status": 404 })),
            };
        }
        if let Some(to) = aliases.get(parts[0]) {
            parts[0] = to;
        }
        if let ("PUT", [name]) = (call.method.as_str(), &parts[..]) {
            assert_eq!(body["mappings"]["properties"]["isomer_document"]["type"], "keyword");
            let about = body["mappings"].clone();
            all.insert(
                (*name).to_owned(),
                Collection {
                    about,
                    ..Collection::default()
                },
            );
            return Reply::ok(json!({ "acknowledged": true }));
        }
        let Some(collection) = all.get_mut(parts[0]) else {
            return Reply::of(
                404,
                json!({ "error": { "type": "index_not_found_exception" }, "status": 404 }),
            );
        };
        if call.method == "DELETE" {
            all.remove(parts[0]);
            return Reply::ok(json!({ "acknowledged": true }));
        }
        match (call.method.as_str(), &parts[1..]) {
            ("PUT", ["_mapping"]) => {
                collection.about["_meta"] = body["_meta"].clone();
                Reply::ok(json!({ "acknowledged": true }))
            }
            ("GET", ["_mapping"]) => Reply::ok(json!({ "the-real-name": { "mappings": collection.about } })),
            ("POST", ["_refresh"]) => Reply::ok(json!({ "_shards": { "failed": 0 } })),
            ("POST", ["_bulk"]) => {
                let mut bulks = bulks.lock();
                *bulks += 1;
                bulk(collection, &call.text, *bulks == 1)
            }
            ("POST", ["_search"]) => elastic_search(collection, body),
            other => panic!("{other:?}"),
        }
    })
    .await
    .address
}

fn bulk(collection: &mut Collection, lines: &str, first: bool) -> Reply {
    assert!(lines.ends_with('\n'));
    let mut lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut items = Vec::new();
    while let Some(action) = lines.next() {
        if let Some(id) = action.pointer("/index/_id") {
            let row = lines.next().unwrap();
            if first && items.is_empty() {
                items.push(json!({ "index": { "status": 429, "error": { "reason": "queue is full" } } }));
                continue;
            }
            collection.rows.insert(id.as_str().unwrap().to_owned(), row);
            items.push(json!({ "index": { "status": 201 } }));
        } else {
            let id = action["delete"]["_id"].as_str().unwrap();
            items.push(match collection.rows.remove(id) {
                Some(_) => json!({ "delete": { "status": 200, "result": "deleted" } }),
                None => json!({ "delete": { "status": 404, "result": "not_found" } }),
            });
        }
    }
    Reply::ok(json!({ "errors": first, "items": items }))
}

fn elastic_search(collection: &Collection, body: &Value) -> Reply {
    let size = body["size"].as_u64().unwrap() as usize;
    let knn = body
        .pointer("/knn/query_vector")
        .or_else(|| body.pointer("/query/knn/embedding/vector"));
    let hits: Vec<Value> = if let Some(query) = knn {
        let found = nearest(collection.rows.values(), "embedding", &floats(query), size);
        found
            .iter()
            .map(|(score, row)| json!({ "_score": (score + 1.0) / 2.0, "_source": row }))
            .collect()
    } else {
        let wanted = |row: &Value| {
            let terms = body.pointer("/query/terms").and_then(Value::as_object);
            terms.is_none_or(|terms| {
                terms
                    .iter()
                    .all(|(field, any)| strings(any).contains(row[field].as_str().unwrap()))
            })
        };
        let from = body.pointer("/search_after/0").and_then(Value::as_str);
        let rows = collection.rows.values().filter(|row| wanted(row));
        let mut rows: Vec<&Value> = rows
            .filter(|row| from.is_none_or(|from| row["isomer_key"].as_str().unwrap() > from))
            .collect();
        rows.sort_by_key(|row| row["isomer_key"].as_str().unwrap().to_owned());
        rows.into_iter()
            .take(size)
            .map(|row| json!({ "_source": row }))
            .collect()
    };
    Reply::ok(json!({ "timed_out": false, "_shards": { "failed": 0 }, "hits": { "hits": hits } }))
}
