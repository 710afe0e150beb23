//! Certificates of authorities, as PEM text.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// `None` if there is none, or one that cannot be read.
pub(super) fn certificates(text: &str) -> Option<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    found.ok().filter(|found| !found.is_empty())
}
