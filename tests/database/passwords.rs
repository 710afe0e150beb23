//! Passwords with any character, in every form, against real servers.

use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;

const NASTY: [&str; 12] = [
    "a;b=c",
    "it's",
    "say \"so\"",
    "'\"'",
    "p@ss:word/?#[]",
    "100%",
    "%41",
    " spaces inside ",
    "back\\slash\\\\",
    "{braces}",
    "päss wörd 🔑",
    "$&+,:;=?@#|'<>.^*()%!-",
];

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// URL, `Key=Value;` in both quotes, libpq.
fn forms(scheme: &str, port: u16, user: &str, password: &str) -> Vec<String> {
    let double = password.replace('"', "\"\"");
    let single = password.replace('\'', "''");
    let (encoded_user, encoded) = (percent_encoded(user), percent_encoded(password));
    let (database, mode) = match scheme {
        "mysql" => ("main", "SslMode=Preferred"),
        _ => ("postgres", "SSL Mode=Prefer"),
    };
    let mut forms = vec![
        format!("{scheme}://{encoded_user}:{encoded}@127.0.0.1:{port}/{database}"),
        format!(
            "Server=127.0.0.1;Port={port};Database={database};User Id={user};Password=\"{double}\";{mode}"
        ),
        format!(
            "Password='{single}';Host=127.0.0.1;Port={port};Database={database};Uid={user};{mode};"
        ),
    ];
    if scheme == "postgres" {
        let escaped = password.replace('\\', "\\\\").replace('\'', "\\'");
        forms.push(format!(
            "host=127.0.0.1 port={port} dbname={database} user={user} password='{escaped}'"
        ));
    }
    forms
}

#[tokio::test]
async fn a_password_of_any_characters_opens_postgres_in_every_form() {
    let postgres = Postgres::start().await;
    for (index, password) in NASTY.iter().enumerate() {
        let user = format!("user{index}");
        postgres.role(&user, password).await;
        for form in forms("postgres", postgres.port, &user, password) {
            crate::open(&form, &[])
                .await
                .unwrap_or_else(|error| panic!("{form}: {error}"));
        }
    }
}

#[tokio::test]
async fn a_password_of_any_characters_opens_mariadb_in_every_form() {
    let mariadb = MariaDb::start().await;
    for (index, password) in NASTY.iter().enumerate() {
        let user = format!("user{index}");
        mariadb.user(&user, password).await;
        for form in forms("mysql", mariadb.port, &user, password) {
            crate::open(&form, &[])
                .await
                .unwrap_or_else(|error| panic!("{form}: {error}"));
        }
    }
}
