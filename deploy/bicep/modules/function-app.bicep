// The app on a Flex Consumption plan, which has one app only. Its settings come later: see app-settings.bicep.
param location string
param tags object
param name string
param storageAccountName string
param deploymentContainer string

@description('Delegated to Microsoft.App/environments. Empty: no network.')
param subnetId string

param maximumInstanceCount int
param instanceMemoryMB int

resource storage 'Microsoft.Storage/storageAccounts@2024-01-01' existing = {
  name: storageAccountName
}

resource plan 'Microsoft.Web/serverfarms@2024-04-01' = {
  name: 'plan-${name}'
  location: location
  tags: tags
  kind: 'functionapp'
  sku: {
    tier: 'FlexConsumption'
    name: 'FC1'
  }
  properties: {
    reserved: true
  }
}

resource app 'Microsoft.Web/sites@2024-04-01' = {
  name: name
  location: location
  tags: tags
  kind: 'functionapp,linux'
  identity: { type: 'SystemAssigned' }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    virtualNetworkSubnetId: empty(subnetId) ? null : subnetId
    functionAppConfig: {
      // host.json names the program. FUNCTIONS_WORKER_RUNTIME is not a setting on this plan.
      runtime: {
        name: 'custom'
        version: '1.0'
      }
      deployment: {
        storage: {
          type: 'blobContainer'
          value: '${storage.properties.primaryEndpoints.blob}${deploymentContainer}'
          authentication: { type: 'SystemAssignedIdentity' }
        }
      }
      scaleAndConcurrency: {
        maximumInstanceCount: maximumInstanceCount
        instanceMemoryMB: instanceMemoryMB
      }
    }
    siteConfig: {
      minTlsVersion: '1.2'
    }
  }
}

// No user name and password for deployments.
resource credentials 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-04-01' = [
  for kind in ['ftp', 'scm']: {
    parent: app
    name: kind
    properties: { allow: false }
  }
]

output name string = app.name
output principalId string = app.identity.principalId
