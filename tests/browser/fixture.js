// An app at three in the morning: what the status routes could answer. A Rust test holds it against
// the schemas of openapi.json, so that the page is looked at with answers that can be.
"use strict";

const HOSTILE = `<script>window.owned = 1</script><img src=x onerror="window.owned = 2">`;

module.exports = function fixture(now = Date.now()) {
  const ago = seconds => new Date(now - seconds * 1000).toISOString();
  const minute = back => new Date(Math.floor(now / 60000) * 60000 - back * 60000).toISOString();
  // Always the same noise.
  const noise = n => ((Math.sin(n * 12.9898) * 43758.5453) % 1 + 1) % 1;
  const pulse = (rows, delay, from = 0, to = 60) => Array.from({ length: to - from }, (_, i) => to - 1 - i)
    .filter(back => noise(back + rows) > 0.08)
    .map(back => ({ minute: minute(back), rows: Math.round(rows * (0.55 + 0.9 * noise(back * 3 + rows))), delay_ms: delay === null ? null : Math.round(delay * (0.6 + 1.3 * noise(back + 7))) }));
  const history = (total, each) => Array.from({ length: 18 }, (_, i) => 17 - i).map(back => ({
    version: 5210 - back, at: ago(40 + back * back * 200), checkpoint: `${total - back * back * each} (${total - back * back * each})`, batch_id: "b4c1e6a0d2f84e51", rows: 500 - back * 7,
    total_rows: total - back * back * each, schema: "5f1c09ab", source: "9ad2c7e1", by: null,
  }));

  const counters = (batches, rows, failed_ticks) => ({ batches, rows, failed_ticks, quarantined: 3, bytes: rows * 212, resent: 118, failed_commits: 1,
    read: { count: batches, us: batches * 4200 }, deliver: { count: batches, us: batches * 38500 }, commit: { count: batches * 2, us: batches * 21000 } });
  const poller = (name, changes) => ({
    poller: name, function: name[0].toUpperCase() + name.slice(1), health: "ok", phase: "idle", headline: "All is well: everything visible is delivered.", findings: [],
    source: { connection: "postgres://shop-db:5432/shop", rows: `public.${name}`, cursor: ["updated_at"], key: ["id"], fingerprint: "9ad2c7e1c0ffee5512aa" },
    checkpoint: { place: "2026-11-18 03:11:42.118 (884213)", version: 5210, updated_at: ago(14), batch_id: "b4c1e6a0d2f84e51", bytes: 18234, schema: "5f1c09ab77e2" },
    lag: { rows: 0, exact: true, seconds: 0, basis: "nothing" }, lease: null, trouble: null,
    late: { grade: "PROVEN", reason: null, remembered: 0, witnesses: 0, oldest_witness: null, oldest_witness_since: null, oldest_witness_is: null },
    sinks: [{ name: "hook", required: true, rows: 1884213, failure: null, behind: null }],
    quarantine: { rows: 0, oldest: null, unreadable: 0 }, interval_s: 15, last_success: ago(14),
    counters: counters(5210, 1884213, 12), pulse: pulse(420, 1800), reviews: [], ...changes,
  });

  const failing = "hook answered 503 Service Unavailable: upstream connect error; the 41st attempt at event 2d3803f2";
  const pollers = [
    poller("payments", {
      health: "stuck", phase: "failing", headline: `hook has not taken anything for 38 min: ${failing}`,
      findings: [
        { code: "receiver_failing", level: "stuck", says: `hook has not taken anything for 38 min: ${failing}.`, next: "Mend the receiver; nothing is lost, the rows wait. If it is down on purpose: `dbtick pause payments --reason \"hook is down\"`.", since: ago(2290) },
        { code: "lag", level: "attention", says: "At least 10,000 rows wait, the oldest for 38 min.", next: "They come by themselves when the receiver takes them again.", since: ago(2290) },
      ],
      lag: { rows: 10000, exact: false, seconds: 2290, basis: "cursor" }, last_success: ago(2290),
      sinks: [
        { name: "hook", required: true, rows: 884213, behind: null, failure: { event_id: "2d3803f2a9c14b0e", attempts: 41, rejections: 0, first_at: ago(2290), last_at: ago(70), not_before: ago(-214), error: failing } },
        { name: "warehouse", required: false, rows: 871002, failure: null, behind: { since: ago(4200), place: "2026-11-18 02:01:07 (871002)" } },
      ],
      checkpoint: { place: "2026-11-18 02:33:10.551 (884213)", version: 5210, updated_at: ago(2290), batch_id: "b4c1e6a0d2f84e51", bytes: 48211, schema: "5f1c09ab77e2" },
      late: { grade: "PROVEN", reason: null, remembered: 214, witnesses: 1, oldest_witness: "transaction 8841", oldest_witness_since: ago(1900), oldest_witness_is: "pid 4177, user app, idle in transaction" },
      quarantine: { rows: 2, oldest: ago(93000), unreadable: 0 }, pulse: pulse(310, 2400, 39, 60), counters: counters(2210, 884213, 66),
      reviews: [{ kind: "failing", since: ago(2290), at: ago(600), who: "ada", why: "the hook team is called" }],
    }),
    poller("invoices", {
      health: "stuck", phase: "failing", headline: "The database refuses the password of INVOICES_DB.",
      findings: [{ code: "source_failed", level: "stuck", says: "The database refuses the password of the setting INVOICES_DB (user dbtick): password authentication failed.", next: "Correct the setting INVOICES_DB, then `dbtick check`.", since: ago(660) }],
      lag: null, late: null, trouble: { outcome: "source_failed", error: "the setting INVOICES_DB: password authentication failed for user \"dbtick\"", since: ago(660), last_at: ago(41) }, last_success: ago(675), pulse: pulse(35, null, 12, 60),
    }),
    poller("customers", {
      health: "attention", headline: "2 rows have been in quarantine for 25 h.", quarantine: { rows: 2, oldest: ago(91000), unreadable: 0 }, pulse: pulse(12, 900),
      findings: [{ code: "quarantine", level: "attention", says: "2 rows that hook never took have been in quarantine for 25 h.", next: "Look at them: `dbtick quarantine list customers`.", since: ago(91000) }],
    }),
    poller("hostile", {
      health: "attention", phase: "waiting", headline: `The receiver said ${HOSTILE}`,
      findings: [{ code: "receiver_failing", level: "attention", says: `The receiver said ${HOSTILE}`, next: `Try \`echo ${HOSTILE}\`.`, since: ago(120) }],
      sinks: [{ name: HOSTILE, required: true, rows: 1, behind: null, failure: { event_id: HOSTILE, attempts: 1, rejections: 0, first_at: ago(99), last_at: ago(9), not_before: null, error: HOSTILE } }],
      lease: { owner: HOSTILE, token: 7, acquired_at: ago(9), heartbeat_at: ago(3), expires_at: ago(-21), age_s: 3, expired: false },
      pulse: [],
    }),
    poller("stock", { health: "stopped", phase: "paused", headline: "Paused 2 h ago by ada: the warehouse is moved.", lag: { rows: 218, exact: true, seconds: 7300, basis: "last_commit" }, last_success: ago(7300),
      findings: [{ code: "paused", level: "stopped", says: "Paused 2 h ago by ada: the warehouse is moved.", next: "When it may go on: `dbtick resume stock`.", since: ago(7300) }], pulse: pulse(80, 700, 0, 1) }),
    poller("orders", { phase: "working", headline: "All is well: a tick is running.", lag: { rows: 37, exact: true, seconds: 2, basis: "cursor" }, last_success: ago(3), pulse: pulse(1900, 1400),
      lease: { owner: "shop/instance-3f/worker-1", token: 8812, acquired_at: ago(6), heartbeat_at: ago(2), expires_at: ago(-22), age_s: 2, expired: false } }),
    poller("shipments", {}),
  ];
  const app = { app: "shop-prod", at: ago(0), health: "stuck", pollers, faults: [] };
  const audit = name => [
    { at: ago(88000), who: "ada", what: "pause", why: "the receiver is moved" },
    { at: ago(86000), who: "http:key night-shift", what: "resume", why: "" },
    { at: ago(5000), who: "http:ada@example.com", what: "discard 1 quarantined row(s): 91c3", why: name === "hostile" ? HOSTILE : "a test order" },
  ];
  const details = Object.fromEntries(pollers.map(view => [view.poller, { ...view, history: history(884213, 900), audit: audit(view.poller),
    schema: [["id", "bigint", "key"], ["updated_at", "timestamp with time zone", "cursor"], ["amount", "numeric(12,2)", "data"], ["note", "text", "data"]].map(([name, type, role]) => ({ name, type, role })) }]));
  const rows = (name, count) => ({ poller: name, unreadable: 0, total: count, rows: Array.from({ length: count }, (_, i) => ({ event_id: ["2d3803f2a9c14b0e8c11d20f7be1a201", "91c37b30aa114b0e8c11d20f7be1a2ff"][i], sink: "hook", key: `{"id":${88100 + i}}`, quarantined_at: ago(93000 - i * 900), attempts: 3, reason: name === "hostile" ? HOSTILE : "400 Bad Request: amount must not be negative", superseded: i === 1 })) });
  const quarantine = Object.fromEntries(pollers.map(view => [view.poller, rows(view.poller, view.poller === "hostile" ? 1 : view.quarantine.rows)]));
  details.hostile.quarantine = { rows: 1, oldest: ago(93000), unreadable: 0 };
  const stuck = { grace_s: 7200, orphans: [
    { poller: "customers", kind: "quarantine", name: null, since: ago(91000), says: "2 rows were set aside and never sent again", review: null },
    { poller: "stock-2024", kind: "no_poller", name: null, since: ago(8e6), says: "the state of stock-2024 is here, and no function of the app has such a poller", review: { at: ago(86000), who: "ada", why: HOSTILE } },
  ] };
  return { app, details, quarantine, stuck };
};
module.exports.HOSTILE = HOSTILE;
