//! A receiver of samples/ as its own process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::SECRET;
use super::copies::Copies;
use super::support::installed;
use super::support::postgres::Postgres;
use super::support::verify::python;

pub(crate) struct Sample {
    port: u16,
    process: Child,
    pub(crate) copies: Copies,
    _directory: TempDir,
}

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

impl Sample {
    /// `receiver.py` by itself.
    pub(crate) async fn plain() -> Self {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("received.db");
        let mut command = Command::new(python());
        command
            .arg(root("samples/python/receiver.py"))
            .args(["--port", "0", "--database"])
            .arg(&file);
        Self::start(command, directory, Copies::Sqlite(file))
    }

    /// `function_app.py`.
    pub(crate) async fn python() -> Self {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("received.db");
        let mut command = Command::new(python());
        command
            .arg(root("tests/samples/functions.py"))
            .env("ORDERS_DATABASE", &file);
        Self::start(command, directory, Copies::Sqlite(file))
    }

    /// The functions of samples/node, compiled.
    pub(crate) async fn node() -> Self {
        let server = Postgres::start().await;
        let url = server.database("received").await;
        let tables = fs::read_to_string(root("samples/node/tables.sql")).unwrap();
        server.sql_in("received", &tables).await;
        let directory = TempDir::new().unwrap();
        compile(directory.path());
        let mut command = Command::new("node");
        command
            .arg(root("tests/samples/functions.cjs"))
            .arg(directory.path().join("dist"))
            .env("DATABASE_URL", url);
        Self::start(command, directory, Copies::Postgres(Box::new(server)))
    }

    fn start(mut command: Command, directory: TempDir, copies: Copies) -> Self {
        let mut process = command
            .env("WEBHOOK_SECRET", SECRET)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut ports = lines.by_ref().map(Result::unwrap).filter_map(|line| {
            let address = line.strip_prefix("listening at http://localhost:");
            let port = address.or(line.strip_prefix("port "))?;
            port.trim_end_matches('/').parse().ok()
        });
        let port = ports.next().expect("it ended before it listened");
        // A full pipe would stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            port,
            process,
            copies,
            _directory: directory,
        }
    }

    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/api/orders", self.port)
    }

    /// Where a message of the queue is handed over.
    pub(crate) fn queue(&self) -> String {
        format!("http://127.0.0.1:{}/queue", self.port)
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn compile(directory: &Path) {
    let libraries = installed("node", "../samples/node/package-lock.json").join("node_modules");
    std::os::unix::fs::symlink(&libraries, directory.join("node_modules")).unwrap();
    for name in [
        "tsconfig.json",
        "src/receiver.ts",
        "src/functions/orders.ts",
    ] {
        let target = directory.join(name);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(root("samples/node").join(name), target).unwrap();
    }
    let compiled = Command::new("node")
        .arg(libraries.join("typescript/bin/tsc"))
        .current_dir(directory)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&compiled.stdout);
    assert!(compiled.status.success(), "{said}");
}
