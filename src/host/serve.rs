//! Opens the port and serves until told to stop.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpSocket;
use tokio_util::task::TaskTracker;

use super::{Handler, router};
use crate::stop::Stop;

const BACKLOG: u32 = 1024;
/// For the last answers to be written, once the last invocation has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        cause: std::io::Error,
    },
    #[error("the server failed")]
    Server(#[source] std::io::Error),
}

/// Returns once `stop` was raised and running invocations have ended.
pub async fn serve(handler: Handler, port: u16, stop: Stop) -> Result<(), ServeError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = (|| {
        let socket = TcpSocket::new_v4()?;
        // A restarted handler gets the port of its predecessor.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    })()
    .map_err(|cause| ServeError::Listen { address, cause })?;
    let running = handler.running.clone();
    let served = axum::serve(listener, router(Arc::new(handler)))
        .with_graceful_shutdown(stop.clone().raised())
        .into_future();
    tokio::select! {
        biased;
        served = served => served.map_err(ServeError::Server),
        () = ended(stop, running) => Ok(()),
    }
}

/// Connections that never sent a whole request would otherwise keep the process for ever.
async fn ended(stop: Stop, running: TaskTracker) {
    stop.raised().await;
    running.close();
    running.wait().await;
    tokio::time::sleep(LAST_WORDS).await;
}
