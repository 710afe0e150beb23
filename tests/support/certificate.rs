//! Certificates for servers with TLS, made once by `openssl`: an authority that no system trusts,
//! and a server certificate of `localhost` that it signed.

use std::path::{Path, PathBuf};

use super::server;

pub struct Certificate {
    /// The authority: what a client has to trust.
    pub authority: PathBuf,
    /// Of `localhost`, not of 127.0.0.1.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Certificate {
    /// In a directory of a server, readable for it alone.
    pub fn in_directory(directory: &Path) -> Self {
        let target = directory.join("tls");
        server::copy_of("tls-localhost", &target, make);
        Self {
            authority: target.join("ca.pem"),
            certificate: target.join("server.pem"),
            key: target.join("server.key"),
        }
    }
}

fn make(directory: &Path) {
    let make = format!(
        "set -e; umask 077; mkdir {0}; cd {0}
         new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650'
         openssl req -x509 $new -keyout ca.key -out ca.pem -subj '/CN=dbtick test authority' \
           -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
         openssl req $new -keyout server.key -out server.csr -subj /CN=localhost
         printf 'subjectAltName=DNS:localhost\\nbasicConstraints=CA:FALSE\\n' >extensions
         openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 \
           -extfile extensions -out server.pem",
        directory.display()
    );
    server::run(Path::new("sh"), &["-c", &make]);
}
