//! The SQLite file that a new app begins with.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tempfile::NamedTempFile;

use super::template::{Database, Table};
use crate::cli::problem::Problem;

/// With the tables and their rows, or not at all.
pub(super) async fn create(file: &Path, tables: &[Table]) -> Result<(), Problem> {
    let failed = |error: &dyn std::error::Error| {
        let file = file.display();
        Problem::new(format!("{file} cannot be created: {error}"))
    };
    let directory = file.parent().unwrap_or(Path::new("."));
    let whole = NamedTempFile::new_in(directory).map_err(|error| failed(&error))?;
    fill(whole.path(), tables)
        .await
        .map_err(|error| failed(&error))?;
    let kept = whole
        .as_file()
        .set_permissions(PermissionsExt::from_mode(0o644));
    kept.and_then(|()| Ok(whole.persist_noclobber(file)?))
        .map_err(|error| failed(&error))?;
    Ok(())
}

async fn fill(file: &Path, tables: &[Table]) -> Result<(), sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .disable_statement_logging();
    let mut connection: SqliteConnection = options.connect().await?;
    for table in tables {
        for statements in [table.statements(Database::Sqlite), table.rows] {
            sqlx::raw_sql(AssertSqlSafe(statements))
                .execute(&mut connection)
                .await?;
        }
    }
    connection.close().await
}
