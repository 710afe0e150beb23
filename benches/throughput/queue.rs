//! Looks into a queue that dbtick has filled.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use dbtick::azure::Azure;
use dbtick::azure::connection::{Service, StorageConnection};
use dbtick::azure::queue::Queue;
use dbtick::clock::SystemClock;
use dbtick::config::Settings;

use crate::receiver::Seen;

/// Long enough that no message is seen twice.
const UNSEEN: Duration = Duration::from_secs(3600);

pub(crate) async fn seen(connection: &str, name: &str) -> Seen {
    let settings = Settings::from_iter([("QUEUES", connection)]);
    let connection = StorageConnection::resolve(&settings, "QUEUES").unwrap();
    let endpoint = Arc::new(connection.service(Service::Queue).unwrap());
    let azure = Azure::new(Arc::new(SystemClock)).unwrap();
    let queue = Queue::new(&azure, endpoint, name, Arc::new(SystemClock));
    let mut seen = Seen::default();
    loop {
        let messages = queue.receive(UNSEEN).await.unwrap();
        if messages.is_empty() {
            return seen;
        }
        for message in messages {
            seen.take_body(&BASE64.decode(message.text.as_bytes()).unwrap());
        }
    }
}
