//! Who this process is: which app, which slot, which instance.

use std::path::Path;

use crate::config::Settings;

#[derive(Debug)]
pub(super) struct Identity {
    pub(super) app: String,
    pub(super) off_in_slot: Option<String>,
    site: String,
    instance: String,
    worker: String,
}

impl Identity {
    pub(super) fn of(root: &Path, settings: &Settings) -> Self {
        let site = settings.filled("WEBSITE_SITE_NAME");
        let slot = settings
            .filled("WEBSITE_SLOT_NAME")
            .filter(|slot| !slot.eq_ignore_ascii_case("production"));
        let app = match (settings.filled("DBTICK_APP"), site, slot) {
            (Some(app), _, _) => app.to_owned(),
            (None, Some(site), Some(slot)) => format!("{site}-{slot}"),
            (None, Some(site), None) => site.to_owned(),
            (None, None, _) => directory_name(root),
        };
        let app = path_segment(&app);
        let allowed = settings.get("DBTICK_RUN_IN_SLOT") == Some("1");
        Self {
            off_in_slot: slot.filter(|_| !allowed).map(str::to_owned),
            site: site.map_or_else(|| app.clone(), str::to_owned),
            instance: instance(settings).unwrap_or("local").to_owned(),
            worker: settings
                .filled("FUNCTIONS_CUSTOMHANDLER_WORKER_ID")
                .unwrap_or("none")
                .to_owned(),
            app,
        }
    }

    pub(super) fn owner_prefix(&self) -> String {
        format!("{}/{}/{}", self.site, self.instance, self.worker)
    }
}

/// The host's own order.
pub(super) fn instance(settings: &Settings) -> Option<&str> {
    ["WEBSITE_POD_NAME", "CONTAINER_NAME", "WEBSITE_INSTANCE_ID"]
        .iter()
        .find_map(|name| settings.filled(name))
}

fn directory_name(root: &Path) -> String {
    root.file_name().map_or_else(
        || "app".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// One segment of a state path whatever it is made of: nothing in it can climb or nest.
fn path_segment(name: &str) -> String {
    name.to_lowercase()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') {
                c
            } else {
                '-'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(settings: &[(&str, &str)]) -> Identity {
        Identity::of(
            Path::new("/srv/My App"),
            &settings.iter().copied().collect(),
        )
    }

    #[test]
    fn the_app_is_named_by_setting_then_site_and_slot_then_directory() {
        let site = ("WEBSITE_SITE_NAME", "Shop");
        let staging = ("WEBSITE_SLOT_NAME", "Staging");
        for (settings, expected) in [
            (vec![], "my-app"),
            (vec![site], "shop"),
            (vec![site, ("WEBSITE_SLOT_NAME", "PRODUCTION")], "shop"),
            (vec![site, staging], "shop-staging"),
            (vec![site, staging, ("DBTICK_APP", "own")], "own"),
            (vec![("DBTICK_APP", "../up")], "---up"),
            (vec![("DBTICK_APP", "")], "my-app"),
        ] {
            assert_eq!(identity(&settings).app, expected, "{settings:?}");
        }
    }

    #[test]
    fn pollers_are_off_outside_the_production_slot_unless_told() {
        let staging = ("WEBSITE_SLOT_NAME", "Staging");
        for (settings, expected) in [
            (vec![], None),
            (vec![("WEBSITE_SLOT_NAME", "Production")], None),
            (vec![staging], Some("Staging")),
            (vec![staging, ("DBTICK_RUN_IN_SLOT", "1")], None),
            (vec![staging, ("DBTICK_RUN_IN_SLOT", "0")], Some("Staging")),
        ] {
            let off = identity(&settings).off_in_slot;
            assert_eq!(off.as_deref(), expected, "{settings:?}");
        }
    }

    #[test]
    fn the_owner_is_site_instance_and_worker() {
        let instance = ("WEBSITE_INSTANCE_ID", "i");
        let container = ("CONTAINER_NAME", "c");
        for (settings, expected) in [
            (vec![], "my-app/local/none"),
            (vec![instance], "my-app/i/none"),
            (vec![instance, container], "my-app/c/none"),
            (vec![container, ("WEBSITE_POD_NAME", "p")], "my-app/p/none"),
            (
                vec![
                    ("WEBSITE_SITE_NAME", "Shop"),
                    ("FUNCTIONS_CUSTOMHANDLER_WORKER_ID", "w"),
                ],
                "Shop/local/w",
            ),
        ] {
            assert_eq!(identity(&settings).owner_prefix(), expected, "{settings:?}");
        }
    }
}
