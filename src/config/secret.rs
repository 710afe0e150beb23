//! Values that must never be printed, and that are compared in constant time (S17).

use std::fmt;

use data_encoding::BASE64;
use reqwest::Url;
use reqwest::header::HeaderValue;
use subtle::ConstantTimeEq;

/// A text that is never printed.
#[derive(Clone)]
pub struct Secret(String);

/// In a time that tells nothing but whether the lengths are equal.
#[must_use]
pub fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

impl Secret {
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// For whoever sends it to where it belongs, and for nobody else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// As the value of a header, which is not printed either; `None` if it cannot be one.
    #[must_use]
    pub fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&self.0).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Likewise, as a token.
    #[must_use]
    pub fn bearer(&self) -> Option<HeaderValue> {
        let one_word = !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_graphic());
        let whole = Self(format!("Bearer {}", self.0));
        whole.header().filter(|_| one_word)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        same(&self.0, &other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// A key of Standard Webhooks, which signs what is sent.
#[derive(Clone)]
pub struct SigningKey(Vec<u8>);

impl SigningKey {
    /// From `whsec_` and the base64 of 24 to 64 bytes; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let encoded = text.strip_prefix("whsec_")?;
        let bytes = BASE64.decode(encoded.as_bytes()).ok()?;
        (24..=64).contains(&bytes.len()).then_some(Self(bytes))
    }

    /// For whoever signs, and for nobody else.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for SigningKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SigningKey {}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(***)")
    }
}

/// A URL that shows only where it leads: tokens live in user, path and query alike.
#[derive(Clone)]
pub struct SecretUrl(Url);

impl SecretUrl {
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self(url)
    }

    /// The whole URL, for the client that connects to it and for nobody else.
    #[must_use]
    pub fn expose(&self) -> &Url {
        &self.0
    }
}

impl PartialEq for SecretUrl {
    fn eq(&self, other: &Self) -> bool {
        same(self.0.as_str(), other.0.as_str())
    }
}

impl Eq for SecretUrl {}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = &self.0;
        write!(f, "{}://", url.scheme())?;
        if !url.username().is_empty() || url.password().is_some() {
            f.write_str("***@")?;
        }
        f.write_str(url.host_str().unwrap_or(""))?;
        if let Some(port) = url.port() {
            write!(f, ":{port}")?;
        }
        if url.path() != "/" || url.query().is_some() {
            f.write_str("/…")?;
        }
        Ok(())
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_equal_when_every_byte_is() {
        for (one, other, equal) in [
            ("", "", true),
            ("key", "key", true),
            ("key", "kez", false),
            ("key", "Key", false),
            ("key", "keys", false),
            ("key", "", false),
        ] {
            assert_eq!(same(one, other), equal, "{one} {other}");
            assert_eq!(Secret::new(one) == Secret::new(other), equal);
        }
    }
}
