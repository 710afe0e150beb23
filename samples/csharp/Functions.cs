// One function for webhooks, one for queue messages. With WEBHOOK_SECRET set, what is not signed with it is refused.

using System.IO.Compression;
using System.Security.Cryptography;
using System.Text;
using System.Text.Json;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Mvc;
using Microsoft.Azure.Functions.Worker;

public sealed class Functions(Receiver receiver)
{
    [Function("orders")]
    public async Task<IActionResult> Orders(
        [HttpTrigger(AuthorizationLevel.Function, "post", Route = "orders")] HttpRequest request)
    {
        using var arrived = new MemoryStream();
        await request.Body.CopyToAsync(arrived);
        var body = arrived.ToArray();
        var secret = Environment.GetEnvironmentVariable("WEBHOOK_SECRET");
        if (!string.IsNullOrEmpty(secret) && !IsSigned(secret, request.Headers, body))
        {
            return new UnauthorizedResult();
        }
        if (request.Headers.ContentEncoding == "gzip") body = Decompress(body);
        using var batch = JsonDocument.Parse(body);
        return new OkObjectResult(new { failed = await receiver.TakeBatch(batch.RootElement) });
    }

    /// <summary>What throws comes again, and after five times goes to order-events-poison.</summary>
    [Function("order-events")]
    public async Task OrderEvents(
        [QueueTrigger("order-events", Connection = "AzureWebJobsStorage")] string message)
    {
        using var told = JsonDocument.Parse(message);
        if (told.RootElement.TryGetProperty("claim_check", out _))
        {
            throw new InvalidOperationException(
                "the event is too large for a message: read it from the blob that claim_check names");
        }
        await receiver.Take(told.RootElement.GetProperty("poller").GetString()!, told.RootElement.GetProperty("event"));
    }

    /// <summary>By Standard Webhooks, over the bytes as they arrived.</summary>
    private static bool IsSigned(string secret, IHeaderDictionary headers, byte[] body)
    {
        var (id, timestamp) = (headers["webhook-id"].ToString(), headers["webhook-timestamp"].ToString());
        if (!long.TryParse(timestamp, out var seconds)
            || Math.Abs(DateTimeOffset.UtcNow.ToUnixTimeSeconds() - seconds) > 300)
        {
            return false;
        }
        var key = Convert.FromBase64String(secret["whsec_".Length..]);
        byte[] signed = [.. Encoding.UTF8.GetBytes($"{id}.{timestamp}."), .. body];
        var expected = Encoding.UTF8.GetBytes("v1," + Convert.ToBase64String(HMACSHA256.HashData(key, signed)));
        return headers["webhook-signature"].ToString().Split(' ').Any(given =>
            CryptographicOperations.FixedTimeEquals(expected, Encoding.UTF8.GetBytes(given)));
    }

    private static byte[] Decompress(byte[] body)
    {
        using var whole = new MemoryStream();
        using var gzip = new GZipStream(new MemoryStream(body), CompressionMode.Decompress);
        gzip.CopyTo(whole);
        return whole.ToArray();
    }
}
