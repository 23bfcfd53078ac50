//! The `main` of a service that runs as its own process.

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

/// Exit code for an invalid configuration.
const CONFIGURATION: u8 = 2;
/// Exit code for a failed dependency: the port, models, other services.
const DEPENDENCY: u8 = 3;

/// Maximum wait for the answer to a probe.
const PROBE: Duration = Duration::from_secs(5);

/// The common parts of every service's configuration.
pub trait ProcessConfig: Default + Serialize + DeserializeOwned + Validate {
    /// Port, TLS, limits.
    fn server(&self) -> &ServerConfig;
    /// Logs and traces.
    fn telemetry(&self) -> &TelemetryConfig;

    /// The configuration, with missing values filled from well-known environment variables.
    #[must_use]
    fn with_env(self) -> Self {
        self
    }
}

/// The command line of a service that runs as its own process.
#[derive(Debug)]
pub struct Process {
    /// The name of the command, used as a prefix of error messages.
    pub command: &'static str,
    /// Name of the service in traces.
    pub service: &'static str,
    /// Configuration file (TOML).
    pub config: Option<PathBuf>,
    /// Address to listen on, overriding the configured one.
    pub listen: Option<SocketAddr>,
    /// The service's own flags, which override the configuration: an object of its sections.
    pub flags: Value,
    /// Probes the running server of this configuration instead of starting one.
    pub probe: Option<Question>,
}

impl Process {
    /// Loads the configuration, binds the port and serves until the service ends, or probes the
    /// running service. Errors go to stderr.
    pub fn main<C: ProcessConfig, F>(self, serve: impl FnOnce(C, TcpListener) -> F) -> ExitCode
    where
        F: Future<Output = Result<(), Fault>>,
    {
        let command = self.command;
        match self.run(serve) {
            Ok(()) => ExitCode::SUCCESS,
            Err((code, message)) => {
                // If stderr cannot be written, the exit code still reports the failure.
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
            // Trace exporters need the runtime.
            let _telemetry = telemetry::init(self.service, config.telemetry()).map_err(failed)?;
            let listener = server::bind(config.server()).map_err(failed)?;
            serve(config, listener).await.map_err(failed)
        })
    }
}
