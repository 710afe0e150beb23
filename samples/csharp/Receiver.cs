// Takes every event of dbtick once, although events come at least once. The tables are those of ../node/tables.sql.

using System.Text.Json;
using Npgsql;
using NpgsqlTypes;

public sealed record Failed(string id, string reason, bool retry);

/// <summary>The event is wrong, and stays so.</summary>
public sealed class NeverException(string message) : Exception(message);

public sealed class Receiver(NpgsqlDataSource database)
{
    /// <summary>Your effect. The copy could be written twice; the count could not, and is safe all the same.</summary>
    private static async Task Apply(NpgsqlConnection connection, string poller, JsonElement row)
    {
        var key = row.GetProperty("key").GetRawText();
        var data = row.GetProperty("data");
        if (row.GetProperty("op").GetString() == "delete")
        {
            await Run(connection, "DELETE FROM copies WHERE poller = $1 AND key = $2", poller, key);
        }
        else if (data.TryGetProperty("status", out var status) && status.ValueKind == JsonValueKind.String
            && status.GetString() == "impossible")
        {
            throw new NeverException("no order has this status");
        }
        else
        {
            await Run(connection, """
                INSERT INTO copies (poller, key, data) VALUES ($1, $2, $3)
                ON CONFLICT (poller, key) DO UPDATE SET data = excluded.data
                """, poller, key, data.GetRawText());
        }
        await Run(connection, """
            INSERT INTO changes (poller, key, count) VALUES ($1, $2, 1)
            ON CONFLICT (poller, key) DO UPDATE SET count = changes.count + 1
            """, poller, key);
    }

    /// <summary>Whether the event is new. Its id and its effect are one transaction: both are kept, or neither. Who
    /// takes the same event at the same time waits at the insert, and finds it taken.</summary>
    public async Task<bool> Take(string poller, JsonElement row)
    {
        await using var connection = await database.OpenConnectionAsync();
        await using var transaction = await connection.BeginTransactionAsync();
        await using var seen = new NpgsqlCommand(
            "INSERT INTO processed_events (id) VALUES ($1) ON CONFLICT DO NOTHING", connection);
        seen.Parameters.Add(new NpgsqlParameter { Value = row.GetProperty("id").GetString() });
        var isNew = await seen.ExecuteNonQueryAsync() == 1;
        if (isNew) await Apply(connection, poller, row);
        // Left without this, by an exception, it is rolled back.
        await transaction.CommitAsync();
        return isNew;
    }

    /// <summary>Every event that the answer does not name has been taken.</summary>
    public async Task<List<Failed>> TakeBatch(JsonElement batch)
    {
        var poller = batch.GetProperty("poller").GetString()!;
        var failed = new List<Failed>();
        var held = new HashSet<string>();
        foreach (var row in batch.GetProperty("events").EnumerateArray())
        {
            var id = row.GetProperty("id").GetString()!;
            var key = row.GetProperty("key").GetRawText();
            try
            {
                // A later version of a row must not overtake one that comes again.
                if (held.Contains(key)) throw new InvalidOperationException("an earlier event of this row comes again");
                await Take(poller, row);
            }
            catch (NeverException why)
            {
                failed.Add(new Failed(id, why.Message, false));
            }
            catch (Exception why)
            {
                held.Add(key);
                failed.Add(new Failed(id, why.Message, true));
            }
        }
        return failed;
    }

    /// <summary>The poller is text; key and data are JSON.</summary>
    private static async Task Run(NpgsqlConnection connection, string sql, string poller, params string[] documents)
    {
        await using var command = new NpgsqlCommand(sql, connection);
        command.Parameters.Add(new NpgsqlParameter { Value = poller });
        foreach (var document in documents)
        {
            command.Parameters.Add(new NpgsqlParameter { Value = document, NpgsqlDbType = NpgsqlDbType.Jsonb });
        }
        await command.ExecuteNonQueryAsync();
    }
}
