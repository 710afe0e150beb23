// One part of one service at an address of the network, and its name resolved to that address.
param location string
param tags object
param name string

@description('blob, queue, table or vault.')
param part string

param resourceId string
param zone string
param subnetId string
param networkId string

resource endpoint 'Microsoft.Network/privateEndpoints@2024-05-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    subnet: { id: subnetId }
    privateLinkServiceConnections: [
      {
        name: part
        properties: {
          privateLinkServiceId: resourceId
          groupIds: [part]
        }
      }
    ]
  }

  resource group 'privateDnsZoneGroups' = {
    name: 'default'
    properties: {
      privateDnsZoneConfigs: [
        {
          name: part
          properties: { privateDnsZoneId: names.id }
        }
      ]
    }
  }
}

resource names 'Microsoft.Network/privateDnsZones@2020-06-01' = {
  name: zone
  location: 'global'
  tags: tags

  resource link 'virtualNetworkLinks' = {
    name: 'network'
    location: 'global'
    properties: {
      registrationEnabled: false
      virtualNetwork: { id: networkId }
    }
  }
}
