//! Storage accounts and what is in them, by name.

use super::Reader;
use crate::azure::connection::{Service, ServiceEndpoint, StorageConnection};
use crate::config::fault::Place;

const DEFAULT_CONNECTION: &str = "AzureWebJobsStorage";

/// A connection, and where a fault of it belongs.
pub(super) struct NamedStorage {
    pub(super) connection: StorageConnection,
    place: Place,
}

impl Reader<'_> {
    /// The storage connection that the key `connection` of an object names.
    pub(super) fn storage(
        &mut self,
        object: &Place,
        connection: Option<&str>,
    ) -> Option<NamedStorage> {
        let place = match connection {
            Some(_) => object.key("connection"),
            None => object.clone(),
        };
        let name = self.text(&place, connection.unwrap_or(DEFAULT_CONNECTION))?;
        // A connection where its name belongs is a leaked secret already; do not spread it.
        if name.contains(['/', ';', '=', '@']) {
            self.faults.add(
                &place,
                "is a connection, and must be the name of an app setting",
                "put the connection into an app setting and write the setting's name here",
            );
            return None;
        }
        match StorageConnection::resolve(self.settings, &name) {
            Ok(connection) => Some(NamedStorage { connection, place }),
            Err(fault) => {
                self.faults.add(&place, fault.problem, fault.hint);
                None
            }
        }
    }

    pub(super) fn service(
        &mut self,
        storage: &NamedStorage,
        service: Service,
    ) -> Option<ServiceEndpoint> {
        match storage.connection.service(service) {
            Ok(endpoint) => Some(endpoint),
            Err(fault) => {
                self.faults.add(&storage.place, fault.problem, fault.hint);
                None
            }
        }
    }

    pub(super) fn container_name(&mut self, at: &Place, written: &str) -> Option<String> {
        self.storage_name(at, written, "container")
    }

    pub(super) fn queue_name(&mut self, at: &Place, written: &str) -> Option<String> {
        self.storage_name(at, written, "queue")
    }

    /// The rules of the service, so that no tick is the first to meet them.
    fn storage_name(&mut self, at: &Place, written: &str, of: &str) -> Option<String> {
        let name = self.text(at, written)?;
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let edges = name.starts_with('-') || name.ends_with('-') || name.contains("--");
        if (3..=63).contains(&name.len()) && name.bytes().all(legal) && !edges {
            return Some(name);
        }
        self.faults.add(
            at,
            format!("is not the name of a {of}: {written}"),
            "use 3 to 63 lower-case letters, digits and single dashes between them",
        );
        None
    }
}
