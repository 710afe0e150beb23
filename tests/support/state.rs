//! The state document as it lies on disk, read the way another process reads it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use dbtick::model::position::Position;
use dbtick::model::state::StateDocument;

#[derive(Debug, Clone)]
pub struct StateFile {
    pub path: PathBuf,
    pub poller: String,
}

/// One version of a document.
#[derive(Debug, Clone)]
pub struct Version {
    pub tag: String,
    pub document: StateDocument,
}

impl StateFile {
    /// A torn file panics: that is the promise.
    pub fn read(&self) -> Option<Version> {
        let bytes = std::fs::read(&self.path).ok()?;
        let end = bytes
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or_else(|| panic!("torn: {}", String::from_utf8_lossy(&bytes)));
        let tag = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let key = ["id".to_owned()];
        match StateDocument::from_bytes(&bytes[end + 1..], &self.poller, &key) {
            Ok(document) => Some(Version { tag, document }),
            Err(error) => panic!("torn: {error}: {}", String::from_utf8_lossy(&bytes)),
        }
    }

    pub fn document(&self) -> StateDocument {
        self.read().expect("there is a state document").document
    }

    pub fn checkpoint(&self) -> Option<Position> {
        self.read()?.document.position().cloned()
    }

    /// The key of the last committed row; 0 before the first.
    pub fn committed(&self) -> i64 {
        match self.checkpoint() {
            None => 0,
            Some(position) => position
                .to_string()
                .split(' ')
                .next()
                .unwrap()
                .parse()
                .unwrap(),
        }
    }
}

/// Reads a document over and over, and keeps every version that it saw.
pub struct Watcher {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Version>>,
}

impl Watcher {
    pub fn of(file: StateFile) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut seen: Vec<Version> = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                if let Some(version) = file.read()
                    && seen.last().is_none_or(|last| last.tag != version.tag)
                {
                    if let Some(last) = seen.last() {
                        assert_forward(last, &version);
                    }
                    seen.push(version);
                }
                std::thread::sleep(Duration::from_micros(500));
            }
            seen
        });
        Self { stop, thread }
    }

    /// Every version that was seen; panics if one was torn or went back.
    pub fn finish(self) -> Vec<Version> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(seen) => seen,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// I3, I4 and I5 between two versions, of which some in between may not have been seen.
fn assert_forward(before: &Version, after: &Version) {
    let (before, after) = (&before.document, &after.document);
    let (old, new) = (before.position(), after.position());
    assert!(old <= new, "the checkpoint went back: {old:?} → {new:?}");
    let (old, new) = (before.lease.token, after.lease.token);
    assert!(old <= new, "the token decreased: {old:?} → {new:?}");
    let owner = |document: &StateDocument| {
        let held = document.lease.held.as_ref();
        held.map(|held| (held.owner_id.clone(), held.acquired_at))
    };
    if old == new
        && let (Some(old), Some(new)) = (owner(before), owner(after))
    {
        assert_eq!(old, new, "one token, two owners");
    }
}

impl StateFile {
    /// As if it had been written so: times in it can be moved back, in place of waiting.
    pub fn rewrite(&self, change: impl FnOnce(&mut StateDocument)) {
        let Version { tag, mut document } = self.read().expect("there is a state document");
        change(&mut document);
        let bytes = [tag.as_bytes(), b"\n", &document.to_bytes()].concat();
        std::fs::write(&self.path, bytes).unwrap();
    }
}
