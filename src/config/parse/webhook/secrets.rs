//! What only the receiver and we may know: it comes from app settings, never from the file.

use super::Reader;
use crate::config::fault::Place;
use crate::config::secret::{Secret, SigningKey};

impl Reader<'_> {
    pub(super) fn signing_keys(
        &mut self,
        at: &Place,
        one: Option<String>,
        several: Option<Vec<String>>,
    ) -> Option<Vec<SigningKey>> {
        let at_several = at.key("secrets");
        let several = match (one, several) {
            (None, None) => return Some(Vec::new()),
            (Some(one), None) => return Some(vec![self.signing_key(&at.key("secret"), &one)?]),
            (None, Some(several)) => several,
            (Some(_), Some(_)) => {
                let problem = "stands beside secret";
                self.faults
                    .add(&at_several, problem, "write one of the two");
                return None;
            }
        };
        if several.len() > 2 {
            self.faults.add(
                &at_several,
                format!("has more than two keys: {}", several.len()),
                "write the new key and the one that it replaces",
            );
            return None;
        }
        let keys: Vec<_> = several
            .iter()
            .enumerate()
            .map(|(index, written)| self.signing_key(&at_several.index(index), written))
            .collect();
        keys.into_iter().collect()
    }

    fn signing_key(&mut self, at: &Place, written: &str) -> Option<SigningKey> {
        let secret = self.secret(at, written)?;
        let key = SigningKey::parse(secret.expose());
        if key.is_none() {
            self.faults.add(
                at,
                format!("is not a key of Standard Webhooks: {written}"),
                "the app setting must hold whsec_ and the base64 of 24 to 64 random bytes: \
                 echo whsec_$(openssl rand -base64 32)",
            );
        }
        key
    }

    /// The value of the one app setting that `written` names; around it, white space does not count.
    pub(in crate::config::parse) fn secret(&mut self, at: &Place, written: &str) -> Option<Secret> {
        let name = written
            .strip_prefix('%')
            .and_then(|rest| rest.strip_suffix('%'));
        if name.is_none_or(|name| name.is_empty() || name.contains('%')) {
            // What is written may be the secret itself: it is not shown.
            self.faults.add(
                at,
                "is not the name of an app setting, and a secret does not belong into the file",
                "put the secret into an app setting, and write its name here: %NAME%",
            );
            return None;
        }
        let text = self.text(at, written)?;
        Some(Secret::new(text.trim()))
    }
}
