//! `deploy/package.sh`: what goes into a package, under which name, and what is never taken along.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::{json as read_json, read, root};
use crate::support::handler::BINARY;

const SECRET: &str = "canary-in-local-settings";
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";

/// An app as it lies on somebody's disk: with settings, databases, notes and leftovers in it.
pub(super) fn app(directory: &Path) {
    let write = |path: &str, text: &str| {
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("host.json", &read("host.json"));
    write(
        "orders/function.json",
        &read("function-templates/poll-webhook/function.json"),
    );
    write(
        "status/function.json",
        &read("function-templates/status/function.json"),
    );
    write("certificates/ca.pem", CERTIFICATE);
    write(
        "local.settings.json",
        &json!({ "Values": { "ORDERS_DB": SECRET } }).to_string(),
    );
    for path in [
        ".env",
        "orders.db",
        "orders/notes.txt",
        "orders/local.settings.json",
        "drafts/later.json",
        ".git/config",
        "settings.pem.bak",
        "server.key",
    ] {
        write(path, SECRET);
    }
}

pub(super) fn pack(arguments: &[&str]) -> Output {
    Command::new(root().join("deploy/package.sh"))
        .args(arguments)
        .output()
        .unwrap()
}

/// With the program under test in it, static or not.
fn pack_here(app: &Path, out: &Path) -> Output {
    let (app, out) = (app.to_str().unwrap(), out.to_str().unwrap());
    pack(&["--allow-loader", "--binary", BINARY, app, out])
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[derive(Debug)]
struct Entry {
    mode: u64,
    size: u64,
    digest: String,
}

/// Each entry of a zip, as Python's own reader sees it.
fn entries(zip: &Path) -> BTreeMap<String, Entry> {
    let script = r#"
import hashlib, json, sys, zipfile
package = zipfile.ZipFile(sys.argv[1])
assert package.testzip() is None
json.dump([[entry.filename, entry.external_attr >> 16, entry.file_size, hashlib.sha256(package.read(entry)).hexdigest()]
           for entry in package.infolist()], sys.stdout)
"#;
    let output = Command::new("python3")
        .args(["-c", script])
        .arg(zip)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let entries: Vec<(String, u64, u64, String)> = serde_json::from_slice(&output.stdout).unwrap();
    let entry = |(name, mode, size, digest)| (name, Entry { mode, size, digest });
    entries.into_iter().map(entry).collect()
}

fn digest(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

#[test]
fn a_package_is_what_the_host_expects_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let (from, zip) = (
        directory.path().join("shop"),
        directory.path().join("shop.zip"),
    );
    app(&from);
    let output = pack_here(&from, &zip);
    assert!(output.status.success(), "{}", said(&output));
    let entries = entries(&zip);
    let names: Vec<&str> = entries.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "certificates/ca.pem",
            "dbtick",
            "host.json",
            "orders/function.json",
            "status/function.json"
        ]
    );
    let program = &read_json("host.json")["customHandler"]["description"]["defaultExecutablePath"];
    for (name, entry) in &entries {
        let is_program = program == name;
        let mode = if is_program { 0o100_755 } else { 0o100_644 };
        assert_eq!(entry.mode, mode, "{name}: {:o}", entry.mode);
        let source = match is_program {
            true => std::fs::read(BINARY).unwrap(),
            false => std::fs::read(from.join(name)).unwrap(),
        };
        assert_eq!(entry.digest, digest(&source), "{name}");
        assert_eq!(entry.size, source.len() as u64, "{name}");
    }
}

#[test]
fn the_same_app_makes_the_same_package_and_a_directory_holds_the_same() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    app(&path("shop"));
    for out in ["one.zip", "two.zip", "unpacked"] {
        let output = pack_here(&path("shop"), &path(out));
        assert!(output.status.success(), "{}", said(&output));
    }
    let bytes = |name: &str| std::fs::read(path(name)).unwrap();
    assert!(bytes("one.zip") == bytes("two.zip"));
    for (name, entry) in entries(&path("one.zip")) {
        let file = path("unpacked").join(&name);
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(u64::from(mode), entry.mode, "{name}");
        assert_eq!(digest(&std::fs::read(file).unwrap()), entry.digest);
    }
    let again = pack_here(&path("shop"), &path("unpacked"));
    assert_eq!(again.status.code(), Some(1));
    assert!(said(&again).contains("is not empty"), "{}", said(&again));
    let over_itself = pack_here(&path("shop"), &path("shop"));
    assert_eq!(over_itself.status.code(), Some(1));
    assert!(path("shop/orders/notes.txt").exists());
}

