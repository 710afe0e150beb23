//! Files of an app that commands write.

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

/// Says who the handler is; without it a directory is no app.
pub(super) const HOST_JSON: &str = include_str!("../../host.json");

/// Never half a file, not even for a host that watches the directory.
pub(super) fn write_whole(file: &Path, text: &str) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    let mut whole = NamedTempFile::new_in(directory)?;
    whole.write_all(text.as_bytes())?;
    whole
        .as_file()
        .set_permissions(PermissionsExt::from_mode(0o644))?;
    whole.persist(file)?;
    Ok(())
}

/// The rule of the Functions host.
pub(super) fn is_function_name(name: &str) -> bool {
    name.len() <= 127
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_')
}
