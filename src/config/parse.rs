//! From the written shape to types that cannot be wrong, collecting every fault on the way.
//!
//! A function returns `None` only after it has recorded why.

mod certificates;
mod connection;
mod deletes;
mod late;
mod limits;
mod policy;
mod queue;
mod relay;
mod shards;
mod sinks;
mod source;
mod state;
mod storage;
mod webhook;

use std::path::Path;
use std::time::Duration;

pub(super) use connection::named as named_connection;
pub(super) use queue::trigger as queue_trigger;
pub(super) use shards::shards;

use super::fault::{Faults, Place};
use super::relay::Relays;
use super::settings::{SettingError, Settings};
use super::{Poller, Rows, human, raw};
use crate::model::ledger::LedgerMode;

/// Nothing that a poller waits for is longer; far beyond it, adding to a time would overflow.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What parsing one file needs to know and where it reports.
pub(super) struct Reader<'a> {
    pub(super) settings: &'a Settings,
    /// The app root, canonical.
    pub(super) root: &'a Path,
    /// What the functions of the app are to a poller that names one of them.
    pub(super) relays: &'a Relays,
    pub(super) faults: &'a mut Faults,
}

/// `table` or `schema.table`, as a poller names it; `None` if it is neither.
#[must_use]
pub fn table_name(written: &str) -> Option<Rows> {
    source::table_name(written)
}

/// A poller whose name has been settled by [`Reader::name`].
pub(super) fn poller(
    reader: &mut Reader<'_>,
    at: &Place,
    raw: raw::Poller,
    name: Option<String>,
) -> Option<Poller> {
    let raw::Poller {
        name: _,
        events_as,
        source,
        shards: _,
        batch,
        deliver,
        commit,
        poison,
        ledger,
        lease,
        state,
        warnings,
    } = raw;
    let events_as = match (&events_as, &name) {
        (Some(written), _) => reader.name_at(&at.key("events_as"), written),
        (None, name) => name.clone(),
    };
    let source = source::source(reader, &at.key("source"), source);
    let batch = reader.batch(&at.key("batch"), batch.unwrap_or_default());
    let deliver = sinks::sinks(reader, &at.key("deliver"), deliver);
    let commit = policy::commit(reader, &at.key("commit"), commit, deliver.as_deref());
    let poison = policy::poison(reader, &at.key("poison"), poison.unwrap_or_default());
    let lease = reader.lease(&at.key("lease"), lease.unwrap_or_default());
    let state = state::state(reader, &at.key("state"), state);
    if let (Some(state), Some(lease)) = (&state, &lease) {
        state::margin(reader, &at.key("lease"), state, lease)?;
    }
    let warnings = match warnings {
        Some(raw) => Some(webhook::webhook(reader, &at.key("warnings"), raw)?),
        None => None,
    };
    let (poison, poison_queue) = poison?;
    Some(Poller {
        name: name?,
        events_as: events_as?,
        source: source?,
        batch: batch?,
        deliver: deliver?,
        commit: commit?,
        poison,
        poison_queue,
        ledger: match ledger {
            None | Some(raw::Ledger::Off) => LedgerMode::Off,
            Some(raw::Ledger::Full) => LedgerMode::Full,
        },
        lease: lease?,
        state: state?,
        warnings,
    })
}

impl Reader<'_> {
    /// The name in the block, else `fallback`; lower-cased, and fit for the name of a document.
    pub(super) fn name(
        &mut self,
        at: &Place,
        written: Option<&str>,
        fallback: &str,
    ) -> Option<String> {
        self.name_at(&at.key("name"), written.unwrap_or(fallback))
    }

    fn name_at(&mut self, at: &Place, written: &str) -> Option<String> {
        let name = self.text(at, written)?.to_lowercase();
        let mut bytes = name.bytes();
        let first = bytes
            .next()
            .is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let rest = bytes.all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-')
        });
        if first && rest && name.len() <= 63 {
            return Some(name);
        }
        self.faults.add(
            at,
            format!("is not a name: {written}"),
            "use 1 to 63 letters, digits, - and _, beginning with a letter or a digit",
        );
        None
    }

    /// A text with its `%NAME%`s resolved.
    fn text(&mut self, at: &Place, written: &str) -> Option<String> {
        let fault = match self.settings.resolve(written) {
            Ok(text) => return Some(text),
            Err(fault) => fault,
        };
        let hint = match fault {
            SettingError::Unclosed(_) => {
                "%NAME% is an app setting; put a text with a literal % into a setting".to_owned()
            }
            SettingError::KeyVault(_) => key_vault_hint(),
            SettingError::Unresolved(_) | SettingError::NoConnection(_) => {
                "add the app setting, on this machine in local.settings.json".to_owned()
            }
        };
        self.faults.add(at, fault.to_string(), hint);
        None
    }

    fn duration(
        &mut self,
        at: &Place,
        written: Option<&str>,
        default: Duration,
    ) -> Option<Duration> {
        let Some(written) = written else {
            return Some(default);
        };
        let (problem, hint) = match human::duration(&self.text(at, written)?) {
            Ok(duration) if duration <= LONGEST => return Some(duration),
            Ok(_) => ("is longer than a day", "write at most 24h"),
            Err(_) => ("is not a duration", human::DURATION_FORMS),
        };
        self.faults.add(at, format!("{problem}: {written}"), hint);
        None
    }

    fn positive(
        &mut self,
        at: &Place,
        written: Option<&str>,
        default: Duration,
    ) -> Option<Duration> {
        let duration = self.duration(at, written, default)?;
        if duration.is_zero() {
            self.faults.add(at, "is zero", "write a longer duration");
            return None;
        }
        Some(duration)
    }
}

fn key_vault_hint() -> String {
    "check that the app's identity may read the secret; locally, put the value itself into the setting"
        .to_owned()
}
