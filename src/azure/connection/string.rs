//! `Key=Value;…` as the portal hands it out.

use std::collections::BTreeMap;

use azure_core::credentials::Secret;
use data_encoding::BASE64;
use reqwest::Url;

use super::{
    Access, ConnectionFault, Service, StorageConnection, is_account_name, is_private, service_url,
};

/// Everything that a connection string may hold; the second half is for services we do not use.
const KNOWN: [&str; 14] = [
    "DefaultEndpointsProtocol",
    "AccountName",
    "AccountKey",
    "EndpointSuffix",
    "BlobEndpoint",
    "QueueEndpoint",
    "TableEndpoint",
    "SharedAccessSignature",
    "UseDevelopmentStorage",
    "DevelopmentStorageProxyUri",
    "FileEndpoint",
    "BlobSecondaryEndpoint",
    "QueueSecondaryEndpoint",
    "TableSecondaryEndpoint",
];

pub(super) const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
/// Published by Microsoft, the same on every machine: no secret.
const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const FORMS: &str = "copy the connection string from the portal (Access keys), or write \
                     UseDevelopmentStorage=true for Azurite";

pub(super) fn parse(setting: &str, value: &str) -> Result<StorageConnection, ConnectionFault> {
    let fault = |problem: &str, hint: &str| {
        ConnectionFault::new(format!("{problem}: {setting}"), hint.to_owned())
    };
    let parts = Parts::read(value).map_err(|problem| fault(problem, FORMS))?;
    if let Some(choice) = parts.get("UseDevelopmentStorage") {
        if !choice.eq_ignore_ascii_case("true") {
            return Err(fault(
                "UseDevelopmentStorage may only be true in the connection string",
                FORMS,
            ));
        }
        let proxy = match parts.get("DevelopmentStorageProxyUri") {
            None => "http://127.0.0.1",
            Some(proxy) => proxy,
        };
        return development(setting, proxy).ok_or_else(|| {
            fault(
                "DevelopmentStorageProxyUri is not an address in the connection string",
                "write it like http://127.0.0.1",
            )
        });
    }
    let account = parts.get("AccountName");
    if account.is_some_and(|account| !is_account_name(account)) {
        return Err(fault(
            "AccountName is not the name of a storage account in the connection string",
            "lower-case letters and digits",
        ));
    }
    let access = match (parts.get("AccountKey"), parts.get("SharedAccessSignature")) {
        (Some(key), None) => {
            let Some(account) = account else {
                return Err(fault("the connection string has no AccountName", FORMS));
            };
            if BASE64.decode(key.as_bytes()).is_err() {
                return Err(fault(
                    "AccountKey is not base64 in the connection string",
                    FORMS,
                ));
            }
            Access::SharedKey {
                account: account.to_owned(),
                key: Secret::new(key.to_owned()),
            }
        }
        (None, Some(signature)) => {
            let signature = signature.trim_start_matches('?');
            Access::Sas(Secret::new(signature.to_owned()))
        }
        (Some(_), Some(_)) => {
            return Err(fault(
                "the connection string has both AccountKey and SharedAccessSignature",
                "keep one of them",
            ));
        }
        (None, None) => {
            return Err(fault(
                "the connection string has neither AccountKey nor SharedAccessSignature",
                &format!(
                    "add one of them; to use the app's identity, remove {setting} and set {setting}__accountName"
                ),
            ));
        }
    };
    let mut connection = StorageConnection {
        setting: setting.to_owned(),
        access,
        blob: None,
        queue: None,
        table: None,
    };
    for service in Service::ALL {
        let url = match parts.get(service.endpoint_key()) {
            Some(written) => Some(service_url(written).ok_or_else(|| {
                let key = service.endpoint_key();
                let problem = format!("{key} is not an address in the connection string");
                fault(&problem, "write it like https://ACCOUNT.blob.core.windows.net")
            })?),
            None => match account {
                Some(account) => Some(parts.composed(account, service).ok_or_else(|| {
                    let problem = "DefaultEndpointsProtocol or EndpointSuffix is not legal in the connection string";
                    fault(problem, FORMS)
                })?),
                None => None,
            },
        };
        if let (Access::Sas(_), Some(url)) = (&connection.access, &url)
            && !is_private(url)
        {
            return Err(fault(
                "the connection string sends a shared access signature over plain http",
                "use https",
            ));
        }
        match service {
            Service::Blob => connection.blob = url,
            Service::Queue => connection.queue = url,
            Service::Table => connection.table = url,
        }
    }
    if connection.blob.is_none() && connection.queue.is_none() && connection.table.is_none() {
        return Err(fault(
            "the connection string names no account and no endpoint",
            FORMS,
        ));
    }
    Ok(connection)
}

fn development(setting: &str, proxy: &str) -> Option<StorageConnection> {
    let proxy = service_url(proxy)?;
    let at = |service: Service| -> Option<Url> {
        let mut url = proxy.clone();
        url.set_port(Some(service.development_port())).ok()?;
        url.set_path(DEVELOPMENT_ACCOUNT);
        Some(url)
    };
    Some(StorageConnection {
        setting: setting.to_owned(),
        access: Access::SharedKey {
            account: DEVELOPMENT_ACCOUNT.to_owned(),
            key: Secret::new(DEVELOPMENT_KEY),
        },
        blob: at(Service::Blob),
        queue: at(Service::Queue),
        table: at(Service::Table),
    })
}

struct Parts<'a>(BTreeMap<&'static str, &'a str>);

impl<'a> Parts<'a> {
    /// A problem names no part that is not known: it may be a piece of a key.
    fn read(value: &'a str) -> Result<Self, &'static str> {
        let mut parts = BTreeMap::new();
        for pair in value.split(';').filter(|pair| !pair.trim().is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err("is not a connection string of a storage account");
            };
            let Some(known) = KNOWN
                .iter()
                .find(|known| known.eq_ignore_ascii_case(key.trim()))
            else {
                return Err(
                    "the connection string has a part that is not known for storage accounts",
                );
            };
            if parts.insert(*known, value.trim()).is_some() {
                return Err("the connection string names a part twice");
            }
        }
        parts.retain(|_, value| !value.is_empty());
        Ok(Self(parts))
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).copied()
    }

    fn composed(&self, account: &str, service: Service) -> Option<Url> {
        let protocol = self.get("DefaultEndpointsProtocol").unwrap_or("https");
        let suffix = self.get("EndpointSuffix").unwrap_or("core.windows.net");
        let legal = suffix
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'));
        if !legal || !matches!(protocol.to_lowercase().as_str(), "http" | "https") {
            return None;
        }
        service_url(&format!(
            "{protocol}://{account}.{}.{suffix}",
            service.label()
        ))
    }
}
