//! Where batches are posted to (S1), and where never (S3, for addresses written out).

use std::net::{IpAddr, Ipv4Addr};

use reqwest::Url;

use super::Reader;
use crate::config::fault::Place;
use crate::model::address::{Forbidden, Network, is_same_place};

/// Where the platforms of Azure say who hands out tokens, old names included.
const IDENTITY_ENDPOINTS: [&str; 3] = ["IDENTITY_ENDPOINT", "MSI_ENDPOINT", "IMDS_ENDPOINT"];

impl Reader<'_> {
    pub(super) fn url(
        &mut self,
        at: &Place,
        written: &str,
        allow_http: bool,
        network: Network,
    ) -> Option<Url> {
        let problem = match judge(&self.text(at, written)?, allow_http, network) {
            Ok(url) if self.leads_to_identity(&url) => (
                "is the identity endpoint of the platform, which is never a receiver",
                "write the address of the receiver",
            ),
            Ok(url) => return Some(url),
            Err(problem) => problem,
        };
        self.faults.add(at, problem.0, problem.1);
        None
    }

    fn leads_to_identity(&self, url: &Url) -> bool {
        self.identity_beside(url).any(|endpoint| {
            let (ours, theirs) = (Host::of(url), Host::of(&endpoint));
            match (ours.address(), theirs.address()) {
                (Some(ours), Some(theirs)) => is_same_place(ours, theirs),
                _ => ours == theirs,
            }
        })
    }

    /// What a name in the url must not resolve to.
    pub(super) fn identity_addresses(&self, url: &Url) -> Vec<IpAddr> {
        let endpoints = self.identity_beside(url);
        endpoints
            .filter_map(|endpoint| Host::of(&endpoint).address())
            .collect()
    }

    /// Whoever hands out tokens on the port of this url.
    fn identity_beside(&self, url: &Url) -> impl Iterator<Item = Url> {
        let port = url.port_or_known_default();
        IDENTITY_ENDPOINTS.iter().filter_map(move |name| {
            let endpoint = Url::parse(self.settings.filled(name)?).ok()?;
            (endpoint.port_or_known_default() == port).then_some(endpoint)
        })
    }
}

/// A problem and a hint; neither shows the URL, which may hold a token.
fn judge(
    text: &str,
    allow_http: bool,
    network: Network,
) -> Result<Url, (&'static str, &'static str)> {
    let url = Url::parse(text.trim())
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .ok_or(("is not an absolute http(s) URL", "write https://host/path"))?;
    if url.fragment().is_some() {
        return Err((
            "has a fragment, which is never sent",
            "remove the # and what follows",
        ));
    }
    if let Host::Address(address) = Host::of(&url)
        && let Err(why) = network.judge(address)
    {
        let problem = match why {
            Forbidden::Metadata => "is a link-local or metadata address, which is never a receiver",
            Forbidden::Private => "is a private address, which deny_private refuses",
            Forbidden::Identity => unreachable!("a network knows no endpoints"),
        };
        return Err((problem, "write the address of the receiver"));
    }
    if leaves_in_the_clear(&url) && !allow_http {
        return Err((
            "is plain http to another machine",
            "use https, or say \"allow_http\": true beside the url",
        ));
    }
    Ok(url)
}

/// Readable for whoever is on the way.
pub(super) fn leaves_in_the_clear(url: &Url) -> bool {
    url.scheme() == "http" && !Host::of(url).is_loopback()
}

/// User and password are sent as Authorization.
pub(super) fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

#[derive(PartialEq)]
enum Host<'a> {
    Name(&'a str),
    Address(IpAddr),
}

impl<'a> Host<'a> {
    fn of(url: &'a Url) -> Self {
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(address) => Self::Address(address.to_canonical()),
            Err(_) => Self::Name(host),
        }
    }

    /// As far as it is known without asking anybody.
    fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Name("localhost") => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            Self::Name(_) => None,
            Self::Address(address) => Some(*address),
        }
    }

    fn is_loopback(&self) -> bool {
        self.address().is_some_and(|address| address.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_is_https_or_this_machine_and_never_a_metadata_address() {
        for (url, expected) in [
            ("https://example.org/hook", None),
            ("https://user:pw@example.org/hook?code=x", None),
            ("https://10.0.0.4/hook", None),
            ("http://localhost:7071/hook", None),
            ("http://LOCALHOST/hook", None),
            ("http://127.0.0.1:1/hook", None),
            ("http://127.9.9.9/hook", None),
            ("http://[::1]:8080/", None),
            ("http://[::ffff:127.0.0.1]/", None),
            ("http://example.org/hook", Some("plain http")),
            ("http://localhost.example.org/", Some("plain http")),
            ("http://10.0.0.4/", Some("plain http")),
            ("/hook", Some("absolute")),
            ("hook", Some("absolute")),
            ("", Some("absolute")),
            ("ftp://example.org/", Some("absolute")),
            ("https://", Some("absolute")),
            ("https://example.org/#part", Some("fragment")),
            ("https://169.254.169.254/metadata", Some("metadata")),
            ("https://169.254.1.2/", Some("metadata")),
            ("https://2852039166/", Some("metadata")),
            ("https://0xa9.0xfe.0xa9.0xfe/", Some("metadata")),
            ("https://168.63.129.16/", Some("metadata")),
            ("https://[fd00:ec2::254]/", Some("metadata")),
            ("https://[fe80::1]/", Some("metadata")),
            ("https://[::ffff:169.254.169.254]/", Some("metadata")),
            ("https://[::ffff:a83f:8110]/", Some("metadata")),
            ("https://[64:ff9b::a9fe:a9fe]/", Some("metadata")),
            ("https://0251.0376.0251.0376/", Some("metadata")),
            ("https://169.254.43518/", Some("metadata")),
            ("https://169.254.169.254./", Some("metadata")),
            ("https://%31%36%39.254.169.254/", Some("metadata")),
            ("https://１６９。254。169。254/", Some("metadata")),
            (
                "https://user@169.254.169.254:443@169.254.169.254/",
                Some("metadata"),
            ),
            ("https://example.org\\@169.254.169.254/", None),
            ("https://[fe80::1%25eth0]/", Some("absolute")),
            ("https://0.0.0.0/", None),
            ("http://0.0.0.0/", Some("plain http")),
            ("http://localhost./", Some("plain http")),
        ] {
            let problem = judge(url, false, Network::Any)
                .err()
                .map(|(problem, _)| problem);
            match expected {
                None => assert_eq!(problem, None, "{url}"),
                Some(part) => assert!(problem.is_some_and(|p| p.contains(part)), "{url}"),
            }
        }
    }

    #[test]
    fn plain_http_needs_an_explicit_flag_that_opens_nothing_else() {
        assert!(judge("http://example.org/", true, Network::Any).is_ok());
        assert!(judge("http://169.254.169.254/", true, Network::Any).is_err());
        assert!(judge("ftp://example.org/", true, Network::Any).is_err());
    }

    #[test]
    fn private_addresses_are_receivers_unless_denied() {
        for (url, allowed) in [
            ("https://example.org/", true),
            ("https://10.0.0.4/", false),
            ("https://[fd00::1]/", false),
            ("http://127.0.0.1/", false),
        ] {
            assert!(judge(url, false, Network::Any).is_ok(), "{url}");
            assert_eq!(judge(url, false, Network::Public).is_ok(), allowed, "{url}");
        }
    }
}
