// For azd: a resource group, and the app in it. With plain az, app.bicep alone does for a group that is there.
targetScope = 'subscription'

@minLength(1)
@maxLength(40)
@description('Name of the environment: of the group, and in the names of what is in it.')
param environmentName string

@description('Where everything is made.')
param location string

@description('Object id of who deploys, who may then put secrets into the vault. Empty: nobody.')
param principalId string = ''

@allowed(['User', 'ServicePrincipal', 'Group'])
@description('What the object id is of.')
param principalType string = 'User'

@description('App settings that are no secrets, by name.')
param settings object = {}

@description('App settings that are secrets: names only. Their values are put into the vault.')
param secretSettings array = ['ORDERS_DB']

@description('The function that carries output bindings, if there is one.')
param relayFunction string = ''

@description('Queues that pollers put messages into.')
param queues array = []

@description('Whom to tell of alerts. Empty: they are shown, and nobody is told.')
param alertEmail string = ''

@description('A network of its own, and nothing of storage or vault open to the internet.')
param privateNetwork bool = false

resource group 'Microsoft.Resources/resourceGroups@2024-03-01' = {
  name: 'rg-${environmentName}'
  location: location
  tags: { 'azd-env-name': environmentName }
}

module app 'app.bicep' = {
  name: 'app'
  scope: group
  params: {
    environmentName: environmentName
    location: location
    principalId: principalId
    principalType: principalType
    settings: settings
    secretSettings: secretSettings
    relayFunction: relayFunction
    queues: queues
    alertEmail: alertEmail
    privateNetwork: privateNetwork
  }
}

output AZURE_RESOURCE_GROUP string = group.name
output AZURE_FUNCTION_APP_NAME string = app.outputs.functionAppName
output AZURE_KEY_VAULT_NAME string = app.outputs.vaultName
output AZURE_STORAGE_ACCOUNT_NAME string = app.outputs.storageAccountName
