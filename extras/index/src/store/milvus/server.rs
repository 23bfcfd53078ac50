//! Calls of Milvus's service: the channel, the login, and the failures in answers.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::uri::PathAndQuery;
use isomer_outbound::said::presentable;
use isomer_service_kit::{
    Fault, GrpcChannel,
    client::{self, ClientConfig},
    config::Secret,
};
use tonic::{
    Code, Request,
    metadata::{Ascii, MetadataValue},
};
use tonic_prost::ProstCodec;

use super::messages::{Call, DescribeCollection, Description, HasStatus, Status};
use crate::{
    address::StoreAddress,
    error::{IndexError, Result},
    http::Credentials,
    retry,
};

const LONGEST_CALL: Duration = Duration::from_secs(120);
/// Maximum bytes of an answer: a page of rows, or vectors.
const MOST_ANSWER: usize = 256 << 20;
/// Codes for a missing collection, index or alias.
const MISSING: [i32; 3] = [100, 700, 1600];
/// The code for a collection that is not loaded.
const NOT_LOADED: i32 = 101;
/// The code for too many calls.
const RATE_LIMITED: i32 = 8;

/// The result of a call.
#[derive(Debug)]
pub(crate) enum Outcome<A> {
    /// The call succeeded.
    Done(A),
    /// The collection, index or alias does not exist.
    Missing,
    /// The collection is not loaded, so its rows cannot be read.
    NotLoaded,
}

/// A server, and the collection.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    channel: GrpcChannel,
    login: Option<MetadataValue<Ascii>>,
    /// Empty for the server's default.
    pub(crate) database: String,
    pub(crate) collection: String,
    pub(crate) shown: String,
    secrets: [Secret; 2],
    patience: Duration,
}

impl Server {
    /// The server at `http(s)://HOST:PORT#COLLECTION` or `…#DATABASE/COLLECTION`. It does not
    /// connect yet.
    pub(crate) fn open(address: &str, credentials: &Credentials, patience: Duration) -> Result<Self> {
        let refused = |message: String, hint| IndexError::Setting {
            field: "sink",
            message,
            hint,
        };
        let (place, name) = StoreAddress::read_store(address)?;
        let (database, collection) = match name.split('/').collect::<Vec<_>>().as_slice() {
            [collection] => ("", *collection),
            [database, collection] => (*database, *collection),
            _ => {
                return Err(refused(
                    format!("`{name}` is not a collection of Milvus"),
                    "write COLLECTION or DATABASE/COLLECTION behind the #",
                ));
            }
        };
        if place.url.path() != "/" {
            return Err(refused(
                format!("the address {} has a path, and gRPC has none", place.shown),
                "write scheme, host and port alone in front of the #, e.g. milvus+http://127.0.0.1:19530#docs",
            ));
        }
        let config = ClientConfig::plain(place.url.as_str().trim_end_matches('/'));
        let channel = client::connect_lazy(&config).map_err(|fault: Fault| {
            refused(
                fault.message,
                "write it as milvus+http://HOST:19530#COLLECTION or milvus+https://HOST:19530#COLLECTION",
            )
        })?;
        Ok(Self {
            channel,
            login: login(credentials)?,
            database: database.to_owned(),
            collection: collection.to_owned(),
            shown: place.shown,
            secrets: [credentials.api_key.clone(), credentials.password.clone()],
            patience,
        })
    }

    /// Another collection of the same database.
    pub(crate) fn of(&self, collection: &str) -> Self {
        let server = self.shown.split_once('#').map_or("", |(server, _)| server);
        let database = match self.database.as_str() {
            "" => String::new(),
            database => format!("{database}/"),
        };
        Self {
            collection: collection.to_owned(),
            shown: format!("{server}#{database}{collection}"),
            ..self.clone()
        }
    }

    /// The collection; `None` if there is none.
    pub(crate) async fn describe(&self) -> Result<Option<Description>> {
        let call = DescribeCollection {
            db_name: self.database.clone(),
            collection_name: self.collection.clone(),
        };
        self.find("reading", &call).await
    }

