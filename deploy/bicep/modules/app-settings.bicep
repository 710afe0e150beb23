// All settings of the app, in one place: what is not here is gone after the next deployment of this template.
param functionAppName string
param storageAccountName string
param stateAccountName string
param applicationInsightsConnectionString string
param vaultUri string

@description('Names of settings whose values are in the vault.')
param secretSettings array

@description('The others, by name.')
param settings object

var host = {
  AzureWebJobsStorage__accountName: storageAccountName
  AzureWebJobsStorage__credential: 'managedidentity'
  APPLICATIONINSIGHTS_CONNECTION_STRING: applicationInsightsConnectionString
  APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'Authorization=AAD'
  // The line of a tick is what alerts are made of: it must not be among what sampling leaves out.
  AzureFunctionsJobHost__logging__applicationInsights__samplingSettings__excludedTypes: 'Request;Trace'
}

var state = {
  STATE__accountName: stateAccountName
  STATE__credential: 'managedidentity'
}

// Names of secrets have no underscores.
var secrets = toObject(
  secretSettings,
  name => name,
  name => '@Microsoft.KeyVault(SecretUri=${vaultUri}secrets/${replace(name, '_', '-')})'
)

resource app 'Microsoft.Web/sites@2024-04-01' existing = {
  name: functionAppName
}

resource appSettings 'Microsoft.Web/sites/config@2024-04-01' = {
  parent: app
  name: 'appsettings'
  properties: union(settings, host, state, secrets)
}
