//! A private Azurite: in memory, on a free loopback port, gone with the test process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dbtick::azure::Azure;
use dbtick::azure::connection::{Service, StorageConnection};
use dbtick::clock::{Clock, SystemClock};
use dbtick::config::Settings;
use dbtick::store::BlobStore;
use tempfile::TempDir;

use super::installed;

pub const ACCOUNT: &str = "devstoreaccount1";
/// The same in every Azurite of the world.
pub const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

pub struct Azurite {
    server: Child,
    /// `http://127.0.0.1:PORT/devstoreaccount1`
    pub endpoint: String,
    containers: AtomicU32,
    _directory: TempDir,
}

impl Azurite {
    pub fn blob() -> Self {
        Self::start("blob", &[])
    }

    pub fn queue() -> Self {
        Self::start("queue", &[])
    }

    /// Over TLS, with the test certificate, and taking tokens that it only looks at.
    pub fn blob_with_tokens() -> Self {
        Self::with_tokens("blob")
    }

    pub fn queue_with_tokens() -> Self {
        Self::with_tokens("queue")
    }

    fn with_tokens(service: &str) -> Self {
        let certificates = certificates();
        let file = |name: &str| certificates.join(name).display().to_string();
        Self::start(
            service,
            &[
                "--oauth",
                "basic",
                "--cert",
                &file("server.pem"),
                "--key",
                &file("server.key"),
            ],
        )
    }

    fn start(service: &str, options: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/azurite");
        let mut server = Command::new("node")
            .arg("--require")
            .arg(scripts.join("end-with-stdin.js"))
            .arg(
                installed("azurite", "azurite/package-lock.json")
                    .join(format!("node_modules/azurite/dist/src/{service}/main.js")),
            )
            .args([&format!("--{service}Host"), "127.0.0.1"])
            .args([&format!("--{service}Port"), "0"])
            .args([
                "--inMemoryPersistence",
                "--skipApiVersionCheck",
                "--disableTelemetry",
                "--silent",
            ])
            .args(options)
            .current_dir(directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node is there; tests/tools installs it");
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| {
                let address = line.split_once("successfully listens on ")?.1;
                Some(address.trim().to_owned())
            })
            .expect("Azurite ended before it listened");
        // A full pipe would stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            server,
            endpoint: format!("{address}/{ACCOUNT}"),
            containers: AtomicU32::default(),
            _directory: directory,
        }
    }

    pub fn port(&self) -> u16 {
        let (_, port) = self.endpoint.rsplit_once(':').unwrap();
        let (port, _) = port.split_once('/').unwrap();
        port.parse().unwrap()
    }

    /// As an app setting holds it; for a queue server it names the queue endpoint only.
    pub fn connection_string(&self) -> String {
        connection_string(&self.endpoint)
    }

    pub fn queue_connection_string(&self) -> String {
        let endpoint = &self.endpoint;
        format!("AccountName={ACCOUNT};AccountKey={KEY};QueueEndpoint={endpoint}")
    }

    /// A name that no other test of this server has.
    pub fn fresh_container(&self) -> String {
        let number = self.containers.fetch_add(1, Ordering::Relaxed);
        format!("test-{number}")
    }

    pub fn store(&self, container: &str) -> BlobStore {
        store(&self.connection_string(), container, Arc::new(SystemClock))
    }
}

/// For a server behind this address, such as a proxy in front of Azurite.
pub fn connection_string(endpoint: &str) -> String {
    format!("AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint}")
}

/// A store by the road that an app takes: a setting, a connection, an endpoint.
pub fn store(connection: &str, container: &str, clock: Arc<dyn Clock>) -> BlobStore {
    let settings = Settings::from_iter([("STORAGE", connection)]);
    let connection = StorageConnection::resolve(&settings, "STORAGE").unwrap();
    let endpoint = connection.service(Service::Blob).unwrap();
    let azure = Azure::new(Arc::clone(&clock)).unwrap();
    BlobStore::new(&azure, Arc::new(endpoint), container, clock)
}

impl Drop for Azurite {
    fn drop(&mut self) {
        self.server.kill().ok();
        self.server.wait().ok();
    }
}

/// Where the test certificates are; `ca.pem` is the one to trust.
pub fn certificates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/azurite/certificates")
}
