//! What a person can do when a storage service refuses.

use super::connection::{Access, ServiceEndpoint};
use super::failure::Answer;
use crate::clock::Timestamp;

/// Signatures are refused beyond fifteen minutes; far below that a clock is worth a word.
const NOTEWORTHY_SKEW_MINUTES: i64 = 5;

/// What it takes to use a service as we do, in the words of Azure.
pub(crate) struct Needs {
    /// What may not be done without: "may not … here".
    pub(crate) to: &'static str,
    pub(crate) role: &'static str,
    /// Where the role is given, and what else may be needed.
    pub(crate) scope: &'static str,
    /// Of a shared access signature.
    pub(crate) permissions: &'static str,
}

/// `None` unless the answer is about who asks: 401 or 403.
pub(crate) fn about_rights(
    endpoint: &ServiceEndpoint,
    needs: &Needs,
    answer: &Answer,
    now: Timestamp,
) -> Option<String> {
    if !matches!(answer.status, 401 | 403) {
        return None;
    }
    let setting = endpoint.setting();
    let signed = !matches!(endpoint.access(), Access::Identity(_));
    let skew = match answer.date {
        Some(date) => (now - date).num_minutes(),
        None => 0,
    };
    if signed && skew.abs() >= NOTEWORTHY_SKEW_MINUTES {
        let way = if skew < 0 { "behind" } else { "ahead of" };
        return Some(format!(
            "this machine's clock is {} minutes {way} the store's, and signatures are good for 15: set \
             the clock",
            skew.abs()
        ));
    }
    let right = missing_right(endpoint, needs);
    Some(match answer.code.as_str() {
        "KeyBasedAuthenticationNotPermitted" => format!(
            "the account allows no keys: remove {setting} and set {setting}__accountName, and give the \
             app's identity the role {}",
            needs.role
        ),
        "AuthorizationFailure" => {
            format!("{right}; or the firewall of the account keeps this network out")
        }
        _ => right,
    })
}

fn missing_right(endpoint: &ServiceEndpoint, needs: &Needs) -> String {
    let setting = endpoint.setting();
    let Needs {
        to,
        role,
        scope,
        permissions,
    } = needs;
    match endpoint.access() {
        Access::Identity(_) => format!(
            "the identity of {setting} may not {to} here: give it the role {role} on {scope}"
        ),
        Access::Sas(_) => format!(
            "the shared access signature in {setting} has expired or lacks a permission: it needs \
             {permissions}"
        ),
        Access::SharedKey { .. } => {
            format!("the account key in {setting} is not accepted: copy it again from the portal")
        }
    }
}

/// Rights that are there and not needed (S8); as far as that can be told without asking Azure.
pub(crate) fn spare_rights(endpoint: &ServiceEndpoint, needs: &Needs) -> Option<String> {
    let setting = endpoint.setting();
    let Needs { role, scope, .. } = needs;
    match endpoint.access() {
        Access::SharedKey { .. } if endpoint.is_for_development() => None,
        Access::SharedKey { .. } => Some(format!(
            "{setting} holds an account key, which may do everything in the account; an identity with the \
             role {role} on {scope} is enough: set {setting}__accountName in its place"
        )),
        Access::Sas(signature) => {
            let more = spare_permissions(signature.secret());
            (!more.is_empty()).then(|| {
                format!(
                    "the shared access signature in {setting} permits what is never done here (sp={more}); it \
                     needs {}",
                    needs.permissions
                )
            })
        }
        // What it may do is Azure's to know.
        Access::Identity(_) => None,
    }
}

/// Of `sp`, what none of ours needs: read, add, create, write, delete, list.
fn spare_permissions(signature: &str) -> String {
    let pairs = signature.split('&').filter_map(|pair| pair.split_once('='));
    let granted = pairs.filter(|(name, _)| *name == "sp");
    let letters = granted.flat_map(|(_, letters)| letters.chars());
    letters
        .filter(|letter| !"racwdl".contains(*letter))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::azure::connection::{Service, StorageConnection};
    use crate::config::Settings;
    use crate::store::blob::NEEDS;

    /// S8.
    #[test]
    fn rights_that_could_go_are_named_and_no_secret_is() {
        let account =
            "DefaultEndpointsProtocol=https;EndpointSuffix=core.windows.net;AccountName=shop";
        let signature = |letters| {
            format!(
                "BlobEndpoint=https://shop.blob.core.windows.net;SharedAccessSignature=sv=1&sp={letters}&sig=Y2FuYXJ5"
            )
        };
        for (settings, expected) in [
            (
                vec![("S", format!("{account};AccountKey=Y2FuYXJ5"))],
                Some("S__accountName"),
            ),
            (vec![("S", signature("racwdlup"))], Some("(sp=up)")),
            (vec![("S", signature("racwdl"))], None),
            (vec![("S", "UseDevelopmentStorage=true".to_owned())], None),
            (
                vec![
                    ("S__accountName", "shop".to_owned()),
                    ("S__credential", "managedidentity".to_owned()),
                ],
                None,
            ),
        ] {
            let settings: Settings = settings.into_iter().collect();
            let connection = StorageConnection::resolve(&settings, "S").unwrap();
            let endpoint = connection.service(Service::Blob).unwrap();
            let said = spare_rights(&endpoint, &NEEDS);
            match expected {
                None => assert_eq!(said, None),
                Some(part) => {
                    let said = said.unwrap();
                    assert!(said.contains(part) && !said.contains("Y2Fu"), "{said}");
                }
            }
        }
    }
}
