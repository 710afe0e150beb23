//! A server process of a test: private, in a directory and on a port of its own, gone with the test.
//!
//! A shell stands between: it ends the server when its standard input closes, which also happens
//! when the test process is killed.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, Command as AsyncCommand};

use super::within;

/// `nobody`: PostgreSQL refuses to run as root.
const UNPRIVILEGED: u32 = 65534;

/// The first line on standard input names the signal; without one, the last argument of the shell.
const SUPERVISOR: &str = r#"
end="$1"; shift
"$@" </dev/null &
server=$!
read -r signal
kill -s "${signal:-$end}" "$server"
wait "$server"
"#;

/// How a server ends.
#[derive(Debug, Clone, Copy)]
pub enum End {
    /// It closes its connections and writes everything down.
    Clean,
    /// As if the power had failed, as far as a process can.
    Crash,
}

/// What to run, and how to tell that it answers.
pub struct Program {
    pub command: Vec<String>,
    /// In a line that the server writes to standard error.
    pub ready: &'static str,
    pub clean: &'static str,
    pub crash: &'static str,
}

/// A running server.
pub struct Server {
    supervisor: Child,
    log: Arc<Mutex<String>>,
    clean: &'static str,
    crash: &'static str,
}

impl Server {
    /// Returns once the server answers, or what it said before it ended.
    pub async fn start(program: Program) -> Result<Self, String> {
        let mut command = Command::new("sh");
        command
            .args(["-c", SUPERVISOR, "supervisor", program.crash])
            .args(&program.command)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Whoever kills the process group of the test must leave the supervisor to its work.
            .process_group(0);
        drop_privileges(&mut command);
        let mut supervisor = AsyncCommand::from(command).spawn().unwrap();
        let mut lines = BufReader::new(supervisor.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(String::new()));
        let mut server = Self {
            supervisor,
            log,
            clean: program.clean,
            crash: program.crash,
        };
        let started = within("a server that answers", async {
            let mut line = String::new();
            // The shell holds standard error open when the server has ended: read what it says.
            loop {
                line.clear();
                if lines.read_line(&mut line).await.unwrap() == 0 {
                    return false;
                }
                server.log.lock().unwrap().push_str(&line);
                if line.contains(program.ready) {
                    return true;
                }
                // A client that comes too early is told so, and that is no failure.
                let failed = line.contains("FATAL:") && !line.contains("the database system is");
                if failed || line.contains("[ERROR]") {
                    return false;
                }
            }
        })
        .await;
        if !started {
            server.end(End::Crash).await;
            return Err(server.log());
        }
        tokio::spawn(drain(lines, Arc::clone(&server.log)));
        Ok(server)
    }

    /// Returns when the process is gone.
    pub async fn end(&mut self, how: End) {
        let signal = match how {
            End::Clean => self.clean,
            End::Crash => self.crash,
        };
        let mut stdin = self.supervisor.stdin.take().unwrap();
        stdin
            .write_all(format!("{signal}\n").as_bytes())
            .await
            .unwrap();
        within("the end of a server", self.supervisor.wait())
            .await
            .unwrap();
    }

    /// What it wrote to standard error.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }
}

/// The directory of the server must not go before the server itself.
impl Drop for Server {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let pause = std::time::Duration::from_millis(2);
        for _ in 0..5000 {
            if !matches!(self.supervisor.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(pause);
        }
    }
}

async fn drain(mut lines: BufReader<ChildStderr>, log: Arc<Mutex<String>>) {
    let mut line = String::new();
    while lines.read_line(&mut line).await.is_ok_and(|read| read > 0) {
        log.lock().unwrap().push_str(&line);
        line.clear();
    }
}

/// A directory that the server may use; short, because the names of sockets are.
pub fn directory() -> TempDir {
    let directory = TempDir::with_prefix("dbt").unwrap();
    give_away(directory.path());
    directory
}

/// Runs a tool as the server's user.
pub fn run(program: &Path, arguments: &[&str]) {
    let mut command = Command::new(program);
    command.args(arguments).current_dir("/");
    drop_privileges(&mut command);
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}; run tests/tools", program.display()));
    assert!(
        output.status.success(),
        "{}: {}{}",
        program.display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A fresh copy of what `make` fills a directory with; made once for all tests and all runs.
pub fn copy_of(name: &str, target: &Path, make: impl FnOnce(&Path)) {
    copy(&cached(name, make), target);
}

/// Of a whole directory, owners included.
pub fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp")
        .args(["-a", "--reflink=auto"])
        .args([from, to])
        .status()
        .unwrap();
    assert!(copied.success());
}

/// The directory that `make` fills, in the cache. Several processes may make it at the same time:
/// it appears whole, and one of them stays.
pub fn cached(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let cache = target().join("tmp");
    fs::create_dir_all(&cache).unwrap();
    let kept = cache.join(name);
    if kept.exists() {
        return kept;
    }
    let workshop = directory();
    let fresh = workshop.path().join("fresh");
    make(&fresh);
    let beside = cache.join(format!("{name}.{}", std::process::id()));
    let copied = Command::new("cp")
        .arg("-a")
        .args([&fresh, &beside])
        .status()
        .unwrap();
    assert!(copied.success());
    if fs::rename(&beside, &kept).is_err() {
        fs::remove_dir_all(&beside).unwrap();
    }
    kept
}

/// Where cargo builds: a test or an example lies two levels below it.
pub fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(3).unwrap().to_path_buf()
}

/// A loopback port that is free now. Below the range from which the kernel takes ports for
/// outgoing connections, so that a server that is started again finds it free as well.
pub fn free_port() -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        let spread = std::process::id()
            .wrapping_mul(7919)
            .wrapping_add(tried * 101);
        let port = 15_000 + (spread % 17_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn give_away(path: &Path) {
    if is_root() {
        chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
    }
}

fn drop_privileges(command: &mut Command) {
    if is_root() {
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
}

fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}
