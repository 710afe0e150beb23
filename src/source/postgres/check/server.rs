//! The server, and what the user may do there.

use sqlx::postgres::PgConnection;
use sqlx::postgres::types::Oid;

use crate::source::findings::finding;
use crate::source::postgres::catalogue::Relation;
use crate::source::{Finding, Grade};

/// The oldest that is known to work.
const OLDEST: i32 = 12;

/// Tables with too many rights.
const MOST_COUNTED: usize = 100;

#[derive(Debug)]
pub(super) struct Server {
    version: String,
    number: i32,
    is_replica: bool,
    /// System identifier and timeline: another one is another server, or a restored backup (B9).
    identity: Option<(String, i32)>,
}

impl Server {
    pub(super) async fn load(connection: &mut PgConnection) -> Result<Self, sqlx::Error> {
        let (version, number, is_replica): (String, i32, bool) = sqlx::query_as(
            "SELECT current_setting('server_version'), \
             current_setting('server_version_num')::int4, pg_is_in_recovery()",
        )
        .fetch_one(&mut *connection)
        .await?;
        // Everybody may call them unless the owner of the server took that away.
        let identity = sqlx::query_as(
            "SELECT (SELECT system_identifier::text FROM pg_control_system()), \
             (SELECT timeline_id FROM pg_control_checkpoint())",
        )
        .fetch_one(connection)
        .await
        .ok();
        Ok(Self {
            version,
            number,
            is_replica,
            identity,
        })
    }

    pub(super) fn shown(&self) -> String {
        let name = format!("PostgreSQL {}", self.version);
        match &self.identity {
            Some((system, timeline)) => format!("{name}, system {system}, timeline {timeline}"),
            None => name,
        }
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut found = vec![if self.number / 10_000 >= OLDEST {
            finding(Grade::Pass, "server", self.shown())
        } else {
            let text = format!(
                "{} is older than {OLDEST}, the oldest known to work",
                self.shown()
            );
            finding(Grade::Warn, "server", text)
        }];
        if self.is_replica {
            let text = "the server is a replica: rows arrive as late as it lags, long reads may be ended by its recovery, and a checkpoint taken here may be ahead of another replica";
            found.push(finding(Grade::Warn, "replica", text));
        }
        found
    }
}

/// Reading is enough (S8). A query may read any table, so that all of them count for it; for a table, what the
/// user may do to it is said first.
pub(super) async fn rights(
    connection: &mut PgConnection,
    relation: Option<&Relation>,
) -> Result<Finding, sqlx::Error> {
    let warn = |text: String| Ok(finding(Grade::Warn, "rights", text));
    let powers = powers(connection).await?;
    if powers.iter().any(|power| power == "SUPERUSER") {
        let text = "the user is a superuser; SELECT is enough: CREATE ROLE a plain one for reading";
        return warn(text.to_owned());
    }
    if !powers.is_empty() {
        let powers = powers.join(", ");
        return warn(format!(
            "SELECT is enough, and the user has {powers}: ALTER ROLE it to one without"
        ));
    }
    if let Some(relation) = relation {
        let more = on_table(connection, relation).await?.join(", ");
        if !more.is_empty() {
            let Relation { schema, name, .. } = relation;
            return warn(format!(
                "SELECT is enough, and the user may also {more} on {schema}.{name}: REVOKE {more}"
            ));
        }
    }
    let writable = writable(connection).await?;
    let more = match writable.len() {
        0 => return Ok(finding(Grade::Pass, "rights", "the user may not write")),
        1 => String::new(),
        MOST_COUNTED => format!(" and {} others or more", MOST_COUNTED - 1),
        count => format!(" and {} others", count - 1),
    };
    let first = &writable[0];
    warn(format!(
        "SELECT is enough, and the user may write to {first}{more}: REVOKE INSERT, UPDATE, DELETE, TRUNCATE"
    ))
}

/// What a role may do anywhere.
async fn powers(connection: &mut PgConnection) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT p.name FROM pg_catalog.pg_roles, LATERAL (VALUES ('SUPERUSER', rolsuper), \
         ('CREATEROLE', rolcreaterole), ('CREATEDB', rolcreatedb), ('REPLICATION', rolreplication)) \
         AS p (name, has) WHERE rolname = current_user AND p.has",
    )
    .fetch_all(connection)
    .await
}

async fn on_table(
    connection: &mut PgConnection,
    relation: &Relation,
) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT r FROM unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS r \
         WHERE has_table_privilege($1::oid, r)",
    )
    .bind(Oid(relation.oid))
    .fetch_all(connection)
    .await
}

async fn writable(connection: &mut PgConnection) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT c.oid::regclass::text FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname <> 'information_schema' \
         AND n.nspname NOT LIKE 'pg\\_%' \
         AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE') \
         ORDER BY 1 LIMIT $1",
    )
    .bind(MOST_COUNTED as i64)
    .fetch_all(connection)
    .await
}
