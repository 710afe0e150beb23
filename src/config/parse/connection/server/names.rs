//! What drivers call the parts of a connection, and what that says about the database.

use super::super::{Refusal, sql_server};
use super::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Host,
    Port,
    Database,
    User,
    Password,
    SslMode,
    RootCertificate,
    TrustServerCertificate,
    ConnectTimeout,
    MostConnections,
}

/// Without spaces, `-` and `_`, in lower case; Npgsql, MySqlConnector, MySQL, libpq and the portal.
const KNOWN: [(&str, Name); 37] = [
    ("host", Name::Host),
    ("server", Name::Host),
    ("hostname", Name::Host),
    ("servername", Name::Host),
    ("datasource", Name::Host),
    ("address", Name::Host),
    ("addr", Name::Host),
    ("networkaddress", Name::Host),
    ("port", Name::Port),
    ("database", Name::Database),
    ("databasename", Name::Database),
    ("db", Name::Database),
    ("dbname", Name::Database),
    ("initialcatalog", Name::Database),
    ("user", Name::User),
    ("username", Name::User),
    ("userid", Name::User),
    ("uid", Name::User),
    ("password", Name::Password),
    ("pwd", Name::Password),
    ("psw", Name::Password),
    ("sslmode", Name::SslMode),
    ("sslrootcert", Name::RootCertificate),
    ("rootcertificate", Name::RootCertificate),
    ("sslca", Name::RootCertificate),
    ("cacertificatefile", Name::RootCertificate),
    ("cacertificate", Name::RootCertificate),
    ("trustservercertificate", Name::TrustServerCertificate),
    ("connecttimeout", Name::ConnectTimeout),
    ("connectiontimeout", Name::ConnectTimeout),
    ("timeout", Name::ConnectTimeout),
    ("logintimeout", Name::ConnectTimeout),
    ("maxpoolsize", Name::MostConnections),
    ("maximumpoolsize", Name::MostConnections),
    ("servercertificate", Name::RootCertificate),
    ("sslcacert", Name::RootCertificate),
    ("sslrootcertificate", Name::RootCertificate),
];

const OURS: &str = "remove it: dbtick decides it";
const NOT_HERE: &str = "remove it: it is not available in this version";

/// Names that mean something elsewhere: normal form, as people write it, and what to do.
const REFUSED: [(&str, &str, &str); 28] = [
    ("applicationname", "application_name", OURS),
    ("fallbackapplicationname", "fallback_application_name", OURS),
    ("pooling", "Pooling", OURS),
    ("minpoolsize", "Min Pool Size", OURS),
    ("minimumpoolsize", "Minimum Pool Size", OURS),
    ("connectionlifetime", "Connection Lifetime", OURS),
    ("commandtimeout", "Command Timeout", OURS),
    ("defaultcommandtimeout", "Default Command Timeout", OURS),
    ("keepalive", "Keepalive", OURS),
    ("charset", "CharSet", OURS),
    ("characterset", "Character Set", OURS),
    ("clientencoding", "client_encoding", OURS),
    ("timezone", "Timezone", OURS),
    ("persistsecurityinfo", "Persist Security Info", OURS),
    ("statementcachecapacity", "statement-cache-capacity", OURS),
    ("options", "options", NOT_HERE),
    (
        "searchpath",
        "Search Path",
        "remove it and write schema.table in source.table",
    ),
    (
        "currentschema",
        "currentSchema",
        "remove it and write schema.table in source.table",
    ),
    ("channelbinding", "channel_binding", NOT_HERE),
    ("targetsessionattrs", "target_session_attrs", NOT_HERE),
    ("sslcert", "sslcert", NOT_HERE),
    ("sslkey", "sslkey", NOT_HERE),
    (
        "socket",
        "socket",
        "remove it and name a host; on this machine 127.0.0.1",
    ),
    ("hostaddr", "hostaddr", "write the address as host"),
    (
        "allowpublickeyretrieval",
        "AllowPublicKeyRetrieval",
        "remove it: passwords travel over TLS",
    ),
    (
        "ssl",
        "ssl",
        "write sslmode=require, or leave it out: TLS is the default",
    ),
    (
        "usessl",
        "useSSL",
        "write sslmode=require, or leave it out: TLS is the default",
    ),
    (
        "authentication",
        "Authentication",
        "remove it and set NAME__credential to managedidentity beside the connection",
    ),
];