    /// Makes a call, and retries it while the failure may be transient.
    pub(crate) async fn call<C: Call>(&self, doing: &str, call: &C) -> Result<Outcome<C::Answer>> {
        let doing = format!("{doing} {}", self.shown);
        retry::calls(self.patience, || self.once(&doing, call)).await
    }

    /// [`Server::call`] for objects that may be missing.
    pub(crate) async fn find<C: Call>(&self, doing: &str, call: &C) -> Result<Option<C::Answer>> {
        match self.call(doing, call).await? {
            Outcome::Done(answer) => Ok(Some(answer)),
            Outcome::Missing => Ok(None),
            Outcome::NotLoaded => Err(IndexError::Unavailable {
                doing: format!("{doing} {}", self.shown),
                message: "the collection was released while it was used".to_owned(),
            }),
        }
    }

    /// [`Server::call`] for objects that must exist.
    pub(crate) async fn send<C: Call>(&self, doing: &str, call: &C) -> Result<C::Answer> {
        let answer = self.find(doing, call).await?;
        answer.ok_or_else(|| IndexError::NoCollection {
            collection: self.shown.clone(),
        })
    }

    async fn once<C: Call>(&self, doing: &str, call: &C) -> Result<Outcome<C::Answer>> {
        let mut client = tonic::client::Grpc::new(self.channel.clone()).max_decoding_message_size(MOST_ANSWER);
        let mut request = Request::new(call.clone());
        if let Some(login) = &self.login {
            request.metadata_mut().insert("authorization", login.clone());
        }
        let answer = async {
            let ready = client.ready().await;
            ready.map_err(|error| tonic::Status::from_error(error.into()))?;
            let path = PathAndQuery::from_static(C::PATH);
            client.unary(request, path, ProstCodec::<C, C::Answer>::default()).await
        };
        match tokio::time::timeout(LONGEST_CALL, answer).await {
            Ok(Ok(answer)) => self.outcome(doing, answer.into_inner()),
            Ok(Err(status)) => Err(self.failed(doing, &status)),
            Err(_) => Err(IndexError::Unavailable {
                doing: doing.to_owned(),
                message: format!("no answer in {} seconds", LONGEST_CALL.as_secs()),
            }),
        }
    }

    /// The outcome according to the status in an answer.
    fn outcome<A: HasStatus>(&self, doing: &str, answer: A) -> Result<Outcome<A>> {
        let status = answer.status().cloned().unwrap_or_default();
        if status.code == 0 && status.error_code == 0 {
            return Ok(Outcome::Done(answer));
        }
        if MISSING.contains(&status.code) {
            return Ok(Outcome::Missing);
        }
        if status.code == NOT_LOADED {
            return Ok(Outcome::NotLoaded);
        }
        let Status { error_code, code, .. } = status;
        let code = if code == 0 { error_code } else { code };
        let doing = doing.to_owned();
        let message = format!("the store answered with code {code}: {}", self.words(&status.reason));
        Err(match status.retriable || code == RATE_LIMITED {
            true => IndexError::Unavailable { doing, message },
            false => IndexError::Refused { doing, message },
        })
    }

    /// The error of a call without an answer.
    fn failed(&self, doing: &str, status: &tonic::Status) -> IndexError {
        let doing = doing.to_owned();
        let words = self.words(status.message());
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted | Code::Aborted | Code::Cancelled => {
                IndexError::Unavailable { doing, message: words }
            }
            Code::Unauthenticated | Code::PermissionDenied => IndexError::Refused {
                doing,
                message: format!(
                    "the store refused the login: {words}; give a token in ISOMER_SINK_API_KEY, or a user and a password in \
                     ISOMER_SINK_USER and ISOMER_SINK_PASSWORD"
                ),
            },
            Code::Unimplemented => IndexError::Refused {
                doing,
                message: format!("the store has no such method ({words}); Milvus 2.4 or newer is needed"),
            },
            code => IndexError::Refused {
                doing,
                message: format!("the store answered {code:?}: {words}"),
            },
        }
    }

    /// The message of an error, without our secrets.
    fn words(&self, text: &str) -> String {
        let [key, password] = &self.secrets;
        presentable(&presentable(text, key), password)
    }
}

