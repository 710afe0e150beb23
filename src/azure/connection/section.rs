//! `NAME__accountName`, `NAME__blobServiceUri`, `NAME__credential` and their siblings: an account,
//! and an identity that may use it.

use super::{
    Access, ConnectionFault, Service, StorageConnection, filled, is_account_name, service_url,
};
use crate::azure::identity::IdentityConfig;
use crate::config::Settings;

pub(super) fn parse(settings: &Settings, base: &str) -> Result<StorageConnection, ConnectionFault> {
    let get = |key: &str| filled(settings, &format!("{base}__{key}"));
    let account = get("accountName")?;
    if account.is_some_and(|account| !is_account_name(account)) {
        return Err(ConnectionFault::new(
            format!("is not the name of a storage account: {base}__accountName"),
            "lower-case letters and digits",
        ));
    }
    let url = |service: Service| {
        let key = service.uri_key();
        for key in [key, "serviceUri"] {
            let Some(written) = get(key)? else { continue };
            let url = service_url(written).filter(|url| url.scheme() == "https");
            let Some(url) = url else {
                return Err(ConnectionFault::new(
                    format!("is not an https address of a service, or has a query: {base}__{key}"),
                    "write it like https://ACCOUNT.blob.core.windows.net; tokens travel over https only",
                ));
            };
            let host = url.host_str().unwrap_or_default();
            let another = Service::ALL
                .into_iter()
                .filter(|other| *other != service)
                .any(|other| host.contains(&format!(".{}.", other.label())));
            if key != "serviceUri" || !another {
                return Ok(Some(url));
            }
        }
        Ok(account.and_then(|account| {
            let label = service.label();
            service_url(&format!("https://{account}.{label}.core.windows.net"))
        }))
    };
    let connection = StorageConnection {
        setting: base.to_owned(),
        access: Access::Identity(IdentityConfig::resolve(settings, base)?),
        blob: url(Service::Blob)?,
        queue: url(Service::Queue)?,
        table: url(Service::Table)?,
    };
    if connection.blob.is_none() && connection.queue.is_none() && connection.table.is_none() {
        return Err(ConnectionFault::new(
            format!("the settings below the name tell of no storage account: {base}"),
            format!(
                "set {base}__accountName, or {base}__blobServiceUri where the account is not in \
                 core.windows.net"
            ),
        ));
    }
    Ok(connection)
}
