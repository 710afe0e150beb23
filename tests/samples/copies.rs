//! What a receiver has in its database.

use std::path::PathBuf;

use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions};

use super::support::DEADLINE;
use super::support::postgres::Postgres;

pub(crate) enum Copies {
    Sqlite(PathBuf),
    Postgres(Box<Postgres>),
}

impl Copies {
    /// Row id → how often it was changed, in the order of the ids.
    pub(crate) async fn changes(&self) -> Vec<(i64, i64)> {
        let rows = self
            .ask("SELECT CAST(key AS text), count FROM changes")
            .await;
        let mut changes: Vec<_> = rows.iter().map(|(key, count)| (id(key), *count)).collect();
        changes.sort_unstable();
        changes
    }

    /// The column of a row, as it was delivered last.
    pub(crate) async fn note(&self, row: i64) -> String {
        let rows = "SELECT CAST(data AS text), CAST(0 AS bigint) FROM copies";
        let rows = self.ask(rows).await;
        let rows = rows.iter().map(|(data, _)| serde_json::from_str(data));
        let mut rows = rows.map(Result::<Value, _>::unwrap);
        let row = rows.find(|data| data["id"] == row).unwrap();
        row["note"].as_str().unwrap().to_owned()
    }

    async fn ask(&self, question: &str) -> Vec<(String, i64)> {
        let question = AssertSqlSafe(question.to_owned());
        match self {
            Self::Sqlite(file) => {
                let options = SqliteConnectOptions::new()
                    .filename(file)
                    .busy_timeout(DEADLINE);
                // A function app makes its tables with the first request.
                if !file.exists() {
                    return Vec::new();
                }
                let mut connection = options.connect().await.unwrap();
                let rows = sqlx::query_as(question).fetch_all(&mut connection);
                rows.await.unwrap()
            }
            Self::Postgres(server) => {
                let mut connection = server.connect("received").await;
                let rows = sqlx::query_as(question).fetch_all(&mut connection);
                rows.await.unwrap()
            }
        }
    }
}

fn id(key: &str) -> i64 {
    let key: Value = serde_json::from_str(key).unwrap();
    key["id"].as_i64().unwrap()
}
