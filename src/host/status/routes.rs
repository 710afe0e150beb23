//! The route table: what is below the route of a status function. The OpenAPI document is made from
//! it.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    Page,
    Checkpoints,
    Poller,
    History,
    Schema,
    Quarantine,
    Case,
    Pause,
    Resume,
    Redrive,
    Discard,
    Metrics,
    Health,
    Orphans,
    OpenApi,
}

pub(super) struct Route {
    pub(super) endpoint: Endpoint,
    pub(super) method: &'static str,
    /// `{name}` stands for one part.
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
}

use Endpoint::*;

#[rustfmt::skip]
pub(super) const ROUTES: &[Route] = &[
    get(Page, "", "The page"),
    get(Checkpoints, "checkpoints", "Every poller at a glance"),
    get(Poller, "checkpoints/{poller}", "One poller with its past"),
    get(History, "checkpoints/{poller}/history", "Kept checkpoints, and who changed what by hand"),
    get(Schema, "checkpoints/{poller}/schema", "The columns at a checkpoint"),
    get(Quarantine, "checkpoints/{poller}/quarantine", "Rows that a receiver never took, without their data"),
    get(Case, "checkpoints/{poller}/quarantine/{event}", "One of these rows"),
    post(Pause, "checkpoints/{poller}/pause", "Stop after the batch in flight"),
    post(Resume, "checkpoints/{poller}/resume", "Go on from the checkpoint"),
    post(Redrive, "checkpoints/{poller}/quarantine/{event}/redrive", "Send a row again to the receiver that did not take it"),
    post(Discard, "checkpoints/{poller}/quarantine/{event}/discard", "Remove a row from quarantine for good"),
    get(Metrics, "metrics", "Prometheus text"),
    get(Health, "health", "For probes: 503 where something is stuck"),
    get(Orphans, "orphans", "What has not moved for two hours, and who looks into it"),
    get(OpenApi, "openapi.json", "This document"),
];

/// Where a request leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// With what stands in the places of the names.
    Endpoint(Endpoint, Vec<&'a str>),
    OtherMethods(&'static str),
    Nothing,
}

pub(super) fn find<'a>(method: &str, path: &[&'a str]) -> Found<'a> {
    let mut other = Found::Nothing;
    for route in ROUTES {
        let Some(names) = route.names(path) else {
            continue;
        };
        if route.method == method {
            return Found::Endpoint(route.endpoint, names);
        }
        other = Found::OtherMethods(route.method);
    }
    other
}

impl Route {
    fn names<'a>(&self, path: &[&'a str]) -> Option<Vec<&'a str>> {
        let parts = self.path.split('/').filter(|part| !part.is_empty());
        if parts.clone().count() != path.len() {
            return None;
        }
        let mut names = Vec::new();
        for (part, given) in parts.zip(path) {
            match part.starts_with('{') {
                true => names.push(*given),
                false if part != *given => return None,
                false => {}
            }
        }
        Some(names)
    }
}

const fn get(endpoint: Endpoint, path: &'static str, summary: &'static str) -> Route {
    Route {
        endpoint,
        method: "GET",
        path,
        summary,
    }
}

const fn post(endpoint: Endpoint, path: &'static str, summary: &'static str) -> Route {
    Route {
        method: "POST",
        ..get(endpoint, path, summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_leads_to_its_endpoint() {
        for (method, path, expected) in [
            ("GET", "", Found::Endpoint(Page, vec![])),
            ("POST", "", Found::OtherMethods("GET")),
            ("GET", "checkpoints", Found::Endpoint(Checkpoints, vec![])),
            (
                "GET",
                "checkpoints/orders",
                Found::Endpoint(Poller, vec!["orders"]),
            ),
            (
                "GET",
                "checkpoints/orders/pause",
                Found::OtherMethods("POST"),
            ),
            (
                "POST",
                "checkpoints/orders/pause",
                Found::Endpoint(Pause, vec!["orders"]),
            ),
            ("DELETE", "checkpoints/orders", Found::OtherMethods("GET")),
            (
                "POST",
                "checkpoints/orders/quarantine/7f/discard",
                Found::Endpoint(Discard, vec!["orders", "7f"]),
            ),
            ("GET", "checkpoints/orders/nothing", Found::Nothing),
            ("GET", "Checkpoints", Found::Nothing),
        ] {
            let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
            assert_eq!(find(method, &parts), expected, "{method} {path}");
        }
    }
}
