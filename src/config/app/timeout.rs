//! How long the host lets a function run before it kills the whole process.

use std::time::Duration;

use serde_json::Value;

use crate::config::fault::{Faults, Place};
use crate::config::{Settings, human};

const SETTING: &str = "AzureFunctionsJobHost__functionTimeout";

/// The shortest default of any hosting plan: too short a budget only ends a tick early.
const DEFAULT: Duration = Duration::from_secs(5 * 60);

/// `None`: unlimited.
pub(super) fn function_timeout(
    host: &Value,
    settings: &Settings,
    faults: &mut Faults,
) -> Option<Duration> {
    let written = host.get("functionTimeout");
    let text = settings
        .filled(SETTING)
        .or_else(|| written.and_then(Value::as_str));
    match (text.map(str::trim), written) {
        (Some("-1"), _) => return None,
        (Some(text), _) if text.contains(':') => match human::duration(text) {
            Ok(timeout) if !timeout.is_zero() => return Some(timeout),
            _ => {}
        },
        (None, None) => return Some(DEFAULT),
        _ => {}
    }
    faults.add(
        &Place::root().key("functionTimeout"),
        format!("is not a timeout, here or in the app setting {SETTING}"),
        "write it like \"00:05:00\", or \"-1\" for no limit; until then 5 minutes are assumed",
    );
    Some(DEFAULT)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    #[test]
    fn the_setting_comes_before_host_json_and_five_minutes_come_last() {
        let minutes = |minutes: u64| Some(Duration::from_secs(minutes * 60));
        for (setting, host, expected, faulty) in [
            (None, json!({}), minutes(5), false),
            (None, json!(null), minutes(5), false),
            (
                None,
                json!({ "functionTimeout": "00:10:00" }),
                minutes(10),
                false,
            ),
            (
                None,
                json!({ "functionTimeout": "1.00:00:00" }),
                minutes(24 * 60),
                false,
            ),
            (None, json!({ "functionTimeout": "-1" }), None, false),
            (
                Some("00:02:00"),
                json!({ "functionTimeout": "-1" }),
                minutes(2),
                false,
            ),
            (
                Some("-1"),
                json!({ "functionTimeout": "00:10:00" }),
                None,
                false,
            ),
            (
                Some(""),
                json!({ "functionTimeout": "00:10:00" }),
                minutes(10),
                false,
            ),
            (None, json!({ "functionTimeout": 300 }), minutes(5), true),
            (None, json!({ "functionTimeout": "5m" }), minutes(5), true),
            (
                None,
                json!({ "functionTimeout": "00:00:00" }),
                minutes(5),
                true,
            ),
            (Some("soon"), json!({}), minutes(5), true),
        ] {
            let settings = setting
                .map(|value| ("azurefunctionsjobhost:FunctionTimeout", value))
                .into_iter()
                .collect();
            let mut faults = Faults::of(Path::new("host.json"));
            let timeout = function_timeout(&host, &settings, &mut faults);
            assert_eq!(
                (timeout, !faults.is_empty()),
                (expected, faulty),
                "{setting:?} {host}"
            );
        }
    }
}
