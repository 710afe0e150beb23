//! The page in a real Chromium, driven by tests/browser.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use dbtick::local::{HostOptions, LocalHost};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};

use super::support::command::{json as parsed, run};
use super::support::handler::Lines;
use super::support::world::World;
use super::support::{installed, within};
use super::{document, refuse, world};

const KEY: &str = "canary-page-key";
/// It is a browser: it does all of it in ten seconds, and in thrice that on a busy machine.
const HOSTILE: &str = "<script>window.owned = 1</script><img src=x onerror='window.owned = 2'>";

struct Walk {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines,
    stderr: Lines,
}

fn pictures() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

fn walk(script: &str, host: &LocalHost) -> Walk {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    let modules = installed("browser", "browser/package-lock.json").join("node_modules");
    let mut child = Command::new("node")
        .arg(tests.join(script))
        .arg(format!("http://localhost:{}/api/dbtick", host.http_port()))
        .arg(KEY)
        .arg(pictures())
        .env("NODE_PATH", modules)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("node is there; tests/tools installs it");
    Walk {
        stdin: child.stdin.take().unwrap(),
        stdout: Lines::of(child.stdout.take().unwrap()),
        stderr: Lines::of(child.stderr.take().unwrap()),
        child,
    }
}

impl Walk {
    /// Until it has come to this step.
    async fn until(&mut self, step: &str) {
        let reached = self.stdout.line(&[step]);
        let failed = self.stderr.line(&["walk failed"]);
        tokio::select! {
            biased;
            _ = reached => {}
            _ = failed => {
                self.child.wait().await.unwrap();
                panic!("{}", self.stderr.text());
            }
        }
    }

    async fn say(&mut self, line: &str) {
        self.stdin
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn ended_well(mut self) {
        let ended = within("the browser ends", self.child.wait()).await.unwrap();
        assert!(ended.success(), "{}", self.stderr.text());
    }
}

async fn host(world: &World) -> LocalHost {
    let options = HostOptions {
        http_key: Some(KEY.to_owned()),
        ..HostOptions::default()
    };
    let host = world.host(options).await;
    host.wait_ready().await.unwrap();
    host
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_pauses_resumes_and_discards_by_clicking() {
    let world = world().await.rows(6).await;
    refuse(&world, &[2, 4], HOSTILE);
    let host = host(&world).await;
    assert!(host.invoke("Orders").await.succeeded());
    let mut walk = walk("walk.js", &host);

    walk.until("paused").await;
    assert!(host.invoke("Orders").await.succeeded());
    assert!(world.state_texts().concat().contains("\"paused\""));
    walk.until("discarded").await;
    walk.until("watching").await;
    world.writer().await.insert(3).await;
    assert!(host.invoke("Orders").await.succeeded());
    walk.until("fresh").await;
    host.shutdown().await;
    walk.say("stopped").await;
    walk.ended_well().await;

    let history = parsed(&run(&world, &["history", "orders", "--json"]));
    let trail: Vec<Value> = history["audit"].as_array().unwrap().clone();
    let short: Vec<_> = trail
        .iter()
        .map(|entry| {
            let what = entry["what"].as_str().unwrap().split(' ').next().unwrap();
            json!([entry["who"], what, entry["why"]])
        })
        .collect();
    assert_eq!(
        short,
        [
            json!(["http:key master", "pause", "the receiver <b>moves</b>"]),
            json!(["http:key master", "resume", ""]),
            json!(["http:key master", "discard", "a test order"]),
        ]
    );
    let left = parsed(&run(&world, &["quarantine", "list", "orders", "--json"]));
    assert_eq!(left["rows"].as_array().unwrap().len(), 1);
    assert!(!world.state_texts().concat().contains(KEY));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_shows_everything_in_light_and_dark_and_on_a_phone() {
    let world = world().await;
    let host = host(&world).await;
    let mut walk = walk("look.js", &host);
    walk.until("looked").await;
    walk.ended_well().await;
    host.shutdown().await;

    let fixture = std::fs::read(pictures().join("fixture.json")).unwrap();
    let fixture: Value = serde_json::from_slice(&fixture).unwrap();
    let schema = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    document::check(&schema("AppView"), &fixture["app"]);
    for detail in fixture["details"].as_object().unwrap().values() {
        document::check(&schema("PollerDetail"), detail);
    }
    document::check(&schema("OrphansAnswer"), &fixture["stuck"]);
    for list in fixture["quarantine"].as_object().unwrap().values() {
        document::check(&schema("QuarantineAnswer"), list);
    }
    for name in [
        "list-light",
        "list-dark",
        "list-phone",
        "detail-light",
        "detail-dark",
        "detail-phone",
        "hostile",
    ] {
        let picture = pictures().join(format!("{name}.png"));
        assert!(
            std::fs::metadata(&picture).unwrap().len() > 10_000,
            "{name}"
        );
    }
}
