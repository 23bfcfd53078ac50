//! A stub of Milvus' service that keeps collections in memory, as far as runs use them.

use std::{collections::BTreeMap, sync::Arc};

use isomer_index::{IndexError, store};
use isomer_scoring::metric::similarity::cosine;
use isomer_stubs::grpc::{GrpcStub, Method, method};
use parking_lot::Mutex;
use prost::Message;

use crate::support::{encoder, open, stub};

// By the same description: tests/search/run has a server of others.
#[allow(dead_code, reason = "what runs alone do with messages")]
#[path = "../../src/store/milvus/messages.rs"]
mod messages;

use messages::*;

/// A stored row: its texts by field, its payload and its vector.
#[derive(Clone, Default)]
struct StoredRow {
    texts: BTreeMap<String, String>,
    payload: Vec<u8>,
    vector: Vec<f32>,
}

#[derive(Default)]
struct Collection {
    fields: Vec<Field>,
    properties: BTreeMap<String, String>,
    indexes: Vec<String>,
    loaded: bool,
    rows: BTreeMap<String, StoredRow>,
}

#[derive(Default)]
struct State {
    collections: BTreeMap<String, Collection>,
    aliases: BTreeMap<String, String>,
    upserts: usize,
    queries: usize,
}

impl State {
    fn find(&mut self, name: &str) -> Result<&mut Collection, Status> {
        let name = self.aliases.get(name).map_or(name, String::as_str);
        self.collections.get_mut(name).ok_or_else(|| failed(100))
    }
}

fn failed(code: i32) -> Status {
    Status {
        error_code: 1,
        reason: "the stub says so".to_owned(),
        code,
        retriable: false,
    }
}

/// A status of its own, for answers that are one, and for those that hold one.
fn status<T>(result: Result<T, Status>) -> Status {
    result.err().unwrap_or_default()
}

fn held<T: Default>(result: Result<T, Status>) -> (Option<Status>, T) {
    match result {
        Ok(answer) => (Some(Status::default()), answer),
        Err(status) => (Some(status), T::default()),
    }
}

/// The first value of JSON in a text, and what follows it.
fn value<T: serde::de::DeserializeOwned>(text: &str) -> (T, &str) {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<T>();
    let value = values.next().unwrap().unwrap();
    let rest = values.byte_offset();
    (value, &text[rest..])
}

/// Whether a row fulfils an expression, as runs write them.
fn fulfils(mut expression: &str, row: &StoredRow) -> bool {
    let mut fulfilled = true;
    while !expression.is_empty() {
        let (field, rest) = expression.split_once(' ').unwrap();
        let text = &row.texts[field];
        if let Some(rest) = rest.strip_prefix("> ") {
            let (least, rest) = value::<String>(rest);
            fulfilled &= *text > least;
            expression = rest;
        } else {
            let (any, rest) = value::<Vec<String>>(rest.strip_prefix("in ").unwrap());
            fulfilled &= any.contains(text);
            expression = rest;
        }
        expression = expression.strip_prefix(" and ").unwrap_or(expression);
    }
    fulfilled
}

fn create(state: &mut State, call: &CreateCollection) -> Result<(), Status> {
    let schema = Schema::decode(call.schema.as_slice()).unwrap();
    assert_eq!(schema.name, call.collection_name);
    let keys = schema.fields.iter().filter(|field| field.is_primary_key);
    assert_eq!(keys.map(|field| field.name.as_str()).collect::<Vec<_>>(), ["key"]);
    let created = Collection {
        fields: schema.fields,
        properties: call
            .properties
            .iter()
            .map(|own| (own.key.clone(), own.value.clone()))
            .collect(),
        ..Collection::default()
    };
    state.collections.insert(call.collection_name.clone(), created);
    Ok(())
}

fn upsert(state: &mut State, call: &Upsert) -> Result<(), Status> {
    state.upserts += 1;
    if state.upserts == 1 {
        // Too many calls: the same one again is accepted.
        return Err(failed(8));
    }
    let collection = state.find(&call.collection_name)?;
    let mut rows = vec![StoredRow::default(); call.num_rows as usize];
    for column in &call.fields_data {
        let own = collection.fields.iter().find(|field| field.name == column.field_name);
        assert_eq!(own.unwrap().data_type, column.data_type, "{}", column.field_name);
        if let Some(vectors) = &column.vectors {
            let floats = &vectors.floats.as_ref().unwrap().data;
            let vectors = floats.chunks(usize::try_from(vectors.dimensions).unwrap());
            rows.iter_mut()
                .zip(vectors)
                .for_each(|(row, vector)| row.vector = vector.to_vec());
            continue;
        }
        let scalars = column.scalars.as_ref().unwrap();
        for (at, row) in rows.iter_mut().enumerate() {
            if let Some(texts) = &scalars.texts {
                row.texts.insert(column.field_name.clone(), texts.data[at].clone());
            } else {
                row.payload = scalars.json.as_ref().unwrap().data[at].clone();
            }
        }
    }
    assert_eq!(
        call.fields_data.len(),
        collection.fields.len(),
        "every field has a value"
    );
    for row in rows {
        collection.rows.insert(row.texts["key"].clone(), row);
    }
    Ok(())
}

