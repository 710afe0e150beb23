//! The tables that rows come from: a table itself, or what the server's plan of a view or query reads.

use serde_json::Value;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row};

use crate::source::keyset::{Dialect, From};
use crate::source::postgres::catalogue::Class;
use crate::source::postgres::shape::PostgresShape;

/// By name, as a statement that reads them finds them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tables {
    pub(super) schemas: Vec<String>,
    pub(super) names: Vec<String>,
    /// A plan leaves out partitions that it needs not read today.
    pub(super) with_siblings: bool,
    /// A step of the plan whose rows are in no table of this database.
    pub(super) elsewhere: Option<String>,
}

/// The start of every statement about these tables and all that are above and below them: `$1` and
/// `$2` are their schemas and names, `$3` says whether to go down from those above too.
pub(super) const FAMILY: &str = "WITH RECURSIVE named(oid) AS ( \
         SELECT c.oid FROM unnest($1::text[], $2::text[]) AS r(schema, name) \
         JOIN pg_catalog.pg_namespace n ON n.nspname = r.schema \
         JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = r.name), \
     up(oid) AS ( \
         SELECT oid FROM named UNION \
         SELECT i.inhparent FROM up JOIN pg_catalog.pg_inherits i ON i.inhrelid = up.oid), \
     down(oid) AS ( \
         SELECT oid FROM up WHERE $3::bool OR oid IN (SELECT oid FROM named) UNION \
         SELECT i.inhrelid FROM down JOIN pg_catalog.pg_inherits i ON i.inhparent = down.oid), \
     family(oid) AS (SELECT oid FROM up UNION SELECT oid FROM down)";

impl Tables {
    pub(super) async fn of(
        connection: &mut PgConnection,
        shape: &PostgresShape,
    ) -> Result<Self, sqlx::Error> {
        let mut tables = Self::default();
        match (&shape.relation, &shape.shape.keyset.from) {
            (Some(relation), _) if relation.class != Class::View => {
                tables.add(&relation.schema, &relation.name);
            }
            (_, From::Query(query)) => {
                let rows = format!("(\n{}\n) AS \"q\"", query.sql());
                tables.planned(connection, &rows).await?;
            }
            (_, From::Table { schema, table }) => {
                let quote = |name: &str| Dialect::Postgres.quote(name);
                let rows = format!("{}.{}", quote(schema), quote(table));
                tables.planned(connection, &rows).await?;
            }
        }
        if let Some(From::Table { schema, table }) = shape
            .shape
            .keyset
            .tombstones
            .as_ref()
            .map(|tombstones| &tombstones.from)
        {
            tables.add(schema, table);
        }
        Ok(tables)
    }

    async fn planned(
        &mut self,
        connection: &mut PgConnection,
        rows: &str,
    ) -> Result<(), sqlx::Error> {
        let sql = format!("EXPLAIN (VERBOSE, FORMAT JSON) SELECT * FROM {rows}");
        let row = sqlx::raw_sql(AssertSqlSafe(sql))
            .fetch_one(connection)
            .await?;
        let bytes = row.try_get_raw(0)?;
        let plan: Value = serde_json::from_slice(bytes.as_bytes().map_err(sqlx::Error::Decode)?)
            .map_err(|error| sqlx::Error::Decode(error.into()))?;
        self.with_siblings = true;
        self.collect(&plan[0]["Plan"]);
        if self.names.is_empty() && self.elsewhere.is_none() {
            self.elsewhere = Some("a plan without a table".to_owned());
        }
        Ok(())
    }

    fn collect(&mut self, node: &Value) {
        let step = node["Node Type"].as_str().unwrap_or_default();
        match (node["Schema"].as_str(), node["Relation Name"].as_str()) {
            (Some(schema), Some(name)) => self.add(schema, name),
            _ if is_of_others(step) => {}
            _ => self.elsewhere = Some(format!("a {step}")),
        }
        for inner in node["Plans"].as_array().into_iter().flatten() {
            self.collect(inner);
        }
    }

    fn add(&mut self, schema: &str, name: &str) {
        let mut known = self.schemas.iter().zip(&self.names);
        if !known.any(|(known, other)| (known.as_str(), other.as_str()) == (schema, name)) {
            self.schemas.push(schema.to_owned());
            self.names.push(name.to_owned());
        }
    }
}

/// Steps whose rows are those of other steps.
fn is_of_others(step: &str) -> bool {
    let scans = [
        "Bitmap Index Scan",
        "CTE Scan",
        "Subquery Scan",
        "Values Scan",
        "WorkTable Scan",
    ];
    scans.contains(&step) || !step.ends_with("Scan")
}