/// The credentials, if there are any: Milvus accepts a token, or a user and a password, in base64.
fn login(credentials: &Credentials) -> Result<Option<MetadataValue<Ascii>>> {
    let password = credentials.password.expose().filter(|_| !credentials.user.is_empty());
    let plain = match (password, credentials.api_key.expose()) {
        (Some(password), _) => format!("{}:{password}", credentials.user),
        (None, Some(key)) => key.to_owned(),
        (None, None) => return Ok(None),
    };
    let mut value = MetadataValue::try_from(STANDARD.encode(plain)).map_err(|_| IndexError::Setting {
        field: "sink",
        message: "the key or password cannot be sent".to_owned(),
        hint: "give it alone in ISOMER_SINK_API_KEY or ISOMER_SINK_PASSWORD",
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn open(address: &str) -> Result<Server> {
        Server::open(address, &Credentials::default(), Duration::ZERO)
    }

    #[tokio::test]
    async fn an_address_names_a_collection_and_perhaps_its_database() {
        let server = open("http://h:19530#docs").unwrap();
        assert_eq!((server.database.as_str(), server.collection.as_str()), ("", "docs"));
        assert_eq!(server.of("docs_1").shown, "http://h:19530/#docs_1");
        let server = open("https://h:19530#sales/docs").unwrap();
        assert_eq!(
            (server.database.as_str(), server.collection.as_str()),
            ("sales", "docs")
        );
        assert_eq!(server.of("docs_1").shown, "https://h:19530/#sales/docs_1");
        for (address, due) in [
            ("http://h:19530", "names no collection"),
            ("http://h:19530#a/b/c", "a/b/c"),
            ("http://h:19530/path#docs", "has a path"),
            ("http://me:secret@h:19530#docs", "holds a user or a password"),
        ] {
            let refused = open(address).unwrap_err().to_string();
            assert!(refused.contains(due) && !refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn a_password_goes_before_a_token_and_both_are_sent_in_base64() {
        let of = |user: &str, password: Option<&str>, key: Option<&str>| {
            let credentials = Credentials {
                api_key: key.map(Secret::new).unwrap_or_default(),
                user: user.to_owned(),
                password: password.map(Secret::new).unwrap_or_default(),
            };
            let sent = login(&credentials).unwrap();
            sent.map(|value| String::from_utf8(STANDARD.decode(value.as_bytes()).unwrap()).unwrap())
        };
        assert_eq!(of("root", Some("Milvus"), Some("t")).as_deref(), Some("root:Milvus"));
        assert_eq!(of("", Some("Milvus"), Some("t")).as_deref(), Some("t"));
        assert_eq!(of("root", None, None), None);
    }

    #[tokio::test]
    async fn a_status_says_what_is_missing_what_may_pass_and_what_is_final() {
        let server = Server {
            secrets: [Secret::new("sk-secret-1"), Secret::default()],
            ..open("http://h:19530#docs").unwrap()
        };
        let of = |error_code, code, retriable| {
            let reason = "no, sk-secret-1".to_owned();
            server.outcome(
                "reading",
                Status {
                    error_code,
                    reason,
                    code,
                    retriable,
                },
            )
        };
        assert!(matches!(of(0, 0, false), Ok(Outcome::Done(_))));
        assert!(matches!(of(4, 100, false), Ok(Outcome::Missing)));
        assert!(matches!(of(101, 101, false), Ok(Outcome::NotLoaded)));
        assert!(of(49, 8, false).unwrap_err().passes() && of(1, 503, true).unwrap_err().passes());
        let refused = of(1, 1100, false).unwrap_err();
        assert!(
            !refused.passes() && refused.to_string().contains("code 1100: no, [secret]"),
            "{refused}"
        );
        let login = server.failed("reading", &tonic::Status::unauthenticated("bad sk-secret-1"));
        assert!(
            login.to_string().contains("ISOMER_SINK_API_KEY") && !login.to_string().contains("sk-"),
            "{login}"
        );
    }
}
