//! The pollers of an app, to be looked at.

use std::time::Duration;

use futures_util::stream;
use futures_util::{FutureExt as _, StreamExt as _};

use super::health::Health;
use super::looking;
use super::view::{AppView, PollerDetail, PollerView};
use crate::config::{App, Function};
use crate::store::key::KeyError;
use crate::tick::Poller;
use crate::wiring::Parts;

/// Pollers that are looked at together.
const LOOKS_AT_ONCE: usize = 16;

/// All pollers of an app; nothing is opened before it is looked at.
#[derive(Debug)]
pub struct Overview {
    app: String,
    pollers: Vec<Watched>,
    faults: Vec<String>,
    parts: Parts,
}

#[derive(Debug)]
struct Watched {
    function: String,
    /// Between two ticks.
    interval: Option<Duration>,
    poller: Poller,
}

impl Overview {
    pub fn new(app: &App, parts: &Parts) -> Result<Self, KeyError> {
        let mut pollers = Vec::new();
        for (name, function) in &app.functions {
            let Function::Pollers(function) = function else {
                continue;
            };
            for config in &function.pollers {
                pollers.push(Watched {
                    function: name.clone(),
                    interval: function
                        .schedule
                        .as_ref()
                        .and_then(|schedule| schedule.interval(parts.clock.now())),
                    poller: parts.poller(app, config)?,
                });
            }
        }
        Ok(Self {
            app: app.name.clone(),
            pollers,
            faults: app.faults().map(ToString::to_string).collect(),
            parts: parts.clone(),
        })
    }

    /// Every poller, at a glance; the worst first.
    pub async fn all(&self) -> AppView {
        let looks = self.pollers.iter().map(|watched| {
            let Watched {
                function,
                interval,
                poller,
            } = watched;
            looking::glance(poller, function, *interval).boxed()
        });
        let looks: Vec<_> = looks.collect();
        let mut pollers: Vec<PollerView> = stream::iter(looks)
            .buffer_unordered(LOOKS_AT_ONCE)
            .collect()
            .await;
        pollers.sort_by(|one, other| {
            let worst = other.health.cmp(&one.health);
            worst.then_with(|| one.poller.cmp(&other.poller))
        });
        let worst = pollers.iter().map(|poller| poller.health).max();
        AppView {
            app: self.app.clone(),
            at: self.parts.clock.now(),
            health: match self.faults.is_empty() {
                true => worst.unwrap_or(Health::Ok),
                false => Health::Stuck,
            },
            pollers,
            faults: self.faults.clone(),
        }
    }

    /// One poller with its past; `None`: there is no such poller.
    pub async fn one(&self, name: &str) -> Option<PollerDetail> {
        let Watched {
            function,
            interval,
            poller,
        } = self.watched(name)?;
        Some(looking::closely(poller, function, *interval).await)
    }

    /// To be paused, resumed, or have its quarantine seen to.
    #[must_use]
    pub fn poller(&self, name: &str) -> Option<&Poller> {
        self.watched(name).map(|watched| &watched.poller)
    }

    /// In the order of their functions.
    pub fn pollers(&self) -> impl Iterator<Item = &Poller> {
        self.pollers.iter().map(|watched| &watched.poller)
    }

    fn watched(&self, name: &str) -> Option<&Watched> {
        self.pollers
            .iter()
            .find(|watched| watched.poller.name == name)
    }
}
