//! The table and trigger that write down deletions: printed, never run.

use crate::source::survey::{Class, Database, Survey, Surveyed};

use super::proposal::Proposal;

/// What the tombstone table of a table is called.
pub(super) fn table_name(table: &str) -> String {
    format!("{table}_deleted")
}

/// Statements for the owner of the database to read and run.
pub(super) fn ddl(survey: &Survey, proposal: &Proposal) -> String {
    let quote = |name: &str| match survey.database {
        Database::MySql => format!("`{}`", name.replace('`', "``")),
        Database::Sqlite | Database::Postgres => format!("\"{}\"", name.replace('"', "\"\"")),
    };
    let column = |name: &String| survey.columns.iter().find(|column| column.name == *name);
    let mut order: Vec<&Surveyed> = proposal.cursor.iter().filter_map(column).collect();
    let key: Vec<&Surveyed> = proposal.key.iter().filter_map(column).collect();
    order.extend(
        key.iter()
            .filter(|column| !proposal.cursor.contains(&column.name)),
    );
    let columns: Vec<_> = order
        .iter()
        .map(|column| format!("  {} {} NOT NULL", quote(&column.name), column.type_name))
        .collect();
    let names: Vec<_> = order.iter().map(|column| quote(&column.name)).collect();
    let values: Vec<_> = order
        .iter()
        .map(|column| match proposal.cursor.contains(&column.name) {
            true => now(survey.database, column),
            false => format!("OLD.{}", quote(&column.name)),
        })
        .collect();
    let at = |name: &str| match survey.database {
        Database::Sqlite => quote(name),
        Database::Postgres | Database::MySql => {
            format!("{}.{}", quote(&survey.schema), quote(name))
        }
    };
    let gone = at(&table_name(&survey.table));
    let insert = format!(
        "INSERT INTO {gone} ({}) VALUES ({})",
        names.join(", "),
        values.join(", ")
    );
    let table = format!(
        "CREATE TABLE {gone} (\n{},\n  PRIMARY KEY ({})\n);\n",
        columns.join(",\n"),
        names.join(", ")
    );
    let trigger = quote(&format!("{}_on_delete", survey.table));
    let source = at(&survey.table);
    let trigger = match survey.database {
        Database::Sqlite => {
            format!("CREATE TRIGGER {trigger} AFTER DELETE ON {source} BEGIN\n  {insert};\nEND;\n")
        }
        Database::Postgres => {
            let function = at(&format!("{}_on_delete", survey.table));
            format!(
                "CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$\nBEGIN\n  {insert};\n  RETURN OLD;\nEND $$;\n\
                 CREATE TRIGGER {trigger} AFTER DELETE ON {source} FOR EACH ROW EXECUTE FUNCTION {function}();\n"
            )
        }
        Database::MySql => {
            format!("CREATE TRIGGER {trigger} AFTER DELETE ON {source} FOR EACH ROW\n  {insert};\n")
        }
    };
    table + &trigger
}

/// The cursor of a deletion, in the time zone of whoever deletes, as the table's own rows have it. A number must come from where the source's own come from, which no
/// catalogue tells.
fn now(database: Database, column: &Surveyed) -> String {
    let text = match (column.class, database) {
        (Class::Instant | Class::Local, Database::Postgres) => "clock_timestamp()",
        (Class::Instant | Class::Local, Database::MySql) => "CURRENT_TIMESTAMP(6)",
        // SQLite compares text: the format must be the one that the table's own rows have.
        (Class::Instant | Class::Local, Database::Sqlite) => {
            "strftime('%Y-%m-%d %H:%M:%f', 'now') /* in the format of the table's own rows */"
        }
        (Class::Integer | Class::Other, _) => {
            return format!(
                "/* the next {}, as the table's own rows get it */",
                column.name
            );
        }
    };
    text.to_owned()
}
