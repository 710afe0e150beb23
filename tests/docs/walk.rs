//! getting-started.md, typed block by block: real servers, the real program, and what the page says comes out.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use dbtick::config::Settings;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::pages::{Block, blocks, root};
use super::support::azurite::{ACCOUNT, KEY};
use super::support::handler::{BINARY, Lines, free_port};

/// Servers start, ticks come every five seconds, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(100);

const TERMINALS: [&str; 3] = ["1", "2", "3"];

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_who_types_the_page_gets_what_it_says() {
    let page = blocks(Path::new("docs/getting-started.md"));
    let mut desk = Desk::new();
    let (mut typed, mut read) = (0, 0);
    for block in &page {
        if let Some(terminal) = block.mark("ends") {
            desk.end(terminal).await;
        }
        if let Some(terminal) = block.mark("terminal") {
            typed += 1;
            desk.begin(terminal, block).await;
        } else if block.is("walk") {
            typed += 1;
            desk.type_in(block).await;
        } else if let Some(terminal) = block.mark("expect") {
            read += 1;
            desk.expect(terminal, block).await;
        } else {
            assert!(
                block.is("build"),
                "{} is neither typed nor read",
                block.place()
            );
        }
    }
    assert!(typed >= 12 && read >= 10, "{typed} {read}");
    for terminal in TERMINALS.iter().rev() {
        desk.end(terminal).await;
    }
}

#[test]
fn a_line_is_compared_with_what_may_differ() {
    for (pattern, line, expected) in [
        ("a … c", "a b c", true),
        ("a … c", "a b", false),
        ("… b", "a b", true),
        ("a", "a b", false),
        ("a …", "a b", true),
        ("a…a", "aba", true),
        ("a…a", "a", false),
        ("a", "a ", true),
    ] {
        assert_eq!(matches(pattern, line), expected, "{pattern} {line}");
    }
}

/// Terminals in one directory, which has the scripts of the page and nothing else of the clone.
struct Desk {
    directory: TempDir,
    /// What the page says, and what this test says in its place: ports that are free.
    instead: Vec<(String, String)>,
    environment: Vec<(String, String)>,
    running: Vec<Terminal>,
    said_in_a: Vec<String>,
}

struct Terminal {
    name: String,
    group: Pid,
    child: Child,
    said: Lines,
    /// Lines that were expected already.
    seen: usize,
}

/// A shell that is killed ends nobody; one whose input ends does.
impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        for _ in 0..5000 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        killpg(self.group, Signal::SIGKILL).ok();
    }
}

