use std::path::Path;

use super::*;
use crate::config::Settings;
use crate::config::connection::{Login, Roots, Server, TlsMode};

const CANARY: &str = "canary";

fn read(prefix: &str, value: &str) -> Result<(String, Connection), Refusal> {
    let settings = Settings::default();
    let context = Context {
        settings: &settings,
        root: Path::new("/app"),
        name: "ORDERS_DB",
    };
    recognised(prefix, value, &context)
}

#[track_caller]
fn server(value: &str) -> (Kind, Server) {
    match read("", value) {
        Ok((_, Connection::Postgres(server))) => (Kind::Postgres, server),
        Ok((_, Connection::MySql(server))) => (Kind::MySql, server),
        other => panic!("{value}: {other:?}"),
    }
}

#[track_caller]
fn refused(value: &str, expected: &str) {
    let refusal = match read("", value) {
        Err(refusal) => format!("{} ({})", refusal.problem, refusal.hint),
        Ok((identity, _)) => panic!("{value}: {identity}"),
    };
    assert!(refusal.contains(expected), "{value}: {refusal}");
    assert!(!refusal.contains(CANARY), "{value}: {refusal}");
}

#[test]
fn sqlite_is_recognised_in_every_spelling() {
    for (value, expected) in [
        ("sqlite:orders.db", "orders.db"),
        ("sqlite:data", "data"),
        ("sqlite://data/orders.db", "data/orders.db"),
        ("sqlite:///var/orders.db", "/var/orders.db"),
        ("SQLite:/var/orders", "/var/orders"),
        ("../orders.sqlite3", "../orders.sqlite3"),
        ("orders.SQLITE", "orders.SQLITE"),
        ("Data Source=orders.dat", "orders.dat"),
        ("data source = a b.db ;", "a b.db"),
    ] {
        match read("", value) {
            Ok((_, Connection::Sqlite { file })) => {
                assert_eq!(file, Path::new("/app").join(expected), "{value}");
            }
            other => panic!("{value}: {other:?}"),
        }
    }
    refused("sqlite::memory:", "gone with each tick");
    refused("Data Source=:memory:", "gone with each tick");
    refused("sqlite:", "names no file");
    refused("sqlite:a.db?mode=rwc", "parameters that are not known");
    refused(
        "Data Source=a.db;Password=canary",
        "parameters that are not known",
    );
    refused("https://canary.example/x.db", "names no database");
    refused("orders", "names no database");
}

#[test]
fn one_server_has_one_identity_in_every_form() {
    for value in [
        "postgres://u:p@DB.example.org/shop",
        "postgresql://u:other@db.example.org:5432/shop?sslmode=require",
        "Postgres://db.example.org/shop?user=u&password=p",
        "Server=db.example.org;Database=shop;Port=5432;User Id=u;Password=p;Ssl Mode=Require;",
        "Host=db.example.org:5432;Username=u;Password='p';Database=\"shop\";Timeout=7",
        "host=db.example.org dbname=shop user=u password=p sslmode=require",
        "host='db.example.org'  dbname = 'shop' user=u password=''",
        "Data Source=db.example.org;User Id=u;Database=shop;SSL Mode=Prefer",
    ] {
        let (identity, _) = read("", value).unwrap();
        assert_eq!(identity, "postgres://db.example.org:5432/shop", "{value}");
    }
    for value in [
        "mysql://u:p@h/shop",
        "mariadb://u:p@h:3306/shop?ssl-mode=REQUIRED",
        "Server=h; Port=3306; Database=shop; Uid=u; Pwd=p; SslMode=Required;",
        "Server=\"h\";UserID = \"u\";Password=\"p\";Database=\"shop\";SslMode=MySqlSslMode.Required;",
    ] {
        let (identity, _) = read("", value).unwrap();
        assert_eq!(identity, "mysql://h:3306/shop", "{value}");
    }
    let plain = "Server=h;Database=shop;User Id=u;Password=p";
    assert_eq!(
        read("POSTGRESQLCONNSTR_", plain).unwrap().0,
        "postgres://h:5432/shop"
    );
    assert_eq!(
        read("MYSQLCONNSTR_", plain).unwrap().0,
        "mysql://h:3306/shop"
    );
    let v6 = "postgres://u:p@[::1]/shop";
    assert_eq!(read("", v6).unwrap().0, "postgres://[::1]:5432/shop");
}

