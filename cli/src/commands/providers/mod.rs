//! `isomer providers`: the encoder providers of a running gateway.

mod show;

use std::{
    io::{Read, Write},
    path::Path,
    process::ExitCode,
};

use isomer_client::Channel;
use isomer_proto::gateway::v1::{
    CheckProviderRequest, CreateProviderRequest, DeleteProviderRequest, GetProviderRequest, ListProvidersRequest,
    Provider, ProviderLimits, RenewLeaseRequest, SecretRef, UpdateProviderRequest, check_provider_request::Target,
    provider_service_client::ProviderServiceClient, secret_ref::Source,
};
use isomer_registry::{
    document,
    file::{self, ProviderTable},
};
use isomer_service_kit::Fault;
use prost_types::FieldMask;
use serde_json::json;
use tonic::{Code, Status};

use super::stdout_failure;
use crate::{
    args::{
        Format,
        providers::{CreateArgs, ProvidersCommand},
    },
    connect::Session,
    exit::Failure,
};

type Client = ProviderServiceClient<Channel>;

/// Exit code for a provider that cannot be offered to clients.
const UNUSABLE: u8 = 3;

pub(super) async fn run(session: &Session, command: ProvidersCommand) -> Result<ExitCode, Failure> {
    let mut client = reach(session).await?;
    let json = session.global.format == Format::Json;
    match command {
        ProvidersCommand::List => list(&mut client, json).await,
        ProvidersCommand::Get { id } => {
            let answer = client.get_provider(GetProviderRequest { id }).await?;
            one(&answer.into_inner().provider.unwrap_or_default(), json)
        }
        ProvidersCommand::Create(args) => {
            let provider = Some(described(*args));
            let answer = client.create_provider(CreateProviderRequest { provider }).await?;
            one(&answer.into_inner().provider.unwrap_or_default(), json)
        }
        ProvidersCommand::Apply { file } => apply(&mut client, &file, json).await,
        ProvidersCommand::Renew { id } => {
            let answer = client
                .renew_lease(RenewLeaseRequest { id: id.clone() })
                .await?
                .into_inner();
            let until = answer.expire_time.as_ref().and_then(document::time).unwrap_or_default();
            print(if json {
                json!({ "id": id, "expire_time": until }).to_string()
            } else {
                format!("{id} stays until {until}")
            })
        }
        ProvidersCommand::Delete { id, etag } => {
            let request = DeleteProviderRequest { id: id.clone(), etag };
            client.delete_provider(request).await?;
            outcome(&id, "deleted", json)
        }
        ProvidersCommand::Check { id, file } => check(&mut client, id, file.as_deref(), json).await,
    }
}

/// Providers belong to a long-running gateway; this process has none.
async fn reach(session: &Session) -> Result<Client, Failure> {
    if session.global.server.is_none() {
        return Err(Failure::usage(
            "--server: providers belong to a running gateway; name it, e.g. --server 127.0.0.1:50051 (ISOMER_SERVER)",
        ));
    }
    Ok(Client::new(session.connect().await?.channel))
}

