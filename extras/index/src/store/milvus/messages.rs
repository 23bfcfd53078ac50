//! The used parts of Milvus's messages (`proto/milvus.proto`), and the methods that take them.
//!
//! Enums of Milvus are numbers with constants.

use prost::Message;

pub(crate) use generated::*;

#[allow(unreachable_pub, reason = "generated")]
mod generated {
    tonic::include_proto!("milvus");
}

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

impl KeyValue {
    pub(crate) fn new(key: &str, value: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            value: value.into(),
        }
    }
}

impl Description {
    pub(crate) fn property(&self, name: &str) -> Option<&str> {
        let found = self.properties.iter().find(|property| property.key == name);
        found.map(|property| property.value.as_str())
    }
}
