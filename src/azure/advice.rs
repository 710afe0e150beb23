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
