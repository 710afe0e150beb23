//! A table, for `dbtick init`.

use sqlx::MySql;

use super::catalogue::{self, Described, Index};
use super::fault::Faults;
use super::shape::missing;
use crate::database::{Pool, Target};
use crate::source::SourceError;
use crate::source::survey::{Class, Database, Survey, Surveyed};

pub(in crate::source) async fn survey(
    target: Target,
    setting: &str,
    schema: &str,
    table: &str,
) -> Result<Survey, SourceError> {
    let faults = Faults::named(setting, schema);
    let failed = |error| faults.of("reading the catalogue", error);
    let mut connection = Pool::<MySql>::new(target).take().await?;
    let server = catalogue::server(&mut connection).await.map_err(failed)?;
    let found = catalogue::table(&mut connection, &server, schema, table)
        .await
        .map_err(failed)?;
    let Some(found) = found else {
        return Err(missing(&mut connection, faults, schema, table).await);
    };
    let columns = catalogue::columns(&mut connection, &found)
        .await
        .map_err(failed)?;
    let indexes = catalogue::indexes(&mut connection, &found)
        .await
        .map_err(failed)?;
    let of = |wanted: fn(&Index) -> bool| -> Vec<Vec<String>> {
        let wanted = indexes.iter().filter(|index| wanted(index));
        wanted.map(|index| index.columns.clone()).collect()
    };
    let primary_key = of(|index| index.name == "PRIMARY")
        .pop()
        .unwrap_or_default();
    let mut all = of(|_| true);
    // Every index of InnoDB ends with the primary key.
    for index in &mut all {
        let behind = primary_key.iter().filter(|name| !index.contains(name));
        let behind: Vec<_> = behind.cloned().collect();
        index.extend(behind);
    }
    Ok(Survey {
        database: Database::MySql,
        schema: found.schema,
        table: found.name,
        is_view: found.is_view,
        columns: columns.into_iter().map(surveyed).collect(),
        unique: of(|index| index.unique),
        indexes: all,
        primary_key,
    })
}

fn surveyed(column: Described) -> Surveyed {
    let class = match column.data_type.as_str() {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Class::Integer,
        "timestamp" => Class::Instant,
        "datetime" => Class::Local,
        _ => Class::Other,
    };
    Surveyed {
        name: column.name,
        type_name: column.column_type,
        nullable: column.nullable,
        class,
    }
}
