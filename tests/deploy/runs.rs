//! The package, unpacked elsewhere and made read-only, under the local host, as a user who owns nothing of it.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dbtick::config::Settings;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{package, read};
use crate::support::handler::{BINARY, Lines};
use crate::support::http::exchange;
use crate::support::within;
use crate::support::world::World;

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}

/// Root may write where nobody may, so nobody runs it.
fn as_nobody(command: &mut Command) {
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
}

fn hand_over(path: &Path) {
    if is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

fn below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            below(&path, found);
        }
        found.push(path);
    }
}

/// Path → what is in it, and when it was changed.
fn picture(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut paths = vec![directory.to_owned()];
    below(directory, &mut paths);
    let file = |path: PathBuf| {
        let bytes = std::fs::read(&path).unwrap_or_default();
        let changed = std::fs::metadata(&path).unwrap().modified().unwrap();
        (path, (bytes, changed))
    };
    paths.into_iter().map(file).collect()
}

/// As the platform unpacks it: names, bytes and modes of the zip, and then nobody may write.
fn unpack(zip: &Path, target: &Path) {
    let script = r#"
import os, sys, zipfile
package = zipfile.ZipFile(sys.argv[1])
for entry in package.infolist():
    os.chmod(package.extract(entry, sys.argv[2]), (entry.external_attr >> 16) & 0o777)
"#;
    let unpacked = Command::new("python3")
        .args(["-c", script])
        .args([zip, target])
        .status()
        .unwrap();
    assert!(unpacked.success());
    let mut paths = vec![target.to_owned()];
    below(target, &mut paths);
    for path in paths {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        let reads = if path.is_dir() { 0o755 } else { mode };
        std::fs::set_permissions(&path, PermissionsExt::from_mode(reads & !0o222)).unwrap();
    }
}

/// The program under test; with DBTICK_PACKAGE=built the static one of deploy/build.sh, which takes minutes.
fn make(app: &Path, zip: &Path) {
    let (app, zip) = (app.to_str().unwrap(), zip.to_str().unwrap());
    let output = match Settings::process().filled("DBTICK_PACKAGE") {
        Some("built") => package::pack(&[app, zip]),
        Some(other) => panic!("DBTICK_PACKAGE is {other}, not built"),
        None => package::pack(&["--allow-loader", "--binary", BINARY, app, zip]),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    println!("{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_packaged_app_serves_and_ticks_from_a_read_only_directory() {
    let world = World::new().await.rows(3).await;
    let poller = read("function-templates/poll-webhook/function.json");
    let poller = poller.replace("*/15 * * * * *", "* * * * * *");
    let poller = poller.replace(
        "\"cursor\": \"version\"",
        "\"cursor\": \"seq\", \"stamped_by\": \"database\"",
    );
    let source = world.path("source");
    package::app(&source);
    std::fs::write(source.join("orders/function.json"), poller).unwrap();
    let (zip, app) = (world.path("shop.zip"), world.path("elsewhere/shop"));
    make(&source, &zip);
    unpack(&zip, &app);
    // What the app reads and writes is outside of it. The directory of the world is its own, and others may pass.
    let outside = world.path("");
    std::fs::set_permissions(&outside, PermissionsExt::from_mode(0o755)).unwrap();
    let files = std::fs::read_dir(&outside).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.is_file()).collect::<Vec<_>>();
    [outside]
        .iter()
        .chain(&files)
        .for_each(|path| hand_over(path));

    let mut touch = Command::new("touch");
    as_nobody(touch.arg(app.join("new")).stderr(Stdio::null()));
    assert!(!touch.status().unwrap().success(), "it is not read-only");
    let before = picture(&app);

    let mut dev = Command::new(app.join("dbtick"));
    dev.args(["dev", "--port", "0"])
        .arg(&app)
        .current_dir("/")
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("ORDERS_DB", &world.environment["ORDERS_DB"])
        .env("ORDERS_HOOK", world.receiver.url())
        .env("DBTICK_STATE_DIR", world.path("state"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    as_nobody(&mut dev);
    let mut dev = tokio::process::Command::from(dev);
    let mut dev = dev.kill_on_drop(true).spawn().unwrap();
    let stdout = Lines::of(dev.stdout.take().unwrap());
    let stderr = Lines::of(dev.stderr.take().unwrap());

    stdout.line(&["3 rows in 1 batches committed"]).await;
    let page = stdout.line(&["page "]).await;
    let address = page.split_once("http://localhost:").unwrap().1;
    let (port, path) = address.split_once('/').unwrap();
    let (path, key) = path.split_once("?code=").unwrap();
    let request = format!(
        "GET /{path}/checkpoints/orders?code={key} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    );
    let answer = exchange(port.parse().unwrap(), request).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["poller"], "orders");
    let rows = world.receiver.acknowledged_rows();
    assert_eq!(rows.into_keys().collect::<Vec<_>>(), [1, 2, 3]);

    let pid = i32::try_from(dev.id().unwrap()).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGINT).unwrap();
    let status = within("dev ends", dev.wait()).await.unwrap();
    assert!(status.success(), "{status}: {}", stderr.text());
    assert!(picture(&app) == before, "something in the app has changed");
    assert!(
        !world.state_texts().is_empty(),
        "the state is where it was told"
    );
}