impl Name {
    /// `index` is shown in place of a name that is not known: it may be a part of the password.
    pub(super) fn parse(written: &str, index: usize) -> Result<Self, Refusal> {
        let plain = normal(written);
        if let Some((_, name)) = KNOWN.iter().find(|(known, _)| *known == plain) {
            return Ok(*name);
        }
        if let Some((_, shown, hint)) = REFUSED.iter().find(|(known, ..)| *known == plain) {
            let problem = format!("the connection has a parameter of other drivers, {shown}");
            return Err(Refusal::new(problem, *hint));
        }
        if matches!(
            plain.as_str(),
            "encrypt" | "integratedsecurity" | "trustedconnection"
        ) {
            return Err(sql_server());
        }
        const ALIKE: f64 = 0.87;
        let alike = KNOWN
            .iter()
            .map(|(known, _)| (strsim::jaro_winkler(&plain, known), known))
            .filter(|(likeness, _)| *likeness >= ALIKE)
            .max_by(|(left, _), (right, _)| left.total_cmp(right));
        let quotes = "if it is a part of the password, put the password into quotes, or \
            percent-encode it in a URL";
        Err(Refusal::new(
            format!("parameter {} of the connection is not known", index + 1),
            match alike {
                Some((_, known)) => format!("did you mean {known}? {quotes}"),
                None => quotes.to_owned(),
            },
        ))
    }

    /// As an error shows it.
    pub(super) fn example(self) -> &'static str {
        match self {
            Self::Host => "Server",
            Self::Port => "Port",
            Self::Database => "Database",
            Self::User => "User Id",
            Self::Password => "Password",
            Self::SslMode => "sslmode",
            Self::RootCertificate => "sslrootcert",
            Self::TrustServerCertificate => "Trust Server Certificate",
            Self::ConnectTimeout => "Connect Timeout",
            Self::MostConnections => "Max Pool Size",
        }
    }
}

/// Which database a connection without scheme and prefix means, if everything in it agrees.
pub(super) fn kind(
    pairs: &[(String, String)],
    host: &str,
    port: Option<u16>,
) -> Result<Kind, Refusal> {
    let mut signs = Vec::new();
    if host.ends_with(".postgres.database.azure.com") {
        signs.push(Kind::Postgres);
    }
    if host.ends_with(".mysql.database.azure.com") || host.ends_with(".mariadb.database.azure.com")
    {
        signs.push(Kind::MySql);
    }
    match port {
        Some(5432 | 6432) => signs.push(Kind::Postgres),
        Some(3306) => signs.push(Kind::MySql),
        _ => {}
    }
    for (name, value) in pairs {
        match normal(name).as_str() {
            "dbname" | "sslrootcert" | "rootcertificate" | "trustservercertificate" => {
                signs.push(Kind::Postgres);
            }
            "sslca" | "cacertificatefile" => signs.push(Kind::MySql),
            "sslmode" => match value.to_lowercase().as_str() {
                "disable" | "prefer" | "require" => signs.push(Kind::Postgres),
                "none" | "disabled" | "preferred" | "required" => signs.push(Kind::MySql),
                value if value.starts_with("mysqlsslmode.") => signs.push(Kind::MySql),
                _ => {}
            },
            _ => {}
        }
    }
    match signs.split_first() {
        Some((first, rest)) if rest.iter().all(|sign| sign == first) => Ok(*first),
        _ => Err(Refusal::new(
            "the connection may be PostgreSQL as well as MySQL",
            "add Port=5432 or Port=3306, or write it as a URL: postgres://… or mysql://…",
        )),
    }
}

fn normal(name: &str) -> String {
    name.to_lowercase().replace([' ', '-', '_'], "")
}
