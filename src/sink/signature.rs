//! Signatures of Standard Webhooks (S4): HMAC-SHA256 over id, time and the body as it is sent.

use data_encoding::BASE64;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::clock::Timestamp;
use crate::config::secret::SigningKey;

/// What goes into the headers of one attempt.
#[derive(Debug)]
pub(super) struct Signature {
    /// Seconds since 1970; receivers refuse what is more than a few minutes old.
    pub(super) timestamp: String,
    /// One for each key, in their order.
    pub(super) value: String,
}

/// `None` without a key.
pub(super) fn sign(
    keys: &[SigningKey],
    id: &str,
    now: Timestamp,
    body: &[u8],
) -> Option<Signature> {
    if keys.is_empty() {
        return None;
    }
    let timestamp = now.timestamp().to_string();
    let values: Vec<String> = keys
        .iter()
        .map(|key| {
            let mut mac = Hmac::<Sha256>::new_from_slice(key.expose())
                .expect("HMAC takes keys of any length");
            for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
                mac.update(part);
            }
            format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()))
        })
        .collect();
    Some(Signature {
        timestamp,
        value: values.join(" "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the specification's own libraries.
    #[test]
    fn the_published_example_has_its_published_signature() {
        let key = SigningKey::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let now = Timestamp::from_timestamp(1_614_265_330, 0).unwrap();
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let signature = sign(&[key], id, now, br#"{"test": 2432232314}"#).unwrap();
        assert_eq!(signature.timestamp, "1614265330");
        assert_eq!(
            signature.value,
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }
}
