//! The local Functions host.
