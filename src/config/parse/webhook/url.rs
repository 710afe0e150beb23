//! Where batches are posted to (S1), and where never (S3, for addresses written out).

use std::net::IpAddr;

use reqwest::Url;

use super::Reader;
use crate::config::fault::Place;
use crate::model::address::{Forbidden, Network};

impl Reader<'_> {
    pub(super) fn url(
        &mut self,
        at: &Place,
        written: &str,
        allow_http: bool,
        network: Network,
    ) -> Option<Url> {
        let problem = match judge(&self.text(at, written)?, allow_http, network) {
            Ok(url) if self.is_identity_endpoint(&url) => (
                "is the identity endpoint of the platform, which is never a receiver",
                "write the address of the receiver",
            ),
            Ok(url) => return Some(url),
            Err(problem) => problem,
        };
        self.faults.add(at, problem.0, problem.1);
        None
    }

    fn is_identity_endpoint(&self, url: &Url) -> bool {
        let endpoint = self.settings.filled("IDENTITY_ENDPOINT");
        let Some(endpoint) = endpoint.and_then(|text| Url::parse(text).ok()) else {
            return false;
        };
        let (ours, theirs) = (Host::of(url), Host::of(&endpoint));
        url.port_or_known_default() == endpoint.port_or_known_default()
            && (ours == theirs || ours.is_loopback() && theirs.is_loopback())
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

    fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => *name == "localhost",
            Self::Address(address) => address.is_loopback(),
        }
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