fn columns(collection: &Collection, rows: &[&StoredRow], fields: &[String]) -> Vec<FieldData> {
    let read = collection
        .fields
        .iter()
        .filter(|field| fields.contains(&field.name) || fields[0] == "*");
    read.map(|field| {
        let of = |name: &str| rows.iter().map(|row| row.texts[name].clone()).collect();
        let scalars = match field.data_type {
            data_type::TEXT => Some(Scalars {
                texts: Some(Texts { data: of(&field.name) }),
                json: None,
            }),
            data_type::JSON => Some(Scalars {
                texts: None,
                json: Some(Json {
                    data: rows.iter().map(|row| row.payload.clone()).collect(),
                }),
            }),
            _ => None,
        };
        let vectors = scalars.is_none().then(|| Vectors {
            dimensions: rows.first().map_or(0, |row| row.vector.len() as i64),
            floats: Some(Floats {
                data: rows.iter().flat_map(|row| row.vector.clone()).collect(),
            }),
        });
        FieldData {
            data_type: field.data_type,
            field_name: field.name.clone(),
            scalars,
            vectors,
        }
    })
    .collect()
}

fn query(state: &mut State, call: &Query) -> Result<Vec<FieldData>, Status> {
    state.queries += 1;
    let released = state.queries == 5;
    let collection = state.find(&call.collection_name)?;
    assert_eq!(call.consistency_level, consistency::STRONG);
    // As a server that was started again.
    collection.loaded &= !released;
    if !collection.loaded {
        return Err(failed(101));
    }
    if call.output_fields == ["count(*)"] {
        return Ok(Vec::new());
    }
    let limit = call.query_params.iter().find(|param| param.key == "limit");
    let limit = limit.map_or(usize::MAX, |limit| limit.value.parse().unwrap());
    let rows = collection.rows.values().filter(|row| fulfils(&call.expr, row));
    let rows: Vec<&StoredRow> = rows.take(limit).collect();
    Ok(columns(collection, &rows, &call.output_fields))
}

fn search(state: &mut State, call: &Search) -> Result<Option<SearchData>, Status> {
    let collection = state.find(&call.collection_name)?;
    if !collection.loaded {
        return Err(failed(101));
    }
    let param = |name: &str| &call.search_params.iter().find(|param| param.key == name).unwrap().value;
    assert_eq!(
        (param("anns_field").as_str(), param("metric_type").as_str()),
        ("embedding", "COSINE")
    );
    let sought = Placeholders::decode(call.placeholder_group.as_slice()).unwrap();
    let floats = sought.placeholders[0].values[0].as_chunks::<4>().0;
    let sought: Vec<f32> = floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let mut found: Vec<(f32, &StoredRow)> = collection
        .rows
        .values()
        .map(|row| (cosine(&sought, &row.vector), row))
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.truncate(param("topk").parse().unwrap());
    let rows: Vec<&StoredRow> = found.iter().map(|(_, row)| *row).collect();
    Ok(Some(SearchData {
        fields_data: columns(collection, &rows, &call.output_fields),
        scores: found.iter().map(|(score, _)| *score).collect(),
    }))
}

fn aliased(state: &mut State, alias: &str, to: &str, there: bool) -> Result<(), Status> {
    assert!(state.collections.contains_key(to) && !state.collections.contains_key(alias));
    assert_eq!(state.aliases.insert(alias.to_owned(), to.to_owned()).is_some(), there);
    Ok(())
}

fn over<C: Call + Default>(
    state: &Arc<Mutex<State>>,
    answer: impl Fn(&mut State, C) -> C::Answer + Send + Sync + 'static,
) -> (&'static str, Method) {
    let state = Arc::clone(state);
    (C::PATH, method(move |call: C| Ok(answer(&mut state.lock(), call))))
}

