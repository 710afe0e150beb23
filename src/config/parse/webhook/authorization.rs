//! Who we say that we are, to a receiver that wants to know.

use reqwest::Url;

use super::Reader;
use super::url::{has_user, leaves_in_the_clear};
use crate::azure::identity::IdentityConfig;
use crate::config::fault::Place;
use crate::config::{Authorization, raw};

impl Reader<'_> {
    pub(super) fn authorization(
        &mut self,
        at: &Place,
        url: Option<&Url>,
        bearer: Option<String>,
        entra: Option<raw::Entra>,
    ) -> Option<Option<Authorization>> {
        let (at, authorization) = match (bearer, entra) {
            (None, None) => return Some(None),
            (Some(written), None) => {
                let at = at.key("bearer");
                let authorization = self.bearer(&at, &written);
                (at, authorization)
            }
            (None, Some(raw)) => {
                let at = at.key("entra");
                let authorization = self.entra(&at, raw);
                (at, authorization)
            }
            (Some(_), Some(_)) => {
                let problem = "stands beside bearer";
                self.faults
                    .add(&at.key("entra"), problem, "write one of the two");
                return None;
            }
        };
        if url.is_some_and(leaves_in_the_clear) {
            self.faults.add(
                &at,
                "would travel readable: the url is plain http to another machine",
                "use https",
            );
            return None;
        }
        if url.is_some_and(has_user) {
            self.faults.add(
                &at,
                "stands beside a user or password in the url, which are sent as Authorization too",
                "keep one of the two",
            );
            return None;
        }
        authorization.map(Some)
    }

    fn bearer(&mut self, at: &Place, written: &str) -> Option<Authorization> {
        let token = self.secret(at, written)?.bearer();
        if token.is_none() {
            self.faults.add(
                at,
                format!("is not a token: {written}"),
                "the app setting must hold one word, without Bearer before it",
            );
        }
        token.map(Authorization::Bearer)
    }

    fn entra(&mut self, at: &Place, raw: raw::Entra) -> Option<Authorization> {
        let raw::Entra {
            audience,
            client_id,
        } = raw;
        let audience = self.word(&at.key("audience"), &audience);
        let client_id = match client_id {
            Some(written) => self.word(&at.key("client_id"), &written).map(Some),
            None => Some(None),
        };
        let audience = audience?;
        let audience = audience.strip_suffix("/.default").unwrap_or(&audience);
        Some(Authorization::Entra {
            identity: IdentityConfig::of_the_app("webhook.entra", client_id?),
            scope: format!("{audience}/.default"),
        })
    }

    fn word(&mut self, at: &Place, written: &str) -> Option<String> {
        let text = self.text(at, written)?;
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Some(text);
        }
        let hint = "write one word of ASCII, such as api://orders-receiver or a GUID";
        self.faults
            .add(at, format!("is not an id: {written}"), hint);
        None
    }
}
