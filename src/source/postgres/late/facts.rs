//! What the catalogue says about a cursor's column and its tables, in one document: as long as that
//! is the same, so is the judgement.

use serde::Deserialize;
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;
use sqlx::postgres::types::Oid;

use super::tables::{FAMILY, Tables};
use super::trigger::Trigger;
use crate::source::postgres::catalogue::Origin;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Facts {
    /// As SQL writes its name.
    pub(super) user: String,
    /// Of the origin; `None` where a query makes the cursor up.
    pub(super) column: Option<Column>,
    pub(super) sequence: Option<Sequence>,
    /// The kinds of table that its values are in, with all that differs between them.
    #[serde(default)]
    pub(super) places: Option<Vec<Place>>,
    /// `relkind` of all tables.
    #[serde(default)]
    pub(super) kinds: Option<Vec<String>>,
    pub(super) subscribed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) default: Option<String>,
    /// `attidentity`
    pub(super) identity: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Sequence {
    /// With its schema, as SQL writes it.
    pub(super) name: String,
    pub(super) cache: i64,
    pub(super) increment: i64,
    pub(super) cycle: bool,
    pub(super) readable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Place {
    /// `relkind`
    pub(super) kind: String,
    /// `attidentity`
    pub(super) identity: String,
    #[serde(default)]
    pub(super) triggers: Option<Vec<Trigger>>,
}

/// What a statement about the tables is asked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) tables: Tables,
    /// The column as the source has it, and the one in a table that it comes from.
    pub(super) shown: Option<Origin>,
    pub(super) base: Option<Origin>,
}

/// The subscriptions of a database can be hidden from its users.
const SUBSCRIBED: &str = "EXISTS (SELECT FROM pg_catalog.pg_subscription_rel s \
     WHERE s.srrelid IN (SELECT oid FROM family))";

impl Facts {
    /// An expression of type `jsonb`, over the parameters that `Asked` binds.
    pub(super) fn sql(sees_subscriptions: bool) -> String {
        let subscribed = match sees_subscriptions {
            true => SUBSCRIBED,
            false => "false",
        };
        format!(
            "({FAMILY}, held(oid) AS ( \
                 SELECT $4::oid UNION \
                 SELECT i.inhrelid FROM held JOIN pg_catalog.pg_inherits i ON i.inhparent = held.oid) \
             SELECT jsonb_build_object( \
             'user', quote_ident(current_user), \
             'view', (SELECT pg_catalog.pg_get_viewdef(c.oid) FROM pg_catalog.pg_class c \
                 WHERE c.oid = $6::oid AND c.relkind = 'v'), \
             'column', (SELECT jsonb_build_object('name', a.attname, 'identity', a.attidentity, \
                     'default', pg_catalog.pg_get_expr(d.adbin, d.adrelid)) \
                 FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d \
                 ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
                 WHERE a.attrelid = $4::oid AND a.attnum = $5::int2), \
             'sequence', (SELECT jsonb_build_object('name', format('%I.%I', n.nspname, c.relname), \
                     'cache', s.seqcache, 'increment', s.seqincrement, 'cycle', s.seqcycle, \
                     'readable', has_sequence_privilege(c.oid, 'SELECT') \
                         AND has_schema_privilege(n.oid, 'USAGE')) \
                 FROM pg_catalog.pg_sequence s JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid \
                 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                 WHERE s.seqrelid IN ( \
                     SELECT d.objid FROM pg_catalog.pg_depend d \
                     WHERE d.classid = 'pg_catalog.pg_class'::regclass \
                     AND d.refclassid = 'pg_catalog.pg_class'::regclass \
                     AND d.refobjid = $4::oid AND d.refobjsubid = $5::int2 AND d.deptype = 'i' \
                     UNION ALL \
                     SELECT d.refobjid FROM pg_catalog.pg_attrdef f JOIN pg_catalog.pg_depend d \
                     ON d.classid = 'pg_catalog.pg_attrdef'::regclass AND d.objid = f.oid \
                     AND d.refclassid = 'pg_catalog.pg_class'::regclass \
                     WHERE f.adrelid = $4::oid AND f.adnum = $5::int2) \
                 ORDER BY s.seqrelid LIMIT 1), \
             'places', (SELECT jsonb_agg(DISTINCT jsonb_build_object( \
                     'kind', c.relkind, 'identity', a.attidentity, \
                     'triggers', (SELECT jsonb_agg(jsonb_build_object('events', t.tgtype, \
                             'enabled', t.tgenabled, 'language', l.lanname, 'body', p.prosrc, \
                             'conditional', t.tgqual IS NOT NULL OR t.tgattr::text <> '') \
                             ORDER BY t.tgname) \
                         FROM pg_catalog.pg_trigger t \
                         JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid \
                         JOIN pg_catalog.pg_language l ON l.oid = p.prolang \
                         WHERE t.tgrelid = c.oid AND t.tgtype & 3 = 3))) \
                 FROM held JOIN pg_catalog.pg_class c ON c.oid = held.oid \
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = \
                     (SELECT o.attname FROM pg_catalog.pg_attribute o \
                      WHERE o.attrelid = $4::oid AND o.attnum = $5::int2)), \
             'kinds', (SELECT jsonb_agg(DISTINCT c.relkind) \
                 FROM family JOIN pg_catalog.pg_class c ON c.oid = family.oid), \
             'subscribed', {subscribed}))"
        )
    }

    /// With the text that it was made from.
    pub(super) async fn load(
        connection: &mut PgConnection,
        sees_subscriptions: bool,
        asked: &Asked,
    ) -> Result<(Self, String), sqlx::Error> {
        let sql = format!(
            "SELECT f::text, md5(f::text) FROM {} AS t(f)",
            Self::sql(sees_subscriptions)
        );
        let (text, version): (String, String) = asked
            .bind_as(sqlx::query_as(AssertSqlSafe(sql)))
            .fetch_one(connection)
            .await?;
        let facts =
            serde_json::from_str(&text).map_err(|error| sqlx::Error::Decode(error.into()))?;
        Ok((facts, version))
    }
}

type QueryAs<'q, O> = sqlx::query::QueryAs<'q, sqlx::Postgres, O, sqlx::postgres::PgArguments>;

impl Asked {
    pub(super) fn bind_as<'q, O>(&self, query: QueryAs<'q, O>) -> QueryAs<'q, O> {
        let oid = |origin: Option<Origin>| Oid(origin.map_or(0, |origin| origin.relation));
        query
            .bind(self.tables.schemas.clone())
            .bind(self.tables.names.clone())
            .bind(self.tables.with_siblings)
            .bind(oid(self.base))
            .bind(self.base.map_or(0, |base| base.number))
            .bind(oid(self.shown))
    }
}
