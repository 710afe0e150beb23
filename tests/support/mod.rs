//! One world for the tests that run real processes: an app directory, a SQLite table with a writer,
//! a state directory beside the app, a recording receiver, and handlers started as the host does.

// Each test target uses its own part of this.
#![allow(dead_code, unreachable_pub)]

pub mod azurite;
pub mod certificate;
pub mod command;
pub mod dice;
pub mod handler;
pub mod http;
pub mod identity;
pub mod mariadb;
pub mod memory;
pub mod postgres;
pub mod proxy;
pub mod receiver;
pub mod server;
pub mod state;
pub mod verify;
pub mod wire;
pub mod world;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::HEXLOWER;
use dbtick::config::Settings;
use sha2::{Digest, Sha256};

pub const DEADLINE: Duration = Duration::from_secs(20);

/// Everything that is waited for has a deadline, so that a broken promise fails and does not hang.
#[track_caller]
pub fn within<T, F: Future<Output = T>>(
    what: &str,
    wait: F,
) -> impl Future<Output = T> + use<T, F> {
    let what = what.to_owned();
    let caller = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(DEADLINE, wait).await {
            Ok(value) => value,
            Err(_) => panic!("{what}: not within {DEADLINE:?}, waited for at {caller}"),
        }
    }
}

/// Where `tests/tools` puts it: one directory per lock file, which is given below `tests`.
pub fn installed(name: &str, lock: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let lock = std::fs::read(tests.join(lock)).unwrap();
    let digest = HEXLOWER.encode(&Sha256::digest(lock));
    let settings = Settings::process();
    let cache = match settings.filled("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => Path::new(settings.filled("HOME").unwrap()).join(".cache"),
    };
    let directory = cache.join(format!("dbtick-tests/{name}-{}", &digest[..12]));
    assert!(
        directory.exists(),
        "{name} is missing: tests/tools installs it"
    );
    directory
}
