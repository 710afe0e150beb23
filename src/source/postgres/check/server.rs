//! The server, and what the user may do there.

use sqlx::postgres::PgConnection;
use sqlx::postgres::types::Oid;

use crate::source::findings::finding;
use crate::source::postgres::catalogue::Relation;
use crate::source::{Finding, Grade};

/// The oldest that is known to work.
const OLDEST: i32 = 12;

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

/// Reading is enough.
pub(super) async fn rights(
    connection: &mut PgConnection,
    relation: Option<&Relation>,
) -> Result<Finding, sqlx::Error> {
    let superuser: bool =
        sqlx::query_scalar("SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user")
            .fetch_one(&mut *connection)
            .await?;
    if superuser {
        let text = "the user is a superuser; SELECT is enough: CREATE ROLE a plain one for reading";
        return Ok(finding(Grade::Warn, "rights", text));
    }
    let more: Vec<String> = match relation {
        None => Vec::new(),
        Some(relation) => {
            sqlx::query_scalar(
                "SELECT r FROM unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS r \
                 WHERE has_table_privilege($1::oid, r)",
            )
            .bind(Oid(relation.oid))
            .fetch_all(connection)
            .await?
        }
    };
    Ok(match (relation, more.as_slice()) {
        (Some(relation), [_, ..]) => finding(
            Grade::Warn,
            "rights",
            format!(
                "SELECT is enough, and the user may also {0} on {1}.{2}: REVOKE {0}",
                more.join(", "),
                relation.schema,
                relation.name
            ),
        ),
        _ => finding(Grade::Pass, "rights", "the user may not write"),
    })
}
