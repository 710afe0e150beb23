//! How JSON becomes the text of a message, and how large it is then.

use data_encoding::BASE64;

use crate::azure::queue::LARGEST_MESSAGE;
use crate::config::MessageEncoding;

/// What [`MessageEncoding::size`] may be.
pub(super) const LARGEST: usize = LARGEST_MESSAGE;

impl MessageEncoding {
    /// What the service counts.
    pub(super) fn size(self, json: &[u8]) -> usize {
        match self {
            Self::Base64 => BASE64.encode_len(json.len()),
            Self::Text => self.weight(json),
        }
    }

    /// What may be summed up over the parts of a message, and [`most`](Self::most) of it fits.
    pub(super) fn weight(self, json: &[u8]) -> usize {
        match self {
            Self::Base64 => json.len(),
            // Whether the service counts a text before or after XML has escaped it is not written
            // anywhere; the larger of the two is safe.
            Self::Text => json.iter().map(|byte| escaped(*byte)).sum::<usize>() + foreign(json),
        }
    }

    pub(super) fn most(self) -> usize {
        match self {
            Self::Base64 => LARGEST / 4 * 3,
            Self::Text => LARGEST,
        }
    }

    pub(super) fn text(self, json: Vec<u8>) -> String {
        match self {
            Self::Base64 => BASE64.encode(&json),
            Self::Text => {
                let text = String::from_utf8(json)
                    .expect("JSON is UTF-8: what is not was encoded as base64");
                // Two characters that XML cannot carry, as JSON may write them too.
                text.replace('\u{fffe}', "\\ufffe")
                    .replace('\u{ffff}', "\\uffff")
            }
        }
    }
}

fn escaped(byte: u8) -> usize {
    match byte {
        b'&' => "&amp;".len(),
        b'<' | b'>' => "&lt;".len(),
        _ => 1,
    }
}

/// By how much those two characters grow: three bytes become six.
fn foreign(json: &[u8]) -> usize {
    let found = json
        .windows(3)
        .filter(|bytes| matches!(bytes, [0xef, 0xbf, 0xbe | 0xbf]));
    found.count() * 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_that_fits_is_what_the_service_stores_at_most() {
        for encoding in [MessageEncoding::Base64, MessageEncoding::Text] {
            let most = encoding.most();
            assert_eq!(encoding.text(vec![b'x'; most]).len(), LARGEST);
            assert!(encoding.size(&vec![b'x'; most + 1]) > LARGEST);
        }
    }

    #[test]
    fn text_is_weighed_as_xml_writes_it() {
        let json = r#"{"a":"<b> & \"c\"","d":"￾￿é"}"#;
        let text = MessageEncoding::Text.text(json.into());
        let xml = text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        let weight = MessageEncoding::Text.weight(json.as_bytes());
        assert_eq!(weight, xml.len(), "{xml}");
        let (before, after): (serde_json::Value, serde_json::Value) = (
            serde_json::from_str(json).unwrap(),
            serde_json::from_str(&text).unwrap(),
        );
        assert_eq!(before, after);
    }
}
