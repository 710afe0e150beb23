using Microsoft.Azure.Functions.Worker.Builder;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Npgsql;

var builder = FunctionsApplication.CreateBuilder(args);
builder.ConfigureFunctionsWebApplication();
var connection = Environment.GetEnvironmentVariable("DATABASE")
    ?? throw new InvalidOperationException("the app setting DATABASE is missing: the connection string of PostgreSQL");
builder.Services.AddSingleton(NpgsqlDataSource.Create(connection));
builder.Services.AddSingleton<Receiver>();
builder.Build().Run();
