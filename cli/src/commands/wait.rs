//! `isomer wait`: waits for servers, ports and the gateway's database.

use std::{process::ExitCode, time::Duration};

use futures::future::try_join_all;
use isomer_access::{Keys, Mode};
use isomer_all_in_one::IsomerConfig;
use isomer_database::Database;
use isomer_service_kit::{
    Fault,
    client::ClientConfig,
    config::Validate,
    probe::{self, Question},
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    args::deploy::WaitArgs,
    connect::{self, Session},
    exit::Failure,
};

/// Time between two attempts, and maximum wait for a response.
const BETWEEN: Duration = Duration::from_millis(500);
const ONE_TRY: Duration = Duration::from_secs(5);

enum Target {
    Server(ClientConfig),
    Port(String),
    Database(Box<IsomerConfig>),
}

pub(super) async fn run(session: &Session, args: WaitArgs) -> Result<ExitCode, Failure> {
    if session.global.server.is_some() {
        return Err(Failure::usage(
            "--server: `isomer wait` takes what it waits for as arguments. Leave --server out",
        ));
    }
    let targets: Vec<(String, Target)> = args
        .targets
        .into_iter()
        .map(|text| Ok((text.clone(), read(session, &text)?)))
        .collect::<Result<_, Failure>>()?;
    let until = Instant::now() + Duration::from_secs(args.timeout);
    try_join_all(targets.iter().map(|(name, target)| usable(name, target, until))).await?;
    Ok(ExitCode::SUCCESS)
}

fn read(session: &Session, text: &str) -> Result<Target, Failure> {
    if text == "database" {
        return Ok(Target::Database(Box::new(session.config.clone())));
    }
    if let Some(address) = text.strip_prefix("tcp://") {
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        return match port {
            Some(_) => Ok(Target::Port(address.to_owned())),
            None => Err(Failure::usage(format!("`{text}` has no port; write tcp://HOST:PORT"))),
        };
    }
    // The flags for a server's TLS apply only to targets with TLS.
    let config = if text.starts_with("http://") {
        ClientConfig::plain(text)
    } else {
        connect::client(&session.global, text)?
    };
    config
        .validate()
        .map_err(|error| Failure::usage(format!("`{text}`: {error}; or write tcp://HOST:PORT or database")))?;
    Ok(Target::Server(config))
}

/// Retries until the target is usable or the time is over; then the last reason is reported.
async fn usable(name: &str, target: &Target, until: Instant) -> Result<(), Failure> {
    loop {
        let tried = timeout(ONE_TRY, look(target)).await;
        let fault = match tried.unwrap_or_else(|_| Err(Fault::unavailable("NO_ANSWER", "no answer"))) {
            Ok(()) => return Ok(()),
            Err(fault) => fault,
        };
        if Instant::now() + BETWEEN >= until {
            return Err(Failure::dependency(format!("{name} cannot be used yet: {fault}")));
        }
        tracing::info!(target = name, %fault, "waiting");
        sleep(BETWEEN).await;
    }
}

async fn look(target: &Target) -> Result<(), Fault> {
    match target {
        Target::Server(config) => probe::ask(config, Question::Ready, ONE_TRY).await,
        Target::Port(address) => {
            let connected = tokio::net::TcpStream::connect(address).await;
            connected
                .map(drop)
                .map_err(|error| Fault::unavailable("NO_ANSWER", format!("{address}: {error}")))
        }
        Target::Database(config) => {
            let keys = Keys::open(Database::open(&config.database.address(&config.models.home)).await?).await?;
            let open = config.access.mode == Mode::Open || config.access.jwt.is_some();
            if open || keys.any_works().await? {
                return Ok(());
            }
            let fault = Fault::precondition("NO_KEY", "there is no key in it that works");
            Err(fault.hint("make one with `isomer keys create`, or register one with `isomer keys import`"))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::Parser;
    use isomer_service_kit::config::Secret;

    use super::*;
    use crate::args::Cli;

    fn session(words: &[&str]) -> Session {
        let mut cli = Cli::try_parse_from(["isomer", "wait", "database"].iter().chain(words)).unwrap();
        Session::new(cli.global, &mut cli.command).unwrap()
    }

    fn soon(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    #[test]
    fn a_target_is_a_server_a_port_or_the_database() {
        let session = session(&[]);
        assert!(matches!(read(&session, "tcp://nats:4222"), Ok(Target::Port(at)) if at == "nats:4222"));
        assert!(matches!(read(&session, "database"), Ok(Target::Database(_))));
        for server in ["gateway:50051", "http://gateway:50051", "https://gateway:50051"] {
            assert!(matches!(read(&session, server), Ok(Target::Server(at)) if at.address == server));
        }
        for wrong in ["tcp://nats", "", "ftp://x:1"] {
            assert!(read(&session, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_authorities_of_the_flags_hold_for_servers_with_tls_only() {
        let session = session(&["--ca-file", "ca.crt"]);
        let tls = |target: &str| match read(&session, target) {
            Ok(Target::Server(config)) => config.tls.is_some(),
            _ => false,
        };
        assert!(tls("https://gateway:50051") && !tls("http://gateway:50051"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_port_that_opens_later_is_waited_for_and_one_that_stays_closed_is_named() {
        // Bound, so that no other process takes the port; connections are refused.
        let closed = tokio::net::TcpSocket::new_v4().unwrap();
        closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = closed.local_addr().unwrap();
        let target = Target::Port(address.to_string());
        let failure = usable("tcp://here", &target, soon(1)).await.unwrap_err();
        assert!(
            format!("{failure:?}").contains("tcp://here cannot be used yet"),
            "{failure:?}"
        );
        let opening = async {
            sleep(Duration::from_millis(700)).await;
            closed.listen(8).unwrap()
        };
        let (waited, _listener) = tokio::join!(usable("tcp://here", &target, soon(20)), opening);
        waited.unwrap();
    }

    #[tokio::test]
    async fn a_database_is_usable_once_it_has_a_key_that_works_or_needs_none() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = IsomerConfig::default();
        let path = folder.path().join("keys.sqlite").display().to_string();
        config.database.url = Secret::new(path.clone());
        let target = |config: &IsomerConfig| Target::Database(Box::new(config.clone()));
        let failure = usable("database", &target(&config), soon(1)).await.unwrap_err();
        assert!(format!("{failure:?}").contains("no key in it"), "{failure:?}");
        config.access.mode = Mode::Open;
        usable("database", &target(&config), soon(5)).await.unwrap();

        config.access.mode = Mode::Required;
        let keys = Keys::open(Database::open(&path).await.unwrap()).await.unwrap();
        let new = isomer_access::NewKey {
            name: "test".to_owned(),
            scopes: isomer_access::Scopes::of(&[isomer_access::AccessScope::Encode]),
            ..isomer_access::NewKey::default()
        };
        let (record, _) = keys.create("test", new).await.unwrap();
        usable("database", &target(&config), soon(5)).await.unwrap();
        keys.revoke("test", &record.id).await.unwrap();
        assert!(usable("database", &target(&config), soon(1)).await.is_err());
    }
}
