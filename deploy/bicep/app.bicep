// Everything that one dbtick app needs, in one resource group. The order is: parts, identity, roles, and only then
// the app settings, so that a setting which points into the vault can be resolved when it is first read.

@minLength(1)
@maxLength(40)
@description('In the names of what is made here.')
param environmentName string

@description('Where everything is made.')
param location string = resourceGroup().location

@description('Object id of who deploys, who may then put secrets into the vault. Empty: nobody.')
param principalId string = ''

@allowed(['User', 'ServicePrincipal', 'Group'])
@description('What the object id is of.')
param principalType string = 'User'

@description('App settings that are no secrets, by name.')
param settings object = {}

@description('App settings that are secrets: names only. Their values are put into the vault, with - for _.')
param secretSettings array = ['ORDERS_DB']

@description('The function that carries output bindings, if there is one. Its key is in the vault as DBTICK-RELAY-KEY.')
param relayFunction string = ''

@description('The container that state, quarantine and ledger are kept in.')
param stateContainer string = 'db-state'

@description('Queues that pollers put messages into.')
param queues array = []

@description('A storage account for container and queues other than the host\'s, in this subscription. Pollers name it: "connection": "STATE".')
param stateAccountName string = ''

@description('The resource group of that account.')
param stateAccountGroup string = resourceGroup().name

@description('An e-mail address to tell of alerts. Empty: they are shown, and nobody is told.')
param alertEmail string = ''

@description('Alerts on failing pollers, quarantined rows and the like.')
param alerts bool = true

@description('A network of its own, with private endpoints, and nothing of storage or vault open to the internet.')
param privateNetwork bool = false

@description('A subnet that is there, delegated to Microsoft.App/environments, by which the app reaches its databases.')
param integrationSubnetId string = ''

@minValue(1)
@maxValue(1000)
@description('Timers run on one instance each; this bounds queue and HTTP functions.')
param maximumInstanceCount int = 40

@allowed([512, 2048, 4096])
@description('Of each instance.')
param instanceMemoryMB int = 2048

var suffix = uniqueString(subscription().id, resourceGroup().id, environmentName)
var tags = { 'azd-env-name': environmentName }
var ownAccount = empty(stateAccountName)
var deploymentContainer = 'app-package'
var relayKey = empty(relayFunction) ? [] : ['DBTICK_RELAY_KEY']

module monitoring 'modules/monitoring.bicep' = {
  name: 'monitoring'
  params: {
    location: location
    tags: tags
    suffix: suffix
    alertEmail: alertEmail
  }
}

module storage 'modules/storage.bicep' = {
  name: 'storage'
  params: {
    location: location
    tags: tags
    name: 'st${suffix}'
    deploymentContainer: deploymentContainer
    open: !privateNetwork
  }
}

module vault 'modules/vault.bicep' = {
  name: 'vault'
  params: {
    location: location
    tags: tags
    name: 'kv-${suffix}'
    open: !privateNetwork
  }
}

module network 'modules/network.bicep' = if (privateNetwork) {
  name: 'network'
  params: {
    location: location
    tags: tags
    suffix: suffix
    storageAccountName: storage.outputs.name
    vaultName: vault.outputs.name
  }
}

module functionApp 'modules/function-app.bicep' = {
  name: 'function-app'
  params: {
    location: location
    tags: union(tags, { 'azd-service-name': 'app' })
    name: 'func-${suffix}'
    storageAccountName: storage.outputs.name
    deploymentContainer: deploymentContainer
    subnetId: privateNetwork ? network!.outputs.appSubnetId : integrationSubnetId
    maximumInstanceCount: maximumInstanceCount
    instanceMemoryMB: instanceMemoryMB
  }
}

module hostRoles 'modules/roles-host.bicep' = {
  name: 'roles-host'
  params: {
    principalId: functionApp.outputs.principalId
    storageAccountName: storage.outputs.name
    applicationInsightsName: monitoring.outputs.applicationInsightsName
  }
}

module state 'modules/state.bicep' = {
  name: 'state'
  scope: resourceGroup(stateAccountGroup)
  params: {
    storageAccountName: ownAccount ? storage.outputs.name : stateAccountName
    container: stateContainer
    queues: queues
  }
}

module dbtickRoles 'modules/roles-dbtick.bicep' = {
  name: 'roles-dbtick'
  scope: resourceGroup(stateAccountGroup)
  params: {
    principalId: functionApp.outputs.principalId
    storageAccountName: state.outputs.storageAccountName
    container: state.outputs.container
    queues: queues
  }
}

module vaultRoles 'modules/roles-vault.bicep' = {
  name: 'roles-vault'
  params: {
    vaultName: vault.outputs.name
    readerId: functionApp.outputs.principalId
    writerId: principalId
    writerType: principalType
  }
}

module appSettings 'modules/app-settings.bicep' = {
  name: 'app-settings'
  params: {
    functionAppName: functionApp.outputs.name
    storageAccountName: storage.outputs.name
    stateAccountName: state.outputs.storageAccountName
    applicationInsightsConnectionString: monitoring.outputs.connectionString
    vaultUri: vault.outputs.uri
    secretSettings: union(secretSettings, relayKey)
    settings: settings
  }
  dependsOn: [hostRoles, dbtickRoles, vaultRoles]
}

module rules '../azure/alerts.json' = if (alerts) {
  name: 'alerts'
  params: {
    applicationInsightsId: monitoring.outputs.applicationInsightsId
    actionGroupIds: monitoring.outputs.actionGroupIds
    location: location
  }
}

output functionAppName string = functionApp.outputs.name
output storageAccountName string = storage.outputs.name
output vaultName string = vault.outputs.name
