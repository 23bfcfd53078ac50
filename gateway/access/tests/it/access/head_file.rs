//! The newest event of the audit log, kept apart from the database.

use isomer_access::{Access, AccessConfig, AuditHead, HeadFile, Keys, Verifier};
use isomer_database::Database;
use isomer_service_kit::Fault;
use tempfile::TempDir;

struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn file(&self) -> HeadFile {
        AccessConfig::default().at_home(self.0.path()).head_file().unwrap()
    }

    async fn keys(&self) -> Keys {
        let path = self.0.path().join("gateway.sqlite");
        let database = Database::open(path.to_str().unwrap()).await.unwrap();
        let access = Access::open(AccessConfig::default().at_home(self.0.path()), database);
        access.await.unwrap().keys()
    }

    /// Writes this many events.
    async fn write(&self, events: usize) -> Keys {
        let keys = self.keys().await;
        for number in 0..events {
            let target = format!("provider {number}");
            keys.audit("local:test", "providers.create", &target, Ok(()))
                .await
                .unwrap();
        }
        keys
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// Sets the database back to this number of events, as a copy from before would.
    async fn set_back(&self, keys: &Keys, events: i64) {
        let kept = keys.audit_events(0, 0).await.unwrap();
        let hash = kept[usize::try_from(events).unwrap() - 1].hash.clone();
        let path = self.path("gateway.sqlite");
        let database = Database::open(path.to_str().unwrap()).await.unwrap();
        for query in [
            format!("DELETE FROM audit_events WHERE seq > {events}"),
            format!("UPDATE audit_head SET seq = {events}, hash = '{hash}'"),
        ] {
            sqlx::raw_sql(sqlx::AssertSqlSafe(query))
                .execute(database.pool())
                .await
                .unwrap();
        }
    }
}

async fn verified(keys: &Keys) -> Result<i64, Fault> {
    let mut verifier = Verifier::holding(keys.acknowledged()?.unwrap_or_default());
    for event in keys.audit_events(0, 0).await? {
        verifier.follow(&event)?;
    }
    Ok(verifier.end(&keys.audit_head().await?)?.seq)
}

#[tokio::test]
async fn the_file_holds_the_newest_event_of_all_writers() {
    let home = Home::new();
    assert_eq!(home.file().read().unwrap(), None);
    let (first, second) = tokio::join!(home.write(20), home.write(20));
    let head = first.audit_head().await.unwrap();
    assert_eq!(head.seq, 40);
    assert_eq!(home.file().read().unwrap(), Some(head));
    assert_eq!(verified(&second).await.unwrap(), 40);
    #[cfg(unix)]
    for name in ["audit-head.json", "audit-head.json.key"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(home.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn a_database_that_was_set_back_is_noticed_until_and_after_it_grows_again() {
    let home = Home::new();
    let keys = home.write(5).await;
    home.set_back(&keys, 3).await;
    let fault = verified(&home.keys().await).await.unwrap_err();
    assert_eq!(fault.reason, "AUDIT_BROKEN", "{fault}");
    // Other events take the place of those that were lost.
    for _ in 4..9 {
        let keys = home.write(1).await;
        assert_eq!(verified(&keys).await.unwrap_err().reason, "AUDIT_BROKEN");
    }
}

#[tokio::test]
async fn a_file_that_was_changed_or_whose_key_is_gone_is_refused() {
    let changes: [(&str, fn(&Home)); 4] = [
        ("number", |home| {
            let path = home.path("audit-head.json");
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, text.replace("\"seq\":3", "\"seq\":2")).unwrap();
        }),
        ("key", |home| {
            std::fs::remove_file(home.path("audit-head.json.key")).unwrap()
        }),
        ("other key", |home| {
            std::fs::write(home.path("audit-head.json.key"), "other").unwrap()
        }),
        ("signature", |home| {
            let head = "{\"seq\":3,\"hash\":\"00\",\"signature\":\"zz\"}";
            std::fs::write(home.path("audit-head.json"), head).unwrap();
        }),
    ];
    for (name, change) in changes {
        let home = Home::new();
        let keys = home.write(3).await;
        verified(&keys).await.unwrap();
        change(&home);
        assert_eq!(verified(&keys).await.unwrap_err().reason, "AUDIT_BROKEN", "{name}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_written_does_not_fail_the_act() {
    let home = Home::new();
    let keys = home.write(1).await;
    let before = home.file().read().unwrap();
    std::fs::create_dir(home.path("audit-head.json.partial")).unwrap();
    keys.audit("local:test", "providers.create", "provider", Ok(()))
        .await
        .unwrap();
    assert_eq!(home.file().read().unwrap(), before);
    // The record is older than the chain, which still holds it.
    assert_eq!(verified(&keys).await.unwrap(), 2);
    assert_ne!(before, Some(AuditHead::default()));
}
