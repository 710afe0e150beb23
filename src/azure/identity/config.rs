//! Which identity the settings below a connection's name mean.

use azure_core::credentials::Secret;

use crate::azure::connection::{ConnectionFault, filled};
use crate::config::Settings;

/// An identity, told by `NAME__credential`, `NAME__clientId` and their siblings, or by a key of
/// function.json.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityConfig {
    setting: String,
    told_by: ToldBy,
    kind: Kind,
}

/// Where to look when it gets no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToldBy {
    /// The app settings below the name.
    Settings,
    /// A key of function.json.
    Key,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// The system's own, or the user-assigned one with this client id.
    ManagedIdentity { client_id: Option<String> },
    ClientSecret {
        tenant_id: String,
        client_id: String,
        client_secret: Secret,
    },
}

impl IdentityConfig {
    /// The managed identity only where the settings ask for it or the platform offers one: outside
    /// Azure there is nobody to ask, and nobody should wait for that.
    pub fn resolve(settings: &Settings, base: &str) -> Result<Self, ConnectionFault> {
        let get = |key: &str| filled(settings, &format!("{base}__{key}"));
        let managed = match get("credential")? {
            None => false,
            Some(choice) if choice.eq_ignore_ascii_case("managedidentity") => true,
            Some(_) => {
                return Err(ConnectionFault::new(
                    format!("is not a credential that is known here: {base}__credential"),
                    format!(
                        "write managedidentity, or remove it and set {base}__tenantId, \
                         {base}__clientId and {base}__clientSecret"
                    ),
                ));
            }
        };
        if get("managedIdentityResourceId")?.is_some() {
            return Err(ConnectionFault::new(
                format!(
                    "a user-assigned identity is named by its client id here: {base}__managedIdentityResourceId"
                ),
                format!("set {base}__clientId in its place"),
            ));
        }
        let (tenant_id, client_id) = (get("tenantId")?, get("clientId")?);
        let client_secret = get("clientSecret")?;
        let offered = filled(settings, "IDENTITY_ENDPOINT")?.is_some()
            && filled(settings, "IDENTITY_HEADER")?.is_some();
        let kind = match (managed, tenant_id, client_id, client_secret) {
            (false, Some(tenant_id), Some(client_id), Some(client_secret)) => {
                let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-');
                if !tenant_id.bytes().all(legal) {
                    return Err(ConnectionFault::new(
                        format!("is not the id of a tenant: {base}__tenantId"),
                        "it is a GUID, or a domain such as example.onmicrosoft.com",
                    ));
                }
                Kind::ClientSecret {
                    tenant_id: tenant_id.to_owned(),
                    client_id: client_id.to_owned(),
                    client_secret: Secret::new(client_secret.to_owned()),
                }
            }
            (true, _, client_id, _) => managed_identity(client_id),
            (false, tenant_id, client_id, client_secret) => {
                if tenant_id.is_some() || client_secret.is_some() {
                    let missing = [
                        ("tenantId", tenant_id),
                        ("clientId", client_id),
                        ("clientSecret", client_secret),
                    ];
                    let missing: Vec<String> = missing
                        .into_iter()
                        .filter(|(_, value)| value.is_none())
                        .map(|(key, _)| format!("{base}__{key}"))
                        .collect();
                    return Err(ConnectionFault::new(
                        format!(
                            "a client secret needs three settings, and not all are there: {base}"
                        ),
                        format!("set {}", missing.join(" and ")),
                    ));
                }
                if !offered {
                    return Err(ConnectionFault::new(
                        format!(
                            "no identity is known for the connection, and this is not an app with a managed identity: {base}"
                        ),
                        format!(
                            "on Azure turn on the app's identity, or set {base}__credential to managedidentity; \
                             elsewhere set {base}__tenantId, {base}__clientId and {base}__clientSecret, or put a \
                             connection string into {base}"
                        ),
                    ));
                }
                managed_identity(client_id)
            }
        };
        Ok(Self {
            setting: base.to_owned(),
            told_by: ToldBy::Settings,
            kind,
        })
    }

    /// A managed identity that a key of function.json asks for: the app's own, or the user-assigned
    /// one with this client id.
    #[must_use]
    pub fn of_the_app(key: &str, client_id: Option<String>) -> Self {
        Self {
            setting: key.to_owned(),
            told_by: ToldBy::Key,
            kind: Kind::ManagedIdentity { client_id },
        }
    }

    /// The connection or key whose identity it is, for errors.
    #[must_use]
    pub fn setting(&self) -> &str {
        &self.setting
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// What to look at when it gets no token.
    pub(super) fn hint(&self) -> String {
        let setting = &self.setting;
        match &self.kind {
            Kind::ManagedIdentity { client_id } if self.told_by == ToldBy::Key => match client_id {
                None => format!(
                    "on Azure turn on the system-assigned identity of the app, or name another with \
                     {setting}.client_id; elsewhere there is no managed identity: use bearer"
                ),
                Some(client_id) => format!(
                    "check that the identity {client_id} of {setting}.client_id is assigned to this \
                     app; outside Azure there is no managed identity: use bearer"
                ),
            },
            Kind::ManagedIdentity { client_id: None } => format!(
                "on Azure turn on the system-assigned identity of the app, or set {setting}__clientId to \
                 the one to use; elsewhere there is no managed identity: remove {setting}__credential and \
                 set {setting}__tenantId, {setting}__clientId and {setting}__clientSecret, or put a \
                 connection string into {setting}"
            ),
            Kind::ManagedIdentity { client_id: Some(_) } => format!(
                "check that the identity of {setting}__clientId is assigned to this app; outside Azure \
                 there is no managed identity"
            ),
            Kind::ClientSecret { .. } => format!(
                "check {setting}__tenantId, {setting}__clientId and {setting}__clientSecret"
            ),
        }
    }
}

fn managed_identity(client_id: Option<&str>) -> Kind {
    Kind::ManagedIdentity {
        client_id: client_id.map(str::to_owned),
    }
}