impl Desk {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        std::os::unix::fs::symlink(root().join("docs"), directory.path().join("docs")).unwrap();
        let ports: Vec<u16> = (0..7).map(|_| free_port()).collect();
        let [postgres, mariadb, hook, http, blob, queue, table] = ports[..] else {
            unreachable!();
        };
        let account = format!("http://127.0.0.1:{queue}/{ACCOUNT}");
        let storage = format!("AccountName={ACCOUNT};AccountKey={KEY};QueueEndpoint={account}");
        let instead = [
            ("25432", postgres.to_string()),
            ("23306", mariadb.to_string()),
            ("8080", hook.to_string()),
            ("7071", http.to_string()),
            ("queues on port 10001", format!("queues on port {queue}")),
            (
                "messages.py stock-events",
                format!("messages.py stock-events {queue}"),
            ),
            ("UseDevelopmentStorage=true", storage),
        ];
        let programs = Path::new(BINARY).parent().unwrap().display();
        let settings = Settings::process();
        let path = settings.filled("PATH").unwrap();
        let state = directory.path().join("state").display().to_string();
        let environment = [
            ("PATH", format!("{programs}:{path}")),
            ("XDG_STATE_HOME", state),
            ("PG_PORT", postgres.to_string()),
            ("MARIADB_PORT", mariadb.to_string()),
            ("BLOB_PORT", blob.to_string()),
            ("QUEUE_PORT", queue.to_string()),
            ("TABLE_PORT", table.to_string()),
        ];
        let owned = |(name, value): (&str, String)| (name.to_owned(), value);
        Self {
            directory,
            instead: instead.map(owned).into(),
            environment: environment.map(owned).into(),
            running: Vec::new(),
            said_in_a: Vec::new(),
        }
    }

    fn text(&self, block: &Block) -> String {
        let mut text = block.text.clone();
        for (page, here) in &self.instead {
            text = text.replace(page, here);
        }
        text
    }

    fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        command
            .args(["-e", "-c", script])
            .current_dir(self.directory.path())
            .envs(self.environment.iter().cloned())
            .process_group(0);
        command
    }

    /// In terminal A, to its end.
    async fn type_in(&mut self, block: &Block) {
        let output = self.shell(&self.text(block)).stdin(Stdio::null()).output();
        let output = tokio::time::timeout(PATIENCE, output).await;
        let output = output
            .unwrap_or_else(|_| panic!("{} does not end", block.place()))
            .unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        let expected = block.mark("exit").unwrap_or("0").parse().ok();
        assert_eq!(
            output.status.code(),
            expected,
            "{}: {said:?}",
            block.place()
        );
        self.said_in_a = said
            .iter()
            .flat_map(|text| text.lines().map(str::to_owned))
            .collect();
    }

    /// In a terminal of its own. A shell stands between, that ends it when this process is gone.
    async fn begin(&mut self, terminal: &str, block: &Block) {
        let script = format!(
            "exec 2>&1\nexec {} </dev/null &\nexec >/dev/null 2>&1\nread -r || true\nkill -INT $! || true\nwait $! || true",
            self.text(block).trim_end()
        );
        let mut child = self
            .shell(&format!("set -m\n{script}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        self.running.push(Terminal {
            name: terminal.to_owned(),
            group: Pid::from_raw(child.id().unwrap().try_into().unwrap()),
            said: Lines::of(child.stdout.take().unwrap()),
            seen: 0,
            child,
        });
    }

    /// Ctrl-C.
    async fn end(&mut self, terminal: &str) {
        let Some(at) = self
            .running
            .iter()
            .position(|running| running.name == terminal)
        else {
            return;
        };
        let mut ended = self.running.remove(at);
        drop(ended.child.stdin.take());
        let end = tokio::time::timeout(PATIENCE, ended.child.wait()).await;
        assert!(
            end.is_ok(),
            "terminal {terminal} does not end: {}",
            ended.said.text()
        );
    }

    /// Each line of the block, in this order, with others between them.
    async fn expect(&mut self, terminal: &str, block: &Block) {
        let text = self.text(block);
        if terminal == "A" {
            let mut said = self.said_in_a.iter();
            for line in text.lines() {
                let found = said.any(|said| matches(line, said));
                assert!(
                    found,
                    "{}: {line:?} in {:#?}",
                    block.place(),
                    self.said_in_a
                );
            }
            return;
        }
        let running = self
            .running
            .iter_mut()
            .find(|running| running.name == terminal);
        let running = running.unwrap_or_else(|| panic!("{}: nothing runs there", block.place()));
        for line in text.lines() {
            let (said, mut seen) = (running.said.clone(), running.seen);
            let search = async {
                loop {
                    let news = said.changed();
                    let all = said.all();
                    while seen < all.len() {
                        seen += 1;
                        if matches(line, &all[seen - 1]) {
                            return true;
                        }
                    }
                    if !news.await {
                        return false;
                    }
                }
            };
            let found = tokio::time::timeout(PATIENCE, search).await;
            assert_eq!(
                found,
                Ok(true),
                "{}: {line:?} in {}",
                block.place(),
                running.said.text()
            );
            running.seen = seen;
        }
    }
}

/// `…` stands for anything; blanks at the end are nothing.
fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.trim_end().split('…');
    let first = parts.next().unwrap();
    let Some(mut rest) = line.trim_end().strip_prefix(first) else {
        return false;
    };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}