/// S18: the program that tests run asks for a loader, one that is made as deploy/build.sh makes it does not.
#[test]
fn a_package_that_asks_for_a_loader_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    app(Path::new(&path("shop")));
    std::fs::write(path("small.rs"), "fn main() {}").unwrap();
    let built = Command::new("rustc")
        .args(["-C", "target-feature=+crt-static", "--target"])
        .arg(format!("{}-unknown-linux-gnu", std::env::consts::ARCH))
        .args(["-o", &path("small"), &path("small.rs")])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", said(&built));
    std::fs::write(path("text"), "no program").unwrap();
    for (program, expected) in [
        (BINARY.to_owned(), Some("asks for a loader")),
        (path("text"), Some("readelf: Error")),
        (path("small"), None),
    ] {
        let out = path("out.zip");
        let output = pack(&["--binary", &program, &path("shop"), &out]);
        let made = Path::new(&out).exists();
        match expected {
            Some(why) => {
                assert_eq!(output.status.code(), Some(1), "{output:?}");
                assert!(said(&output).contains(why), "{}", said(&output));
                assert!(!made, "{program}");
            }
            None => assert!(output.status.success() && made, "{}", said(&output)),
        }
    }
}

#[test]
fn what_no_host_could_start_is_refused_and_nothing_is_made() {
    let host = |path: Value| {
        let mut host = read_json("host.json");
        host["customHandler"]["description"]["defaultExecutablePath"] = path;
        host.to_string()
    };
    let cases: [(&str, Option<String>, &str); 9] = [
        ("host.json", None, "has no host.json"),
        (
            "host.json",
            Some("{ \"version\": ".to_owned()),
            "host.json is not JSON",
        ),
        (
            "host.json",
            Some("{}".to_owned()),
            "no customHandler.description",
        ),
        (
            "host.json",
            Some(host(json!("../dbtick"))),
            "no plain name of a file",
        ),
        (
            "host.json",
            Some(host(json!("%PROGRAM%"))),
            "no plain name of a file",
        ),
        (
            "orders/function.json",
            Some("{".to_owned()),
            "orders/function.json is not JSON",
        ),
        (
            "1st/function.json",
            Some("{}".to_owned()),
            "no function of the name '1st'",
        ),
        (
            "host/function.json",
            Some("{}".to_owned()),
            "no function of the name 'host'",
        ),
        (
            "certificates/both.pem",
            Some(format!("{CERTIFICATE}-----BEGIN PRIVATE KEY-----\n")),
            "both.pem holds a private key",
        ),
    ];
    for (file, text, why) in cases {
        let directory = tempfile::tempdir().unwrap();
        let (from, zip) = (
            directory.path().join("shop"),
            directory.path().join("out.zip"),
        );
        app(&from);
        match text {
            Some(text) => {
                std::fs::create_dir_all(from.join(file).parent().unwrap()).unwrap();
                std::fs::write(from.join(file), text).unwrap();
            }
            None => std::fs::remove_file(from.join(file)).unwrap(),
        }
        let output = pack_here(&from, &zip);
        assert_eq!(output.status.code(), Some(1), "{why}: {output:?}");
        assert!(said(&output).contains(why), "{why}: {}", said(&output));
        assert!(!zip.exists(), "{why}");
    }
    let empty = tempfile::tempdir().unwrap();
    std::fs::write(empty.path().join("host.json"), read("host.json")).unwrap();
    let output = pack_here(empty.path(), &empty.path().join("out.zip"));
    assert!(said(&output).contains("function.json"), "{}", said(&output));
    for arguments in [&[][..], &["one"], &["--binary"], &["--what", "a", "b"]] {
        assert_eq!(pack(arguments).status.code(), Some(2), "{arguments:?}");
    }
}
