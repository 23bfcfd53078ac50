//! A service that runs as a separate process: the settings that reach it, and its exit codes.

use std::{cell::RefCell, net::SocketAddr, process::ExitCode};

use isomer_service_kit::{
    Process, ProcessConfig,
    config::{ConfigError, Validate},
    probe::Question,
    server::ServerConfig,
    telemetry::TelemetryConfig,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    server: ServerConfig,
    telemetry: TelemetryConfig,
    name: String,
    home: String,
}

impl Validate for Config {
    fn validate(&self) -> Result<(), ConfigError> {
        self.server.validate()
    }
}

impl ProcessConfig for Config {
    fn server(&self) -> &ServerConfig {
        &self.server
    }

    fn telemetry(&self) -> &TelemetryConfig {
        &self.telemetry
    }

    fn with_env(mut self) -> Self {
        self.home = "from the environment".to_owned();
        self
    }
}

/// The exit code of a service, and its start parameters: its configuration and the address that it
/// listens on.
fn run(flags: Value, probe: Option<Question>) -> (ExitCode, Option<(Config, SocketAddr)>) {
    let served = RefCell::new(None);
    let process = Process {
        command: "isomer-test-svc",
        service: "isomer-test",
        config: None,
        listen: Some("127.0.0.1:0".parse().unwrap()),
        flags,
        probe,
    };
    let code = process.main(|config: Config, listener| {
        *served.borrow_mut() = Some((config, listener.local_addr().unwrap()));
        async { Ok(()) }
    });
    (code, served.into_inner())
}

/// There is only one test, because a process has one telemetry.
#[test]
fn a_service_gets_its_port_and_flags_or_ends_with_the_code_of_a_wrong_configuration() {
    let (code, served) = run(json!({ "nam": "a" }), None);
    assert_eq!(code, ExitCode::from(2));
    assert!(served.is_none(), "nothing is served with a wrong configuration");

    let (code, served) = run(json!({ "name": "a" }), None);
    assert_eq!(code, ExitCode::SUCCESS);
    let (config, address) = served.unwrap();
    assert_eq!((&*config.name, &*config.home), ("a", "from the environment"));
    assert_ne!(address.port(), 0, "the port is bound");
    assert_eq!(config.server.listen, "127.0.0.1:0".parse().unwrap());

    // No server listens there: the probe reports this, and starts nothing.
    let (code, served) = run(json!({ "name": "a" }), Some(Question::Live));
    assert_eq!(code, ExitCode::from(3));
    assert!(served.is_none(), "a probe serves nothing");
    // An invalid configuration is distinguished from a server that does not respond.
    let (code, _) = run(json!({ "nam": "a" }), Some(Question::Live));
    assert_eq!(code, ExitCode::from(2));
}
