//! Opens the port and serves until told to stop.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpSocket;

use super::{Handler, router};
use crate::stop::Stop;

const BACKLOG: u32 = 1024;

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
    axum::serve(listener, router(Arc::new(handler)))
        .with_graceful_shutdown(async move { stop.raised().await })
        .await
        .map_err(ServeError::Server)
}
