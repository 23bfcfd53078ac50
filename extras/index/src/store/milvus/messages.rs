//! The used parts of Milvus's messages, and the methods that take them.
//!
//! Source: `milvus.proto`, `schema.proto` and `common.proto` of
//! <https://github.com/milvus-io/milvus-proto> (packages `milvus.proto.milvus`,
//! `milvus.proto.schema` and `milvus.proto.common`). The fields below have its numbers; enums are
//! numbers with constants.

use prost::Message;

/// [`Field::data_type`] and [`FieldData::data_type`].
pub(crate) mod data_type {
    pub(crate) const TEXT: i32 = 21;
    pub(crate) const JSON: i32 = 23;
    pub(crate) const VECTOR: i32 = 101;
}

/// The writes for which a read waits.
pub(crate) mod consistency {
    /// All writes.
    pub(crate) const STRONG: i32 = 0;
    /// All but those of the last seconds, which is Milvus's default.
    pub(crate) const BOUNDED: i32 = 2;
}

/// [`LoadState::state`].
pub(crate) mod load_state {
    pub(crate) const MISSING: i32 = 0;
    pub(crate) const NOT_LOADED: i32 = 1;
    pub(crate) const LOADED: i32 = 3;
}

/// [`Search::dsl_type`]: an expression.
pub(crate) const EXPRESSION: i32 = 1;

/// A request with its method and its answer type.
pub(crate) trait Call: Message + Clone + 'static {
    const PATH: &'static str;
    type Answer: HasStatus;
}

/// An answer of a method.
pub(crate) trait HasStatus: Message + Default + 'static {
    /// The status of the method.
    fn status(&self) -> Option<&Status>;
}

impl HasStatus for Status {
    fn status(&self) -> Option<&Status> {
        Some(self)
    }
}

macro_rules! answers {
    ($($answer:ident)*) => {$(
        impl HasStatus for $answer {
            fn status(&self) -> Option<&Status> {
                self.status.as_ref()
            }
        }
    )*};
}

macro_rules! calls {
    ($($request:ident -> $answer:ident;)*) => {$(
        impl Call for $request {
            const PATH: &'static str = concat!("/milvus.proto.milvus.MilvusService/", stringify!($request));
            type Answer = $answer;
        }
    )*};
}

answers! { Description LoadState Indexes Mutation QueryResult SearchResult AliasDescription }