#[test]
fn the_host_the_port_the_names_and_the_modes_tell_the_databases_apart() {
    for (rest, expected) in [
        ("Server=x.postgres.database.azure.com", Kind::Postgres),
        ("Server=x.mysql.database.azure.com", Kind::MySql),
        ("Server=x.mariadb.database.azure.com", Kind::MySql),
        ("Server=h;Port=6432", Kind::Postgres),
        ("Server=h;Port=3306", Kind::MySql),
        ("Server=h;SSL Mode=Require", Kind::Postgres),
        ("Server=h;SslMode=Preferred", Kind::MySql),
        ("Server=h;SslMode=VerifyFull;SslCa=ca.pem", Kind::MySql),
        (
            "Server=h;SslMode=VerifyFull;Root Certificate=ca.pem",
            Kind::Postgres,
        ),
    ] {
        let value = format!("{rest};Database=d;User Id=u;Password=p");
        assert_eq!(server(&value).0, expected, "{value}");
    }
    let ambiguous = "may be PostgreSQL as well as MySQL";
    refused("Server=h;Database=d;User Id=u;Password=canary", ambiguous);
    refused(
        "Server=h;Port=5432;SslMode=Required;Database=d;Uid=u;Pwd=canary",
        ambiguous,
    );
}

#[test]
fn a_password_may_hold_any_character() {
    for (value, expected) in [
        ("postgres://u:a%40b%2Fc%3F%23%25%3A@h/d", "a@b/c?#%:"),
        ("postgres://u:a@b@h/d", "a@b"),
        ("postgres://u:p+q%20r@h/d", "p+q r"),
        ("postgres://u:%C3%A9%F0%9F%94%91@h/d", "é🔑"),
        (
            "Host=h;Port=5432;Database=d;Username=u;Password=\"a;b=c\"",
            "a;b=c",
        ),
        (
            "Host=h;Port=5432;Database=d;Username=u;Password='it''s \"so\"'",
            "it's \"so\"",
        ),
        (
            "Host=h;Port=5432;Database=d;Username=u;Password=\"x\"\"y\"",
            "x\"y",
        ),
        (
            "Host=h;Port=5432;Database=d;Username=u;Password=a=b'c\"d%2F\\e",
            "a=b'c\"d%2F\\e",
        ),
        ("host=h dbname=d user=u password=a;b", "a;b"),
        (
            r"host=h dbname=d user=u password='it\'s \\ here; ok'",
            r"it's \ here; ok",
        ),
        (r"host=h dbname=d user=u password=a\ b", "a b"),
        (r"password='\'x' host=h dbname=d user=u", "'x"),
    ] {
        let Login::Password(password) = server(value).1.login else {
            panic!("{value}");
        };
        assert_eq!(password.expose(), expected, "{value}");
    }
}

#[test]
fn without_a_word_about_it_other_machines_are_verified() {
    for (value, expected) in [
        ("postgres://u:p@db/d", TlsMode::VerifyFull),
        ("mysql://u:p@db/d", TlsMode::VerifyFull),
        ("postgres://u:p@localhost/d", TlsMode::Prefer),
        ("postgres://u:p@127.0.0.1/d", TlsMode::Prefer),
        ("mysql://u:p@[::1]/d", TlsMode::Prefer),
        (
            "postgres://u:p@localhost/d?sslrootcert=ca.pem",
            TlsMode::VerifyFull,
        ),
        ("postgres://u:p@db/d?sslmode=disable", TlsMode::Disable),
        ("postgres://u:p@db/d?sslmode=prefer", TlsMode::Prefer),
        ("postgres://u:p@db/d?sslmode=require", TlsMode::Require),
        (
            "postgres://u:p@db/d?sslmode=require&sslrootcert=ca.pem",
            TlsMode::VerifyCa,
        ),
        (
            "postgres://u:p@db/d?sslmode=require&sslrootcert=system",
            TlsMode::Require,
        ),
        ("postgres://u:p@db/d?sslmode=verify-ca", TlsMode::VerifyCa),
        (
            "postgres://u:p@db/d?sslmode=verify-full",
            TlsMode::VerifyFull,
        ),
        (
            "mysql://u:p@db/d?ssl-mode=VERIFY_IDENTITY",
            TlsMode::VerifyFull,
        ),
        ("mysql://u:p@db/d?ssl-mode=VERIFY_CA", TlsMode::VerifyCa),
        ("mysql://u:p@db/d?ssl-mode=DISABLED", TlsMode::Disable),
        (
            "Host=h;Port=5432;Database=d;Username=u;Trust Server Certificate=true",
            TlsMode::Require,
        ),
        (
            "Host=h;Database=d;Username=u;Ssl Mode=Require;Trust Server Certificate=false",
            TlsMode::VerifyCa,
        ),
    ] {
        assert_eq!(server(value).1.tls.mode, expected, "{value}");
    }
    refused(
        "postgres://u:canary@db/d?sslmode=allow",
        "disable, prefer, require",
    );
    refused(
        "postgres://u:canary@db/d?sslmode=prefer&sslrootcert=x",
        "does not look at it",
    );
    refused(
        "postgres://u:canary@db/d?sslmode=verify-ca&trustservercertificate=true",
        "at the same time",
    );
}

