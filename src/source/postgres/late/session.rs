//! Who it is that is waited for: asked for people, never for a decision.

use sqlx::postgres::PgConnection;

use super::evidence::BEGAN;
use crate::model::late::Witness;
use crate::source::WaitedFor;

/// What a user may not see of others is NULL.
const WHO: &str = "SELECT l.pid, COALESCE(s.usename::text, '?'), COALESCE(NULLIF(s.application_name, ''), '?'), \
     COALESCE(s.state, 'of unknown state'), \
     to_char(s.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS \"UTC\"') \
     FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity s ON s.pid = l.pid \
     WHERE l.virtualtransaction = $1 AND l.pid IS NOT NULL LIMIT 1";

type Row = (i32, String, String, String, Option<String>);

pub(in crate::source::postgres) async fn who_is(
    connection: &mut PgConnection,
    witness: &Witness,
) -> Result<Option<WaitedFor>, sqlx::Error> {
    if witness.is_prepared() {
        return Ok(Some(WaitedFor {
            is: "a prepared transaction, see pg_prepared_xacts".to_owned(),
            remedy: "COMMIT PREPARED or ROLLBACK PREPARED".to_owned(),
        }));
    }
    let name = witness.as_str();
    let name = name.strip_prefix(BEGAN).unwrap_or(name);
    let found: Option<Row> = sqlx::query_as(WHO)
        .bind(name)
        .fetch_optional(connection)
        .await?;
    Ok(found.map(|(pid, user, program, state, since)| {
        let since = since.map_or_else(String::new, |since| format!(", open since {since}"));
        WaitedFor {
            is: format!("session {pid} of user {user}, program {program}, {state}{since}"),
            remedy: format!("SELECT pg_terminate_backend({pid})"),
        }
    }))
}
