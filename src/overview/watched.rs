//! The pollers of an app, to be looked at.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use futures_util::{FutureExt as _, StreamExt as _};

use super::health::Health;
use super::looking;
use super::orphans::{self, Orphan};
use super::view::{AppView, PollerDetail, PollerView};
use crate::config::{App, Function, StateConfig};
use crate::store::StateStore;
use crate::store::key::KeyError;
use crate::tick::Poller;
use crate::tick::report::TickError;
use crate::tick::stray::Stray;
use crate::wiring::Parts;

/// Where the host sets none, dbtick ends a tick by then.
const NO_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Pollers that are looked at together.
const LOOKS_AT_ONCE: usize = 16;

/// All pollers of an app; nothing is opened before it is looked at.
#[derive(Debug)]
pub struct Overview {
    app: String,
    pollers: Vec<Watched>,
    faults: Vec<String>,
    /// The longest that a tick may take.
    tick_limit: Duration,
    /// Where the documents are; each place once.
    stores: Vec<(StateConfig, Arc<dyn StateStore>)>,
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
        let mut stores: Vec<(StateConfig, Arc<dyn StateStore>)> = Vec::new();
        for (name, function) in &app.functions {
            let Function::Pollers(function) = function else {
                continue;
            };
            for config in &function.pollers {
                if stores.iter().all(|(known, _)| *known != config.state) {
                    stores.push((config.state.clone(), parts.store(&config.state)));
                }
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
            tick_limit: app.function_timeout.unwrap_or(NO_LIMIT),
            stores,
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
            looking::glance(poller, function, (*interval, self.tick_limit)).boxed()
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
        Some(looking::closely(poller, function, (*interval, self.tick_limit)).await)
    }

    /// What has not moved for longer than `grace`; the oldest first.
    pub async fn orphans(&self, grace: Duration) -> Result<Vec<Orphan>, TickError> {
        let AppView { pollers, at, .. } = self.all().await;
        let known = pollers.iter();
        let mut found: Vec<Orphan> = known
            .flat_map(|view| orphans::of(view, grace, at))
            .collect();
        for view in &pollers {
            if let Some(poller) = self.poller(&view.poller) {
                // A store that cannot be asked is told of by its pollers.
                let unfinished = orphans::unfinished(poller, view, grace, at).await;
                found.extend(unfinished.unwrap_or_default());
            }
        }
        for stray in self.strays().await? {
            // What cannot be read is somebody else's, or is told by whoever asks for it.
            if let Ok(Some(document)) = stray.document().await {
                found.extend(orphans::stray(&document, grace, at));
            }
        }
        found.sort_by_key(|orphan| orphan.since);
        Ok(found)
    }

    /// Documents of this app that belong to no poller of it. Nothing is told where a function is broken:
    /// its pollers are not known.
    pub async fn strays(&self) -> Result<Vec<Stray>, TickError> {
        let mut strays = Vec::new();
        if !self.faults.is_empty() {
            return Ok(strays);
        }
        let prefix = format!("state/{}/", self.app);
        for (_, store) in &self.stores {
            for key in store.list(&prefix).await? {
                let name = key.as_str().strip_prefix(&prefix);
                let name = name.and_then(|name| name.strip_suffix(".json"));
                let Some(name) = name.filter(|name| self.poller(name).is_none()) else {
                    continue;
                };
                strays.push(Stray {
                    name: name.to_owned(),
                    key: key.clone(),
                    store: Arc::clone(store),
                    clock: Arc::clone(&self.parts.clock),
                });
            }
        }
        Ok(strays)
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