async fn list(client: &mut Client, json: bool) -> Result<ExitCode, Failure> {
    let (mut request, mut providers) = (ListProvidersRequest::default(), Vec::new());
    let file_error = loop {
        let page = client.list_providers(request.clone()).await?.into_inner();
        providers.extend(page.providers);
        if page.next_page_token.is_empty() {
            break page.file_error;
        }
        request.page_token = page.next_page_token;
    };
    if !file_error.is_empty() {
        let _ = writeln!(
            std::io::stderr(),
            "warning: the gateway's file of providers is not in force: {file_error}"
        );
    }
    if json {
        for provider in &providers {
            print(document::json(provider))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    print(show::table(&providers))
}

fn one(provider: &Provider, json: bool) -> Result<ExitCode, Failure> {
    if json {
        return print(document::json(provider));
    }
    let text =
        document::toml(provider).map_err(|error| Failure::dependency(format!("cannot write the answer: {error}")))?;
    print(text.trim_end())
}

/// Makes the gateway's providers match a file.
async fn apply(client: &mut Client, path: &Path, json: bool) -> Result<ExitCode, Failure> {
    for provider_table in read(path)? {
        let id = provider_table.provider.id.clone();
        let before = match client.get_provider(GetProviderRequest { id: id.clone() }).await {
            Ok(answer) => answer.into_inner().provider,
            Err(status) if status.code() == Code::NotFound => None,
            Err(status) => return Err(placed(path, &provider_table, &status)),
        };
        let request = UpdateProviderRequest {
            provider: Some(provider_table.provider.clone()),
            update_mask: Some(FieldMask {
                paths: vec!["*".to_owned()],
            }),
            allow_missing: true,
        };
        let answer = client
            .update_provider(request)
            .await
            .map_err(|status| placed(path, &provider_table, &status))?;
        let after = answer.into_inner().provider.unwrap_or_default();
        let what = match before {
            None => "created",
            Some(before) if before.etag == after.etag => "unchanged",
            Some(_) => "changed",
        };
        outcome(&id, what, json)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn check(client: &mut Client, id: Option<String>, file: Option<&Path>, json: bool) -> Result<ExitCode, Failure> {
    let mut usable = true;
    if let Some(id) = id {
        let request = CheckProviderRequest {
            target: Some(Target::Id(id.clone())),
        };
        let answer = client.check_provider(request).await?.into_inner();
        usable &= answer.usable;
        print(show::check(&id, &answer, json))?;
    }
    if let Some(path) = file {
        for provider_table in read(path)? {
            let request = CheckProviderRequest {
                target: Some(Target::Candidate(provider_table.provider.clone())),
            };
            let answer = client
                .check_provider(request)
                .await
                .map_err(|status| placed(path, &provider_table, &status))?
                .into_inner();
            usable &= answer.usable;
            print(show::check(&provider_table.provider.id, &answer, json))?;
        }
    }
    Ok(if usable {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(UNUSABLE)
    })
}

/// The providers of a file, or of stdin.
fn read(path: &Path) -> Result<Vec<ProviderTable>, Failure> {
    let read = match path.to_str() {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        }
        _ => std::fs::read_to_string(path),
    };
    let text = read.map_err(|error| Failure::unreadable(format!("cannot read {}: {error}", path.display()), &error))?;
    file::read(&text).map_err(|mut fault| {
        fault.message = format!("{}: {}", path.display(), fault.message);
        fault.into()
    })
}

/// A refusal, with the line of the file that caused it.
fn placed(path: &Path, provider_table: &ProviderTable, status: &Status) -> Failure {
    let mut fault = Fault::from_status(status);
    let field = fault
        .field
        .as_ref()
        .map(|field| field.replacen("candidate", "provider", 1));
    let line = provider_table.line(field.as_deref().unwrap_or("provider"));
    fault.message = format!(
        "{}: line {line}: provider `{}`: {}",
        path.display(),
        provider_table.provider.id,
        fault.message
    );
    fault.into()
}

fn described(args: CreateArgs) -> Provider {
    let limits = ProviderLimits {
        max_batch_items: args.max_batch_items,
        max_batch_tokens: args.max_batch_tokens,
        requests_per_second: args.requests_per_second,
        tokens_per_second: args.tokens_per_second,
        max_concurrency: args.max_concurrency,
        timeout: args.timeout.and_then(|timeout| timeout.try_into().ok()),
    };
    let environment = args.secret_environment.map(Source::Environment);
    let source = environment.or_else(|| args.secret_file.map(Source::File));
    Provider {
        id: args.id,
        kind: args.kind.into(),
        address: args.address,
        encoders: args.encoders.into_iter().collect(),
        limits: (limits != ProviderLimits::default()).then_some(limits),
        secret: source.map(|source| SecretRef { source: Some(source) }),
        headers: args.headers.into_iter().collect(),
        price_per_million_tokens: args.price,
        lease: args.lease.and_then(|lease| lease.try_into().ok()),
        input_types: args.input_types.into_iter().collect(),
        ..Provider::default()
    }
}

fn outcome(id: &str, what: &str, json: bool) -> Result<ExitCode, Failure> {
    print(if json {
        json!({ "id": id, "outcome": what }).to_string()
    } else {
        format!("{what} {id}")
    })
}

fn print(line: impl std::fmt::Display) -> Result<ExitCode, Failure> {
    writeln!(std::io::stdout(), "{line}").map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}
