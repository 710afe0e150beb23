//! Who it is that is waited for: asked for people, never for a decision.

use sqlx::mysql::MySqlConnection;

use crate::model::late::Witness;
use crate::source::WaitedFor;
use crate::source::mysql::catalogue::text;
use crate::source::mysql::fault::is_unanswered;

const WHO: &str = "SELECT CAST(t.processlist_id AS CHAR), t.processlist_user, t.processlist_host, \
     t.processlist_command, CAST(t.processlist_time AS CHAR) \
     FROM performance_schema.threads t WHERE t.thread_id = ?";

pub(in crate::source::mysql) async fn who_is(
    connection: &mut MySqlConnection,
    witness: &Witness,
) -> Result<Option<WaitedFor>, sqlx::Error> {
    if witness.is_prepared() {
        return Ok(Some(WaitedFor {
            is: "a prepared transaction, see XA RECOVER".to_owned(),
            remedy: "XA COMMIT or XA ROLLBACK".to_owned(),
        }));
    }
    // `lock {instance}-{thread}-{event}`
    let Some(thread) = witness
        .as_str()
        .strip_prefix("lock ")
        .and_then(|name| name.split('-').nth(1))
        .and_then(|thread| thread.parse::<u64>().ok())
    else {
        return Ok(None);
    };
    let found = sqlx::query(WHO)
        .bind(thread)
        .fetch_optional(connection)
        .await;
    let row = match found {
        Ok(row) => row,
        Err(error) if is_unanswered(&error) => None,
        Err(error) => return Err(error),
    };
    Ok(row.and_then(|row| {
        let part = |at| text(&row, at);
        let id = part(0)?;
        let or_unknown = |at| part(at).unwrap_or_else(|| "?".to_owned());
        Some(WaitedFor {
            is: format!(
                "connection {id} of user {} from {}, {} for {} s",
                or_unknown(1),
                or_unknown(2),
                or_unknown(3),
                or_unknown(4)
            ),
            remedy: format!("KILL {id}"),
        })
    }))
}
