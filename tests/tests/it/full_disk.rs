//! Keys of a gateway whose disk is temporarily full, and that is killed afterwards.

use std::{collections::BTreeSet, fs};

use isomer_proto::gateway::v1::{
    AccessScope, ApiKey, CreateKeyRequest, ListAuditEventsRequest, ListKeysRequest, RevokeKeyRequest,
    access_service_client::AccessServiceClient,
};
use isomer_tests::{
    home::Home,
    process::{Server, finish, isomer, isomer_in_shell},
};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tonic::{Request, Status, transport::Channel};

/// Limits the size of files that the server may write, as on a full disk; `None`: no limit.
fn limit_file_size(server: &Server, bytes: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(server.id()).unwrap()).unwrap();
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(Some(pid), Resource::Fsize, limit).unwrap();
}

/// A server that gets an error instead of a signal for a file that is too large.
fn serve(home: &Home, config: &str) -> Server {
    let mut command = isomer_in_shell(home, "trap '' XFSZ; exec \"$0\" \"$@\"");
    command.args(["serve", "--listen", "127.0.0.1:0", "--config", config]);
    Server::of(command)
}

struct Keys {
    client: AccessServiceClient<Channel>,
    key: String,
}

impl Keys {
    async fn of(server: &Server, key: &str) -> Self {
        let client = AccessServiceClient::connect(format!("http://{}", server.address)).await;
        Self {
            client: client.unwrap(),
            key: key.to_owned(),
        }
    }

    fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        let value = format!("Bearer {}", self.key).parse().unwrap();
        request.metadata_mut().insert("authorization", value);
        request
    }

    async fn create(&mut self, name: &str) -> Result<String, Status> {
        let mut key = ApiKey {
            name: name.to_owned(),
            ..ApiKey::default()
        };
        key.push_scopes(AccessScope::Encode);
        let request = self.request(CreateKeyRequest { key: Some(key) });
        Ok(self.client.create_key(request).await?.into_inner().key.unwrap().id)
    }

    async fn revoke(&mut self, id: &str) -> Result<(), Status> {
        let request = self.request(RevokeKeyRequest { id: id.to_owned() });
        self.client.revoke_key(request).await.map(drop)
    }

    /// Ids of all keys, and of those that are revoked.
    async fn all(&mut self) -> [BTreeSet<String>; 2] {
        let request = self.request(ListKeysRequest::default());
        let keys = self.client.list_keys(request).await.unwrap().into_inner().keys;
        let revoked = keys.iter().filter(|key| key.revoke_time.is_some());
        let revoked = revoked.map(|key| key.id.clone()).collect();
        [keys.iter().map(|key| key.id.clone()).collect(), revoked]
    }

    async fn events(&mut self) -> usize {
        let request = self.request(ListAuditEventsRequest::default());
        let answer = self.client.list_audit_events(request).await.unwrap();
        answer.into_inner().events.len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_after_a_full_disk_is_there_after_a_restart() {
    let home = Home::empty();
    let file = home.path().join("isomer.toml");
    fs::write(&file, "[access]\nmode = \"required\"\n").unwrap();
    let config = file.display().to_string();
    let create = [
        "keys", "create", "--config", &config, "--name", "root", "--scope", "admin",
    ];
    let (code, stdout, stderr) = finish(isomer(&home).args(create));
    assert_eq!(code, 0, "{stderr}");
    let mut words = stdout.split_whitespace();
    let admin = words.find(|word| word.starts_with("iso_")).unwrap().to_owned();

    let mut server = serve(&home, &config);
    let mut keys = Keys::of(&server, &admin).await;
    let (mut created, mut revoked, mut acts) = (BTreeSet::new(), BTreeSet::new(), 1);
    for n in 0..20 {
        created.insert(keys.create(&format!("before-{n}")).await.unwrap());
        acts += 1;
    }
    let ids: Vec<String> = created.iter().cloned().collect();
    let (while_full, afterwards) = ids.split_at(8);

    let sizes = fs::read_dir(home.path()).unwrap();
    let largest = sizes.map(|file| file.unwrap().metadata().unwrap().len()).max().unwrap();
    limit_file_size(&server, Some(largest + 9_000));
    let mut refused = 0;
    for (n, id) in while_full.iter().enumerate() {
        match keys.revoke(id).await {
            Ok(()) => drop(revoked.insert(id.clone())),
            Err(_) => refused += 1,
        }
        match keys.create(&format!("full-{n}")).await {
            Ok(id) => drop(created.insert(id)),
            Err(_) => refused += 1,
        }
    }
    acts += 2 * while_full.len() - refused;
    assert!(refused > 0, "the disk was not full");

    limit_file_size(&server, None);
    for id in afterwards {
        keys.revoke(id).await.unwrap();
        revoked.insert(id.clone());
        acts += 1;
    }
    created.insert(keys.create("after").await.unwrap());
    acts += 1;
    // Another process writes to the same file.
    let other = [
        "keys", "create", "--config", &config, "--name", "other", "--scope", "encode",
    ];
    let (code, _, stderr) = finish(isomer(&home).args(other));
    assert_eq!(code, 0, "{stderr}");
    acts += 1;

    server.kill();
    let server = serve(&home, &config);
    let mut keys = Keys::of(&server, &admin).await;
    let [found, found_revoked] = keys.all().await;
    let lost: Vec<_> = created.difference(&found).collect();
    assert!(lost.is_empty(), "created, acknowledged and lost: {lost:?}");
    let lost: Vec<_> = revoked.difference(&found_revoked).collect();
    assert!(lost.is_empty(), "revoked, acknowledged and valid again: {lost:?}");
    assert!(
        keys.events().await >= acts,
        "{} of {acts} acts are in the audit log",
        keys.events().await
    );
    let (code, _, stderr) = finish(isomer(&home).args(["keys", "audit", "--config", &config, "--verify"]));
    assert_eq!(code, 0, "{stderr}");
}
