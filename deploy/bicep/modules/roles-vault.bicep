// The app reads secrets; who deploys writes them.
param vaultName string
param readerId string

@description('Empty: nobody.')
param writerId string

param writerType string

var readerRoles = {
  'Key Vault Secrets User': '4633458b-17de-408a-b874-0445c86b69e6'
}

var writerRoles = {
  'Key Vault Secrets Officer': 'b86a8fe4-44ce-4948-aee5-eccb2c155cd7'
}

resource vault 'Microsoft.KeyVault/vaults@2023-07-01' existing = {
  name: vaultName
}

resource reading 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for role in items(readerRoles): {
    name: guid(vault.id, readerId, role.value)
    scope: vault
    properties: {
      principalId: readerId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.value)
    }
  }
]

resource writing 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for role in items(writerRoles): if (!empty(writerId)) {
    name: guid(vault.id, writerId, role.value)
    scope: vault
    properties: {
      principalId: writerId
      principalType: writerType
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.value)
    }
  }
]
