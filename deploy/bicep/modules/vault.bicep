// Connection strings and keys. App settings point here, so that no template and no deployment holds a secret.
param location string
param tags object
param name string

@description('Whether it can be reached from the internet, by those who have a role.')
param open bool

resource vault 'Microsoft.KeyVault/vaults@2023-07-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    tenantId: subscription().tenantId
    sku: {
      family: 'A'
      name: 'standard'
    }
    enableRbacAuthorization: true
    enableSoftDelete: true
    publicNetworkAccess: open ? 'Enabled' : 'Disabled'
    networkAcls: {
      bypass: 'None'
      defaultAction: open ? 'Allow' : 'Deny'
    }
  }
}

output name string = vault.name
output uri string = vault.properties.vaultUri