fn methods(state: State) -> Vec<(&'static str, Method)> {
    let state = Arc::new(Mutex::new(state));
    vec![
        over(&state, |all, call: CreateCollection| status(create(all, &call))),
        over(&state, |all, call: DropCollection| {
            status(all.collections.remove(&call.collection_name).ok_or_else(|| failed(100)))
        }),
        over(&state, |all, call: DescribeCollection| {
            let found = all.find(&call.collection_name);
            let told = found.map(|own| {
                own.properties
                    .iter()
                    .map(|(key, value)| KeyValue::new(key, value))
                    .collect()
            });
            let (status, properties) = held(told);
            Description { status, properties }
        }),
        over(&state, |all, call: AlterCollection| {
            let more = call.properties.into_iter().map(|own| (own.key, own.value));
            status(all.find(&call.collection_name).map(|own| own.properties.extend(more)))
        }),
        over(&state, |all, call: LoadCollection| {
            let indexed = |own: &mut Collection| {
                assert!(
                    own.indexes.contains(&"embedding".to_owned()),
                    "a collection without an index is not loaded"
                );
                own.loaded = true;
            };
            status(all.find(&call.collection_name).map(indexed))
        }),
        over(&state, |all, call: GetLoadState| {
            let found = all.find(&call.collection_name);
            let state = found.map_or(load_state::MISSING, |own| match own.loaded {
                true => load_state::LOADED,
                false => load_state::NOT_LOADED,
            });
            LoadState { status: None, state }
        }),
        over(&state, |all, call: CreateIndex| {
            status(all.find(&call.collection_name).map(|own| {
                assert!(!own.indexes.contains(&call.field_name), "there is one already");
                own.indexes.push(call.field_name);
            }))
        }),
        over(&state, |all, call: DescribeIndex| {
            let of = |field: &String| Index {
                field_name: field.clone(),
            };
            let found = all.find(&call.collection_name);
            let indexes: Result<Vec<Index>, Status> = found.map(|own| own.indexes.iter().map(of).collect());
            let (status, indexes) = held(indexes.and_then(|found| match found.is_empty() {
                true => Err(failed(700)),
                false => Ok(found),
            }));
            Indexes { status, indexes }
        }),
        over(&state, |all, call: Upsert| {
            let (status, ()) = held(upsert(all, &call));
            Mutation {
                status,
                err_index: Vec::new(),
            }
        }),
        over(&state, |all, call: Delete| {
            let found = all.find(&call.collection_name);
            let (status, ()) = held(found.map(|own| own.rows.retain(|_, row| !fulfils(&call.expr, row))));
            Mutation {
                status,
                err_index: Vec::new(),
            }
        }),
        over(&state, |all, call: Query| {
            let (status, fields_data) = held(query(all, &call));
            QueryResult { status, fields_data }
        }),
        over(&state, |all, call: Search| {
            let (status, results) = held(search(all, &call));
            SearchResult { status, results }
        }),
        over(&state, |all, call: CreateAlias| {
            status(aliased(all, &call.alias, &call.collection_name, false))
        }),
        over(&state, |all, call: AlterAlias| {
            status(aliased(all, &call.alias, &call.collection_name, true))
        }),
        over(&state, |all, call: DescribeAlias| {
            let found = all.aliases.get(&call.alias).cloned();
            let (status, collection) = held(found.ok_or_else(|| failed(1600)));
            AliasDescription { status, collection }
        }),
    ]
}

/// The address of a stub. Its first upsert is one call too many, and at the fifth query the
/// collection is not loaded any more.
pub(crate) async fn server() -> String {
    let stub = GrpcStub::start(methods(State::default())).await;
    stub.address.replace("grpc://", "http://")
}

#[tokio::test]
async fn a_login_and_the_database_go_with_calls_and_a_collection_is_made_once() {
    let mut state = State::default();
    state.collections.insert("foreign".to_owned(), Collection::default());
    let stub_of_milvus = GrpcStub::start(methods(state)).await;
    let address = stub_of_milvus.address.replace("grpc://", "milvus+http://");
    let credentials = store::Credentials {
        user: "root".to_owned(),
        password: isomer_service_kit::config::Secret::new("Milvus"),
        ..store::Credentials::default()
    };
    let patience = std::time::Duration::from_secs(3);
    let docs = store::open(&format!("{address}#sales/docs"), &credentials, patience).unwrap();
    let mark = encoder(&stub("w1"))
        .await
        .mark(isomer_index::chunk::Chunking::Whole, false);
    assert!(docs.mark().await.unwrap().is_none());
    let missing = docs.settle().await.unwrap_err();
    assert!(matches!(missing, IndexError::NoCollection { .. }), "{missing}");
    docs.create(&mark).await.unwrap();
    let sent = stub_of_milvus.metadata(CreateCollection::PATH);
    assert_eq!(sent.get("authorization").unwrap(), "cm9vdDpNaWx2dXM=");
    let created = &stub_of_milvus.sent::<CreateCollection>(CreateCollection::PATH)[0];
    assert_eq!(
        (created.db_name.as_str(), created.collection_name.as_str()),
        ("sales", "docs")
    );
    let loaded = &stub_of_milvus.sent::<GetLoadState>(GetLoadState::PATH)[0];
    assert_eq!(
        (loaded.db_name.as_str(), loaded.collection_name.as_str()),
        ("sales", "docs")
    );
    // Once more: what is there stays.
    docs.create(&mark).await.unwrap();
    assert_eq!(stub_of_milvus.sent::<CreateIndex>(CreateIndex::PATH).len(), 2);
    let foreign = open(&format!("{address}#foreign")).create(&mark).await.unwrap_err();
    assert!(matches!(foreign, IndexError::Foreign { .. }), "{foreign}");
    let mut manhattan = mark.clone();
    manhattan.similarity = "manhattan".to_owned();
    let refused = open(&format!("{address}#other")).create(&manhattan).await.unwrap_err();
    assert!(refused.to_string().contains("Manhattan"), "{refused}");
}
