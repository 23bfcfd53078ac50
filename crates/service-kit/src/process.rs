//! The `main` of a service that runs as a process of its own.

use std::{io::Write, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::{
    Fault,
    config::{self, Validate},
    probe::{self, Question},
    server::{self, ServerConfig},
    telemetry::{self, TelemetryConfig},
};

/// Exit code for a configuration that is not valid.
const CONFIGURATION: u8 = 2;
/// Exit code for everything that a service depends on: its port, its models, other services.
const DEPENDENCY: u8 = 3;

/// Longest wait for the answer to a probe.
const PROBE: Duration = Duration::from_secs(5);

/// What the configuration of every service has.
pub trait ProcessConfig: Default + Serialize + DeserializeOwned + Validate {
    /// Port, TLS, limits.
    fn server(&self) -> &ServerConfig;
    /// Logs and traces.
    fn telemetry(&self) -> &TelemetryConfig;

    /// The configuration, with values from well-known environment variables where it has none.
    #[must_use]
    fn with_env(self) -> Self {
        self
    }
}

/// How a service that runs as a process of its own was started.
#[derive(Debug)]
pub struct Process {
    /// The name of the command, with which error messages begin.
    pub command: &'static str,
    /// Name of the service in traces.
    pub service: &'static str,
    /// Configuration file (TOML).
    pub config: Option<PathBuf>,
    /// Address to listen on, in place of the configured one.
    pub listen: Option<SocketAddr>,
    /// The service's own flags, laid over the configuration: an object of its sections.
    pub flags: Value,
    /// Asks the server of this configuration that is running, in place of starting one.
    pub probe: Option<Question>,
}

impl Process {
    /// Loads the configuration, binds the port and serves until the service ends; or probes the
    /// service that runs. Errors go to stderr.
    pub fn main<C: ProcessConfig, F>(self, serve: impl FnOnce(C, TcpListener) -> F) -> ExitCode
    where
        F: Future<Output = Result<(), Fault>>,
    {
        let command = self.command;
        match self.run(serve) {
            Ok(()) => ExitCode::SUCCESS,
            Err((code, message)) => {
                // The exit code remains where stderr cannot be written.
                let _ = writeln!(std::io::stderr(), "{command}: {message}");
                ExitCode::from(code)
            }
        }
    }

    /// The error is an exit code and a message.
    fn run<C: ProcessConfig, F>(mut self, serve: impl FnOnce(C, TcpListener) -> F) -> Result<(), (u8, String)>
    where
        F: Future<Output = Result<(), Fault>>,
    {
        let failed = |fault: Fault| (DEPENDENCY, fault.to_string());
        if let Some(listen) = self.listen {
            self.flags["server"] = serde_json::json!({ "listen": listen });
        }
        let config: C =
            config::load(self.config.as_deref(), &self.flags).map_err(|error| (CONFIGURATION, error.to_string()))?;
        let config = config.with_env();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| (DEPENDENCY, format!("cannot start the runtime: {error}")))?;
        if let Some(question) = self.probe {
            let server = probe::this_server(config.server());
            return runtime.block_on(probe::ask(&server, question, PROBE)).map_err(failed);
        }
        runtime.block_on(async {
            // Exporters of traces run on the runtime.
            let _telemetry = telemetry::init(self.service, config.telemetry()).map_err(failed)?;
            let listener = server::bind(config.server()).map_err(failed)?;
            serve(config, listener).await.map_err(failed)
        })
    }
}