#[test]
fn the_authority_to_trust_may_stand_beside_the_connection() {
    let (_, inside) = server("postgres://u:p@db/d?sslrootcert=certs/ca.pem");
    assert_eq!(
        inside.tls.roots,
        Some(Roots::File("/app/certs/ca.pem".into()))
    );
    let pem = "-----BEGIN CERTIFICATE-----\\nMAA=\\n-----END CERTIFICATE-----";
    for (key, value, expected) in [
        (
            "ORDERS_DB__sslrootcert",
            "/etc/ca.pem",
            Some("File(/etc/ca.pem)"),
        ),
        ("orders_db__SslCa", "ca.pem", Some("File(/app/ca.pem)")),
        ("ORDERS_DB__sslrootcert", pem, Some("Pem")),
        (
            "ORDERS_DB__sslrootcert",
            "-----BEGIN CERTIFICATE-----",
            None,
        ),
    ] {
        let settings = Settings::from_iter([(key, value)]);
        let context = Context {
            settings: &settings,
            root: Path::new("/app"),
            name: "ORDERS_DB",
        };
        match (recognised("", "postgres://u:p@db/d", &context), expected) {
            (Ok((_, Connection::Postgres(server))), Some(expected)) => {
                assert_eq!(format!("{:?}", server.tls.roots.unwrap()), expected);
            }
            (Err(refusal), None) => assert!(refusal.problem.contains("cannot be read")),
            (other, _) => panic!("{key}: {other:?}"),
        }
    }
}

#[test]
fn what_cannot_be_read_is_refused_and_never_shown() {
    for (value, expected) in [
        (
            "jdbc:postgresql://h/d?user=u&password=canary",
            "leave out jdbc:",
        ),
        ("sqlserver://u:canary@h/d", "SQL Server is not available"),
        (
            "Server=tcp:x.database.windows.net,1433;Initial Catalog=d;User Id=u;Password=canary",
            "SQL Server",
        ),
        ("postgres://u:canary@h1,h2/d", "several servers"),
        (
            "postgres://u:canary@h:54x/d",
            "not a number from 1 to 65535",
        ),
        ("postgres://u:canary@h:0/d", "not a number from 1 to 65535"),
        ("postgres://u:canary#x@h/d", "# is %23"),
        ("postgres://u:canary/x@h/d", "percent-encode"),
        ("postgres://u:canary?x@h/d", "percent-encode"),
        ("postgres://u:50%canary@h/d", "% is %25"),
        ("postgres://u:canary@h/", "names no database"),
        ("postgres://u:canary@h", "names no database"),
        ("postgres://h/d", "names no user"),
        ("postgres://u:canary@/d", "names no server"),
        (
            "Host=/run/canary;Database=d;User=u;Port=5432",
            "unix socket",
        ),
        (
            "Host=h;Port=5432;Database=d;User=u;Password=a;canary",
            "not Key=Value",
        ),
        (
            "Host=h;Port=5432;Database=d;User=u;Password=a;canary=b",
            "parameter 6 of the connection",
        ),
        (
            "Host=h;Port=5432;Database=d;User=u;Passwort=canary",
            "did you mean password?",
        ),
        (
            "Host=h;Port=5432;Database=d;User=u;Pasword=canary",
            "did you mean password?",
        ),
        (
            "Host=h;Port=5432;Database=d;User=u;Password=\"canary",
            "not closed",
        ),
        (
            "Host=h;Port=5432;Database=d;User=u;Password=\"canary\"x",
            "behind a closing quote",
        ),
        ("host=h dbname=d user=u password='canary", "not closed"),
        (
            "Host=h;Port=5432;Database=d;User=u;Password={your_password}",
            "placeholder",
        ),
        (
            "Host=h;Server=canary;Port=5432;Database=d;User=u",
            "says Server twice",
        ),
        ("postgres://u:canary@h/d?user=v", "says User Id twice"),
        (
            "postgres://u:canary@h/d?application_name=x",
            "dbtick decides it",
        ),
        ("postgres://u:canary@h/d?connect_timeout=0", "from 1 to 60"),
        ("postgres://u:canary@h/d?max_pool_size=0", "from 1 to 1000"),
        (
            "Host=h;Port=5432;Database=d;User=u;Search Path=canary",
            "schema.table",
        ),
    ] {
        refused(value, expected);
    }
}

#[test]
fn a_connection_says_how_many_may_be_open() {
    for (value, expected) in [
        ("postgres://u@h/d", None),
        ("mysql://u@h/d?max_pool_size=3", Some(3)),
        (
            "Host=h;Port=5432;Database=d;User=u;Maximum Pool Size=100",
            Some(100),
        ),
        (
            "Server=h;Port=3306;Database=d;User=u;Max Pool Size=1",
            Some(1),
        ),
    ] {
        assert_eq!(server(value).1.most_connections, expected, "{value}");
    }
}

#[test]
fn debug_shows_where_a_connection_leads_and_not_who_uses_it() {
    let (_, connection) = read("", "postgres://canary:canary@db/shop").unwrap();
    let shown = format!("{connection:?}");
    assert!(shown.contains("db") && shown.contains("shop"), "{shown}");
    assert!(!shown.contains(CANARY), "{shown}");
}