calls! {
    CreateCollection -> Status;
    DropCollection -> Status;
    DescribeCollection -> Description;
    AlterCollection -> Status;
    LoadCollection -> Status;
    GetLoadState -> LoadState;
    CreateIndex -> Status;
    DescribeIndex -> Indexes;
    Upsert -> Mutation;
    Delete -> Mutation;
    Query -> QueryResult;
    Search -> SearchResult;
    CreateAlias -> Status;
    AlterAlias -> Status;
    DescribeAlias -> AliasDescription;
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    /// The code of servers before 2.3, which set no other.
    #[prost(int32, tag = "1")]
    pub(crate) error_code: i32,
    #[prost(string, tag = "2")]
    pub(crate) reason: String,
    #[prost(int32, tag = "3")]
    pub(crate) code: i32,
    #[prost(bool, tag = "4")]
    pub(crate) retriable: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

impl KeyValue {
    pub(crate) fn new(key: &str, value: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            value: value.into(),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Schema {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "4")]
    pub(crate) fields: Vec<Field>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Field {
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(bool, tag = "3")]
    pub(crate) is_primary_key: bool,
    #[prost(int32, tag = "5")]
    pub(crate) data_type: i32,
    #[prost(message, repeated, tag = "6")]
    pub(crate) type_params: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateCollection {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    /// An encoded [`Schema`].
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) schema: Vec<u8>,
    #[prost(int32, tag = "6")]
    pub(crate) consistency_level: i32,
    #[prost(message, repeated, tag = "7")]
    pub(crate) properties: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DropCollection {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DescribeCollection {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Description {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) properties: Vec<KeyValue>,
}

impl Description {
    pub(crate) fn property(&self, name: &str) -> Option<&str> {
        let found = self.properties.iter().find(|property| property.key == name);
        found.map(|property| property.value.as_str())
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AlterCollection {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    /// Merged with the existing ones.
    #[prost(message, repeated, tag = "5")]
    pub(crate) properties: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LoadCollection {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetLoadState {
    #[prost(string, tag = "2")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "4")]
    pub(crate) db_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LoadState {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(int32, tag = "2")]
    pub(crate) state: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateIndex {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "4")]
    pub(crate) field_name: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) extra_params: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DescribeIndex {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Indexes {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) indexes: Vec<Index>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Index {
    #[prost(string, tag = "4")]
    pub(crate) field_name: String,
}

/// A column of some rows.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FieldData {
    #[prost(int32, tag = "1")]
    pub(crate) data_type: i32,
    #[prost(string, tag = "2")]
    pub(crate) field_name: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) scalars: Option<Scalars>,
    #[prost(message, optional, tag = "4")]
    pub(crate) vectors: Option<Vectors>,
}

/// Exactly one of the two is set.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Scalars {
    #[prost(message, optional, tag = "6")]
    pub(crate) texts: Option<Texts>,
    #[prost(message, optional, tag = "9")]
    pub(crate) json: Option<Json>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Texts {
    #[prost(string, repeated, tag = "1")]
    pub(crate) data: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Json {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) data: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Vectors {
    #[prost(int64, tag = "1")]
    pub(crate) dimensions: i64,
    #[prost(message, optional, tag = "2")]
    pub(crate) floats: Option<Floats>,
}

/// All vectors, one after another.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Floats {
    #[prost(float, repeated, tag = "1")]
    pub(crate) data: Vec<f32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Upsert {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) fields_data: Vec<FieldData>,
    #[prost(uint32, tag = "7")]
    pub(crate) num_rows: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Delete {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "5")]
    pub(crate) expr: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Mutation {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    /// Indices of rows that were not written.
    #[prost(uint32, repeated, tag = "4")]
    pub(crate) err_index: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Query {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "4")]
    pub(crate) expr: String,
    #[prost(string, repeated, tag = "5")]
    pub(crate) output_fields: Vec<String>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) query_params: Vec<KeyValue>,
    #[prost(int32, tag = "11")]
    pub(crate) consistency_level: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct QueryResult {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) fields_data: Vec<FieldData>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Search {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    /// An encoded [`Placeholders`].
    #[prost(bytes = "vec", tag = "6")]
    pub(crate) placeholder_group: Vec<u8>,
    #[prost(int32, tag = "7")]
    pub(crate) dsl_type: i32,
    #[prost(string, repeated, tag = "8")]
    pub(crate) output_fields: Vec<String>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) search_params: Vec<KeyValue>,
    /// Number of vectors that are searched for.
    #[prost(int64, tag = "12")]
    pub(crate) nq: i64,
    #[prost(bool, tag = "15")]
    pub(crate) use_default_consistency: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Placeholders {
    #[prost(message, repeated, tag = "1")]
    pub(crate) placeholders: Vec<Placeholder>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Placeholder {
    #[prost(string, tag = "1")]
    pub(crate) tag: String,
    #[prost(int32, tag = "2")]
    pub(crate) data_type: i32,
    /// Vectors, as little-endian bytes.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(crate) values: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SearchResult {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(message, optional, tag = "2")]
    pub(crate) results: Option<SearchData>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SearchData {
    #[prost(message, repeated, tag = "3")]
    pub(crate) fields_data: Vec<FieldData>,
    #[prost(float, repeated, tag = "4")]
    pub(crate) scores: Vec<f32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateAlias {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "4")]
    pub(crate) alias: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AlterAlias {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) collection_name: String,
    #[prost(string, tag = "4")]
    pub(crate) alias: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DescribeAlias {
    #[prost(string, tag = "2")]
    pub(crate) db_name: String,
    #[prost(string, tag = "3")]
    pub(crate) alias: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AliasDescription {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(string, tag = "4")]
    pub(crate) collection: String,
}
