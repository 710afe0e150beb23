//! Requests signed with an account key, which the SDK does not offer.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use async_trait::async_trait;
use azure_core::credentials::Secret;
use azure_core::hmac::hmac_sha256;
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, Request};

use crate::clock::{Clock, Timestamp};

/// Signed by position in this order; what a request does not have is an empty line. The place of
/// `Date` stays empty, because `x-ms-date` is signed instead.
const SIGNED_HEADERS: [&str; 11] = [
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];

/// The last policy before the transport: it signs what is sent, so nothing may change after it.
#[derive(Debug)]
pub(super) struct SharedKeyPolicy {
    account: String,
    key: Secret,
    clock: Arc<dyn Clock>,
}

impl SharedKeyPolicy {
    pub(super) fn new(account: &str, key: Secret, clock: Arc<dyn Clock>) -> Self {
        Self {
            account: account.to_owned(),
            key,
            clock,
        }
    }

    fn sign(&self, request: &mut Request, now: Timestamp) -> azure_core::Result<()> {
        let date = now.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        request.insert_header("x-ms-date", date);
        let signature = hmac_sha256(&string_to_sign(&self.account, request), &self.key)?;
        let account = &self.account;
        request.insert_header("authorization", format!("SharedKey {account}:{signature}"));
        Ok(())
    }
}

// async_trait does not match the trait's own elided lifetime otherwise.
#[allow(elided_lifetimes_in_paths)]
#[async_trait]
impl Policy for SharedKeyPolicy {
    async fn send(
        &self,
        context: &Context,
        request: &mut Request,
        next: &[Arc<dyn Policy>],
    ) -> PolicyResult {
        self.sign(request, self.clock.now())?;
        next[0].send(context, request, &next[1..]).await
    }
}

/// "Authorize with Shared Key", for the blob and queue services, version 2015-02-21 and later.
fn string_to_sign(account: &str, request: &Request) -> String {
    let headers: BTreeMap<String, &str> = request
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().to_lowercase(), value.as_str().trim()))
        .collect();
    let mut text = request.method().as_ref().to_owned();
    for name in SIGNED_HEADERS {
        let value = match name {
            "date" => String::new(),
            "content-length" => match request.body().len() {
                None | Some(0) => String::new(),
                Some(length) => length.to_string(),
            },
            name => headers
                .get(name)
                .map_or_else(String::new, |v| (*v).to_owned()),
        };
        text.push('\n');
        text.push_str(&value);
    }
    text.push('\n');
    for (name, value) in headers.iter().filter(|(name, _)| name.starts_with("x-ms-")) {
        writeln!(text, "{name}:{value}").ok();
    }
    write!(text, "/{account}{}", request.url().path()).ok();
    let mut query: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in request.url().query_pairs() {
        let values = query.entry(name.to_lowercase()).or_default();
        values.push(value.into_owned());
    }
    for (name, mut values) in query {
        values.sort();
        write!(text, "\n{name}:{}", values.join(",")).ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use azure_core::http::Method;
    use chrono::DateTime;

    use super::*;
    use crate::clock::SystemClock;

    /// The well-known key of the development account.
    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

    fn request(method: Method, url: &str) -> Request {
        let mut request = Request::new(url.parse().unwrap(), method);
        request.insert_header("x-ms-version", "2026-04-06");
        request.insert_header("x-ms-date", "Mon, 16 Nov 2026 10:00:00 GMT");
        request
    }

    #[test]
    fn the_string_to_sign_names_every_header_by_place_and_every_query_by_name() {
        let url = "http://127.0.0.1:10000/acc/db-state/state/app/orders.json";
        let mut put = request(Method::Put, url);
        put.insert_header("if-match", "\"0x1\"");
        put.insert_header("content-type", "application/json");
        put.insert_header("x-ms-blob-type", " BlockBlob ");
        put.insert_header("user-agent", "not signed");
        put.set_body("{}");
        assert_eq!(
            string_to_sign("acc", &put),
            "PUT\n\n\n2\n\napplication/json\n\n\n\"0x1\"\n\n\n\n\
             x-ms-blob-type:BlockBlob\n\
             x-ms-date:Mon, 16 Nov 2026 10:00:00 GMT\n\
             x-ms-version:2026-04-06\n\
             /acc/acc/db-state/state/app/orders.json"
        );
        let list = request(
            Method::Get,
            "https://acc.blob.core.windows.net/db-state?restype=container&comp=list&prefix=a%2Fb&Prefix=A",
        );
        assert_eq!(
            string_to_sign("acc", &list),
            "GET\n\n\n\n\n\n\n\n\n\n\n\n\
             x-ms-date:Mon, 16 Nov 2026 10:00:00 GMT\n\
             x-ms-version:2026-04-06\n\
             /acc/db-state\ncomp:list\nprefix:A,a/b\nrestype:container"
        );
    }

    #[test]
    fn a_signature_carries_the_account_and_no_key() {
        let policy = SharedKeyPolicy::new("acc", Secret::new(KEY), Arc::new(SystemClock));
        let now = DateTime::parse_from_rfc3339("2026-11-16T10:00:00Z").unwrap();
        let mut request = request(Method::Get, "https://acc.blob.core.windows.net/c/b");
        policy.sign(&mut request, now.to_utc()).unwrap();
        let header = |name: &'static str| request.headers().get_str(&name.into()).unwrap();
        assert_eq!(header("x-ms-date"), "Mon, 16 Nov 2026 10:00:00 GMT");
        let authorization = header("authorization");
        assert!(authorization.starts_with("SharedKey acc:"));
        assert!(!authorization.contains(KEY));
        assert!(!format!("{policy:?}").contains("Eby8"));
    }
}
