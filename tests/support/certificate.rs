//! Certificates for servers with TLS, made once by `openssl`: an authority that no system trusts,
//! and server certificates of `localhost` that it signed, or should not have.

use std::path::{Path, PathBuf};

use super::server;

pub struct Certificate {
    /// The authority: what a client has to trust.
    pub authority: PathBuf,
    /// Of `localhost`, not of 127.0.0.1.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What is wrong with a certificate; all else about it is right.
#[derive(Debug, Clone, Copy)]
pub enum Flaw {
    Expired,
    NotYetValid,
    /// Nobody stands behind it; the authority is another one.
    SelfSigned,
}

impl Certificate {
    pub fn with_flaw(flaw: Flaw, directory: &Path) -> Self {
        let target = directory.join("tls");
        server::copy_of("tls-flaws", &target, make_flawed);
        let name = match flaw {
            Flaw::Expired => "expired.pem",
            Flaw::NotYetValid => "later.pem",
            Flaw::SelfSigned => "self.pem",
        };
        Self {
            authority: target.join("ca.pem"),
            certificate: target.join(name),
            key: target.join("server.key"),
        }
    }

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

fn make_flawed(directory: &Path) {
    make(directory);
    let make = format!(
        "set -e; umask 077; cd {0}; touch index.txt; echo 01 >serial
         printf '[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\nserial=serial\nnew_certs_dir=.\n' >ca.cnf
         printf 'certificate=ca.pem\nprivate_key=ca.key\ndefault_md=sha256\nunique_subject=no\n' >>ca.cnf
         printf 'policy=p\n[p]\ncommonName=supplied\n' >>ca.cnf
         sign='openssl ca -batch -notext -config ca.cnf -extfile extensions -in server.csr'
         $sign -startdate 20200101000000Z -enddate 20200201000000Z -out expired.pem
         $sign -startdate 20900101000000Z -enddate 20910101000000Z -out later.pem
         openssl req -x509 -key server.key -days 3650 -subj '/CN=dbtick test of nobody' \
           -addext subjectAltName=DNS:localhost -addext basicConstraints=CA:FALSE -out self.pem",
        directory.display()
    );
    server::run(Path::new("sh"), &["-c", &make]);
}
