//! A directory as a store, correct with several processes on it.
//!
//! A document is one file: a first line with its tag, then the body. It is replaced by writing a
//! new file, syncing it and renaming it over the old one, so a reader sees the old or the new one
//! whole, whatever is killed when. The compare in compare-and-swap happens under an advisory lock
//! that the kernel drops with the process. The store tells no time: it has no clock of its own.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use nix::fcntl::{Flock, FlockArg};

use super::{Deleted, Loaded, ObjectStore, Put, StateStore, StoreError, StoreKey, Swap, Tag};
use crate::clock::Clock;

const TAG_LINE: &str = "{\"tag\":\"";
const TAG_LINE_END: &[u8] = b"\"}\n";

/// Cheap to clone; the directory is created with the first write.
#[derive(Debug, Clone)]
pub struct FileStore {
    root: Arc<PathBuf>,
    clock: Arc<dyn Clock>,
}

impl FileStore {
    #[must_use]
    pub fn new(root: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self {
            root: Arc::new(root.into()),
            clock,
        }
    }

    fn path(&self, key: &StoreKey) -> PathBuf {
        self.root.join(key.as_str())
    }

    /// Objects live apart from documents, so that neither listing shows the other's.
    fn object_path(&self, key: &StoreKey) -> PathBuf {
        self.root.join("objects").join(key.as_str())
    }

    fn fresh_tag(&self) -> Tag {
        Tag::new(format!("{:032x}", self.clock.random()))
    }

    /// Runs the compare and the swap under the key's lock, off the async threads. Dropping the
    /// future does not stop it: the write may still land, as with any store.
    async fn locked<T: Send + 'static>(
        &self,
        key: &StoreKey,
        work: impl FnOnce(&Path) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let path = self.path(key);
        blocking(move || {
            let _lock = lock(&path).map_err(|error| not_written(&path, error))?;
            work(&path)
        })
        .await
    }

    async fn write_if(
        &self,
        key: &StoreKey,
        expected: Option<Tag>,
        body: Bytes,
    ) -> Result<Swap, StoreError> {
        let tag = self.fresh_tag();
        self.locked(key, move |path| {
            let found = read_tagged(path)?.map(|(tag, _)| tag);
            if found != expected {
                return Ok(Swap::Lost);
            }
            let mut content = Vec::with_capacity(body.len() + 64);
            content.extend_from_slice(TAG_LINE.as_bytes());
            content.extend_from_slice(tag.as_str().as_bytes());
            content.extend_from_slice(TAG_LINE_END);
            content.extend_from_slice(&body);
            write_whole(path, &temporary(path), &content)?;
            Ok(Swap::Won(tag))
        })
        .await
    }
}

#[async_trait]
impl StateStore for FileStore {
    async fn load(&self, key: &StoreKey) -> Result<Option<Loaded>, StoreError> {
        let path = self.path(key);
        let found = blocking(move || read_tagged(&path)).await?;
        Ok(found.map(|(tag, body)| Loaded {
            body,
            tag,
            clock: None,
        }))
    }

    async fn create(&self, key: &StoreKey, body: Bytes) -> Result<Swap, StoreError> {
        self.write_if(key, None, body).await
    }

    async fn replace(&self, key: &StoreKey, tag: &Tag, body: Bytes) -> Result<Swap, StoreError> {
        self.write_if(key, Some(tag.clone()), body).await
    }

    async fn delete(&self, key: &StoreKey, tag: &Tag) -> Result<Deleted, StoreError> {
        let expected = tag.clone();
        self.locked(key, move |path| {
            match read_tagged(path)? {
                Some((tag, _)) if tag == expected => {}
                _ => return Ok(Deleted::Lost),
            }
            fs::remove_file(path).map_err(|error| not_written(path, error))?;
            sync_directory(path).map_err(|error| unknown(path, error))?;
            Ok(Deleted::Gone)
        })
        .await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        let (root, prefix) = (Arc::clone(&self.root), prefix.to_owned());
        blocking(move || {
            let mut keys = Vec::new();
            walk(&root, &root, &mut keys).map_err(|error| not_written(&root, error))?;
            keys.retain(|key| key.as_str().starts_with(&prefix));
            keys.retain(|key| !key.as_str().starts_with("objects/"));
            keys.sort();
            Ok(keys)
        })
        .await
    }
}

#[async_trait]
impl ObjectStore for FileStore {
    async fn put(&self, key: &StoreKey, body: Bytes) -> Result<Put, StoreError> {
        let path = self.object_path(key);
        let scratch = path.with_file_name(format!(".{:032x}.tmp", self.clock.random()));
        blocking(move || {
            create_parent(&path).map_err(|error| not_written(&path, error))?;
            let put = link_whole(&path, &scratch, &body);
            // What stays behind has a name of its own and is never read.
            fs::remove_file(&scratch).ok();
            put
        })
        .await
    }

