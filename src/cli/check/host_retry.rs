//! What a retry policy of the host does to a timer that repeats by itself (D10).

use std::time::Duration;

use crate::config::HostRetry;
use crate::config::human::show_duration;

/// `interval`: between two ticks of the schedule, where it is known.
pub(super) fn sentence(retry: HostRetry, interval: Option<Duration>) -> String {
    let effect = match retry {
        HostRetry::Endless => {
            "the host repeats a failed tick without end (maxRetryCount is -1): as long as the \
             receiver is down, the timer is held and no tick comes by its schedule"
                .to_owned()
        }
        HostRetry::Times { count, pauses } => {
            let times = match count {
                1 => "once".to_owned(),
                count => format!("{count} times"),
            };
            let late = interval.filter(|interval| pauses > *interval);
            let late = late.map(|interval| {
                format!(
                    ", for {} or more, which is longer than the {} between two ticks: the next \
                     tick is late",
                    show_duration(pauses),
                    show_duration(interval)
                )
            });
            let late = late.unwrap_or_default();
            format!("the host repeats a failed tick {times}{late}")
        }
        HostRetry::Unreadable => {
            "the host has a retry policy, which cannot be read here".to_owned()
        }
    };
    format!(
        "{effect}; the next tick goes on where this one failed anyway, so the policy only \
         multiplies the tries: remove retry from function.json and host.json"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_is_told_by_what_it_does_to_the_timer() {
        let seconds = Duration::from_secs;
        let times = |count, pauses| HostRetry::Times {
            count,
            pauses: seconds(pauses),
        };
        let (every_15_s, unknown) = (Some(seconds(15)), None);
        for (retry, interval, part, late) in [
            (HostRetry::Endless, every_15_s, "no tick comes", false),
            (HostRetry::Endless, unknown, "no tick comes", false),
            (times(3, 30), every_15_s, "3 times, for 30s or more", true),
            (times(3, 15), every_15_s, "3 times;", false),
            (times(1, 30), unknown, "once;", false),
            (HostRetry::Unreadable, every_15_s, "cannot be read", false),
        ] {
            let said = sentence(retry, interval);
            assert!(said.contains(part) && said.ends_with("host.json"), "{said}");
            assert_eq!(said.contains("the 15s between two ticks"), late, "{said}");
        }
    }
}
