//! A gateway with every service in its process, in front of test models.

use std::{net::SocketAddr, time::Duration};

use isomer_access::{AccessConfig, AccessScope, Budget, BudgetPeriod, Keys, Limits, Mode, NewKey, Scopes};
use isomer_adapters::GuardConfig;
use isomer_all_in_one::{Caller, IsomerConfig, compose};
use isomer_database::Database;
use isomer_registry::ProvidersConfig;
use isomer_service_kit::{
    config::Secret,
    server::{self, ServerConfig},
};
use isomer_transform::config::GeneratorConfig;
use tempfile::TempDir;

use crate::models::{ENCODER, ModelUsage, Models};

pub struct Harness {
    pub models: Models,
    pub address: SocketAddr,
    home: TempDir,
}

pub struct Key {
    pub id: String,
    pub text: Secret,
}

impl Harness {
    pub async fn new() -> Self {
        Self::with(|_| ()).await
    }

    /// A gateway whose configuration is changed by `configure`.
    pub async fn with(configure: impl FnOnce(&mut IsomerConfig)) -> Self {
        isomer_service_kit::tls::install_crypto();
        let models = Models::start().await;
        let home = TempDir::new().unwrap();
        let providers = home.path().join("providers.toml");
        let declared = format!(
            "[[provider]]\nid = \"far\"\nkind = \"isomer\"\naddress = \"{}\"\nprice_per_million_tokens = 1e6\nencoders = {{ {ENCODER} = \
             \"{ENCODER}\" }}\n",
            models.encoder
        );
        std::fs::write(&providers, declared).unwrap();
        let url = format!("{}/v1", models.generator.address);
        let generator = |model: &str| GeneratorConfig {
            model: model.to_owned(),
            url: Some(url.clone()),
            max_tries: 1,
            ..GeneratorConfig::default()
        };
        let mut config = IsomerConfig {
            server: ServerConfig::at("127.0.0.1:0".parse().unwrap()),
            access: AccessConfig {
                mode: Mode::Required,
                ..AccessConfig::default()
            },
            providers: ProvidersConfig {
                file: Some(providers),
                ..ProvidersConfig::default()
            },
            addresses: GuardConfig {
                allow: vec!["127.0.0.1".to_owned()],
            },
            ..IsomerConfig::default()
        };
        // A call that is to be answered is answered on a busy machine too.
        config.server.limits.request_timeout_seconds = 600;
        config.models.home = home.path().to_owned();
        config.transform.generators = ["writer", "judge"]
            .map(|name| (name.to_owned(), generator(name)))
            .into();
        config.transform.default_generator = "writer".to_owned();
        // A task then takes more than one request.
        config.eval.encode_batch_items = 2;
        configure(&mut config);
        let (listen, limits) = (config.server.clone(), server::bind(&config.server).unwrap());
        let address = limits.local_addr().unwrap();
        let composed = compose(config, Caller::Anyone).await.unwrap();
        tokio::spawn(async move {
            server::serve(composed.front(), &listen, limits, std::future::pending())
                .await
                .unwrap();
            drop(composed);
        });
        Self { models, address, home }
    }

    async fn keys(&self) -> Keys {
        let path = self.home.path().join("gateway.sqlite");
        Keys::open(Database::open(path.to_str().unwrap()).await.unwrap())
            .await
            .unwrap()
    }

    /// A key with all scopes and budgets that no test uses up.
    pub async fn key(&self) -> Key {
        self.key_for(1 << 40).await
    }

    /// A key with all scopes that may use `tokens` tokens.
    pub async fn key_for(&self, tokens: u64) -> Key {
        let new = NewKey {
            name: "team".to_owned(),
            scopes: Scopes::of(&[
                AccessScope::Encode,
                AccessScope::Transform,
                AccessScope::Evaluate,
                AccessScope::Admin,
            ]),
            limits: Limits {
                budgets: vec![Budget {
                    per: BudgetPeriod::Total,
                    tokens: Some(tokens),
                    cost_usd: Some(9e6),
                }],
                ..Limits::default()
            },
            expires: None,
        };
        let (record, text) = self.keys().await.create("test", new).await.unwrap();
        Key { id: record.id, text }
    }

    /// The key's charges, after they have stopped changing.
    pub async fn settled(&self, key: &Key) -> ModelUsage {
        let keys = self.keys().await;
        let mut before = None;
        loop {
            // Counts are written twice a second.
            tokio::time::sleep(Duration::from_millis(700)).await;
            let total = keys.get(&key.id).await.unwrap().1.total;
            let charged = (total.tokens, (total.cost_usd * 1e9).round() as u64);
            if before == Some(charged) {
                return ModelUsage {
                    finished: charged,
                    cut: 0,
                };
            }
            before = Some(charged);
        }
    }
}
