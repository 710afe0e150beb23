//! How far TLS must go.
//!
//! Without a word about it, a server on another machine must prove who it is: its certificate must
//! be trusted by the system and name the host. That is what Azure's servers do, and passwords and
//! rows travel there. What is written is obeyed, also when it is weaker.

use super::names::Name;
use super::{Context, Refusal, Values};
use crate::config::connection::{Roots, Tls, TlsMode};
use crate::config::parse::certificates::certificates;

pub(super) fn tls(
    values: &Values<'_>,
    loopback: bool,
    context: &Context<'_>,
) -> Result<Tls, Refusal> {
    let written = values.get(Name::SslMode).map(mode).transpose()?;
    let trusting = values.get(Name::TrustServerCertificate);
    let trusting = trusting.map(truth).transpose()?;
    let roots = roots(values, context)?;
    let default = match (loopback, &roots) {
        (_, Some(_)) | (false, None) => TlsMode::VerifyFull,
        (true, None) => TlsMode::Prefer,
    };
    let mode = match (written, trusting) {
        (Some(mode), Some(true)) if mode.verifies() => {
            return Err(Refusal::new(
                "the connection verifies the certificate and trusts every one at the same time",
                "keep one of sslmode and Trust Server Certificate",
            ));
        }
        (None, Some(true)) => TlsMode::Require,
        // As Npgsql reads it.
        (Some(TlsMode::Require), Some(false)) => TlsMode::VerifyCa,
        (written, _) => written.unwrap_or(default),
    };
    match (mode, roots) {
        (TlsMode::Disable | TlsMode::Prefer, Some(_)) => Err(Refusal::new(
            "the connection has a certificate to trust and an sslmode that does not look at it",
            "write sslmode=verify-full or verify-ca",
        )),
        // As libpq reads it: who names an authority wants it to be looked at.
        (TlsMode::Require, roots @ Some(_)) => Ok(Tls {
            mode: TlsMode::VerifyCa,
            roots,
        }),
        (mode, roots) => Ok(Tls { mode, roots }),
    }
}

fn mode(written: &str) -> Result<TlsMode, Refusal> {
    let plain = written.to_lowercase().replace([' ', '-', '_'], "");
    let plain = plain.strip_prefix("mysqlsslmode.").unwrap_or(&plain);
    match plain {
        "disable" | "disabled" | "none" => Ok(TlsMode::Disable),
        "prefer" | "preferred" => Ok(TlsMode::Prefer),
        "require" | "required" => Ok(TlsMode::Require),
        "verifyca" => Ok(TlsMode::VerifyCa),
        "verifyfull" | "verifyidentity" => Ok(TlsMode::VerifyFull),
        _ => Err(Refusal::new(
            "the sslmode of the connection is not known here",
            "write disable, prefer, require, verify-ca or verify-full",
        )),
    }
}

fn truth(written: &str) -> Result<bool, Refusal> {
    match written.to_lowercase().as_str() {
        "true" | "yes" | "1" => Ok(true),
        "false" | "no" | "0" => Ok(false),
        _ => Err(Refusal::new(
            "Trust Server Certificate is neither true nor false",
            "leave it out, and name the authority to trust with sslrootcert",
        )),
    }
}

/// In the connection, or in `NAME__sslrootcert` beside it; a path, or the certificates themselves.
fn roots(values: &Values<'_>, context: &Context<'_>) -> Result<Option<Roots>, Refusal> {
    let inside = values.get(Name::RootCertificate);
    let beside = ["sslrootcert", "sslca"]
        .iter()
        .find_map(|key| context.settings.filled(&format!("{}__{key}", context.name)));
    let Some(written) = beside.or(inside) else {
        return Ok(None);
    };
    // The roots of the system are trusted anyway.
    if written == "system" {
        return Ok(None);
    }
    if written.contains("-----BEGIN") {
        // An app setting may have lost its line breaks to an escape.
        let text = written.replace("\\n", "\n");
        if certificates(&text).is_none() {
            return Err(Refusal::new(
                "the certificate to trust cannot be read",
                "it must be PEM text: -----BEGIN CERTIFICATE----- and its lines",
            ));
        }
        return Ok(Some(Roots::Pem(text)));
    }
    Ok(Some(Roots::File(context.root.join(written))))
}
