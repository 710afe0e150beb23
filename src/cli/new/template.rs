//! The templates, as they lie in function-templates: an installed dbtick needs no checkout.

use clap::ValueEnum;

/// A function that can be laid out as it is.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) name: &'static str,
    pub(super) function: &'static str,
    pub(super) readme: &'static str,
    /// What it reads; a later one may need an earlier one.
    pub(super) tables: &'static [Table],
    /// Without this other one it does nothing.
    pub(super) with: Option<&'static str>,
    /// It has a binding that is not built into the host.
    pub(super) has_extension: bool,
}

/// Tables with their triggers, in each dialect, and rows to try them with, in all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    pub(super) name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
    mysql: &'static str,
    pub(super) rows: &'static str,
}

/// Whose SQL the tables are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Database {
    Sqlite,
    #[value(alias = "postgresql")]
    Postgres,
    /// MariaDB too
    #[value(alias = "mariadb")]
    Mysql,
}

macro_rules! template {
    ($name:literal, $tables:expr) => {
        Template {
            name: $name,
            function: include_str!(concat!(
                "../../../function-templates/",
                $name,
                "/function.json"
            )),
            readme: include_str!(concat!("../../../function-templates/", $name, "/README.md")),
            tables: $tables,
            with: None,
            has_extension: false,
        }
    };
}

macro_rules! table {
    ($name:literal) => {
        Table {
            name: $name,
            sqlite: include_str!(concat!(
                "../../../function-templates/tables/",
                $name,
                ".sqlite.sql"
            )),
            postgres: include_str!(concat!(
                "../../../function-templates/tables/",
                $name,
                ".postgres.sql"
            )),
            mysql: include_str!(concat!(
                "../../../function-templates/tables/",
                $name,
                ".mysql.sql"
            )),
            rows: include_str!(concat!(
                "../../../function-templates/tables/",
                $name,
                ".rows.sql"
            )),
        }
    };
}

const ORDERS: Table = table!("orders");
const ORDERS_DELETED: Table = table!("orders_deleted");
const ORDER_LINES: Table = table!("order_lines");
const CUSTOMERS: Table = table!("customers");
const OUTBOX: Table = table!("outbox");

/// In the order in which people read them.
pub(super) const ALL: &[Template] = &[
    template!("poll-webhook", &[ORDERS]),
    template!("poll-queue", &[ORDERS]),
    Template {
        with: Some("relay"),
        ..template!("poll-relay", &[ORDERS])
    },
    Template {
        has_extension: true,
        ..template!("relay", &[])
    },
    template!("poll-many", &[ORDERS, ORDER_LINES]),
    template!("outbox", &[OUTBOX]),
    template!("soft-delete", &[CUSTOMERS]),
    template!("tombstones", &[ORDERS, ORDERS_DELETED]),
    template!("backfill", &[ORDERS]),
    Template {
        with: Some("shard"),
        ..template!("fan-out", &[])
    },
    Template {
        has_extension: true,
        ..template!("shard", &[ORDERS])
    },
    template!("status", &[]),
];

pub(super) fn named(name: &str) -> Option<&'static Template> {
    ALL.iter().find(|template| template.name == name)
}

/// The template that somebody may have meant.
pub(super) fn like(name: &str) -> Option<&'static str> {
    const ALIKE: f64 = 0.8;
    let plain = name.to_lowercase().replace('_', "-");
    let likeness = |template: &Template| strsim::jaro_winkler(&plain, template.name);
    ALL.iter()
        .map(|template| (likeness(template), template.name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

impl Template {
    /// The line below the title of its page.
    pub(super) fn summary(&self) -> &'static str {
        let mut lines = self.readme.lines().skip(1);
        lines.find(|line| !line.is_empty()).unwrap_or_default()
    }

    /// Whether it posts to a receiver.
    pub(super) fn posts(&self) -> bool {
        self.function.contains("\"webhook\"")
    }

    /// Whether messages go to a storage account, or come from there.
    pub(super) fn puts(&self) -> bool {
        self.function.contains("\"queue\"") || self.function.contains("queueTrigger")
    }
}

impl Table {
    pub(super) fn statements(&self, database: Database) -> &'static str {
        match database {
            Database::Sqlite => self.sqlite,
            Database::Postgres => self.postgres,
            Database::Mysql => self.mysql,
        }
    }
}

impl Database {
    /// What the app setting holds on a machine of one's own.
    pub(super) fn connection(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite:orders.db",
            Self::Postgres => "postgres://postgres:postgres@127.0.0.1:5432/postgres",
            Self::Mysql => "mysql://root:mysql@127.0.0.1:3306/shop",
        }
    }
}