    async fn get(&self, key: &StoreKey) -> Result<Option<Bytes>, StoreError> {
        let path = self.object_path(key);
        blocking(move || match fs::read(&path) {
            Ok(body) => Ok(Some(body.into())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(not_written(&path, error)),
        })
        .await
    }

    async fn remove(&self, key: &StoreKey) -> Result<(), StoreError> {
        let path = self.object_path(key);
        blocking(move || match fs::remove_file(&path) {
            Ok(()) => sync_directory(&path).map_err(|error| unknown(&path, error)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(not_written(&path, error)),
        })
        .await
    }

    async fn names(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        let (root, prefix) = (self.root.join("objects"), prefix.to_owned());
        blocking(move || {
            let mut keys = Vec::new();
            walk(&root, &root, &mut keys).map_err(|error| not_written(&root, error))?;
            keys.retain(|key| key.as_str().starts_with(&prefix));
            keys.sort();
            Ok(keys)
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(cause) => Err(StoreError::Unknown {
            context: "the file operation was interrupted".to_owned(),
            cause: cause.into(),
        }),
    }
}

fn lock(path: &Path) -> io::Result<Flock<File>> {
    create_parent(path)?;
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(sibling(path, "lock"))?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
}

/// A file is as durable as the directories above it, so new ones are synced too.
fn create_parent(path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    let missing: Vec<&Path> = parent.ancestors().take_while(|a| !a.exists()).collect();
    fs::create_dir_all(parent)?;
    missing.into_iter().try_for_each(sync_directory)
}

fn read_tagged(path: &Path) -> Result<Option<(Tag, Bytes)>, StoreError> {
    let content = match fs::read(path) {
        Ok(content) => Bytes::from(content),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(not_written(path, error)),
    };
    let damaged = || StoreError::Refused {
        context: format!(
            "{} has no tag in its first line; it was not written by dbtick",
            path.display()
        ),
        cause: io::Error::from(ErrorKind::InvalidData).into(),
    };
    let rest = content
        .strip_prefix(TAG_LINE.as_bytes())
        .ok_or_else(damaged)?;
    let end = rest
        .windows(TAG_LINE_END.len())
        .position(|window| window == TAG_LINE_END)
        .ok_or_else(damaged)?;
    let tag = std::str::from_utf8(&rest[..end]).map_err(|_| damaged())?;
    let body_at = TAG_LINE.len() + end + TAG_LINE_END.len();
    Ok(Some((Tag::new(tag), content.slice(body_at..))))
}

/// Durable before it is visible: the data is synced before the rename, the rename by the directory.
fn write_whole(path: &Path, scratch: &Path, content: &[u8]) -> Result<(), StoreError> {
    let written = (|| {
        let mut file = File::create(scratch)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(scratch, path)
    })();
    written.map_err(|error| not_written(path, error))?;
    sync_directory(path).map_err(|error| unknown(path, error))
}

/// Like [`write_whole`], for a name that must not exist yet: a link, unlike a rename, does not
/// replace.
fn link_whole(path: &Path, scratch: &Path, content: &[u8]) -> Result<Put, StoreError> {
    let linked = (|| {
        let mut file = File::create(scratch)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::hard_link(scratch, path)
    })();
    match linked {
        Ok(()) => {
            sync_directory(path).map_err(|error| unknown(path, error))?;
            Ok(Put::Created)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Put::Exists),
        Err(error) => Err(not_written(path, error)),
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// One per document: what a killed writer left behind is overwritten by the next one.
fn temporary(path: &Path) -> PathBuf {
    sibling(path, "tmp")
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{suffix}"))
}

fn walk(root: &Path, directory: &Path, keys: &mut Vec<StoreKey>) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            walk(root, &path, keys)?;
        } else if let Ok(relative) = path.strip_prefix(root)
            && let Ok(key) = StoreKey::new(relative.to_string_lossy())
        {
            keys.push(key);
        }
    }
    Ok(())
}

fn not_written(path: &Path, error: io::Error) -> StoreError {
    let context = path.display().to_string();
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotADirectory => {
            StoreError::Refused {
                context,
                cause: error.into(),
            }
        }
        _ => StoreError::Unreachable {
            context,
            cause: error.into(),
        },
    }
}

fn unknown(path: &Path, error: io::Error) -> StoreError {
    StoreError::Unknown {
        context: path.display().to_string(),
        cause: error.into(),
    }
}
