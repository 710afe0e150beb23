//! An output binding as a receiver: through a function of the same app.

use std::net::IpAddr;

use reqwest::Url;

use super::Reader;
use crate::config::fault::Place;
use crate::config::relay::Candidate;
use crate::config::{RelayConfig, RelayFunction, human, raw};
use crate::model::address::Network;

/// The host sets it: `shop.azurewebsites.net` on Azure, `localhost:7071` on this machine.
const HOSTNAME: &str = "WEBSITE_HOSTNAME";

pub(super) fn relay(reader: &mut Reader<'_>, at: &Place, raw: raw::Relay) -> Option<RelayConfig> {
    let raw::Relay {
        function,
        key,
        timeout,
    } = raw;
    let function = reader.relay_function(&at.key("function"), &function);
    let header = reader.relay_key(&at.key("key"), &key);
    let timeout = reader.relay_timeout(&at.key("timeout"), timeout.as_deref());
    let app = reader.app_address(at);
    Some(RelayConfig {
        function: function?,
        app: app?,
        key: header?,
        key_name: key,
        timeout: timeout?,
    })
}

impl Reader<'_> {
    fn relay_function(&mut self, at: &Place, written: &str) -> Option<RelayFunction> {
        let name = self.text(at, written)?;
        let (problem, hint) = match self.relays.get(&name) {
            Some(Candidate::Relay(function)) if self.is_disabled(&name) => (
                format!("is disabled by an app setting: {}", function.name),
                "remove the setting AzureWebJobs.NAME.Disabled; a disabled function is not found"
                    .to_owned(),
            ),
            Some(Candidate::Relay(function)) => return Some(function.clone()),
            Some(Candidate::Faulty(_)) => (
                format!("is a relay with faults: {name}"),
                format!("mend {name}/function.json first"),
            ),
            Some(Candidate::NotARelay) => (
                format!("is not a relay: {name}"),
                format!("add \"relay\": {{}} to {name}/function.json, beside its bindings"),
            ),
            None => (
                format!("is not a function of this app: {written}"),
                self.known_relays(),
            ),
        };
        self.faults.add(at, problem, hint);
        None
    }

    fn known_relays(&self) -> String {
        let good = self.relays.iter();
        let good = good.filter(|(_, candidate)| matches!(candidate, Candidate::Relay(_)));
        let names: Vec<&str> = good.map(|(name, _)| name.as_str()).collect();
        match names.as_slice() {
            [] => {
                "make a directory of that name, with the function.json of function-templates/relay"
                    .to_owned()
            }
            names => format!("the relays of this app are: {}", names.join(", ")),
        }
    }

    fn is_disabled(&self, function: &str) -> bool {
        [".", "_"].iter().any(|dot| {
            let setting = format!("AzureWebJobs{dot}{function}{dot}Disabled");
            self.settings.is_on(&setting)
        })
    }

    fn relay_key(&mut self, at: &Place, written: &str) -> Option<reqwest::header::HeaderValue> {
        let key = self.secret(at, written)?;
        let header = key.header().filter(|_| !key.expose().is_empty());
        if header.is_none() {
            let problem = format!("is not a key: {written}");
            let hint = "the app setting must hold a key of the function, as the portal shows it";
            self.faults.add(at, problem, hint);
        }
        header
    }

    fn relay_timeout(&mut self, at: &Place, written: Option<&str>) -> Option<std::time::Duration> {
        let timeout = self.positive(at, written, RelayConfig::TIMEOUT)?;
        if timeout <= RelayConfig::LONGEST_TIMEOUT {
            return Some(timeout);
        }
        let longest = human::show_duration(RelayConfig::LONGEST_TIMEOUT);
        let problem = format!("is longer than Azure lets an HTTP function run: {longest}");
        let hint = format!("write at most {longest}, and make batch.max_rows smaller");
        self.faults.add(at, problem, hint);
        None
    }

    /// `Some(None)` where no host has said it: `check` runs without one.
    fn app_address(&mut self, at: &Place) -> Option<Option<Url>> {
        let Some(host) = self.settings.filled(HOSTNAME) else {
            return Some(None);
        };
        let address = address(host);
        if address.is_none() {
            let problem = format!("cannot be posted to: {HOSTNAME} is not a host name");
            let hint = "the host sets it, such as shop.azurewebsites.net or localhost:7071";
            self.faults.add(at, problem, hint);
        }
        address.map(Some)
    }
}

/// https, or http to this machine. A name and a port, and nothing that leads elsewhere.
fn address(host: &str) -> Option<Url> {
    let url = Url::parse(&format!("https://{host}/")).ok()?;
    let name = url.host_str()?.trim_matches(['[', ']']);
    let ip = name.parse::<IpAddr>().ok();
    if ip.is_some_and(|ip| Network::Any.judge(ip).is_err()) {
        return None;
    }
    let port = url.port().map(|port| format!(":{port}"));
    let whole = format!("{}{}", url.host_str()?, port.unwrap_or_default());
    if !whole.eq_ignore_ascii_case(host.strip_suffix(":443").unwrap_or(host)) {
        return None;
    }
    let here = name == "localhost" || ip.is_some_and(|ip| ip.to_canonical().is_loopback());
    match here {
        true => Url::parse(&format!("http://{host}/")).ok(),
        false => Some(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_app_is_https_or_this_machine_and_nothing_else() {
        for (host, expected) in [
            (
                "shop.azurewebsites.net",
                Some("https://shop.azurewebsites.net/"),
            ),
            (
                "Shop.AzureWebsites.net",
                Some("https://shop.azurewebsites.net/"),
            ),
            ("shop.example:8443", Some("https://shop.example:8443/")),
            ("localhost:7071", Some("http://localhost:7071/")),
            ("127.0.0.1:7071", Some("http://127.0.0.1:7071/")),
            ("[::1]:7071", Some("http://[::1]:7071/")),
            (
                "localhost.example.org",
                Some("https://localhost.example.org/"),
            ),
            ("169.254.169.254", None),
            ("shop/../admin", None),
            ("user@shop.example", None),
            ("shop.example?x", None),
            ("shop.example#x", None),
            ("https://shop.example", None),
            ("shop example", None),
        ] {
            let address = address(host);
            let address = address.as_ref().map(Url::as_str);
            assert_eq!(address, expected, "{host}");
        }
    }
}
