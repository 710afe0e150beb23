//! A storage account as the Functions host finds it in app settings.
//!
//! `AzureWebJobsNAME` is looked at before `NAME`. A plain value is a connection string and wins;
//! else the settings below the name (`NAME__accountName` and its siblings) tell of an account and an
//! identity. Faults name settings and never show a value.

mod section;
mod string;
#[cfg(test)]
mod tests;

use std::fmt;

use azure_core::credentials::Secret;
use reqwest::Url;

use super::identity::IdentityConfig;
use crate::config::{SettingError, Settings};

/// One storage account and the right to use it. Not printable beyond its name.
#[derive(Clone, PartialEq, Eq)]
pub struct StorageConnection {
    /// The app setting in which it was found.
    setting: String,
    access: Access,
    blob: Option<Url>,
    queue: Option<Url>,
    table: Option<Url>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    Blob,
    Queue,
    Table,
}

/// One service of an account, ready to be talked to.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceEndpoint {
    setting: String,
    access: Access,
    url: Url,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Access {
    SharedKey {
        account: String,
        key: Secret,
    },
    /// Without its question mark.
    Sas(Secret),
    Identity(IdentityConfig),
}

/// Why a name is no storage connection, and what to set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; {hint}")]
pub struct ConnectionFault {
    pub problem: String,
    pub hint: String,
}

impl StorageConnection {
    /// The connection called `name`, by the order of the host.
    pub fn resolve(settings: &Settings, name: &str) -> Result<Self, ConnectionFault> {
        for base in [format!("AzureWebJobs{name}"), name.to_owned()] {
            for setting in [
                format!("ConnectionStrings:{base}"),
                format!("CUSTOMCONNSTR_{base}"),
                base.clone(),
            ] {
                let plain = filled(settings, &setting)?;
                if let Some(value) = plain {
                    return string::parse(&setting, value);
                }
            }
            if settings
                .under(&base)
                .any(|(_, _, value)| !value.trim().is_empty())
            {
                return section::parse(settings, &base);
            }
        }
        Err(ConnectionFault::new(
            format!("no app setting has this name: {name}"),
            format!(
                "set {name} to the connection string of a storage account (UseDevelopmentStorage=true \
                 for Azurite), or {name}__accountName to an account that the app's identity may use; \
                 on this machine in local.settings.json"
            ),
        ))
    }

    pub fn service(&self, service: Service) -> Result<ServiceEndpoint, ConnectionFault> {
        let url = match service {
            Service::Blob => &self.blob,
            Service::Queue => &self.queue,
            Service::Table => &self.table,
        };
        let setting = &self.setting;
        match url {
            Some(url) => Ok(ServiceEndpoint {
                setting: setting.clone(),
                access: self.access.clone(),
                url: url.clone(),
            }),
            None => Err(ConnectionFault::new(
                format!(
                    "the connection has no {} endpoint: {setting}",
                    service.label()
                ),
                match &self.access {
                    Access::Identity(_) => {
                        format!(
                            "set {setting}__accountName or {setting}__{}",
                            service.uri_key()
                        )
                    }
                    _ => format!(
                        "add AccountName or {} to the connection string in {setting}",
                        service.endpoint_key()
                    ),
                },
            )),
        }
    }
}

impl Service {
    pub(super) const ALL: [Self; 3] = [Self::Blob, Self::Queue, Self::Table];

    /// As in host names.
    fn label(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Queue => "queue",
            Self::Table => "table",
        }
    }

    fn endpoint_key(self) -> &'static str {
        match self {
            Self::Blob => "BlobEndpoint",
            Self::Queue => "QueueEndpoint",
            Self::Table => "TableEndpoint",
        }
    }

    fn uri_key(self) -> &'static str {
        match self {
            Self::Blob => "blobServiceUri",
            Self::Queue => "queueServiceUri",
            Self::Table => "tableServiceUri",
        }
    }

    fn development_port(self) -> u16 {
        match self {
            Self::Blob => 10_000,
            Self::Queue => 10_001,
            Self::Table => 10_002,
        }
    }
}

impl ServiceEndpoint {
    /// The app setting that errors name.
    #[must_use]
    pub fn setting(&self) -> &str {
        &self.setting
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// The address of something below the service, the shared access signature included: only for
    /// the client that calls it.
    pub(crate) fn address<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if let Access::Sas(signature) = &self.access {
            url.set_query(Some(signature.secret()));
        }
        url
    }

    /// The emulator's, whose key everybody knows.
    pub(crate) fn is_for_development(&self) -> bool {
        matches!(&self.access, Access::SharedKey { account, .. } if account == string::DEVELOPMENT_ACCOUNT)
    }

    /// Host and port: where it leads, and nothing else.
    #[must_use]
    pub fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }
}

impl fmt::Debug for StorageConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StorageConnection({})", self.setting)
    }
}

impl fmt::Debug for ServiceEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceEndpoint({})", self.setting)
    }
}

impl ConnectionFault {
    pub(in crate::azure) fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
            hint: hint.into(),
        }
    }
}

/// The value of a setting; one that is empty or blank counts as none.
pub(in crate::azure) fn filled<'a>(
    settings: &'a Settings,
    name: &str,
) -> Result<Option<&'a str>, ConnectionFault> {
    match settings.present(name) {
        Ok(value) => Ok(Some(value.trim()).filter(|value| !value.is_empty())),
        Err(fault @ SettingError::KeyVault(_)) => Err(ConnectionFault::new(
            fault.to_string(),
            "check that the app's identity may read the secret; locally, put the value itself into the setting",
        )),
        Err(_) => Ok(None),
    }
}

/// An address of a service: a host, perhaps a path, and nothing that could be a secret.
fn service_url(written: &str) -> Option<Url> {
    let mut url = Url::parse(written.trim()).ok()?;
    let plain = url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    let web = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
    if !plain || !web {
        return None;
    }
    url.path_segments_mut().ok()?.pop_if_empty();
    Some(url)
}

/// What Azure allows, and what fits into a host name.
fn is_account_name(name: &str) -> bool {
    (3..=63).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// A signature or a token must not travel readable; a signed request may.
fn is_private(url: &Url) -> bool {
    url.scheme() == "https"
        || url.host_str().is_some_and(|host| {
            host == "localhost"
                || host
                    .trim_matches(['[', ']'])
                    .parse::<std::net::IpAddr>()
                    .is_ok_and(|ip| ip.is_loopback())
        })
}
