//! Whom a webhook trusts besides the authorities of the system.

use reqwest::Certificate;
use rustls::RootCertStore;

use super::Reader;
use crate::config::fault::Place;
use crate::config::parse::certificates::certificates;

impl Reader<'_> {
    /// A path, relative to the app root, or the text itself.
    pub(super) fn authorities(
        &mut self,
        at: &Place,
        written: Option<&str>,
    ) -> Option<Vec<Certificate>> {
        let Some(written) = written else {
            return Some(Vec::new());
        };
        let mut text = self.text(at, written)?;
        if text.contains("-----BEGIN") {
            // An app setting may have lost its line breaks to an escape.
            text = text.replace("\\n", "\n");
        } else {
            text = match std::fs::read_to_string(self.root.join(text.trim())) {
                Ok(text) => text,
                Err(error) => {
                    self.faults.add(
                        at,
                        format!("the certificates to trust cannot be read: {error}"),
                        "write a path relative to the app root, or %NAME% of a setting with the PEM text",
                    );
                    return None;
                }
            };
        }
        let trusted = certificates(&text).and_then(|found| {
            let mut store = RootCertStore::empty();
            let each = found.into_iter().map(|certificate| {
                store.add(certificate.clone()).ok()?;
                Certificate::from_der(&certificate).ok()
            });
            each.collect()
        });
        if trusted.is_none() {
            self.faults.add(
                at,
                "holds no certificates, or one that cannot be read",
                "it must be PEM text: -----BEGIN CERTIFICATE----- and its lines",
            );
        }
        trusted
    }
}
