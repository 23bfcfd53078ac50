//! `isomer registry`: checks of the encoders in a model registry.

mod engine;

use std::{io::Write, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use isomer_all_in_one::IsomerConfig;
use isomer_model_registry::{
    check::{CheckOutcome, Checker, Policy},
    fetch::{self, Bounds},
    ledger::Ledger,
    mlflow::{Credentials, Mlflow},
    registry::Registry,
    sagemaker::SageMaker,
    service::{FolderLock, HOOK, Service},
    verdict::Verdict,
};
use isomer_outbound::secret::SecretSource;
use isomer_proto::eval::v1::RunSpec;
use isomer_service_kit::{
    Fault, Services,
    server::{self, ServerConfig},
    shutdown,
};
use serde_json::json;

use super::{check, report::attest, stdout_failure};
use crate::{
    args::{
        Format,
        registry::{
            RegistryCheckArgs, RegistryCommand, RegistryCommonArgs, RegistryKind, RegistryServeArgs, RegistryWatchArgs,
        },
    },
    connect::{Connection, Session},
    exit::{DONE, Failure, GATE_FAILED, GATE_NOT_PASSED, UNCHECKED},
    progress::Display,
};
use engine::RunEngine;

/// Minimum age at which files of killed processes are removed at start, because a server's run may
/// still read younger ones.
const LEFT_BEHIND: Duration = Duration::from_secs(7 * 86_400);

pub(super) async fn run(session: &Session, command: RegistryCommand) -> Result<ExitCode, Failure> {
    match command {
        RegistryCommand::Check(args) => Box::pin(one(session, *args)).await,
        RegistryCommand::Watch(args) => Box::pin(watch(session, *args)).await,
        RegistryCommand::Serve(args) => Box::pin(serve(session, *args)).await,
    }
}

async fn one(session: &Session, args: RegistryCheckArgs) -> Result<ExitCode, Failure> {
    match args.common.registry {
        RegistryKind::Mlflow => {
            let registry = mlflow(&args.common)?;
            Box::pin(one_of(session, &args, registry)).await
        }
        RegistryKind::Sagemaker => {
            if args.common.promote {
                return Err(Failure::usage(
                    "--promote: SageMaker approves what passed, and its newest approved version is the champion; leave it out",
                ));
            }
            let registry = SageMaker::from_env(bounds(&args.common)).map_err(Fault::from)?;
            Box::pin(one_of(session, &args, registry)).await
        }
    }
}

fn mlflow(args: &RegistryCommonArgs) -> Result<Mlflow, Failure> {
    if args.registry != RegistryKind::Mlflow {
        return Err(Failure::usage(
            "--registry: only MLflow is watched and sends webhooks; have EventBridge start `isomer registry check --registry sagemaker` \
             for a new model package",
        ));
    }
    let uri = args.tracking_uri.as_deref().ok_or_else(|| {
        Failure::usage("--tracking-uri: name the MLflow server, e.g. http://127.0.0.1:5000 (or MLFLOW_TRACKING_URI)")
    })?;
    Mlflow::new(uri, &Credentials::from_env(), &args.experiment)
        .map_err(|error| Failure::usage(error.to_string()).of_flag("--tracking-uri"))
}

fn bounds(args: &RegistryCommonArgs) -> Bounds {
    Bounds {
        bytes: args.max_bytes,
        files: args.max_files,
    }
}

async fn one_of<R: Registry>(session: &Session, args: &RegistryCheckArgs, registry: R) -> Result<ExitCode, Failure> {
    let parts = Parts::new(session, &args.common, registry).await?;
    let checker = &parts.checker;
    let outcome = tokio::select! {
        outcome = checker.check(&args.model, &args.version) => outcome,
        () = shutdown::signal() => {
            parts.connection.flush().await;
            return Err(Failure::interrupted("interrupted; run the same command again to resume"));
        }
    };
    parts.connection.flush().await;
    let outcome = match outcome {
        Err(error) if !error.passes() && !matches!(error, isomer_model_registry::RegistryError::NoVersion { .. }) => {
            checker
                .conclude_error(&args.model, &args.version, error.to_string())
                .await
        }
        other => other,
    };
    let outcome = outcome.map_err(Fault::from)?;
    print(session.global.format, &outcome)?;
    Ok(ExitCode::from(match outcome.verdict {
        Verdict::Pass => DONE,
        Verdict::Fail => GATE_FAILED,
        Verdict::Undecided | Verdict::Invalid => GATE_NOT_PASSED,
        Verdict::Unsupported | Verdict::Refused | Verdict::Error => UNCHECKED,
    }))
}

async fn watch(session: &Session, args: RegistryWatchArgs) -> Result<ExitCode, Failure> {
    let registry = mlflow(&args.common)?;
    let folder = folder(session, &args.common);
    let _alone = FolderLock::take(&folder).map_err(Fault::from)?;
    let parts = Parts::new(session, &args.common, registry).await?;
    let connection = parts.connection.clone();
    let service = parts.service(&args).await?;
    if args.once {
        let look = service.look().await.map_err(Fault::from)?;
        let made = service.drain().await.map_err(Fault::from)?;
        connection.flush().await;
        let line = format!(
            "{} versions, {} to check, {made} checks made",
            look.versions, look.queued
        );
        writeln!(std::io::stdout(), "{line}").map_err(|error| stdout_failure(&error))?;
        return Ok(ExitCode::SUCCESS);
    }
    tokio::select! {
        () = service.work() => {}
        () = service.reconcile(args.interval) => {}
        () = shutdown::signal() => {}
    }
    connection.flush().await;
    Ok(ExitCode::SUCCESS)
}

async fn serve(session: &Session, args: RegistryServeArgs) -> Result<ExitCode, Failure> {
    let secret = match args.webhook_secret_file {
        Some(file) => SecretSource::file(file),
        None => SecretSource::Environment("ISOMER_WEBHOOK_SECRET".to_owned()),
    };
    // This is done before a port is bound.
    secret.read().map_err(|missing| {
        Failure::usage(format!(
            "{missing}; without a secret anybody could have versions checked: give MLflow's webhook one, and the same here"
        ))
    })?;
    let watching = args.watching;
    if watching.once {
        return Err(Failure::usage(
            "--once: a server does not stop after one check; use `isomer registry watch --once`",
        ));
    }
    let registry = mlflow(&watching.common)?;
    let folder = folder(session, &watching.common);
    let _alone = FolderLock::take(&folder).map_err(Fault::from)?;
    let parts = Parts::new(session, &watching.common, registry).await?;
    let server = ServerConfig {
        listen: args.listen,
        ..parts.config.server.clone()
    };
    let listener = server::bind(&server)?;
    let address = listener
        .local_addr()
        .map_err(|error| Fault::internal(format!("no local address: {error}")))?;
    let connection = parts.connection.clone();
    let service = parts.service(&watching).await?;
    let routes = service.routes(secret);
    if !session.global.quiet {
        super::announce(&format!("isomer registry serves {HOOK} on {address}"));
    }
    let serving = server::serve(Services::new().http(routes), &server, listener, shutdown::signal());
    tokio::select! {
        served = serving => served?,
        () = service.work() => {}
        () = service.reconcile(watching.interval) => {}
    }
    connection.flush().await;
    Ok(ExitCode::SUCCESS)
}

fn folder(session: &Session, args: &RegistryCommonArgs) -> PathBuf {
    let home = || session.config.models.home.join("registry");
    args.folder.clone().unwrap_or_else(home)
}

/// The common parts of the commands.
struct Parts<R> {
    checker: Checker<R, RunEngine>,
    connection: Arc<Connection>,
    config: IsomerConfig,
    folder: PathBuf,
}

impl<R: Registry> Parts<R> {
    async fn new(session: &Session, args: &RegistryCommonArgs, registry: R) -> Result<Self, Failure> {
        let key = args
            .attest
            .as_deref()
            .map(|file| attest::key(file, "--attest"))
            .transpose()?;
        if !args.run.forms.is_empty() || !args.run.prompt_variants.is_empty() {
            return Err(Failure::usage(
                "--form and --prompt-variant: a version is judged as it is; check its variants with `isomer check`",
            ));
        }
        // The verdict of a version is that of its encoder.
        let off = || vec!["off".to_owned()];
        let spec = RunSpec {
            forms: off(),
            prompt_variants: off(),
            ..check::spec(&args.run)?
        };
        let display = Display::new(session.global.quiet);
        let connection = session.connect_to_registry(args.max_bytes).await?;
        check::prefetch_generators(&connection, &args.run, &display).await?;
        let folder = folder(session, args);
        let files = folder.join("files");
        let unheld = if connection.is_remote() {
            LEFT_BEHIND
        } else {
            Duration::ZERO
        };
        fetch::sweep(&files, unheld);
        let engine = RunEngine::new(connection.channel.clone(), connection.is_remote(), spec, key, display);
        let policy = Policy {
            champion: args.champion.clone(),
            passed: args.alias.clone(),
            promote: args.promote,
        };
        let checker = Checker::new(registry, engine, files, policy, bounds(args)).map_err(Fault::from)?;
        Ok(Self {
            config: connection.config.clone(),
            checker,
            connection: Arc::new(connection),
            folder,
        })
    }
}

impl Parts<Mlflow> {
    async fn service(self, watching: &RegistryWatchArgs) -> Result<Arc<Service<Mlflow, RunEngine>>, Failure> {
        let file = self.folder.join("ledger.sqlite");
        let ledger = Ledger::open(&format!("sqlite:{}", file.display())).await?;
        Ok(Service::new(
            self.checker,
            ledger,
            watching.models.clone(),
            watching.reread,
        ))
    }
}

fn print(format: Format, outcome: &CheckOutcome) -> Result<(), Failure> {
    let text = match format {
        Format::Json => {
            let document = json!({
                "model": outcome.model,
                "version": outcome.version,
                "verdict": outcome.verdict.name(),
                "reason": outcome.reason,
                "baseline": outcome.baseline,
                "run": outcome.run,
                "record": outcome.record,
                "alias": outcome.alias,
                "promoted": outcome.promoted,
            });
            format!("{document:#}\n")
        }
        Format::Text => {
            let mut text = format!("{} version {}: {}\n", outcome.model, outcome.version, outcome.verdict);
            let mut line = |name: &str, value: &str| {
                if !value.is_empty() {
                    text.push_str(&format!("{name}: {value}\n"));
                }
            };
            line("reason", &outcome.reason);
            line("compared with version", outcome.baseline.as_deref().unwrap_or_default());
            line("run", outcome.run.as_deref().unwrap_or_default());
            line("recorded as", outcome.record.as_deref().unwrap_or_default());
            line("alias", if outcome.alias { "set" } else { "not set" });
            text
        }
    };
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|error| stdout_failure(&error))
}
