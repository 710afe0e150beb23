// A network by which the app reaches storage and vault, and whatever is peered with it. Inbound stays open: a relay
// is called by its public name.
param location string
param tags object
param suffix string
param storageAccountName string
param vaultName string

resource network 'Microsoft.Network/virtualNetworks@2024-05-01' = {
  name: 'vnet-${suffix}'
  location: location
  tags: tags
  properties: {
    addressSpace: { addressPrefixes: ['10.0.0.0/16'] }
    subnets: [
      {
        name: 'app'
        properties: {
          addressPrefix: '10.0.0.0/24'
          delegations: [
            {
              name: 'flex'
              properties: { serviceName: 'Microsoft.App/environments' }
            }
          ]
        }
      }
      {
        name: 'endpoints'
        properties: { addressPrefix: '10.0.1.0/24' }
      }
    ]
  }

  resource appSubnet 'subnets' existing = {
    name: 'app'
  }

  resource endpointSubnet 'subnets' existing = {
    name: 'endpoints'
  }
}

resource account 'Microsoft.Storage/storageAccounts@2024-01-01' existing = {
  name: storageAccountName
}

resource vault 'Microsoft.KeyVault/vaults@2023-07-01' existing = {
  name: vaultName
}

var endpoints = [
  {
    part: 'blob'
    resourceId: account.id
    zone: 'privatelink.blob.${environment().suffixes.storage}'
  }
  {
    part: 'queue'
    resourceId: account.id
    zone: 'privatelink.queue.${environment().suffixes.storage}'
  }
  {
    part: 'table'
    resourceId: account.id
    zone: 'privatelink.table.${environment().suffixes.storage}'
  }
  {
    part: 'vault'
    resourceId: vault.id
    zone: 'privatelink.vaultcore.azure.net'
  }
]

module privateEndpoints 'private-endpoint.bicep' = [
  for endpoint in endpoints: {
    name: 'private-endpoint-${endpoint.part}'
    params: {
      location: location
      tags: tags
      name: 'pe-${endpoint.part}-${suffix}'
      part: endpoint.part
      resourceId: endpoint.resourceId
      zone: endpoint.zone
      subnetId: network::endpointSubnet.id
      networkId: network.id
    }
  }
]

output appSubnetId string = network::appSubnet.id
