//! `isomer keys`: API keys and the audit log, in the gateway's database or over its admin
//! interface.

mod key_store;
mod shown;

use std::{io::Write, process::ExitCode};

use isomer_access::{AuditEvent, AuditHead, Budget, KeyChange, Limits, NewKey, Verifier, micros_now, read_expiry};
use isomer_proto::gateway::v1::BudgetPeriod;
use isomer_service_kit::{Fault, config::Secret};
use serde_json::{Value, json};
use tonic::Code;

use self::key_store::KeyStore;
use super::stdout_failure;
use crate::{
    args::{
        Format, Global,
        keys::{AuditArgs, CreateKeyArgs, ImportKeyArgs, KeysArgs, KeysCommand, LimitArgs, UpdateKeyArgs},
    },
    connect::Session,
    exit::Failure,
    progress::Display,
};

pub(super) async fn run(session: &Session, args: KeysArgs) -> Result<ExitCode, Failure> {
    let mut store = KeyStore::open(session, args.database.as_deref()).await?;
    match args.command {
        KeysCommand::Create(args) => create(&session.global, &mut store, args).await?,
        KeysCommand::Import(args) => import(&session.global, &mut store, args).await?,
        KeysCommand::List => list(&session.global, &mut store).await?,
        KeysCommand::Show { id } => {
            let key = store.show(&id).await?;
            print(&shown::one(session.global.format, &key))?;
        }
        KeysCommand::Update(args) => {
            let key = store.update(&args.id.clone(), change(args)?).await?;
            print(&shown::one(session.global.format, &key))?;
        }
        KeysCommand::Revoke { id } => {
            let key = store.revoke(&id).await?;
            print(&shown::one(session.global.format, &key))?;
        }
        KeysCommand::Audit(args) => audit(&session.global, &mut store, args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print(line: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout(), "{line}").map_err(|error| stdout_failure(&error))
}

async fn create(global: &Global, store: &mut KeyStore, args: CreateKeyArgs) -> Result<(), Failure> {
    let properties = NewKey {
        name: args.name,
        scopes: args.scopes.iter().copied().collect(),
        limits: limits(&args.limits),
        expires: args.expires.as_deref().map(expiry).transpose()?,
    };
    let (key, secret) = store.create(properties).await?;
    match global.format {
        Format::Json => {
            let mut document = shown::document(&key);
            document["key"] = json!(secret);
            print(&document.to_string())
        }
        Format::Text => {
            print(&secret)?;
            Display::new(global.quiet).message(&format!(
                "key `{}` (iso_{}): keep it, it is not shown again; send it as `authorization: Bearer …`, or put it into ISOMER_API_KEY",
                key.name, key.id
            ));
            Ok(())
        }
    }
}

async fn import(global: &Global, store: &mut KeyStore, args: ImportKeyArgs) -> Result<(), Failure> {
    let file = args.key_file.display();
    let text = std::fs::read_to_string(&args.key_file)
        .map_err(|error| Failure::usage(format!("--key-file: {file} cannot be read: {error}")))?;
    let properties = NewKey {
        name: args.name,
        scopes: args.scopes.iter().copied().collect(),
        limits: Limits::default(),
        expires: None,
    };
    let (key, new) = store.import(properties, Secret::new(text.trim().to_owned())).await?;
    match global.format {
        Format::Json => print(&shown::document(&key).to_string()),
        Format::Text if new => print(&format!("iso_{} imported", key.id)),
        Format::Text => print(&format!("iso_{} is registered", key.id)),
    }
}

async fn list(global: &Global, store: &mut KeyStore) -> Result<(), Failure> {
    let keys = store.list().await?;
    match global.format {
        Format::Json => keys.iter().try_for_each(|key| print(&shown::document(key).to_string())),
        Format::Text if keys.is_empty() => {
            Display::new(global.quiet)
                .message("no keys yet; make one with `isomer keys create --name NAME --scope encode`");
            Ok(())
        }
        Format::Text => print(&shown::table(&keys).to_string()),
    }
}

fn change(args: UpdateKeyArgs) -> Result<KeyChange, Failure> {
    let change = KeyChange {
        name: args.name,
        scopes: (!args.scopes.is_empty()).then(|| args.scopes.iter().copied().collect()),
        limits: (args.no_limits || args.limits != LimitArgs::default()).then(|| limits(&args.limits)),
        expires: match args.expires.as_deref() {
            None => None,
            Some("never") => Some(None),
            Some(text) => Some(Some(expiry(text)?)),
        },
    };
    if change.name.is_none() && change.scopes.is_none() && change.limits.is_none() && change.expires.is_none() {
        return Err(Failure::usage(
            "nothing is to change: give --name, --scope, --expires, limits or --no-limits",
        ));
    }
    Ok(change)
}

fn expiry(text: &str) -> Result<i64, Failure> {
    read_expiry(text, micros_now()).map_err(|fault| Failure::usage(format!("--{fault}")))
}

fn limits(args: &LimitArgs) -> Limits {
    let budgets = [
        (BudgetPeriod::Day, args.tokens_per_day, args.dollars_per_day),
        (BudgetPeriod::Month, args.tokens_per_month, args.dollars_per_month),
        (BudgetPeriod::Total, args.tokens_total, args.dollars_total),
    ];
    let given = budgets
        .into_iter()
        .filter(|(_, tokens, dollars)| tokens.is_some() || dollars.is_some());
    Limits {
        requests_per_second: args.requests_per_second,
        max_concurrency: args.max_concurrency,
        budgets: given
            .map(|(per, tokens, cost_usd)| Budget { per, tokens, cost_usd })
            .collect(),
    }
}

async fn audit(global: &Global, store: &mut KeyStore, args: AuditArgs) -> Result<(), Failure> {
    let mut verifier = Verifier::holding(match args.verify {
        true => store.acknowledged()?,
        false => AuditHead::default(),
    });
    let mut expected = args.expect.is_none();
    let mut after = args.after;
    loop {
        let (events, head) = store.audit(after).await?;
        for event in &events {
            if args.verify {
                verifier.follow(event)?;
                expected |= args.expect.as_deref() == Some(event.hash.as_str());
            } else {
                print(&event_text(global.format, event))?;
            }
        }
        match events.last() {
            Some(last) if last.seq < head.seq => after = last.seq,
            _ if args.verify => {
                let head = verifier.end(&head)?;
                if !expected {
                    let fault = Fault::new(
                        Code::DataLoss,
                        "AUDIT_BROKEN",
                        "the audit log was tampered with: no event has the hash of --expect",
                    );
                    return Err(fault
                        .hint("check the hash; if it is right, the log was written anew")
                        .into());
                }
                let line = match global.format {
                    Format::Json => json!({ "events": head.seq, "head": head.hash, "holds": true }).to_string(),
                    Format::Text => format!("{} events, the chain holds; head {}", head.seq, head.hash),
                };
                return print(&line);
            }
            _ => return Ok(()),
        }
    }
}

fn event_text(format: Format, event: &AuditEvent) -> String {
    let time = isomer_access::rfc3339(event.at);
    let document: Value = json!({
        "seq": event.seq, "time": time, "who": event.who, "act": event.act, "target": event.target,
        "outcome": event.outcome, "hash": event.hash,
    });
    match format {
        Format::Json => document.to_string(),
        Format::Text => format!(
            "{:>5}  {time}  {}  {}  {}  {}",
            event.seq, event.outcome, event.act, event.who, event.target
        ),
    }
}
