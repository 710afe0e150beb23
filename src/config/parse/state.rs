//! Where a checkpoint may live: outside the app root, and in this version on one machine only.

use std::path::{Component, Path, PathBuf};

use super::Reader;
use crate::config::app::on_azure;
use crate::config::fault::Place;
use crate::config::{StateConfig, raw};

pub(super) fn state(
    reader: &mut Reader<'_>,
    at: &Place,
    raw: Option<raw::State>,
) -> Option<StateConfig> {
    if on_azure(reader.settings) {
        reader.faults.add(
            at,
            "files on an Azure instance vanish with it and are not shared, so the checkpoint would be lost",
            "this version keeps state in files only and does not run on Azure yet",
        );
        return None;
    }
    match raw {
        Some(raw::State {
            kind: raw::StateKind::File,
            path,
        }) => {
            let at = at.key("path");
            let directory = reader.text(&at, &path)?;
            reader.directory(&at, &directory)
        }
        None => match reader.settings.filled("DBTICK_STATE_DIR") {
            Some(directory) => reader.directory(at, directory),
            None => {
                reader.faults.add(
                    at,
                    "is missing, and the app setting DBTICK_STATE_DIR is not set",
                    "this version keeps state in files only: set poller.state to \
                     { \"kind\": \"file\", \"path\": \"../state\" } or set DBTICK_STATE_DIR",
                );
                None
            }
        },
    }
}

impl Reader<'_> {
    fn directory(&mut self, at: &Place, written: &str) -> Option<StateConfig> {
        let directory = settled(&self.root.join(written));
        if directory.starts_with(self.root) {
            self.faults.add(
                at,
                "is inside the app root, where a changed file can restart the host",
                "name a directory outside of it, such as ../state",
            );
            return None;
        }
        Some(StateConfig::File { directory })
    }
}

/// Without `.` and `..`, and without symbolic links in the part that exists already.
fn settled(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
        .ancestors()
        .find_map(|ancestor| {
            let real = ancestor.canonicalize().ok()?;
            let rest = plain.strip_prefix(ancestor).ok()?;
            Some(if rest.as_os_str().is_empty() {
                real
            } else {
                real.join(rest)
            })
        })
        .unwrap_or(plain)
}
