//! The `isomer` binary as a process.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use crate::home::Home;

/// The binary beside the test's own executable.
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let folder = test
        .parent()
        .and_then(|deps| deps.parent())
        .expect("target/<profile>/deps");
    let path = folder.join("isomer");
    assert!(
        path.is_file(),
        "{} is missing; build it with `cargo build -p isomer` (tests/run does)",
        path.display()
    );
    path
}

/// `isomer …` with the test's home, offline, without any setting from the caller's environment.
pub fn isomer(home: &Home) -> Command {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ISOMER_") {
            command.env_remove(name);
        }
    }
    command
        .env("ISOMER_HOME", home.path())
        .env("ISOMER_OFFLINE", "1")
        .stdin(Stdio::null());
    command
}

/// The same in a shell: `script` runs it as `"$0" "$@"`.
pub fn isomer_in_shell(home: &Home, script: &str) -> Command {
    let plain = isomer(home);
    let mut command = Command::new("sh");
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .args(["-c", script])
        .arg(plain.get_program())
        .stdin(Stdio::null());
    command
}

/// `isomer check` of a suite with a generator. The report is written in JSON to standard output and
/// as files to `report` in the home.
pub fn check_into_report(home: &Home, suite: &str, generator: &str) -> Command {
    let mut command = isomer(home);
    command.args([
        "check",
        "--format",
        "json",
        "--suite",
        suite,
        "--generator",
        generator,
        "--out",
    ]);
    command.arg(home.path().join("report"));
    command
}

/// Runs the command to its end and returns (exit code, stdout, stderr).
pub fn finish(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("isomer starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8 output");
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

/// A running `isomer serve`; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The address on which the server listens.
    pub address: SocketAddr,
}

impl Server {
    /// Starts `isomer serve` on a free port and waits until it prints its address.
    pub fn start(home: &Home, arguments: &[&str]) -> Self {
        Self::start_at(home, "127.0.0.1:0", arguments)
    }

    /// As [`Server::start`], at a given address.
    pub fn start_at(home: &Home, address: &str, arguments: &[&str]) -> Self {
        let mut command = isomer(home);
        command.args(["serve", "--listen", address]).args(arguments);
        Self::of(command)
    }

    /// As [`Server::start`], by a command that runs `isomer serve` in its own process.
    pub fn of(mut command: Command) -> Self {
        let mut child = command
            .env("ISOMER_LOG", "warn")
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("isomer starts");
        let stdout = child.stdout.take().expect("piped");
        let (sender, receiver) = std::sync::mpsc::channel();
        // Keeps reading after the address is known, so that the server never blocks on a full pipe.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(address) = line.strip_prefix("isomer serves ").and_then(|l| l.rsplit(' ').next()) {
                    let _ = sender.send(address.parse());
                } else {
                    println!("server: {line}");
                }
            }
        });
        let address = receiver
            .recv_timeout(Duration::from_secs(120))
            .expect("an address on stdout")
            .expect("a socket address");
        Self { child, address }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server (SIGKILL).
    pub fn kill(&mut self) {
        self.child.kill().expect("a running server");
        self.child.wait().expect("a status");
    }

    /// Asks the server to stop (SIGTERM).
    pub fn terminate(&self) {
        let done = Command::new("kill")
            .args(["-TERM", &self.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(done.success());
    }

    /// Waits for the server's end and returns its exit code.
    pub fn wait(&mut self, limit: Duration) -> Option<i32> {
        let start = Instant::now();
        while start.elapsed() < limit {
            if let Some(status) = self.child.try_wait().expect("a status") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
